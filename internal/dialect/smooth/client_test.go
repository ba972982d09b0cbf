package smooth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// frame is a frame of the server, decoded.
type frame map[string]any

// at is the member at a dotted path, or nil.
func (f frame) at(path string) any {
	var v any = map[string]any(f)
	for _, p := range strings.Split(path, ".") {
		switch n := v.(type) {
		case map[string]any:
			v = n[p]
		case []any:
			i, err := strconv.Atoi(p)
			if err != nil || i < 0 || i >= len(n) {
				return nil
			}
			v = n[i]
		default:
			return nil
		}
	}
	return v
}

func (f frame) text(path string) string {
	s, _ := f.at(path).(string)
	return s
}

func (f frame) kind() string { return f.text("type") }

func (f frame) String() string {
	b, _ := json.Marshal(map[string]any(f))
	return string(b)
}

// client is a client of the real server. It keeps the frames in the order in
// which they came, each checked against its schema.
type client struct {
	t    *testing.T
	ws   *websocket.Conn
	done chan struct{}

	mu     sync.Mutex
	seen   []frame
	read   int // of seen: what next has returned
	closed error
	bell   chan struct{}
}

func (s *site) dial(token string) *client {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	address := s.url
	if token != "" {
		address += "?token=" + token
	}
	ws, _, err := websocket.Dial(ctx, address, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	ws.SetReadLimit(64 << 20)
	c := &client{t: s.t, ws: ws, done: make(chan struct{}), bell: make(chan struct{}, 1)}
	go c.listen()
	s.t.Cleanup(c.close)
	return c
}

func (c *client) close() {
	_ = c.ws.CloseNow()
	<-c.done
}

func (c *client) listen() {
	defer close(c.done)
	for {
		typ, b, err := c.ws.Read(context.Background())
		var f frame
		if err == nil {
			d := json.NewDecoder(bytes.NewReader(b))
			if d.Decode(&f) != nil || typ != websocket.MessageText || f.kind() == "" {
				c.t.Errorf("SMO-001 SMO-002 a frame is a JSON object with a type, as text: %s", b)
			}
			if err := validEvent(b); err != nil {
				c.t.Errorf("%s is not valid: %v", b, err)
			}
		}
		if f != nil {
			c.hold(f)
		}
		c.mu.Lock()
		if err != nil {
			c.closed = err
		} else {
			c.seen = append(c.seen, f)
		}
		c.mu.Unlock()
		select {
		case c.bell <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (c *client) send(format string, args ...any) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, format, args...)); err != nil {
		c.t.Errorf("the connection is gone: %v", err)
	}
}

// next is the next frame that has not been looked at; nil if there is none for
// as long as wait.
func (c *client) within(wait time.Duration) frame {
	deadline := time.After(wait)
	for {
		c.mu.Lock()
		if c.read < len(c.seen) {
			f := c.seen[c.read]
			c.read++
			c.mu.Unlock()
			return f
		}
		gone := c.closed
		c.mu.Unlock()
		if gone != nil {
			return nil
		}
		select {
		case <-c.bell:
		case <-deadline:
			return nil
		}
	}
}

func (c *client) next() frame {
	c.t.Helper()
	f := c.within(patience)
	if f == nil {
		c.t.Fatalf("no frame came; connection: %v; last: %v", c.closed, c.tail())
	}
	return f
}

func (c *client) tail() []frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[max(0, len(c.seen)-5):]
}

// expect is the next frame, which must be of the type.
func (c *client) expect(kind string) frame {
	c.t.Helper()
	f := c.next()
	if f.kind() != kind {
		c.t.Fatalf("expected %s, got %s", kind, f)
	}
	return f
}

// until skips frames up to one of the type, and returns all of them.
func (c *client) until(kind string) []frame {
	c.t.Helper()
	var list []frame
	for {
		f := c.next()
		list = append(list, f)
		if f.kind() == kind {
			return list
		}
	}
}

// silent says that nothing has come that was not looked at: a ping is answered
// behind whatever was sent before it.
func (c *client) silent(what string) {
	c.t.Helper()
	c.send(`{"action":"ping","requestId":"silence"}`)
	if f := c.next(); f.kind() != "pong" {
		c.t.Errorf("%s: %s came", what, f)
	}
}

// refused expects an error of a code with a requestId.
func (c *client) refused(what, code, request string) {
	c.t.Helper()
	f := c.next()
	if f.kind() != "error" || f.text("error.code") != code || f.text("data.error.code") != code || f.text("requestId") != request {
		c.t.Errorf("%s: SMO-124 expected the error %s of %q at both places, got %s", what, code, request, f)
	}
}

const anyAgent = "11111111-1111-4111-8111-111111111111"

// session opens a session and returns its reply.
func (c *client) session(more string) frame {
	c.t.Helper()
	c.send(`{"action":"create_conversation_session","requestId":"create","agentId":"%s"%s}`, anyAgent, more)
	f := c.expect("immediate_response")
	if f.text("requestId") != "create" || f.at("status") != 200.0 || f.text("data.sessionId") == "" {
		c.t.Fatalf("no session: %s", f)
	}
	return f
}

// say sends a message and expects that it is accepted.
func (c *client) say(session, request, message string) {
	c.t.Helper()
	c.send(`{"action":"send_message","requestId":%q,"sessionId":%q,"message":%q}`, request, session, message)
	if f := c.expect("immediate_response"); f.at("status") != 202.0 || f.text("requestId") != request {
		c.t.Fatalf("not accepted: %s", f)
	}
}
