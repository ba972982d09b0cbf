package engineio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = time.Minute

// echo sends each message back and remembers what it was told.
type echo struct {
	mu      sync.Mutex
	opened  int
	reasons []string
	closed  chan string // one reason for each Close

	message func(*Session, Message) error // instead of the echo
}

func newEcho() *echo { return &echo{closed: make(chan string, 1000)} }

func (h *echo) Open(*Session) {
	h.mu.Lock()
	h.opened++
	h.mu.Unlock()
}

func (h *echo) Message(s *Session, m Message) error {
	if h.message != nil {
		return h.message(s, m)
	}
	switch {
	case string(m.Data) == "bad":
		return errors.New("refused")
	case string(m.Data) == "panic":
		panic("on request")
	}
	p := NewMessage([][]byte{m.Data})
	if m.Binary {
		p = NewBinary(m.Data)
	}
	if err := s.Send(&p); err != nil && !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

func (h *echo) Close(_ *Session, reason string) {
	h.mu.Lock()
	h.reasons = append(h.reasons, reason)
	h.mu.Unlock()
	h.closed <- reason
}

// wantClose waits for the end of one session.
func (h *echo) wantClose(t *testing.T, reason string) {
	t.Helper()
	select {
	case got := <-h.closed:
		if got != reason {
			t.Fatalf("closed for %q, want %q", got, reason)
		}
	case <-time.After(patience):
		t.Fatalf("not closed, want %q", reason)
	}
}

// site is a server under test.
type site struct {
	*httptest.Server
	t   *testing.T
	eio *Server
	h   *echo
}

func serve(t *testing.T, o Options, a Accept) *site {
	t.Helper()
	s := &site{t: t, h: newEcho()}
	s.eio = NewServer(o, s.h)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.eio.Accept(w, r, a) }))
	t.Cleanup(func() {
		s.eio.Close() // first: a poll that waits would keep the other from ending
		s.Server.Close()
		s.Client().CloseIdleConnections()
	})
	return s
}

type reply struct {
	status int
	body   string
	header http.Header
}

// do sends a request to the endpoint with the given query behind EIO=4.
func (s *site) do(method, query, body string, header ...string) reply {
	s.t.Helper()
	return s.send(context.Background(), method, "/?"+query, strings.NewReader(body), header...)
}

func (s *site) send(ctx context.Context, method, path string, body io.Reader, header ...string) reply {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := s.Client().Do(r)
	if err != nil {
		return reply{body: err.Error()}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{body: err.Error()}
	}
	return reply{res.StatusCode, string(b), res.Header}
}

const polling = "EIO=4&transport=polling"

// open makes a polling session and returns its id.
func (s *site) open() string {
	s.t.Helper()
	res := s.do("GET", polling, "")
	var v struct{ Sid string }
	if res.status != 200 || json.Unmarshal([]byte(res.body[1:]), &v) != nil {
		s.t.Fatalf("handshake: %+v", res)
	}
	return v.Sid
}

func (s *site) get(sid string) reply { s.t.Helper(); return s.do("GET", polling+"&sid="+sid, "") }
func (s *site) post(sid string, b string) reply {
	s.t.Helper()
	return s.do("POST", polling+"&sid="+sid, b)
}
func (s *site) goGet(sid string) <-chan reply { return async(func() reply { return s.get(sid) }) }
func async(f func() reply) <-chan reply {
	c := make(chan reply, 1)
	go func() { c <- f() }()
	return c
}

func (s *site) want(got reply, status int, body string) {
	s.t.Helper()
	if got.status != status || got.body != body {
		s.t.Fatalf("got %d %q, want %d %q", got.status, got.body, status, body)
	}
}

func (s *site) wantSoon(c <-chan reply, status int, body string) {
	s.t.Helper()
	select {
	case got := <-c:
		s.want(got, status, body)
	case <-time.After(patience):
		s.t.Fatalf("no answer, want %d %q", status, body)
	}
}

// waiting returns when a GET of the session waits for packets.
func (s *site) waiting(sid string) {
	s.t.Helper()
	s.until("a waiting GET", func() bool {
		e := s.eio.find(sid)
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.poller != nil
	})
}

// until polls a condition that no channel announces.
func (s *site) until(what string, ok func() bool) {
	s.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// client is a WebSocket of a client.
type client struct {
	*websocket.Conn
	t *testing.T
}

func (s *site) dial(query string, header ...string) *client {
	s.t.Helper()
	c, res, err := s.tryDial(query, header...)
	if err != nil {
		s.t.Fatalf("dial: %v (%v)", err, res)
	}
	return c
}

func (s *site) tryDial(query string, header ...string) (*client, *http.Response, error) {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, res, err := websocket.Dial(ctx, s.URL+"/?"+query, &websocket.DialOptions{HTTPHeader: h, HTTPClient: s.Client()})
	if err != nil {
		return nil, res, err
	}
	c.SetReadLimit(32 << 20)
	s.t.Cleanup(func() { _ = c.CloseNow() })
	return &client{c, s.t}, res, nil
}

// openWS makes a WebSocket session.
func (s *site) openWS() *client {
	s.t.Helper()
	c := s.dial("EIO=4&transport=websocket")
	if m := c.next(); !strings.HasPrefix(m, "0{") {
		s.t.Fatalf("handshake: %q", m)
	}
	return c
}

func (c *client) say(text string) {
	c.t.Helper()
	if err := c.Write(context.Background(), websocket.MessageText, []byte(text)); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// next is the next message; a binary one is marked.
func (c *client) next() string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	typ, b, err := c.Read(ctx)
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	if typ == websocket.MessageBinary {
		return "binary:" + string(b)
	}
	return string(b)
}

func (c *client) expect(text string) {
	c.t.Helper()
	if m := c.next(); m != text {
		c.t.Fatalf("got %.200q, want %.200q", m, text)
	}
}

// closed waits for the end of the connection and returns the close code, -1 for
// none. Messages before it are returned joined by spaces.
func (c *client) closed() (code websocket.StatusCode, before string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var all []string
	for {
		_, b, err := c.Read(ctx)
		if ctx.Err() != nil {
			c.t.Fatal("not closed")
		}
		if err != nil {
			c.t.Logf("end: %v", err)
			return websocket.CloseStatus(err), strings.Join(all, " ")
		}
		all = append(all, string(bytes.Clone(b)))
	}
}
