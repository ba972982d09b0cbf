package engineio

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func message(n int) Packet { return NewMessage([][]byte{[]byte(strings.Repeat("x", n))}) }

func TestQueueIsBounded(t *testing.T) {
	s := serve(t, Options{QueueBytes: 10_000}, Accept{})
	e := s.eio.find(s.open())
	big, large, small := message(100_000), message(4000), message(100)
	for range 3 {
		if err := e.SendExempt(&big); err != nil {
			t.Fatalf("exempt: %v", err)
		}
	}
	for range 2 {
		if err := e.Send(&large); err != nil {
			t.Fatalf("within the bound: %v", err)
		}
	}
	fits := (10_000 - 2*large.cost()) / small.cost()
	for i := range fits {
		if err := e.Send(&small); err != nil {
			t.Fatalf("packet %d within the bound: %v", i, err)
		}
	}
	if got, want := s.eio.Queued(), 2*large.cost()+fits*small.cost(); got != want {
		t.Errorf("%d bytes wait, and %d are said to", want, got)
	}
	if err := e.Send(&small); !errors.Is(err, ErrSlow) {
		t.Fatalf("beyond the bound: %v", err)
	}
	if c := s.eio.o.Counts; c.Slow.Load() != 1 || c.Opened.Load() != 1 {
		t.Errorf("counted are %d of %d that were too slow", c.Slow.Load(), c.Opened.Load())
	}
	if err := e.Send(&small); !errors.Is(err, ErrClosed) {
		t.Fatalf("after that: %v", err)
	}
	s.h.wantClose(t, ReasonSlow)
}

func TestQueueTakesOnePacketOfAnySize(t *testing.T) {
	s := serve(t, Options{QueueBytes: 1000}, Accept{})
	sid := s.open()
	e := s.eio.find(sid)
	p := message(5000)
	if err := e.Send(&p); err != nil {
		t.Fatal(err)
	}
	s.want(s.get(sid), 200, string(p.text))
	if err := e.Send(&p); err != nil {
		t.Fatalf("a queue that was emptied: %v", err)
	}
}

// TestSlowReader floods a client that does not read: it is cut off, without a
// close frame since nothing more would get through, and others are not held up.
func TestSlowReader(t *testing.T) {
	s := serve(t, Options{QueueBytes: 1 << 20}, Accept{})
	_, _, _ = s.raw("EIO=4&transport=websocket").frame() // and reads no more
	var slow *Session
	for e := range s.eio.All() {
		slow = e
	}
	fast := s.openWS()
	p := message(64 << 10)
	var err error
	start := time.Now()
	for range 1000 { // more than any socket buffer
		if err = slow.Send(&p); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrSlow) || time.Since(start) > 5*time.Second {
		t.Fatalf("%v after %v", err, time.Since(start))
	}
	s.h.wantClose(t, ReasonSlow)
	fast.say("4x")
	fast.expect("4x")
	s.until("the slow connection's end", func() bool {
		s.eio.mu.RLock()
		defer s.eio.mu.RUnlock()
		return s.eio.conns.Len() == 1
	})
}

// TestWriteTimeout has a client stop reading within the bound of its queue.
func TestWriteTimeout(t *testing.T) {
	s := serve(t, Options{QueueBytes: 64 << 20, WriteTimeout: 50 * time.Millisecond}, Accept{})
	_, _, _ = s.raw("EIO=4&transport=websocket").frame() // and reads no more
	p := message(16 << 20)
	for e := range s.eio.All() {
		if err := e.Send(&p); err != nil {
			t.Fatal(err)
		}
	}
	s.h.wantClose(t, ReasonTransportError)
}

// TestPingPassesAFullQueue: the ping goes out with the next write, before all
// that is queued.
func TestPingPassesAFullQueue(t *testing.T) {
	s := serve(t, Options{PingInterval: 20 * time.Millisecond, QueueBytes: 256 << 20}, Accept{})
	ws := s.openWS()
	p := message(4 << 20)
	for e := range s.eio.All() {
		for range 20 {
			if err := e.Send(&p); err != nil {
				t.Fatal(err)
			}
		}
		s.until("the ping to be due", func() bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.beat.sent
		})
	}
	for i := range 20 {
		if ws.next() == "2" {
			return
		}
		_ = i
	}
	t.Fatal("the ping came behind the queue")
}

