package phoenix

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = time.Minute

const room = "room:a"

// hooks is a Handler made of functions. Without them topics that begin with
// "room:" are served, and pushes echoed.
type hooks struct {
	join   func(context.Context, *Channel, json.RawMessage) ([]byte, error)
	joined func(*Channel)
	in     func(*Channel, Push)
	left   chan string // topic and reason
}

func newHooks() *hooks { return &hooks{left: make(chan string, 10_000)} }

func (h *hooks) Join(ctx context.Context, c *Channel, payload json.RawMessage) ([]byte, error) {
	switch {
	case h.join != nil:
		return h.join(ctx, c, payload)
	case !strings.HasPrefix(c.Topic(), "room:"):
		return nil, ErrUnmatched
	}
	return nil, nil
}

func (h *hooks) Joined(c *Channel) {
	if h.joined != nil {
		h.joined(c)
	}
}

func (h *hooks) In(c *Channel, p Push) {
	switch {
	case h.in != nil:
		h.in(c, p)
	case p.Event == "panic":
		panic("on request")
	case p.Event == "refuse":
		_ = c.Reply(p.Ref, Error, []byte(`{"reason":"no"}`))
	case p.Event != "silent":
		_ = c.Reply(p.Ref, OK, p.Payload)
	}
}

func (h *hooks) Left(c *Channel, reason string) { h.left <- c.Topic() + " " + reason }

func (h *hooks) wantLeft(t *testing.T, topic, reason string) {
	t.Helper()
	if got := receive(t, h.left); got != topic+" "+reason {
		t.Fatalf("left %q, want %q", got, topic+" "+reason)
	}
}

type site struct {
	*httptest.Server
	t   *testing.T
	srv *Server
	h   *hooks
}

func serve(t *testing.T, o Options, a Accept, h *hooks) *site {
	t.Helper()
	if h == nil {
		h = newHooks()
	}
	s := &site{t: t, srv: NewServer(o, h), h: h}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.srv.Accept(w, r, a) }))
	t.Cleanup(func() {
		s.srv.Close() // first: a poll that waits would keep the other from ending
		s.Server.Close()
		s.Client().CloseIdleConnections()
	})
	return s
}

type client struct {
	*websocket.Conn
	t *testing.T
}

const wsPath = "/socket/websocket?vsn=2.0.0"

func (s *site) dial() *client {
	s.t.Helper()
	c, res, err := s.tryDial(wsPath)
	if err != nil {
		s.t.Fatalf("dial: %v (%v)", err, res)
	}
	return c
}

func (s *site) tryDial(path string, header ...string) (*client, *http.Response, error) {
	o := &websocket.DialOptions{HTTPHeader: http.Header{}, HTTPClient: s.Client()}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Sec-WebSocket-Protocol" {
			o.Subprotocols = strings.Split(header[i+1], ", ")
			continue
		}
		o.HTTPHeader.Set(header[i], header[i+1])
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, res, err := websocket.Dial(ctx, s.URL+path, o)
	if err != nil {
		return nil, res, err
	}
	c.SetReadLimit(64 << 20)
	s.t.Cleanup(func() { _ = c.CloseNow() })
	return &client{c, s.t}, res, nil
}

// join opens a WebSocket that has joined the room.
func (s *site) join() *client {
	s.t.Helper()
	c := s.dial()
	c.say(joinRoom)
	c.expect(`["1","1","room:a","phx_reply",{"status":"ok","response":{}}]`)
	return c
}

const joinRoom = `["1","1","room:a","phx_join",{}]`

func (c *client) say(frames ...string) {
	c.t.Helper()
	for _, f := range frames {
		typ := websocket.MessageText
		if b, ok := strings.CutPrefix(f, "binary:"); ok {
			typ, f = websocket.MessageBinary, b
		}
		if err := c.Write(context.Background(), typ, []byte(f)); err != nil {
			c.t.Logf("write: %v", err) // the server may have closed over an earlier frame
			return
		}
	}
}

func (c *client) read() (string, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, b, err := c.Read(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		c.t.Fatal("waited in vain for a frame")
	}
	return string(b), err
}

func (c *client) next() string {
	c.t.Helper()
	m, err := c.read()
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	return m
}

func (c *client) expect(frames ...string) {
	c.t.Helper()
	for _, f := range frames {
		if m := c.next(); m != f {
			c.t.Fatalf("got  %.300s\nwant %.300s", m, f)
		}
	}
}

// alive proves with a heartbeat that nothing else came and that the line stands.
func (c *client) alive() {
	c.t.Helper()
	c.say(`[null,"hb","phoenix","heartbeat",{}]`)
	c.expect(`[null,"hb","phoenix","phx_reply",{"status":"ok","response":{}}]`)
}

// closed waits for the connection's end and returns what came before it.
func (c *client) closed() (websocket.StatusCode, string) {
	c.t.Helper()
	var all []string
	for {
		m, err := c.read()
		if err != nil {
			return websocket.CloseStatus(err), strings.Join(all, " ")
		}
		all = append(all, m)
	}
}

// answer is what a polling request was told.
type answer struct {
	code     int // of HTTP
	Status   int
	Token    string
	Messages []string
	header   http.Header
	body     string
}

func (s *site) do(ctx context.Context, method, path, body string, header ...string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := s.Client().Do(r)
	if err != nil {
		return answer{body: err.Error()}
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	a := answer{code: res.StatusCode, header: res.Header, body: string(b)}
	_ = json.Unmarshal(b, &a)
	return a
}

const pollPath = "/socket/longpoll?vsn=2.0.0"

// poller is a polling client.
type poller struct {
	*site
	token string
}

func (s *site) openPoll() *poller {
	s.t.Helper()
	a := s.do(context.Background(), "GET", pollPath, "")
	if a.code != 200 || a.Status != 410 || a.Token == "" {
		s.t.Fatalf("handshake: %+v", a)
	}
	return &poller{s, a.Token}
}

func (p *poller) path() string { return pollPath + "&token=" + p.token }
func (p *poller) get() answer  { return p.do(context.Background(), "GET", p.path(), "") }

func (p *poller) post(frames ...string) answer {
	return p.do(context.Background(), "POST", p.path(), strings.Join(frames, "\n"), "Content-Type", "application/x-ndjson")
}

func (p *poller) goGet() <-chan answer {
	c := make(chan answer, 1)
	go func() { c <- p.get() }()
	return c
}

// expect polls until all frames have come, in order.
func (p *poller) expect(frames ...string) {
	p.t.Helper()
	for len(frames) > 0 {
		a := p.get()
		if a.Status != 200 {
			p.t.Fatalf("poll: %+v, want %s", a, frames[0])
		}
		for _, m := range a.Messages {
			if len(frames) == 0 || m != frames[0] {
				p.t.Fatalf("got %s, want %q", m, frames)
			}
			frames = frames[1:]
		}
	}
}

// waiting returns when a GET of the client waits.
func (p *poller) waiting() {
	p.t.Helper()
	p.until("a waiting GET", func() bool {
		s := p.srv.poll(p.token)
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.poller != nil
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

// receive takes from a channel that will be sent to.
func receive[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("waited in vain")
	}
	return v
}
