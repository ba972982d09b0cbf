package socketio

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

const patience = time.Minute

// hooks is a Handler made of functions; nil ones do nothing.
type hooks struct {
	connect    func(context.Context, *Socket, json.RawMessage) error
	connected  func(*Socket)
	event      func(*Socket, Event)
	disconnect func(*Socket, string)
}

func (h *hooks) Connect(ctx context.Context, s *Socket, auth json.RawMessage) error {
	if h.connect == nil {
		return nil
	}
	return h.connect(ctx, s, auth)
}

func (h *hooks) Connected(s *Socket) {
	if h.connected != nil {
		h.connected(s)
	}
}

func (h *hooks) Event(s *Socket, e Event) {
	if h.event != nil {
		h.event(s, e)
	}
}

func (h *hooks) Disconnect(s *Socket, reason string) {
	if h.disconnect != nil {
		h.disconnect(s, reason)
	}
}

type site struct {
	*httptest.Server
	t   *testing.T
	sio *Server
}

func serve(t *testing.T, o Options, a Accept, h Handler) *site {
	t.Helper()
	s := &site{t: t, sio: NewServer(o, h)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.sio.Accept(w, r, a) }))
	t.Cleanup(func() {
		s.sio.Close()
		s.Server.Close()
		s.Client().CloseIdleConnections()
	})
	return s
}

// do sends a polling request.
func (s *site) do(method, sid, body string) (int, string) {
	s.t.Helper()
	url := s.URL + "/socket.io/?EIO=4&transport=polling"
	if sid != "" {
		url += "&sid=" + sid
	}
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := s.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

func (s *site) openPolling() (sid string) {
	s.t.Helper()
	_, body := s.do("GET", "", "")
	return strings.Split(body, `"`)[3]
}

type client struct {
	*websocket.Conn
	t *testing.T
}

// dial opens a WebSocket and reads the handshake.
func (s *site) dial() *client {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, s.URL+"/socket.io/?EIO=4&transport=websocket", &websocket.DialOptions{HTTPClient: s.Client()})
	if err != nil {
		s.t.Fatal(err)
	}
	ws.SetReadLimit(32 << 20)
	s.t.Cleanup(func() { _ = ws.CloseNow() })
	c := &client{ws, s.t}
	c.next()
	return c
}

// join opens a WebSocket in the main namespace and returns the socket's id.
func (s *site) join() (*client, string) {
	s.t.Helper()
	c := s.dial()
	c.say("40")
	m := c.next()
	if !strings.HasPrefix(m, `40{"sid":"`) || len(m) != len(`40{"sid":""}`)+20 {
		s.t.Fatalf("CONNECT reply %q", m)
	}
	return c, m[10:30]
}

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
	typ, b, err := c.Read(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		c.t.Fatal("waited in vain for a frame")
	}
	if typ == websocket.MessageBinary {
		return "binary:" + string(b), err
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
			c.t.Fatalf("got %.300q, want %.300q", m, f)
		}
	}
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
