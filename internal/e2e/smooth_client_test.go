package e2e

import (
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

// card is a frame of the smooth-operator server, decoded.
type card map[string]any

// at is the member at a dotted path, or nil.
func (f card) at(path string) any {
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

func (f card) text(path string) string {
	s, _ := f.at(path).(string)
	return s
}

func (f card) kind() string { return f.text("type") }

func (f card) String() string {
	b, _ := json.Marshal(map[string]any(f))
	return string(b)
}

// operator is a client of the dialect. It keeps the frames in the order in which
// they came; each is checked against the schemas, the published messages and the
// grammar of turns.
type operator struct {
	t      testing.TB
	ws     *websocket.Conn
	public *public // or nil
	done   chan struct{}

	mu     sync.Mutex
	action map[string]string // of a request
	sent   map[string][]byte // the last frame of a request
	turns  map[string]string // what a turn has come to: open, or its terminal
	seen   []card
	read   int // of seen: what next has returned
	beats  int // keepalives
	closed error
	bell   chan struct{}
}

// operate connects to an edge.
func operate(t testing.TB, base string, p *public) *operator {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, strings.Replace(base, "http", "ws", 1)+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(64 << 20)
	o := &operator{
		t: t, ws: ws, public: p, done: make(chan struct{}), bell: make(chan struct{}, 1),
		action: map[string]string{}, sent: map[string][]byte{}, turns: map[string]string{},
	}
	go o.listen()
	t.Cleanup(o.hangUp)
	return o
}

// hangUp cuts the connection.
func (o *operator) hangUp() {
	_ = o.ws.CloseNow()
	<-o.done
}

func (o *operator) listen() {
	defer close(o.done)
	for {
		typ, b, err := o.ws.Read(context.Background())
		var f card
		if err == nil && (json.Unmarshal(b, &f) != nil || typ != websocket.MessageText || f.kind() == "") {
			o.t.Errorf("SMO-001 SMO-002 a frame is a JSON object with a type, as text: %s", b)
			f = card{"type": "no frame"}
		}
		o.mu.Lock()
		if err != nil {
			o.closed = err
		} else {
			if err := o.proper(f, b); err != nil {
				o.t.Errorf("%s: %v", b, err)
			}
			if f.kind() == "keepalive" { // nobody waits for one
				o.beats++
			} else {
				o.seen = append(o.seen, f)
			}
		}
		o.mu.Unlock()
		select {
		case o.bell <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// proper checks a frame. Holds o.mu.
func (o *operator) proper(f card, b []byte) error {
	if err := fits("event."+f.kind(), b); err != nil {
		return err
	}
	request := f.text("requestId")
	action := o.action[request]
	if o.public != nil {
		if err := like(o.public.events[f.kind()], f); err != nil {
			return err
		}
	}
	if f.kind() == "immediate_response" && replyTo[action] != "" {
		data, err := json.Marshal(f.at("data"))
		if err != nil {
			return err
		}
		if err := fits(replyTo[action], data); err != nil {
			return err
		}
		if m, ok := f.at("data").(map[string]any); ok && o.public != nil {
			if err := like(o.public.replies[action], m); err != nil {
				return err
			}
		}
	}
	if f.kind() != "error" && f.kind() != "interaction_invalid" && f.kind() != "otp_invalid" && o.sent[request] != nil {
		if err := fits("action."+action, o.sent[request]); err != nil && !lax(err) {
			return fmt.Errorf("what it was sent is not valid, and was taken: %w", err)
		}
	}
	return o.grammar(f, request)
}

// meet notes the actions and events of the connection, which is over or silent.
func (o *operator) meet(all map[string]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.action {
		all["action."+a] = true
	}
	if o.beats > 0 {
		all["event.keepalive"] = true
	}
	for _, f := range o.seen {
		all["event."+f.kind()] = true
	}
}

// lax says that a frame is invalid only in what a server passes over (SMO-012,
// SMO-094).
func lax(err error) bool {
	s := err.Error()
	return strings.Contains(s, "additional properties") || strings.Contains(s, "/images") || strings.Contains(s, "/files")
}

// stays are the errors that end no turn, although they may have its requestId
// (SMO-126).
var stays = map[string]bool{
	"TURN_IN_PROGRESS": true, "INTERACTION_MISMATCH": true, "NO_PENDING_CONFIRMATION": true, "NO_PENDING_INTERACTION": true,
	"OTP_SEND_FAILED": true, "VALIDATION_ERROR": true, "UNSUPPORTED_ACTION": true, "SESSION_NOT_FOUND": true,
}

// grammar holds a frame against what has come of its turn: nothing follows a
// terminal, and there is one (SMO-020, SMO-022). Holds o.mu.
func (o *operator) grammar(f card, request string) error {
	was := o.turns[request]
	switch kind := f.kind(); kind {
	case "immediate_response":
		if f.at("status") == 202.0 {
			o.turns[request] = "open"
		}
	case "eventual_response", "cancelled":
		if was != "" && was != "open" {
			return fmt.Errorf("SMO-020 a second terminal after %s", was)
		}
		o.turns[request] = kind
	case "error":
		if was == "open" && !stays[f.text("error.code")] {
			o.turns[request] = kind
		}
	case "pong", "interaction_invalid", "otp_invalid", "otp_verified":
	default:
		if was != "" && was != "open" {
			return fmt.Errorf("SMO-022 it follows %s", was)
		}
		o.turns[request] = "open" // one that was taken up here
	}
	return nil
}

// working says that a turn is open here.
func (o *operator) working() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.turns {
		if s == "open" {
			return true
		}
	}
	return false
}

// send sends a frame.
func (o *operator) send(frame map[string]any) {
	o.t.Helper()
	b, err := json.Marshal(frame)
	if err != nil {
		o.t.Fatal(err)
	}
	o.mu.Lock()
	if request, ok := frame["requestId"].(string); ok {
		o.action[request], _ = frame["action"].(string)
		o.sent[request] = b
	}
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := o.ws.Write(ctx, websocket.MessageText, b); err != nil {
		o.t.Errorf("the connection is gone: %v", err)
	}
}

// next is the next frame that was not looked at, or nil if the connection ended
// or none comes.
func (o *operator) next() card {
	deadline := time.After(patience)
	for {
		o.mu.Lock()
		if o.read < len(o.seen) {
			f := o.seen[o.read]
			o.read++
			o.mu.Unlock()
			return f
		}
		gone := o.closed
		o.mu.Unlock()
		if gone != nil {
			return nil
		}
		select {
		case <-o.bell:
		case <-deadline:
			return nil
		}
	}
}

// expect is the next frame that is no keepalive, which must be of the type.
func (o *operator) expect(kind string) card {
	o.t.Helper()
	for {
		f := o.next()
		switch {
		case f == nil:
			o.t.Fatalf("no %s came; the connection: %v", kind, o.why())
		case f.kind() == "keepalive":
			continue
		case f.kind() != kind:
			o.t.Fatalf("expected %s, got %s", kind, f)
		}
		return f
	}
}

// until reads up to a frame of the type, and returns what its tokens say.
func (o *operator) until(kind string) (f card, said string) {
	o.t.Helper()
	for {
		f = o.next()
		if f == nil {
			o.t.Fatalf("no %s came; the connection: %v", kind, o.why())
		}
		if f.kind() == kind {
			return f, said
		}
		if f.kind() == "error" {
			o.t.Fatalf("expected %s, got %s", kind, f)
		}
		said += f.text("token")
	}
}

func (o *operator) why() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}

// silent says that nothing has come that was not looked at: a ping is answered
// behind whatever was sent before it.
func (o *operator) silent() error {
	o.send(map[string]any{"action": "ping", "requestId": "silence"})
	for {
		switch f := o.next(); {
		case f == nil:
			return fmt.Errorf("no pong came; the connection: %w", o.why())
		case f.kind() == "pong":
			return nil
		case f.kind() != "keepalive":
			return fmt.Errorf("it came unasked: %s", f)
		}
	}
}

const anyAgent = "11111111-1111-4111-8111-111111111111"

// session opens a session, and returns its reply.
func (o *operator) session(more map[string]any) card {
	o.t.Helper()
	f := map[string]any{"action": "create_conversation_session", "requestId": "create", "agentId": anyAgent}
	for k, v := range more {
		f[k] = v
	}
	o.send(f)
	return o.expect("immediate_response")
}

// say sends a message, and expects that a turn begins.
func (o *operator) say(session, request, message string) {
	o.t.Helper()
	o.send(map[string]any{"action": "send_message", "requestId": request, "sessionId": session, "message": message})
	if f := o.expect("immediate_response"); f.at("status") != 202.0 || f.text("requestId") != request {
		o.t.Fatalf("no turn began: %s", f)
	}
}
