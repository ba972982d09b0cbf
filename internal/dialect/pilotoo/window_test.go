package pilotoo_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// patience is how long a test waits for what must come.
const patience = 5 * time.Minute

// packet is one Socket.IO packet that a window was sent.
type packet struct {
	kind string // "connect", "connect_error", "disconnect", "event", "ack"
	name string // of an event
	id   int    // of an ack
	data jsontext.Value
}

// window is a client of the real server, over a WebSocket. It keeps every
// packet in the order in which it came.
type window struct {
	t    *testing.T
	ws   *websocket.Conn
	done chan struct{}

	mu     sync.Mutex
	seen   []packet
	closed bool
	// handshake is Engine.IO's open packet.
	handshake string
	bell      chan struct{}
	acks      int
}

// dial opens a connection and sends CONNECT with the auth payload given.
func (s *site) dial(t *testing.T, auth string) *window {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, strings.Replace(s.url, "http", "ws", 1)+"/socket.io/?EIO=4&transport=websocket", &websocket.DialOptions{HTTPClient: s.client})
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(64 << 20)
	w := &window{t: t, ws: ws, done: make(chan struct{}), bell: make(chan struct{}, 1)}
	go w.read()
	t.Cleanup(w.close)
	w.write("40" + auth)
	return w
}

// open connects as somebody and waits for the announcement.
func (s *site) open(t *testing.T, who string) *window {
	t.Helper()
	w := s.dial(t, `{"token":"`+who+`"}`)
	w.until("protocol:hello", isEvent("protocol:hello"))
	return w
}

func (w *window) close() {
	_ = w.ws.CloseNow()
	<-w.done
}

func (w *window) write(s string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.ws.Write(ctx, websocket.MessageText, []byte(s)); err != nil {
		w.t.Errorf("the connection is gone: %v", err)
	}
}

