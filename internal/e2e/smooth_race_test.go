package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// stream is an agent that writes n pieces of the given size, with a pause before
// each, to whoever asks.
func stream(n, size int, pause time.Duration) http.HandlerFunc {
	text := strings.Repeat("x", size)
	return func(w http.ResponseWriter, r *http.Request) {
		// What is left of a request resets the connection, and what was answered.
		_, _ = io.Copy(io.Discard, r.Body)
		s := &scene{w: w, r: r}
		ok := s.say("TEXT_MESSAGE_START", fields{"messageId": "m", "role": "assistant"})
		for i := 0; ok && i < n; i++ {
			if pause > 0 {
				time.Sleep(pause)
			}
			ok = s.say("TEXT_MESSAGE_CONTENT", fields{"messageId": "m", "delta": text})
		}
		if ok && s.say("TEXT_MESSAGE_END", fields{"messageId": "m"}) {
			s.finish(nil)
		}
	}
}

// streaming starts a gateway before such an agent.
func streaming(t *testing.T, h http.HandlerFunc) *gateway {
	t.Helper()
	agent := httptest.NewServer(h)
	t.Cleanup(func() {
		agent.CloseClientConnections()
		agent.Close()
	})
	return start(t, site("\t\tagent bot agui "+agent.URL+`
		smooth {
			anonymous
		}
		limits {
			commands_per_second 100000
			runs_per_client 1000
			pace none
		}`))
}

// Turns that are cancelled at any moment of their life: nothing follows a
// terminal frame, there is one, and the slot is free when it comes.
func TestSmoothCancelRace(t *testing.T) {
	t.Parallel()
	g := streaming(t, stream(3, 4, 0))
	const connections, turns = 4, 100
	ended := make(chan map[string]int, connections)
	for range connections {
		o := operate(t, g.base, nil)
		go func() {
			came := map[string]int{}
			defer func() { ended <- came }()
			session := o.session(nil).text("data.sessionId")
			span := time.Duration(0) // of a turn that nobody stops
			for i := range turns {
				request := fmt.Sprintf("t%d", i)
				o.send(map[string]any{"action": "send_message", "requestId": request, "sessionId": session, "message": "x"})
				begun := time.Now()
				delay := time.NewTimer(time.Hour)
				if span > 0 {
					delay.Reset(rand.N(2 * span))
				}
				stop := func() { o.send(map[string]any{"action": "cancel", "requestId": request}) }
				kind := ""
				for kind == "" {
					f, err := o.soon(delay.C)
					switch {
					case err != nil:
						t.Errorf("SMO-020 turn %d has no end: %v", i, err)
						return
					case f == nil:
						stop()
					case f.kind() == "error":
						t.Errorf("SMO-167 turn %d: %s", i, f)
						return
					case f.kind() == "cancelled" || f.kind() == "eventual_response":
						kind = f.kind()
					}
				}
				if kind == "eventual_response" {
					span = max(time.Since(begun), time.Microsecond)
				}
				delay.Stop()
				came[kind]++
			}
			if err := o.silent(); err != nil {
				t.Errorf("SMO-022 after the last turn: %v", err)
			}
		}()
	}
	all := map[string]int{}
	for range connections {
		for k, v := range <-ended {
			all[k] += v
		}
	}
	if all["cancelled"] == 0 || all["eventual_response"] == 0 || all["cancelled"]+all["eventual_response"] != connections*turns {
		t.Errorf("SMO-168 of %d turns %v: both ends must be among them", connections*turns, all)
	}
}

// soon is the next frame, or nil when the timer runs out before one comes.
func (o *operator) soon(timer <-chan time.Time) (card, error) {
	deadline := time.After(patience)
	for {
		o.mu.Lock()
		if o.read < len(o.seen) {
			f := o.seen[o.read]
			o.read++
			o.mu.Unlock()
			return f, nil
		}
		gone := o.closed
		o.mu.Unlock()
		if gone != nil {
			return nil, gone
		}
		select {
		case <-o.bell:
		case <-timer:
			return nil, nil //nolint:nilnil // the time has come, and no frame
		case <-deadline:
			return nil, fmt.Errorf("nothing came within %v", patience)
		}
	}
}

// Clients that stop reading long answers harm nobody: who watches the same
// conversation has every word, the turns that they began end whole, and the
// process goes when it is told to.
func TestSmoothStalledReader(t *testing.T) {
	t.Parallel()
	const size, turns = 3 << 20, 4 // together more than a queue holds
	g := streaming(t, stream(size>>12, 1<<12, 0))
	healthy := operate(t, g.base, nil)
	f := healthy.session(nil)
	session := f.text("data.sessionId")
	// One watches and reads no more, one begins a turn of its own and reads no more.
	stall(t, g.base, `{"action":"create_conversation_session","agentId":"`+anyAgent+`","supports":["thread_watch"],"conversationId":"`+f.text("data.conversationId")+`"}`)
	own, ws := stall(t, g.base, `{"action":"create_conversation_session","agentId":"`+anyAgent+`"}`)
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(`{"action":"send_message","requestId":"long","sessionId":"`+own+`","message":"x"}`)); err != nil {
		t.Fatal(err)
	}
	for n := range turns {
		request := fmt.Sprintf("t%d", n)
		healthy.say(session, request, "x")
		if _, said := healthy.until("eventual_response"); len(said) != size {
			t.Errorf("SMO-027 turn %d: %d of %d bytes came", n, len(said), size)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for {
		healthy.send(map[string]any{"action": "get_conversation_messages", "requestId": "m", "sessionId": own})
		if f := healthy.expect("immediate_response"); len(f.text("data.messages.0.content.text")) == size {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatal("SMO-169 the turn of a reader that stalls did not end whole")
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err := healthy.silent(); err != nil {
		t.Error(err)
	}
}

// stall connects through a small window, creates a session, and reads no more
// than the reply.
func stall(t *testing.T, base, create string) (session string, ws *websocket.Conn) {
	t.Helper()
	narrow := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if tcp, ok := c.(*net.TCPConn); ok {
			err = tcp.SetReadBuffer(4 << 10)
		}
		return c, err
	}}}
	ws, _, err := websocket.Dial(t.Context(), strings.Replace(base, "http", "ws", 1)+"/ws", &websocket.DialOptions{HTTPClient: narrow})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(create)); err != nil {
		t.Fatal(err)
	}
	_, b, err := ws.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var f card
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	return f.text("data.sessionId"), ws
}
