package pingerchips_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/dialect/pingerchips"
)

// frame is what a window was sent: a push, or the reply to its own ref.
type frame struct {
	ref     int // 0 for a push, -1 for the reply to the join
	ok      bool
	event   string
	payload jsontext.Value
}

// conn is a connection of a client that speaks Phoenix channels.
type conn struct {
	t    testing.TB
	ws   *websocket.Conn
	done chan struct{}

	mu      sync.Mutex
	refs    int
	windows map[string]*window // by join_ref
}

func (s *site) dial() *conn {
	s.t.Helper()
	ws, _, err := websocket.Dial(s.t.Context(), s.url+"/socket/websocket?vsn=2.0.0", &websocket.DialOptions{HTTPClient: s.client})
	if err != nil {
		s.t.Fatal(err)
	}
	ws.SetReadLimit(64 << 20)
	c := &conn{t: s.t, ws: ws, done: make(chan struct{}), windows: map[string]*window{}}
	go c.read()
	s.t.Cleanup(c.close)
	return c
}

func (c *conn) close() {
	_ = c.ws.CloseNow()
	<-c.done
}

func (c *conn) read() {
	defer close(c.done)
	for {
		_, b, err := c.ws.Read(context.Background())
		if err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, w := range c.windows {
				w.end("transport")
			}
			return
		}
		c.frame(b)
	}
}

func (c *conn) frame(b []byte) {
	var f []jsontext.Value
	var joinRef, ref, topic, event string
	if json.Unmarshal(b, &f) != nil || len(f) != 5 {
		c.t.Errorf("PIN-001 a frame is %s", b)
		return
	}
	for i, p := range []*string{&joinRef, &ref, &topic, &event} {
		if f[i].Kind() != 'n' && json.Unmarshal(f[i], p) != nil {
			c.t.Errorf("PIN-001 a frame is %s", b)
		}
	}
	c.mu.Lock()
	w := c.windows[joinRef]
	c.mu.Unlock()
	if w == nil || topic != w.topic {
		c.t.Errorf("PIN-002 PIN-003 a frame of no join: %s", b)
		return
	}
	switch event {
	case "phx_reply":
		var r struct {
			Status   string         `json:"status"`
			Response jsontext.Value `json:"response"`
		}
		if json.Unmarshal(f[4], &r) != nil || (r.Status != "ok" && r.Status != "error") || r.Response.Kind() != '{' {
			c.t.Errorf("PIN-002 a reply is %s", b)
		}
		n, _ := strconv.Atoi(ref)
		if ref == joinRef {
			n = -1
		}
		w.add(frame{n, r.Status == "ok", event, r.Response})
	case "phx_close", "phx_error":
		w.end(event)
	default:
		if f[1].Kind() != 'n' {
			c.t.Errorf("PIN-003 a push is %s", b)
		}
		kind := event
		if event == "tool_approval" {
			kind = "agent.tool_approval" // PIN-172
		}
		if err := pingerchips.Validate(kind, f[4]); err != nil {
			c.t.Errorf("PIN-023 %s is sent as %.600s: %v", event, f[4], err)
		}
		w.add(frame{event: event, payload: f[4]})
	}
}

func (c *conn) write(joinRef string, ref int, topic, event, payload string) {
	c.t.Helper()
	b := []byte("[" + quote(joinRef) + "," + quote(strconv.Itoa(ref)) + "," + quote(topic) + "," + quote(event) + "," + payload + "]")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = c.ws.Write(ctx, websocket.MessageText, b) // a closed one is noticed where it matters
}

// window is one join of one topic.
type window struct {
	t       testing.TB
	conn    *conn
	joinRef string
	topic   string

	mu     sync.Mutex
	seen   []frame
	closed string // "phx_error", "phx_close", "transport"
	bell   chan struct{}
}

func topicOf(thread string) string { return "chat:v1:app:pk_live_x:thread:" + thread }

