package ws

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// receiver is a client with its queue, as a server keeps one.
type receiver struct {
	writers *Writers[receiver]
	conn    *Conn
	peer    net.Conn
	in      *bufio.Reader

	mu    sync.Mutex
	queue Queue[[]byte]
	busy  bool
	last  bool
	err   error
}

func (s *receiver) send(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.Push(b)
	if !s.busy {
		s.busy = true
		s.writers.Ready(s, s.conn)
	}
}

func (s *receiver) next(buf *[]byte, err error) Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.err = err
		s.queue.Clear()
		return Batch{}
	case s.queue.Len() > 0:
	case s.last:
		s.last = false
		return Batch{Conn: s.conn, B: CloseFrame(1001), Last: true}
	default:
		s.busy = false
		return Batch{}
	}
	if b := *s.queue.At(0); len(b) > WriteLimit {
		s.queue.Drop(1)
		return Batch{Conn: s.conn, B: AppendHeader((*buf)[:0], FinText, len(b)), Rest: b}
	}
	n, out := 0, (*buf)[:0]
	for n < s.queue.Len() && len(*s.queue.At(n)) <= WriteLimit && len(out) < WriteLimit {
		b := *s.queue.At(n)
		out = append(AppendHeader(out, FinText, len(b)), b...)
		n++
	}
	*buf = out
	s.queue.Drop(n)
	return Batch{Conn: s.conn, B: out}
}

// frame reads a frame of the server.
func (s *receiver) frame(t *testing.T) (first byte, payload []byte) {
	t.Helper()
	head := make([]byte, 2, 10)
	if _, err := io.ReadFull(s.in, head); err != nil {
		t.Fatal(err)
	}
	n := int(head[1])
	if more := map[int]int{126: 2, 127: 8}[n]; more > 0 {
		n = 0
		for range more {
			b, _ := s.in.ReadByte()
			n = n<<8 | int(b)
		}
	}
	payload = make([]byte, n)
	if _, err := io.ReadFull(s.in, payload); err != nil {
		t.Fatal(err)
	}
	return head[0], payload
}

// connect opens n connections.
func connect(t *testing.T, n int, timeout time.Duration) []*receiver {
	t.Helper()
	var wg, handlers sync.WaitGroup
	group, writers := NewGroup(timeout, new(Counts)), NewWriters(&wg, new(Counts), (*receiver).next)
	conns := make(chan *Conn, n)
	handlers.Add(n)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer handlers.Done()
		c, err := group.Accept(w, r)
		if err != nil {
			t.Error(err)
		}
		conns <- c
	}))
	var all []*receiver
	for range n {
		peer, err := net.Dial("tcp", web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(peer, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		in := bufio.NewReader(peer)
		if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != 101 {
			t.Fatal(res, err)
		}
		all = append(all, &receiver{writers: writers, conn: <-conns, peer: peer, in: in})
	}
	t.Cleanup(func() {
		group.Abort()
		for _, s := range all {
			s.conn.End()
			s.peer.Close()
		}
		handlers.Wait()
		wg.Wait()
		web.Close()
		if group.Len() != 0 {
			t.Errorf("%d connections are left", group.Len())
		}
	})
	return all
}

// TestWriters: all that is queued comes, in order, also to a client that reads only
// later, which keeps no other waiting; what is written beside never lands within a
// frame; after the close frame nothing comes.
func TestWriters(t *testing.T) {
	all := connect(t, 40, time.Minute)
	slow, rest := all[0], all[1:]
	text := func(i int) []byte {
		size := i * 37 % 3000
		if i%100 == 99 {
			size = 2 * WriteLimit
		}
		return []byte(fmt.Sprintf("%d ", i) + strings.Repeat("x", size))
	}
	const frames = 3000
	for i := range frames {
		slow.send(text(i))
	}
	for i := range 50 {
		for _, s := range rest {
			s.send(text(i))
		}
	}
	for _, s := range rest {
		for i := range 50 {
			if first, b := s.frame(t); first != FinText || string(b) != string(text(i)) {
				t.Fatalf("frame %d is %x %.20q", i, first, b)
			}
		}
	}
	var beside sync.WaitGroup
	beside.Go(func() {
		for range 20 {
			if _, err := slow.conn.Write([]byte{0x8a, 0}); err != nil {
				t.Error(err)
			}
		}
	})
	pongs := 0
	for i := 0; i < frames; {
		first, b := slow.frame(t)
		if first == 0x8a {
			pongs++
			continue
		}
		if string(b) != string(text(i)) {
			t.Fatalf("frame %d is %x %.20q", i, first, b)
		}
		i++
	}
	for ; pongs < 20; pongs++ {
		if first, _ := slow.frame(t); first != 0x8a {
			t.Fatalf("a frame %x", first)
		}
	}
	beside.Wait()
	slow.mu.Lock()
	slow.last = true
	slow.mu.Unlock()
	slow.send([]byte("end"))
	if _, b := slow.frame(t); string(b) != "end" {
		t.Fatalf("got %q", b)
	}
	if first, b := slow.frame(t); first != finClose || string(b) != "\x03\xe9" {
		t.Fatalf("got %x %q", first, b)
	}
	slow.send([]byte("too late"))
	if _, err := slow.conn.Write([]byte{0x8a, 0}); err != nil {
		t.Fatal(err)
	}
	slow.peer.(*net.TCPConn).CloseWrite() //nolint:errcheck // the server's end follows
	slow.conn.End()
	if b, err := io.ReadAll(slow.in); len(b) > 0 || err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("after the close frame came %q %v", b, err)
	}
}

// TestWritersGiveUp: a client that takes nothing for too long is told of as an
// error, and one that has waited once is written to without waiting again.
func TestWritersGiveUp(t *testing.T) {
	all := connect(t, 2, 100*time.Millisecond)
	dead, alive := all[0], all[1]
	large := make([]byte, 16<<20)
	dead.send(large)
	alive.send(make([]byte, 2*WriteLimit))
	alive.frame(t)
	deadline := time.Now().Add(20 * time.Second)
	for over := false; !over; {
		dead.mu.Lock()
		over = dead.err != nil
		dead.mu.Unlock()
		if time.Now().After(deadline) {
			t.Fatal("nobody gave up")
		}
		<-time.After(5 * time.Millisecond)
	}
	alive.send([]byte("later than the deadline of the write before"))
	if _, b := alive.frame(t); !strings.HasPrefix(string(b), "later") {
		t.Fatalf("got %q", b)
	}
}
