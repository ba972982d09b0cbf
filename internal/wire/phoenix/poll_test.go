package phoenix

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

const okReply = `"phx_reply",{"status":"ok","response":{}}]`

func TestPolling(t *testing.T) {
	s := serve(t, Options{}, Accept{Cookie: "lb", CookieValue: "edge-1"}, nil)
	p := s.openPoll()
	if a := p.post(joinRoom); a.code != 200 || a.Status != 200 {
		t.Fatalf("join: %+v", a)
	}
	p.expect(`["1","1","room:a",` + okReply)
	got := p.goGet()
	p.waiting()
	if a := p.post(`["1","2","room:a","x",{"s":"é \" \\ \ud83d"}]`); a.Status != 200 {
		t.Fatalf("push: %+v", a)
	}
	if a := receive(t, got); a.Status != 200 || a.Token != p.token || len(a.Messages) != 1 ||
		a.Messages[0] != `["1","2","room:a","phx_reply",{"status":"ok","response":{"s":"é \" \\ \ud83d"}}]` {
		t.Fatalf("poll: %+v", a)
	}
	a := s.do(context.Background(), "GET", pollPath, "")
	if got := a.header.Get("Set-Cookie"); got != "lb=edge-1; Path=/; HttpOnly; SameSite=Lax" {
		t.Fatal(got)
	}
	if a.header.Get("Cache-Control") != "no-store" {
		t.Fatal(a.header)
	}
	if n := s.srv.Sockets(); n != 2 {
		t.Fatalf("%d sockets", n)
	}
}

// TestPollBatch: the frames of one POST are handled in order, and all that is
// queued comes in one answer.
func TestPollBatch(t *testing.T) {
	p := serve(t, Options{}, Accept{}, nil).openPoll()
	frames := []string{joinRoom, ""}
	want := []string{`["1","1","room:a",` + okReply}
	for i := range 200 {
		frames = append(frames, fmt.Sprintf(`["1","%d","room:a","x",{}]`+"\r", i))
		want = append(want, fmt.Sprintf(`["1","%d","room:a",`+okReply, i))
	}
	if a := p.post(frames...); a.Status != 200 {
		t.Fatalf("%+v", a)
	}
	p.until("all answers", func() bool {
		s := p.srv.poll(p.token)
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.queue.Len() == len(want)
	})
	a := p.get()
	if strings.Join(a.Messages, "\n") != strings.Join(want, "\n") {
		t.Fatalf("%+v", a)
	}
	// Another content type holds one frame.
	a = p.do(context.Background(), "POST", p.path(), `["1","9","room:a","x",`+"\n{}]", "Content-Type", "application/json")
	if a.Status != 200 {
		t.Fatalf("%+v", a)
	}
	p.expect(`["1","9","room:a",` + okReply)
}

func TestPollTokens(t *testing.T) {
	s := serve(t, Options{}, Accept{}, nil)
	p := s.openPoll()
	ctx := context.Background()
	if a := s.do(ctx, "POST", pollPath, joinRoom, "X-Phoenix-Longpoll-Token", p.token); a.Status != 200 {
		t.Fatalf("by header: %+v", a)
	}
	flip := []byte(p.token)
	flip[3] ^= 1
	for _, token := range []string{string(flip), "x", p.token + "A", p.token[:22], serve(t, Options{}, Accept{}, nil).openPoll().token} {
		for _, method := range []string{"GET", "POST"} {
			if a := s.do(ctx, method, pollPath+"&token="+token, joinRoom); a.code != 200 || a.body != `{"status":410}` {
				t.Fatalf("%s with a foreign token: %+v", method, a)
			}
		}
	}
	if a := s.do(ctx, "POST", pollPath, joinRoom); a.Status != 410 {
		t.Fatalf("POST without a token: %+v", a)
	}
	if n := s.srv.Sockets(); n != 1 {
		t.Fatalf("%d sockets", n)
	}
	for _, m := range []string{"PUT", "DELETE", "HEAD"} {
		if a := s.do(ctx, m, p.path(), ""); a.code != 400 {
			t.Fatalf("%s: %+v", m, a)
		}
	}
	p.expect(`["1","1","room:a",` + okReply)
}

func TestPollMalformed(t *testing.T) {
	for body, reason := range map[string]string{
		"{}":                                  ReasonMalformed,
		"AAEBBgExMXJvb206YXh7fQ==":            ReasonMalformed, // a binary push
		"[1]":                                 ReasonMalformed,
		"[\"\xff\"]":                          ReasonTransport,
		strings.Repeat("\n", 1000):            ReasonTooLarge,
		`["` + strings.Repeat("x", 100_000):   ReasonTooLarge,
		"[" + strings.Repeat(" ", 300_000):    ReasonTransport,
		strings.Repeat("[]", 1) + "\n[\"1\"]": ReasonMalformed,
	} {
		s := serve(t, Options{}, Accept{MaxPayload: 90_000}, nil)
		p := s.openPoll()
		p.post(joinRoom)
		p.expect(`["1","1","room:a",` + okReply)
		if a := p.post(body); a.Status == 200 {
			t.Errorf("%.20q: %+v", body, a)
		}
		s.h.wantLeft(t, room, reason)
		if a := p.get(); a.Status != 410 {
			t.Errorf("%.20q: then %+v", body, a)
		}
	}
}

