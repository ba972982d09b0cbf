package caddymodule

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// window is a browser's window as these tests need it: a Pilotoo client on a
// Socket.IO WebSocket.
type window struct {
	t       *testing.T
	ws      *websocket.Conn
	thread  string
	cookies []*http.Cookie
	acks    int
	// events holds what came while an acknowledgement was awaited.
	events []envelope
	last   map[string]int // the last sequence by run
}

type envelope struct {
	Run      string `json:"runId"`
	Sequence int    `json:"sequence"`
	Event    struct {
		Type  string `json:"type"`
		Delta string `json:"delta"`
	} `json:"event"`
}

// openWindow makes a conversation and a socket that watches it.
func (p *process) openWindow() *window {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://"+p.site+"/conversations", strings.NewReader("{}"))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var made struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil || made.ID == "" {
		p.t.Fatalf("no conversation: %d %v", resp.StatusCode, err)
	}
	w := &window{t: p.t, thread: made.ID, cookies: resp.Cookies(), last: make(map[string]int)}
	w.connect(p)
	return w
}

func (w *window) connect(p *process) {
	w.t.Helper()
	header := make(http.Header)
	for _, c := range w.cookies {
		header.Add("Cookie", c.Name+"="+c.Value)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	ws, resp, err := websocket.Dial(ctx, "ws://"+p.site+"/socket.io/?EIO=4&transport=websocket", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		w.t.Fatal(err)
	}
	if resp.Body != nil {
		resp.Body.Close()
	}
	ws.SetReadLimit(-1)
	w.ws = ws
	w.t.Cleanup(func() { _ = ws.CloseNow() })
	w.send("40")
	for {
		s, err := w.read()
		if err != nil {
			w.t.Fatal(err)
		}
		if strings.HasPrefix(s, `42["protocol:hello"`) {
			return
		}
	}
}

func (w *window) send(s string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.ws.Write(ctx, websocket.MessageText, []byte(s)); err != nil {
		w.t.Fatal(err)
	}
}

// read returns the next packet that is not a heartbeat.
func (w *window) read() (string, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for {
		_, b, err := w.ws.Read(ctx)
		if err != nil || string(b) != "2" {
			return string(b), err
		}
		if err := w.ws.Write(ctx, websocket.MessageText, []byte("3")); err != nil {
			return "", err
		}
	}
}

// command sends an event and returns its acknowledgement.
func (w *window) command(event string, v map[string]any) map[string]any {
	w.t.Helper()
	w.acks++
	b, err := json.Marshal([]any{event, v})
	if err != nil {
		w.t.Fatal(err)
	}
	w.send(fmt.Sprintf("42%d%s", w.acks, b))
	want := fmt.Sprintf("43%d", w.acks)
	for {
		s, err := w.read()
		if err != nil {
			w.t.Fatal(err)
		}
		if rest, ok := strings.CutPrefix(s, want); ok {
			var args []map[string]any
			if err := json.Unmarshal([]byte(rest), &args); err != nil || len(args) != 1 {
				w.t.Fatalf("acknowledgement %s: %v", rest, err)
			}
			return args[0]
		}
		w.keep(s)
	}
}

// keep takes a packet's envelope, if it is one, and holds its run to an
// unbroken sequence.
func (w *window) keep(s string) {
	w.t.Helper()
	rest, ok := strings.CutPrefix(s, "42")
	if !ok {
		return
	}
	var args []json.RawMessage
	var e envelope
	if json.Unmarshal([]byte(rest), &args) != nil || len(args) != 2 || string(args[0]) != `"run:event"` {
		return
	}
	if err := json.Unmarshal(args[1], &e); err != nil {
		w.t.Fatal(err)
	}
	if last := w.last[e.Run]; last > 0 && e.Sequence != last+1 {
		w.t.Errorf("envelope %d of a run follows envelope %d", e.Sequence, last)
	}
	w.last[e.Run] = e.Sequence
	w.events = append(w.events, e)
}

// say starts a run.
func (w *window) say(id, input string) {
	w.t.Helper()
	ack := w.command("run:start", map[string]any{"threadId": w.thread, "messageId": id, "input": input})
	if ack["ok"] == false {
		w.t.Fatalf("run:start: %v", ack)
	}
}

// until reads up to an event of the type and returns all text on the way.
func (w *window) until(kind string) string {
	w.t.Helper()
	var text strings.Builder
	for {
		for i, e := range w.events {
			text.WriteString(e.Event.Delta)
			if e.Event.Type == kind {
				w.events = w.events[i+1:]
				return text.String()
			}
		}
		w.events = nil
		s, err := w.read()
		if err != nil {
			w.t.Fatalf("waiting for %s: %v", kind, err)
		}
		w.keep(s)
	}
}

// ended reads until the connection ends and says how long that took.
func (w *window) ended() time.Duration {
	w.t.Helper()
	begin := time.Now()
	for {
		s, err := w.read()
		if err == nil {
			w.keep(s)
			continue
		}
		if time.Since(begin) >= patience {
			w.t.Error("the connection does not end")
		}
		return time.Since(begin)
	}
}

// roles are the roles and contents of the conversation's messages.
func (w *window) messages() []map[string]any {
	w.t.Helper()
	ack := w.command("thread:messages", map[string]any{"threadId": w.thread})
	list, ok := ack["messages"].([]any)
	if !ok {
		w.t.Fatalf("thread:messages: %v", ack)
	}
	out := make([]map[string]any, len(list))
	for i, m := range list {
		out[i], _ = m.(map[string]any)
	}
	return out
}
