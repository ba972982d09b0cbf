package engineio

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// serveTLS is serve over HTTPS, with HTTP/2 for what is not a WebSocket.
func serveTLS(t *testing.T, o Options) *site {
	t.Helper()
	s := &site{t: t, h: newEcho()}
	s.eio = NewServer(o, s.h)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.eio.Accept(w, r, Accept{Cookie: "io", CookieValue: "edge-1"})
	}))
	s.Server.EnableHTTP2 = true
	s.Server.StartTLS()
	t.Cleanup(func() {
		s.eio.Close()
		s.Server.Close()
		s.Client().CloseIdleConnections()
	})
	return s
}

func TestHTTP2Polling(t *testing.T) {
	s := serveTLS(t, Options{})
	res := s.do("GET", polling, "")
	if got := res.header.Get("Set-Cookie"); got != "io=edge-1; Path=/; HttpOnly; Secure; SameSite=Lax" {
		t.Fatalf("cookie %q", got)
	}
	sid := s.open()
	g := s.goGet(sid)
	s.waiting(sid)
	s.want(s.post(sid, "4x"), 200, "ok")
	s.wantSoon(g, 200, "4x")
	ctx, cancel := context.WithCancel(context.Background())
	gone := async(func() reply { return s.send(ctx, "GET", "/?"+polling+"&sid="+sid, nil) })
	s.waiting(sid)
	cancel() // resets the stream, not the connection
	<-gone
	s.h.wantClose(t, ReasonTransportClose)
}

func TestTLSWebSocket(t *testing.T) {
	s := serveTLS(t, Options{QueueBytes: 1 << 20})
	sid := s.open()
	ws := s.dial(upgrading + sid)
	ws.say("2probe")
	ws.expect("3probe")
	ws.say("5")
	ws.say("4x")
	ws.expect("4x")

	// A client that reads no more is cut off at once, though there is no room
	// even for the alert that ends TLS.
	e := s.eio.find(sid)
	p := message(64 << 10)
	var err error
	start := time.Now()
	for range 1000 {
		if err = e.Send(&p); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrSlow) {
		t.Fatal(err)
	}
	s.h.wantClose(t, ReasonSlow)
	s.until("the connection's end", func() bool {
		s.eio.mu.RLock()
		defer s.eio.mu.RUnlock()
		return s.eio.conns.Len() == 0
	})
	if d := time.Since(start); d > 4*time.Second {
		t.Fatalf("took %v", d)
	}

	other := s.openWS()
	for e := range s.eio.All() {
		e.Close("x", websocket.StatusGoingAway)
	}
	if code, _ := other.closed(); code != websocket.StatusGoingAway {
		t.Fatalf("close code %d", code)
	}
}

// layer is a middleware's writer, as a chain has several of.
type layer struct{ http.ResponseWriter }

func (l layer) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// TestHijackIsFromTheInnermostWriter: the connection must not keep the chain.
func TestHijackIsFromTheInnermostWriter(t *testing.T) {
	h := newEcho()
	eio := NewServer(Options{}, h)
	hijacked := false
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		eio.Accept(spy{layer{layer{w}}, &hijacked}, r, Accept{})
	}))
	s := &site{Server: web, t: t, eio: eio, h: h}
	t.Cleanup(func() { eio.Close(); web.Close() })
	ws := s.openWS()
	ws.say("4x")
	ws.expect("4x")
	if hijacked {
		t.Fatal("taken over through an outer writer")
	}
}

// spy is a layer that would rather be the one that is taken over, as the
// recorder of an access log is.
type spy struct {
	layer
	called *bool
}

func (s spy) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	*s.called = true
	return http.NewResponseController(s.ResponseWriter).Hijack()
}
