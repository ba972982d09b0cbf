package engineio

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func TestPolling(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(s *site, sid string)
	}{
		{"GET waits and takes all that is queued", func(s *site, sid string) {
			g := s.goGet(sid)
			s.waiting(sid)
			s.want(s.post(sid, "4a"), 200, "ok")
			s.wantSoon(g, 200, "4a")
			s.want(s.post(sid, "4b\x1e4é😀\x1ebAQIDBA=="), 200, "ok")
			s.want(s.get(sid), 200, "4b\x1e4é😀\x1ebAQIDBA==")
		}},
		{"second GET closes: 1 for the first, 400 for the second and later", func(s *site, sid string) {
			g := s.goGet(sid)
			s.waiting(sid)
			s.want(s.get(sid), 400, badReq)
			s.wantSoon(g, 200, "1")
			s.want(s.get(sid), 400, badSession)
			s.h.wantClose(s.t, ReasonTransportError)
		}},
		{"GET that is aborted closes", func(s *site, sid string) {
			ctx, cancel := context.WithCancel(context.Background())
			g := async(func() reply { return s.send(ctx, "GET", "/?"+polling+"&sid="+sid, nil) })
			s.waiting(sid)
			cancel()
			<-g
			s.h.wantClose(s.t, ReasonTransportClose)
			s.want(s.get(sid), 400, badSession)
		}},
		{"overlapping POST closes and ends the first", func(s *site, sid string) {
			r, w := io.Pipe()
			first := async(func() reply { return s.send(context.Background(), "POST", "/?"+polling+"&sid="+sid, r) })
			if _, err := w.Write([]byte("4")); err != nil {
				s.t.Fatal(err)
			}
			s.until("the first POST", func() bool {
				e := s.eio.find(sid)
				e.mu.Lock()
				defer e.mu.Unlock()
				return e.posting
			})
			s.want(s.post(sid, "4x"), 400, badReq)
			s.wantSoon(first, 400, "")
			w.Close()
			s.want(s.get(sid), 400, badSession)
			s.h.wantClose(s.t, ReasonTransportError)
		}},
		{"POST of octets closes", func(s *site, sid string) {
			s.want(s.do("POST", polling+"&sid="+sid, "4x", "Content-Type", "application/octet-stream"), 400, badReq)
			s.want(s.get(sid), 400, badSession)
		}},
		{"empty POST closes", func(s *site, sid string) {
			s.want(s.post(sid, ""), 400, badReq)
			s.want(s.get(sid), 400, badSession)
			s.h.wantClose(s.t, ReasonParseError)
		}},
		{"POST of what is not UTF-8 closes", func(s *site, sid string) {
			if got := s.post(sid, "4\xff"); got.status != 400 {
				s.t.Fatalf("%+v", got)
			}
			s.want(s.get(sid), 400, badSession)
		}},
		{"invalid packet closes after those before it", func(s *site, sid string) {
			seen := make(chan string, 4)
			s.h.message = func(_ *Session, m Message) error { seen <- string(m.Data); return nil }
			s.want(s.post(sid, "4a\x1eabc\x1e4c"), 400, badReq)
			if got := <-seen; got != "a" || len(seen) != 0 {
				s.t.Fatalf("handled %q and %d more", got, len(seen))
			}
			s.want(s.get(sid), 400, badSession)
		}},
		{"base64 that is none closes", func(s *site, sid string) {
			s.want(s.post(sid, "bAQ"), 400, badReq)
		}},
		{"2 from a client closes", func(s *site, sid string) {
			s.want(s.post(sid, "2"), 400, badReq)
			s.h.wantClose(s.t, ReasonTransportError)
		}},
		{"open, upgrade, noop and pongs of any kind are taken", func(s *site, sid string) {
			s.want(s.post(sid, "0\x1e5\x1e6\x1e3\x1e3junk\x1e4x"), 200, "ok")
			s.want(s.get(sid), 200, "4x")
		}},
		{"close releases the GET with 6", func(s *site, sid string) {
			g := s.goGet(sid)
			s.waiting(sid)
			s.want(s.post(sid, "1"), 200, "ok")
			s.wantSoon(g, 200, "6")
			s.want(s.get(sid), 400, badSession)
			s.h.wantClose(s.t, ReasonTransportClose)
		}},
		{"close that overtakes the GET still answers one", func(s *site, sid string) {
			s.want(s.post(sid, "1"), 200, "ok")
			s.want(s.get(sid), 200, "6")
			s.want(s.get(sid), 400, badSession)
		}},
		{"server closes a GET that waits with 1", func(s *site, sid string) {
			g := s.goGet(sid)
			s.waiting(sid)
			s.eio.find(sid).Close("x", closeNormal)
			s.wantSoon(g, 200, "1")
			s.want(s.get(sid), 400, badSession)
			s.h.wantClose(s.t, "x")
		}},
		{"server closes between GETs: 6 and 1 for the next", func(s *site, sid string) {
			s.eio.find(sid).Close("x", closeNormal)
			s.want(s.post(sid, "4late\x1e3"), 200, "ok") // the client cannot know yet
			s.want(s.get(sid), 200, "6\x1e1")
			s.want(s.get(sid), 400, badSession)
		}},
		{"server closes while a POST is read, which is not cut", func(s *site, sid string) {
			r, w := io.Pipe()
			post := async(func() reply { return s.send(context.Background(), "POST", "/?"+polling+"&sid="+sid, r) })
			if _, err := w.Write([]byte("4la")); err != nil {
				s.t.Fatal(err)
			}
			s.until("the POST", func() bool {
				e := s.eio.find(sid)
				e.mu.Lock()
				defer e.mu.Unlock()
				return e.abort != nil
			})
			s.eio.find(sid).Close("x", closeNormal)
			if _, err := w.Write([]byte("te")); err != nil {
				s.t.Fatal(err)
			}
			w.Close()
			s.wantSoon(post, 200, "ok")
			s.want(s.get(sid), 200, "6\x1e1")
		}},
		{"server closes with packets queued: those, then 1", func(s *site, sid string) {
			e := s.eio.find(sid)
			p := NewMessage([][]byte{[]byte("last")})
			if err := e.Send(&p); err != nil {
				s.t.Fatal(err)
			}
			e.Close("x", closeNormal)
			if err := e.Send(&p); err != ErrClosed {
				s.t.Fatalf("Send after Close: %v", err)
			}
			s.want(s.get(sid), 200, "4last")
			s.want(s.get(sid), 200, "6\x1e1")
		}},
		{"error of the handler closes", func(s *site, sid string) {
			s.want(s.post(sid, "4bad"), 400, badReq)
			s.want(s.get(sid), 400, badSession)
			s.h.wantClose(s.t, ReasonForcedClose)
		}},
		{"panic of the handler closes", func(s *site, sid string) {
			s.want(s.post(sid, "4panic"), 400, badReq)
			s.want(s.get(sid), 400, badSession)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, Options{}, Accept{})
			c.run(s, s.open())
		})
	}
}