func TestPollWindow(t *testing.T) {
	// Half of it is what a busy machine may take between two polls.
	s := serve(t, Options{PollWindow: 2 * time.Second}, Accept{}, nil)
	p := s.openPoll()
	for range 2 {
		if a := p.get(); a.Status != 204 || a.Token != p.token || a.Messages == nil {
			t.Fatalf("%+v", a)
		}
	}
	p.post(joinRoom)
	// A client that stays away for half as long again is gone.
	s.h.wantLeft(t, room, ReasonTimeout)
	if n := s.srv.Sockets(); n != 0 {
		t.Fatalf("%d sockets", n)
	}
}

// TestPollGivenUp: a GET that its client breaks off ends the connection; one that
// a newer GET overtakes does not, and loses nothing.
func TestPollGivenUp(t *testing.T) {
	s := serve(t, Options{}, Accept{}, nil)
	p := s.openPoll()
	first := p.goGet()
	p.waiting()
	second := p.goGet()
	if a := receive(t, first); a.Status != 204 {
		t.Fatalf("overtaken: %+v", a)
	}
	p.post(joinRoom)
	if a := receive(t, second); len(a.Messages) != 1 {
		t.Fatalf("overtaking: %+v", a)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.do(ctx, "GET", p.path(), "")
	}()
	p.waiting()
	cancel()
	<-done
	s.h.wantLeft(t, room, ReasonTransport)
	s.until("its end", func() bool { return s.srv.poll(p.token) == nil && s.srv.clock.Len() == 0 })
}

// TestPollClosed: what is queued still comes, then the client is sent away in the
// form that it reconnects from.
func TestPollClosed(t *testing.T) {
	h := newHooks()
	h.in = func(c *Channel, p Push) {
		_ = c.Reply(p.Ref, OK, nil)
		c.CloseTransport("enough")
	}
	p := serve(t, Options{}, Accept{}, h).openPoll()
	if a := p.post(joinRoom, `["1","2","room:a","x",{}]`); a.Status != 200 && a.Status != 410 {
		t.Fatalf("%+v", a)
	}
	h.wantLeft(t, room, "enough")
	p.expect(`["1","1","room:a",`+okReply, `["1","2","room:a",`+okReply)
	for range 2 {
		if a := p.get(); a.Status != 410 {
			t.Fatalf("%+v", a)
		}
		if a := p.post(`["1","3","room:a","x",{}]`); a.Status != 410 {
			t.Fatalf("%+v", a)
		}
	}
}

// TestPollSlowJoin: a POST does not wait for a join.
func TestPollSlowJoin(t *testing.T) {
	h := newHooks()
	proceed := make(chan struct{})
	h.join = func(context.Context, *Channel, json.RawMessage) ([]byte, error) {
		<-proceed
		return nil, nil
	}
	p := serve(t, Options{}, Accept{}, h).openPoll()
	if a := p.post(joinRoom, `["1","2","room:a","x",{}]`, `[null,"3","phoenix","heartbeat",{}]`); a.Status != 200 {
		t.Fatalf("%+v", a)
	}
	p.expect(`[null,"3","phoenix",` + okReply)
	close(proceed)
	p.expect(`["1","1","room:a",`+okReply, `["1","2","room:a",`+okReply)
}

// TestPollSlow: a client that polls too seldom for what it is sent starts again.
func TestPollSlow(t *testing.T) {
	h := newHooks()
	joined := make(chan *Channel, 1)
	h.joined = func(c *Channel) { joined <- c }
	s := serve(t, Options{QueueBytes: 10_000}, Accept{}, h)
	p := s.openPoll()
	p.post(joinRoom)
	c := receive(t, joined)
	f := NewFrame(room, "x", []byte(`"`+strings.Repeat("x", 4000)+`"`))
	var err error
	for range 3 {
		err = c.Send(f)
	}
	if err != ErrSlow {
		t.Fatal(err)
	}
	if c := s.srv.o.Counts; c.Slow.Load() != 1 || c.Opened.Load() != 1 || c.In.Load() == 0 || c.Out.Load() == 0 {
		t.Errorf("counted are %d of %d that were too slow, %d bytes in and %d out", c.Slow.Load(), c.Opened.Load(), c.In.Load(), c.Out.Load())
	}
	h.wantLeft(t, room, ReasonSlow)
	if a := p.get(); a.Status != 410 {
		t.Fatalf("%+v", a)
	}
}