// attempt tries a join; reason is why it was refused.
func (c *conn) attempt(topic, payload string) (w *window, reply jsontext.Value, reason string) {
	c.t.Helper()
	w = &window{t: c.t, conn: c, topic: topic, bell: make(chan struct{}, 1)}
	c.mu.Lock()
	c.refs++
	ref := c.refs
	w.joinRef = strconv.Itoa(ref)
	c.windows[w.joinRef] = w
	c.mu.Unlock()
	c.write(w.joinRef, ref, topic, "phx_join", payload)
	f := w.answer(-1, "phx_join")
	if !f.ok {
		return nil, f.payload, read(c.t, f).Reason
	}
	return w, f.payload, ""
}

func (s *site) attempt(topic, payload string) (*window, jsontext.Value, string) {
	s.t.Helper()
	return s.dial().attempt(topic, payload)
}

// join joins a thread as a client with a token of its own; more is added to the
// payload.
func (s *site) join(thread, client string, more ...string) *window {
	s.t.Helper()
	return s.joinAs(thread, s.token(client), more...)
}

func (s *site) joinAs(thread, token string, more ...string) *window {
	s.t.Helper()
	w, _, reason := s.attempt(topicOf(thread), `{"auth":`+quote(token)+strings.Join(append([]string{""}, more...), ",")+`}`)
	if reason != "" {
		s.t.Fatalf("the join was refused: %s", reason)
	}
	w.after(0, "the snapshot", event("snapshot"))
	return w
}

func quote(s string) string {
	b, _ := jsontext.AppendQuote(nil, s)
	return string(b)
}

func (w *window) add(f frame) {
	w.mu.Lock()
	w.seen = append(w.seen, f)
	w.mu.Unlock()
	w.ring()
}

func (w *window) ring() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

func (w *window) end(how string) {
	w.mu.Lock()
	if w.closed == "" {
		w.closed = how
	}
	w.mu.Unlock()
	w.ring()
}

func (w *window) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

func (w *window) all() []frame {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]frame(nil), w.seen...)
}

// wait waits until ok.
func (w *window) wait(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.After(patience)
	for {
		w.mu.Lock()
		done := ok()
		w.mu.Unlock()
		if done {
			return
		}
		select {
		case <-w.bell:
		case <-deadline:
			w.t.Fatalf("%s did not come; %d frames: %s", what, w.count(), last(w.all()))
		}
	}
}

func last(list []frame) string {
	var b strings.Builder
	for _, f := range list[max(0, len(list)-6):] {
		fmt.Fprintf(&b, "\n%s %.300s", f.event, f.payload)
	}
	return b.String()
}

// after waits for a frame behind the first from ones and returns all from there
// up to it.
func (w *window) after(from int, what string, is func(frame) bool) []frame {
	w.t.Helper()
	n := from
	var out []frame
	w.wait(what, func() bool {
		for ; n < len(w.seen); n++ {
			if is(w.seen[n]) {
				out = w.seen[from : n+1 : n+1]
				return true
			}
		}
		return false
	})
	return out
}

// ask sends a push and returns its ref.
func (w *window) ask(event, payload string) int {
	w.t.Helper()
	w.conn.mu.Lock()
	w.conn.refs++
	ref := w.conn.refs
	w.conn.mu.Unlock()
	w.conn.write(w.joinRef, ref, w.topic, event, payload)
	return ref
}

// call sends a push and waits for its reply.
func (w *window) call(event, payload string) frame {
	w.t.Helper()
	return w.answer(w.ask(event, payload), event)
}

func (w *window) answer(ref int, event string) frame {
	w.t.Helper()
	list := w.after(0, "the reply to "+event, func(f frame) bool { return f.ref == ref })
	f, kind := list[len(list)-1], "error"
	switch {
	case f.ok && strings.HasPrefix(event, "run:"):
		kind = "agent.reply"
	case f.ok:
		kind = strings.TrimPrefix(event, "phx_") + ".reply"
	}
	if err := pingerchips.Validate(kind, f.payload); err != nil {
		w.t.Errorf("PIN-002 %s is answered %.600s: %v", event, f.payload, err)
	}
	return f
}