func TestPayloadLimit(t *testing.T) {
	const limit = 1000
	for _, n := range []int{limit - 1, limit, limit + 1} {
		s := serve(t, Options{}, Accept{MaxPayload: limit})
		// Two bytes a character: the limit is of bytes.
		body := "4" + strings.Repeat("é", (n-1)/2) + strings.Repeat("x", (n-1)%2)
		sid := s.open()
		got := s.post(sid, body)
		ws := s.openWS()
		ws.say(body)
		if n <= limit {
			s.want(got, 200, "ok")
			s.want(s.get(sid), 200, body)
			ws.expect(body)
			continue
		}
		if got.status != 413 {
			t.Fatalf("%d bytes: %+v", n, got)
		}
		s.want(s.get(sid), 400, badSession)
		if code, _ := ws.closed(); code != websocket.StatusMessageTooBig {
			t.Fatalf("%d bytes: close code %d", n, code)
		}
		chunked := io.MultiReader(strings.NewReader(body)) // no Content-Length
		if got := s.send(context.Background(), "POST", "/?"+polling+"&sid="+s.open(), chunked); got.status != 413 {
			t.Fatalf("%d bytes in chunks: %+v", n, got)
		}
	}
}

func TestPacketLimit(t *testing.T) {
	s := serve(t, Options{MaxPackets: 3}, Accept{})
	s.want(s.post(s.open(), "6\x1e6\x1e6"), 200, "ok")
	s.want(s.post(s.open(), "6\x1e6\x1e6\x1e6"), 400, badReq)
}

func TestConnectionLimit(t *testing.T) {
	s := serve(t, Options{MaxConnections: 2}, Accept{})
	sid := s.open()
	s.openWS()
	if got := s.do("GET", polling, ""); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Fatalf("third session: %+v", got)
	}
	if _, res, err := s.tryDial("EIO=4&transport=websocket"); err == nil || res.StatusCode != 503 {
		t.Fatalf("third session: %v", res)
	}
	if n := s.eio.o.Counts.OverSockets.Load(); n != 2 {
		t.Errorf("%d are counted as refused", n)
	}
	s.want(s.post(sid, "1"), 200, "ok")
	s.want(s.get(sid), 200, "6") // now it is forgotten
	s.open()
}

func TestLargeAnswersAreSplit(t *testing.T) {
	s := serve(t, Options{}, Accept{MaxPayload: 1000}) // so minPayload holds
	sid := s.open()
	e := s.eio.find(sid)
	p := NewMessage([][]byte{[]byte(strings.Repeat("x", minPayload-10))})
	for range 3 {
		if err := e.Send(&p); err != nil {
			t.Fatal(err)
		}
	}
	e.Close("x", closeNormal)
	for range 3 {
		s.want(s.get(sid), 200, string(p.text))
	}
	s.want(s.get(sid), 200, "6\x1e1")
	s.want(s.get(sid), 400, badSession)
}

func TestSlowBodyIsCut(t *testing.T) {
	s := serve(t, Options{BodyTimeout: 50 * time.Millisecond}, Accept{})
	sid := s.open()
	r, w := io.Pipe()
	defer w.Close()
	res := s.send(context.Background(), "POST", "/?"+polling+"&sid="+sid, r)
	if res.status != 400 {
		t.Fatalf("%+v", res)
	}
	s.h.wantClose(t, ReasonTransportError)
}

// TestCloseCodeSurvivesTheRest: a client that has much more to send still reads
// why it is closed, rather than a reset connection.
func TestCloseCodeSurvivesTheRest(t *testing.T) {
	s := serve(t, Options{}, Accept{MaxPayload: 1000})
	ws := s.openWS()
	ws.say("4" + strings.Repeat("x", 8<<20))
	if code, _ := ws.closed(); code != websocket.StatusMessageTooBig {
		t.Fatalf("close code %d", code)
	}
}
