package pingerchips_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/pingerchips"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// frame is what a window was sent: a push, or the reply to its own ref.
type frame struct {
	ref     int // 0 for a push
	ok      bool
	event   string
	payload jsontext.Value
}

// window is a client on one topic, where the wire would be.
type window struct {
	t      testing.TB
	site   *site
	socket *pingerchips.Socket
	member *pingerchips.Member
	topic  string

	mu     sync.Mutex
	seen   []frame
	refs   int
	closed string // "phx_error", "phx_close"
	bell   chan struct{}
}

func topicOf(thread string) string { return "chat:v1:app:pk_live_x:thread:" + thread }

func (s *site) socket() *pingerchips.Socket {
	return s.server.Open(&dialect.Visit{Site: s.admits, Creds: identity.Credentials{RemoteIP: "192.0.2.1"}})
}

// attempt tries a join; reason is why it was refused.
func (s *site) attempt(k *pingerchips.Socket, topic, payload string) (w *window, reply jsontext.Value, reason string) {
	s.t.Helper()
	w = &window{t: s.t, site: s, socket: k, topic: topic, bell: make(chan struct{}, 1)}
	m, response, err := k.Join(s.t.Context(), topic, []byte(payload), w)
	if err != nil {
		var r pingerchips.Reason
		if !errors.As(err, &r) {
			s.t.Fatalf("a join was refused with %v", err)
		}
		return nil, nil, string(r)
	}
	w.member = m
	w.add(frame{ref: -1, ok: true, event: "phx_reply", payload: response})
	m.Begin()
	s.t.Cleanup(m.Leave)
	return w, response, ""
}

// join joins a thread as a client with a token of its own; more is added to the
// payload.
func (s *site) join(thread, client string, more ...string) *window {
	s.t.Helper()
	return s.joinAs(thread, s.token(client), more...)
}

func (s *site) joinAs(thread, token string, more ...string) *window {
	s.t.Helper()
	w, _, reason := s.attempt(s.socket(), topicOf(thread), `{"auth":`+quote(token)+strings.Join(append([]string{""}, more...), ",")+`}`)
	if reason != "" {
		s.t.Fatalf("the join was refused: %s", reason)
	}
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

func (w *window) Send(p *pingerchips.Push, _ bool) error {
	w.add(frame{event: p.Event, payload: jsontext.Value(p.Payload).Clone()})
	return nil
}

func (w *window) Fail()  { w.end("phx_error") }
func (w *window) Close() { w.end("phx_close") }

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
	w.mu.Lock()
	w.refs++
	ref := w.refs
	w.mu.Unlock()
	w.member.Push(event, []byte(payload), func(ok bool, response []byte) {
		w.add(frame{ref: ref, ok: ok, event: "phx_reply", payload: jsontext.Value(response).Clone()})
	})
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
	return list[len(list)-1]
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

func read(t testing.TB, f frame) response {
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