// ok sends a push that must succeed, and reads the response.
func (w *window) ok(event, payload string) response {
	w.t.Helper()
	f := w.call(event, payload)
	if !f.ok {
		w.t.Fatalf("%s %s was refused: %s", event, payload, f.payload)
	}
	return read(w.t, f)
}

// refuses wants a push to be refused with a reason, and without any effect.
func (w *window) refuses(name, event, payload, reason string) {
	w.t.Helper()
	f := w.call(event, payload)
	if f.ok || string(f.payload) != `{"reason":`+quote(reason)+`}` {
		w.t.Errorf("%s: %s %s was answered %v %s, want %q", name, event, payload, f.ok, f.payload, reason)
	}
}

// response is a reply or a push, as a client reads it.
type response struct {
	SocketID      string            `json:"socket_id"`
	Reason        string            `json:"reason"`
	MessageID     string            `json:"messageId"`
	RunID         string            `json:"runId"`
	Serial        int64             `json:"serial"`
	Status        string            `json:"status"`
	Messages      []said            `json:"messages"`
	HasOlder      *bool             `json:"has_older"`
	Selections    map[string]string `json:"selections"`
	State         map[string]any    `json:"-"`
	Nodes         []said            `json:"nodes"`
	Roots         []string          `json:"roots"`
	Leaves        []string          `json:"leaves"`
	LogID         *uint64           `json:"log_id"`
	GroupID       string            `json:"groupId"`
	Siblings      []string          `json:"siblings"`
	Index         int               `json:"index"`
	SelectedID    string            `json:"selectedId"`
	Message       *said             `json:"message"`
	Children      []string          `json:"children"`
	OwnerClientID string            `json:"ownerClientId"`
	StartedAt     int64             `json:"startedAt"`
	EndedAt       int64             `json:"endedAt"`
	ToolCallID    string            `json:"toolCallId"`
	ToolName      string            `json:"toolName"`
	Args          jsontext.Value    `json:"args"`
	raw           jsontext.Value
}

// said is a message.
type said struct {
	MessageID     string  `json:"messageId"`
	RunID         string  `json:"runId"`
	OwnerClientID string  `json:"ownerClientId"`
	Role          string  `json:"role"`
	Content       *string `json:"content"`
	ParentID      *string `json:"parentId"`
	ForkOf        *string `json:"forkOf"`
	MsgRegenerate *string `json:"msgRegenerate"`
	Status        string  `json:"status"`
	CreatedAt     int64   `json:"createdAt"`
}

func read(t failer, f frame) response {
	t.Helper()
	var r response
	if err := json.Unmarshal(f.payload, &r); err != nil {
		t.Fatalf("%s %s: %v", f.event, f.payload, err)
	}
	r.raw = f.payload
	return r
}

func event(name string) func(frame) bool { return func(f frame) bool { return f.event == name } }

// about accepts an event of a run.
func about(run, name string) func(frame) bool {
	return func(f frame) bool {
		var r struct {
			RunID string `json:"runId"`
		}
		return f.event == name && json.Unmarshal(f.payload, &r) == nil && r.RunID == run
	}
}

// send says something and returns its reply; the run's id is r-{message}.
func (w *window) send(message, text string, more ...string) response {
	w.t.Helper()
	return w.ok("send", `{"messageId":`+quote(message)+`,"runId":`+quote("r-"+message)+`,"text":`+quote(text)+strings.Join(append([]string{""}, more...), ",")+`}`)
}

// over waits for the end of a run and its batch, and returns all frames since.
func (w *window) over(from int, run string) []frame {
	w.t.Helper()
	list := w.after(from, "run:end of "+run, about(run, "run:end"))
	w.after(from+len(list), "its batch", event("batch"))
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[from : from+len(list)+1 : from+len(list)+1]
}

// talk sends and waits for the end of the run.
func (w *window) talk(message, text string, more ...string) []frame {
	w.t.Helper()
	from := w.count()
	w.send(message, text, more...)
	return w.over(from, "r-"+message)
}

func idsOf(list []said) string {
	var s []string
	for _, m := range list {
		s = append(s, m.MessageID)
	}
	return strings.Join(s, " ")
}

func deref(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}