func (w *window) read() {
	defer close(w.done)
	for {
		_, b, err := w.ws.Read(context.Background())
		w.mu.Lock()
		if err != nil {
			w.closed = true
		} else if string(b) == "2" {
			go func() { _ = w.ws.Write(context.Background(), websocket.MessageText, []byte("3")) }()
		} else if len(b) > 1 && b[0] == '0' {
			w.handshake = string(b[1:])
		} else if len(b) > 1 && b[0] == '4' {
			w.seen = append(w.seen, decode(b[1:]))
		}
		w.mu.Unlock()
		select {
		case w.bell <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func decode(b []byte) packet {
	kind, rest := b[0], b[1:]
	n := 0
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	id, _ := strconv.Atoi(string(rest[:n]))
	body := jsontext.Value(append([]byte(nil), rest[n:]...))
	switch kind {
	case '0':
		return packet{kind: "connect", data: body}
	case '1':
		return packet{kind: "disconnect"}
	case '4':
		return packet{kind: "connect_error", data: body}
	}
	var list []jsontext.Value
	_ = json.Unmarshal(body, &list)
	if kind == '3' {
		p := packet{kind: "ack", id: id}
		if len(list) > 0 {
			p.data = list[0]
		}
		return p
	}
	p := packet{kind: "event"}
	if len(list) > 0 {
		_ = json.Unmarshal(list[0], &p.name)
	}
	if len(list) > 1 {
		p.data = list[1]
	}
	return p
}

// until waits for a packet that ok accepts and returns all before it and it.
func (w *window) until(what string, ok func(packet) bool) []packet {
	w.t.Helper()
	return w.after(0, what, ok)
}

// after is until, for what came behind the first from packets.
func (w *window) after(from int, what string, ok func(packet) bool) []packet {
	w.t.Helper()
	deadline := time.After(patience)
	for n := from; ; {
		w.mu.Lock()
		for ; n < len(w.seen); n++ {
			if ok(w.seen[n]) {
				out := w.seen[from : n+1 : n+1]
				w.mu.Unlock()
				return out
			}
		}
		closed := w.closed
		w.mu.Unlock()
		if closed {
			w.t.Fatalf("the connection was closed before %s", what)
		}
		select {
		case <-w.bell:
		case <-deadline:
			w.t.Fatalf("%s did not come; %d packets", what, n)
		}
	}
}

// gone waits for the end of the connection and returns what came before.
func (w *window) gone(what string) []packet {
	w.t.Helper()
	select {
	case <-w.done:
	case <-time.After(patience):
		w.t.Fatalf("%s: the connection lives", what)
	}
	return w.all()
}

func (w *window) all() []packet {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]packet(nil), w.seen...)
}

func (w *window) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

// emit sends a command without asking for an acknowledgement.
func (w *window) emit(name, payload string) { w.write(`42["` + name + `",` + payload + `]`) }

// ask sends a command with an acknowledgement and returns its id.
func (w *window) ask(name, payload string) int {
	w.acks++
	w.write(`42` + strconv.Itoa(w.acks) + `["` + name + `",` + payload + `]`)
	return w.acks
}

// call sends a command and waits for its acknowledgement.
func (w *window) call(name, payload string) result {
	w.t.Helper()
	id := w.ask(name, payload)
	list := w.until("the acknowledgement of "+name, isAck(id))
	var r result
	if err := json.Unmarshal(list[len(list)-1].data, &r); err != nil {
		w.t.Fatalf("%s was answered %s: %v", name, list[len(list)-1].data, err)
	}
	r.raw = list[len(list)-1].data
	return r
}

// result is a command's acknowledgement.
type result struct {
	OK    bool   `json:"ok"`
	RunID string `json:"runId"`
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Code             string         `json:"code"`
	Messages         []told         `json:"messages"`
	Replay           *replay        `json:"replay"`
	PendingInterrupt *pending       `json:"pendingInterrupt"`
	Todos            jsontext.Value `json:"todos"`
	Task             jsontext.Value `json:"task"`
	raw              jsontext.Value
}

type told struct {
	ID          string           `json:"id"`
	Role        string           `json:"role"`
	Content     string           `json:"content"`
	Attachments []jsontext.Value `json:"attachments"`
	ToolCalls   []struct {
		ID     string  `json:"id"`
		Name   string  `json:"name"`
		Result *string `json:"result"`
	} `json:"toolCalls"`
}

type replay struct {
	Envelopes []jsontext.Value `json:"envelopes"`
	Truncated bool             `json:"truncated"`
}

type pending struct {
	InterruptID string         `json:"interruptId"`
	Payload     jsontext.Value `json:"payload"`
	RunID       string         `json:"runId"`
}

// envelope is a run:event.
type envelope struct {
	ThreadID string `json:"threadId"`
	RunID    string `json:"runId"`
	Sequence int    `json:"sequence"`
	Event    struct {
		Type          string         `json:"type"`
		Message       *told          `json:"message"`
		MessageID     string         `json:"messageId"`
		Delta         string         `json:"delta"`
		Content       string         `json:"content"`
		Code          string         `json:"code"`
		ToolCallID    string         `json:"toolCallId"`
		InterruptID   string         `json:"interruptId"`
		Payload       jsontext.Value `json:"payload"`
		Status        string         `json:"status"`
		Detached      bool           `json:"detached"`
		TaskID        string         `json:"taskId"`
		ChildThreadID string         `json:"childThreadId"`
	} `json:"event"`
	raw jsontext.Value
}

func envelopeOf(v jsontext.Value) (e envelope) {
	_ = json.Unmarshal(v, &e)
	e.raw = v
	return e
}

func isEvent(name string) func(packet) bool {
	return func(p packet) bool { return p.kind == "event" && p.name == name }
}

func isAck(id int) func(packet) bool {
	return func(p packet) bool { return p.kind == "ack" && p.id == id }
}

// shows accepts an envelope of the type.
func shows(event string) func(packet) bool {
	return func(p packet) bool { return isEvent("run:event")(p) && envelopeOf(p.data).Event.Type == event }
}

// of accepts an envelope of the run and type.
func of(run, event string) func(packet) bool {
	return func(p packet) bool { return shows(event)(p) && envelopeOf(p.data).RunID == run }
}

// envelopesOf are the envelopes among packets, of one run or ("") of all.
func envelopesOf(list []packet, run string) (out []envelope) {
	for _, p := range list {
		if e := envelopeOf(p.data); isEvent("run:event")(p) && (run == "" || e.RunID == run) {
			out = append(out, e)
		}
	}
	return out
}

func quote(s string) string {
	b, _ := jsontext.AppendQuote(nil, s)
	return string(b)
}

// post sends a request to an HTTP route and returns its status and body.
func (s *site) request(t *testing.T, method, path, who, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if who != "" {
		req.Header.Set("Authorization", "Bearer "+who)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	if _, err := copyTo(&b, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp, b.String()
}

// start begins a run and returns its id.
func (w *window) start(thread, message, input string) string {
	w.t.Helper()
	r := w.call("run:start", `{"threadId":`+quote(thread)+`,"messageId":`+quote(message)+`,"input":`+quote(input)+`}`)
	if !r.OK || r.RunID == "" {
		w.t.Fatalf("run:start %s: %s", message, r.raw)
	}
	return r.RunID
}

// finish begins a run and waits for its end.
func (w *window) finish(thread, message, input string) []packet {
	w.t.Helper()
	run := w.start(thread, message, input)
	return w.until("RUN_FINISHED", of(run, "RUN_FINISHED"))
}

func (w *window) history(thread string) result {
	w.t.Helper()
	r := w.call("thread:messages", `{"threadId":`+quote(thread)+`}`)
	if !r.OK {
		w.t.Fatalf("thread:messages: %s", r.raw)
	}
	return r
}

// refuses wants a command to be refused with a code.
func (w *window) refuses(name, command, payload, code string) result {
	w.t.Helper()
	r := w.call(command, payload)
	if r.OK || r.Error.Code != code || r.Code != code || r.Error.Message == "" {
		w.t.Errorf("%s: %s was answered %s, want %s", name, command, r.raw, code)
	}
	return r
}

func ids(list []told) string {
	var s []string
	for _, m := range list {
		s = append(s, m.Role[:1]+":"+m.ID)
	}
	return strings.Join(s, " ")
}

func (w *window) binary(b []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return w.ws.Write(ctx, websocket.MessageBinary, b)
}
