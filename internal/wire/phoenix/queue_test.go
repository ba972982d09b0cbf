package phoenix

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
)

// newStuckBody is a body that begins and then says nothing more until stop.
func newStuckBody() (io.Reader, func()) {
	r, w := io.Pipe()
	go func() { _, _ = w.Write([]byte("[")) }()
	return r, func() { _ = w.Close() }
}

// joinedChannel is a channel that is joined, with its client.
func joinedChannel(t *testing.T, o Options) (*site, *client, *Channel) {
	t.Helper()
	h := newHooks()
	joined := make(chan *Channel, 1)
	h.joined = func(c *Channel) { joined <- c }
	s := serve(t, o, Accept{Value: 7, RemoteIP: "192.0.2.1"}, h)
	ws := s.join()
	return s, ws, receive(t, joined)
}

func TestChannelKnowsItsConnection(t *testing.T) {
	_, ws, c := joinedChannel(t, Options{})
	if c.Value() != 7 || c.RemoteIP() != "192.0.2.1" || len(c.SocketID()) != 20 || c.Topic() != room || c.Context().Err() != nil {
		t.Fatal(c)
	}
	if err := c.Send(NewFrame("room:b", "x", nil)); !errors.Is(err, ErrTopic) {
		t.Fatal(err)
	}
	if err := c.Push(`e"`, []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	ws.expect(`["1",null,"room:a","e\"",{"a":1}]`) // PIN-003
	c.CloseTransport("enough")
	if code, _ := ws.closed(); code != websocket.StatusServiceRestart {
		t.Fatalf("closed with %d", code)
	}
}

// TestOneFrameForAll: PIN-003, each with its own join_ref.
func TestOneFrameForAll(t *testing.T) {
	h := newHooks()
	joined := make(chan *Channel, 1)
	h.joined = func(c *Channel) { joined <- c }
	s := serve(t, Options{}, Accept{}, h)
	f := NewFrame(room, "tick", []byte(`{"s":"`+strings.Repeat("x", 70_000)+`"}`)) // is not copied
	small := NewFrame(room, "tick", nil)
	for _, ref := range []string{`"1"`, `"12345"`, `null`, `7`} {
		ws := s.dial()
		ws.say(`[` + ref + `,"1","room:a","phx_join",{}]`)
		ws.next()
		c := receive(t, joined)
		for range 3 {
			if err := errors.Join(c.Send(small), c.Send(f), c.Send(small)); err != nil {
				t.Fatal(err)
			}
			one := `[` + ref + `,null,"room:a","tick",{}]`
			ws.expect(one, `[`+ref+`,null,"room:a","tick",{"s":"`+strings.Repeat("x", 70_000)+`"}]`, one)
		}
	}
}

// TestOrder: what several goroutines send while the client's pushes are answered
// comes whole and in each one's order.
func TestOrder(t *testing.T) {
	_, ws, c := joinedChannel(t, Options{QueueBytes: 16 << 20})
	const senders, each = 4, 200
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			for n := range each {
				size := 0
				if n%20 == i {
					size = 70_000
				}
				if err := c.Push(strconv.Itoa(i), []byte(`{"n":`+strconv.Itoa(n)+`,"s":"`+strings.Repeat("x", size)+`"}`)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var next [senders]int
	for range senders * each {
		var f [5]json.RawMessage
		m := ws.next()
		var body struct{ N int }
		if json.Unmarshal([]byte(m), &f) != nil || json.Unmarshal(f[4], &body) != nil {
			t.Fatalf("%.100s", m)
		}
		i := int(f[3][1] - '0')
		if next[i] != body.N {
			t.Fatalf("sender %d: got %d, want %d", i, body.N, next[i])
		}
		next[i]++
	}
	wg.Wait()
}

// TestQueueIsBounded with a client that has stopped reading: answers have a bound
// of their own, and where one is passed the connection is broken off.
func TestQueueIsBounded(t *testing.T) {
	for _, exempt := range []bool{false, true} {
		s, ws, c := joinedChannel(t, Options{QueueBytes: 1 << 20, AnswerBytes: 4 << 20})
		f := NewFrame(room, "x", []byte(`"`+strings.Repeat("x", 64<<10)+`"`))
		var err error
		n := 0
		for ; n < 10_000 && err == nil; n++ { // more than any socket buffer
			if err = c.Send(f); exempt {
				err = c.SendExempt(f)
			}
			if exempt && n > 8 {
				err = c.Reply("1", OK, []byte(`"`+strings.Repeat("x", 64<<10)+`"`))
			}
		}
		if !errors.Is(err, ErrSlow) && !errors.Is(err, ErrClosed) {
			t.Fatal(n, err)
		}
		s.h.wantLeft(t, room, ReasonSlow)
		if err := c.Send(f); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		s.until("the connection's end", func() bool {
			s.srv.mu.RLock()
			defer s.srv.mu.RUnlock()
			return s.srv.conns.Len() == 0
		})
		if code, _ := ws.closed(); code != -1 { // nothing more would get through
			t.Fatalf("closed with %d", code)
		}
	}
}

func TestQueueTakesOneFrameOfAnySize(t *testing.T) {
	s, ws, c := joinedChannel(t, Options{QueueBytes: 1000, AnswerBytes: 1000})
	for range 3 {
		if err := c.Push("x", []byte(`"`+strings.Repeat("x", 5000)+`"`)); err != nil {
			t.Fatal(err)
		}
		if err := c.Reply("1", OK, nil); err != nil {
			t.Fatal(err)
		}
		ws.next()
		ws.next()
		s.until("the account to follow the write", func() bool {
			c.sock.mu.Lock()
			defer c.sock.mu.Unlock()
			return c.sock.queued == 0 && c.sock.answers == 0
		})
	}
}

func TestWriteTimeout(t *testing.T) {
	s, _, c := joinedChannel(t, Options{QueueBytes: 64 << 20, WriteTimeout: 50 * time.Millisecond})
	if err := c.Push("x", []byte(`"`+strings.Repeat("x", 32<<20)+`"`)); err != nil {
		t.Fatal(err)
	}
	s.h.wantLeft(t, room, ReasonTransport) // and the client reads no more
}

// TestIdle: PIN-005, and that a handler at work is not the client's silence.
func TestIdle(t *testing.T) {
	h := newHooks()
	proceed := make(chan struct{})
	h.in = func(*Channel, Push) { <-proceed }
	s := serve(t, Options{IdleTimeout: 500 * time.Millisecond}, Accept{}, h)
	busy, idle := s.join(), s.join()
	busy.say(`["1","2","room:a","x",{}]`)
	if code, _ := idle.closed(); code != websocket.StatusGoingAway {
		t.Fatalf("closed with %d", code)
	}
	h.wantLeft(t, room, ReasonTimeout)
	if n := s.srv.Sockets(); n != 1 {
		t.Fatalf("%d sockets", n)
	}
	close(proceed)
	busy.closed()
	h.wantLeft(t, room, ReasonTimeout)
}

// TestSilence by the clock: each sign of life counts from then.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHooks()
		e := NewServer(Options{}, h)
		defer e.Close()
		s := &socket{srv: e, polls: true, key: newPollKey()}
		s.init(&Accept{MaxPayload: 1000})
		e.taken++
		e.begin(s)
		for range 5 {
			time.Sleep(14 * time.Second)
			synctest.Wait()
			if e.Sockets() != 1 {
				t.Fatal("gone too soon")
			}
			s.began()
			time.Sleep(time.Minute)
			s.done()
		}
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if e.Sockets() != 0 {
			t.Fatal("still here")
		}
	})
}

func TestBucket(t *testing.T) {
	var b bucket
	for range 20 {
		if !b.take(time.Second, 20, 10) {
			t.Fatal("refused within the burst")
		}
	}
	if b.take(time.Second, 20, 10) {
		t.Fatal("beyond the burst")
	}
	if !b.take(time.Second+110*time.Millisecond, 20, 10) || b.take(time.Second+120*time.Millisecond, 20, 10) {
		t.Fatal("ten a second")
	}
}
