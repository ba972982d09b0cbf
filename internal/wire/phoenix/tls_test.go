package phoenix

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTLS: polling by HTTP/2 and WebSocket by HTTP/1.1, and that a client that
// reads no more is cut off though there is no room for the alert that ends TLS.
func TestTLS(t *testing.T) {
	h := newHooks()
	joined := make(chan *Channel, 2)
	h.joined = func(c *Channel) { joined <- c }
	s := &site{t: t, srv: NewServer(Options{}, h), h: h}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.srv.Accept(w, r, Accept{Cookie: "lb"})
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() {
		s.srv.Close()
		s.Server.Close()
		s.Client().CloseIdleConnections()
	})
	a := s.do(t.Context(), "GET", pollPath, "")
	if got := a.header.Get("Set-Cookie"); !strings.HasSuffix(got, "; Path=/; HttpOnly; Secure; SameSite=Lax") {
		t.Fatal(got)
	}
	p := s.openPoll()
	waits := p.goGet()
	p.waiting()
	p.post(joinRoom)
	if a := receive(t, waits); len(a.Messages) != 1 {
		t.Fatalf("%+v", a)
	}
	receive(t, joined)
	s.join()
	c := receive(t, joined)
	f := NewFrame(room, "x", []byte(`"`+strings.Repeat("x", 64<<10)+`"`))
	var err error
	for n := 0; n < 10_000 && err == nil; n++ {
		err = c.Send(f)
	}
	if !errors.Is(err, ErrSlow) {
		t.Fatal(err)
	}
	h.wantLeft(t, room, ReasonSlow)
	s.until("the connection's end", func() bool {
		s.srv.mu.RLock()
		defer s.srv.mu.RUnlock()
		return s.srv.conns.Len() == 0
	})
}

// layer is a middleware's writer, as a chain has several of. It would rather be
// the one that is taken over, as the recorder of an access log is.
type layer struct {
	http.ResponseWriter
	called *bool
}

func (l layer) Unwrap() http.ResponseWriter { return l.ResponseWriter }

func (l layer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	*l.called = true
	return http.NewResponseController(l.ResponseWriter).Hijack()
}

// TestHijackIsFromTheInnermostWriter: the connection must not keep the chain.
func TestHijackIsFromTheInnermostWriter(t *testing.T) {
	h := newHooks()
	srv := NewServer(Options{}, h)
	hijacked := false
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		srv.Accept(layer{layer{w, &hijacked}, &hijacked}, r, Accept{})
	}))
	s := &site{Server: web, t: t, srv: srv, h: h}
	t.Cleanup(func() { srv.Close(); web.Close() })
	s.join().alive()
	if hijacked {
		t.Fatal("taken over through an outer writer")
	}
}