func TestCloseComesAfterTheQueue(t *testing.T) {
	s := serve(t, Options{}, Accept{})
	ws := s.openWS()
	p := message(10)
	for e := range s.eio.All() {
		for range 3 {
			if err := e.Send(&p); err != nil {
				t.Fatal(err)
			}
		}
		e.Close("x", websocket.StatusGoingAway)
	}
	code, before := ws.closed()
	if want := strings.Repeat(" 4xxxxxxxxxx", 3)[1:]; code != websocket.StatusGoingAway || before != want {
		t.Fatalf("%d after %q", code, before)
	}
	s.h.wantClose(t, "x")
}

// TestBinaryStaysTogether: attachments follow their header with nothing between.
func TestBinaryStaysTogether(t *testing.T) {
	s := serve(t, Options{}, Accept{})
	ws, sid := s.openWS(), s.open()
	p := NewMessage([][]byte{[]byte("head"), []byte("er")}, []byte{1, 2}, []byte{})
	for e := range s.eio.All() {
		for range 2 {
			if err := e.Send(&p); err != nil { // the same packet to both transports
				t.Fatal(err)
			}
		}
	}
	for range 2 {
		ws.expect("4header")
		ws.expect("binary:\x01\x02")
		ws.expect("binary:")
	}
	s.want(s.get(sid), 200, "4header\x1ebAQI=\x1eb\x1e4header\x1ebAQI=\x1eb")
}

func TestDrain(t *testing.T) {
	s := serve(t, Options{}, Accept{})
	sid := s.open()
	g := s.goGet(sid)
	s.waiting(sid)
	idle := s.open()
	var all []*client
	for range 5 {
		all = append(all, s.openWS())
	}
	start := time.Now()
	if err := s.eio.Drain(context.Background(), 4*drainStep); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d < 3*drainStep {
		t.Fatalf("drained at once, in %v", d)
	}
	s.wantSoon(g, 200, "1")
	s.want(s.get(idle), 200, "6\x1e1")
	for _, ws := range all {
		if code, _ := ws.closed(); code != websocket.StatusGoingAway {
			t.Fatalf("close code %d", code)
		}
	}
	for range 7 {
		s.h.wantClose(t, ReasonShutdown)
	}
	if n := s.eio.Sessions(); n != 0 {
		t.Fatalf("%d sessions left", n)
	}
	if got := s.do("GET", polling, ""); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Fatalf("handshake while draining: %+v", got)
	}
	if _, res, err := s.tryDial("EIO=4&transport=websocket"); err == nil || res.StatusCode != 503 {
		t.Fatalf("handshake while draining: %v", res)
	}
}

func TestDrainEndsWithItsContext(t *testing.T) {
	s := serve(t, Options{}, Accept{})
	for range 3 {
		s.open()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.eio.Drain(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for range 3 {
		s.h.wantClose(t, ReasonShutdown)
	}
}

// TestCloseWaitsForNobody: not for polls, unread sockets or half-done upgrades.
func TestCloseWaitsForNobody(t *testing.T) {
	s := serve(t, Options{}, Accept{})
	sid := s.open()
	g := s.goGet(sid)
	s.waiting(sid)
	_, _, _ = s.raw("EIO=4&transport=websocket").frame()
	s.raw(upgrading + s.open())
	ws := s.openWS()
	for e := range s.eio.All() {
		if e.WebSocket() {
			e.Close("x", closeNormal) // waits for an answer that does not come
		}
	}
	done := make(chan struct{})
	go func() { s.eio.Close(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Second):
		t.Fatal("Close waits for its clients")
	}
	s.wantSoon(g, 200, "1")
	ws.closed()
	if got := s.do("GET", polling, ""); got.status != 503 {
		t.Fatalf("after Close: %+v", got)
	}
	if s.eio.Go(func() {}) {
		t.Fatal("Go after Close")
	}
}
