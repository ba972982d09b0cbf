package smooth

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// turn is a run as one connection shows it. All of it is guarded by conn.mu,
// but for what never changes.
type turn struct {
	conn          *conn
	request       string
	run, thread   string
	session       string
	stream        bool
	mirror        bool // a run of somebody else's, which takes no slot
	supports      []string
	done          chan struct{} // closed when it is not shown any more
	over          bool
	wanted        bool              // the agent said that it needs a code
	sending       int               // codes that are being sent
	last          func()            // the turn's end, which waits for them
	awaited       bool              // the record by which it was taken up is yet to come
	calls         []heldCall        // frames of calls that wait for a card
	denied        map[string]string // calls that were denied, by id: their names
	asked         string            // the question whose card was shown last
	begun         bool              // a token was sent
	waits         bool              // for its person
	beat, release *time.Timer
}

// heldCall is the frame of a call that is not sent yet.
type heldCall struct {
	id    string
	frame []byte
}

// quiet marks the origin of a turn that wants no streaming frames (SMO-090).
const quiet = "/quiet"

// origin is the name that the run keeps of its session.
func (t *turn) origin() string {
	if t.stream {
		return t.session
	}
	return t.session + quiet
}

// know makes the turn known to other connections of this edge, one of which may
// take it over.
func (s *Server) know(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns[t.run] = t
}

func (s *Server) forget(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turns[t.run] == t {
		delete(s.turns, t.run)
	}
}

// startTimers begins the keepalives. Holds conn.mu.
func (t *turn) startTimers(cfg *Config) {
	every := cfg.keepalive()
	if every == 0 || t.mirror {
		return
	}
	t.beat = time.AfterFunc(every, func() {
		t.conn.mu.Lock()
		defer t.conn.mu.Unlock()
		if !t.over && t.conn.turn == t {
			t.conn.out.send(keepalive(t.request, t.conn.server.now()))
			t.beat.Reset(every)
		}
	})
}

// stopTimers ends what the turn would still do by itself. Holds conn.mu.
func (t *turn) stopTimers() {
	if !t.over {
		t.over = true
		close(t.done)
	}
	if t.beat != nil {
		t.beat.Stop()
	}
	if t.release != nil {
		t.release.Stop()
	}
}

// show sends what a record is to the client. Holds conn.mu.
func (t *turn) show(e *Encoded) {
	if t.over {
		return
	}
	at := e.rec.At
	t.waits = e.run.Status == chat.RunSuspended
	switch b := e.rec.Body.(type) {
	case *chat.DeltaBody:
		t.delta(e, b)
	case *chat.ToolEndBody:
		t.toolCall(e.run, b.Call, at)
	case *chat.ToolResultBody:
		t.flush()
		t.toolResult(e.run, b.Call, b.Content, at)
	case *chat.TodosBody:
		if v, err := json.Marshal(b.Todos); err == nil {
			t.chunk("todos", append(append([]byte(`{"structuredResponse":{"todos":`), v...), '}', '}'), at)
		}
	case *chat.StepBody:
		if b.Done {
			t.chunk(b.Name, []byte("{}"), at)
		}
	case *chat.CustomBody:
		t.custom(b, at)
	case *chat.RunSuspendedBody:
		t.park(e.run)
		t.flush()
	case *chat.AnswerBody:
		t.answered(e.run, b, at)
		if e.run.Status == chat.RunSuspended && e.run.Stop == nil && e.run.Open() != nil {
			t.park(e.run) // one card at a time
		}
	case *chat.RunEndBody:
		t.end(e.run, b, at)
	}
}

func (t *turn) custom(b *chat.CustomBody, at int64) {
	if b.Name == kindOTP {
		t.wantCode(b.Value)
		return
	}
	if b.Name != "preamble" || t.begun || !t.stream {
		return
	}
	if s, ok := unquote(b.Value); ok && s != "" {
		t.conn.out.token(eventPreamble, t, s, at)
	}
}

func (t *turn) delta(e *Encoded, b *chat.DeltaBody) {
	if b.Text == "" || e.rec.Kind == chat.KindToolArgs {
		return
	}
	t.flush()
	t.settleDenied(e.rec.At)
	if !t.stream {
		return
	}
	kind := eventReasoning
	if e.rec.Kind == chat.KindTextDelta {
		kind, t.begun = eventToken, true
	}
	t.conn.out.token(kind, t, b.Text, e.rec.At)
}

func (t *turn) chunk(node string, state []byte, at int64) {
	if t.stream && node != "" {
		t.conn.out.send(chunk(t.request, node, state, at))
	}
}

// toolCall makes the frame of a call and holds it for a moment: if its agent
// asks for the person next, the card goes first (SMO-155, SMO-186).
func (t *turn) toolCall(run *chat.Run, id string, at int64) {
	p := run.Part(id)
	if p == nil || !t.stream {
		return
	}
	b := quoted([]byte(`{"rawResponse":{"toolCall":{"name":`), p.Name)
	if args := jsontext.Value(p.Text); args.IsValid() {
		b = raw(b, "arguments", args)
	} else if len(p.Text) == 0 {
		b = append(b, `,"arguments":{}`...)
	} else {
		b = member(b, "arguments", p.Text)
	}
	t.calls = append(t.calls, heldCall{id, chunk(t.request, p.Name, append(b, '}', '}', '}'), at)})
	if raises(run, p.Name) {
		return // the card comes for certain
	}
	if t.release == nil {
		t.release = time.AfterFunc(CallHold, func() {
			t.conn.mu.Lock()
			defer t.conn.mu.Unlock()
			if !t.over {
				t.flush()
			}
		})
		return
	}
	t.release.Reset(CallHold)
}

// raises says that a call of the name is a card's.
func raises(run *chat.Run, name string) bool {
	return slices.ContainsFunc(run.Tools, func(t chat.ClientTool) bool { return t.Name == name })
}

// flush sends the frames of calls that were held.
func (t *turn) flush() {
	for _, c := range t.calls {
		t.conn.out.send(c.frame)
	}
	t.calls = nil
	if t.release != nil {
		t.release.Stop()
	}
}

func (t *turn) toolResult(run *chat.Run, call, content string, at int64) {
	name := ""
	if p := run.Part(call); p != nil {
		name = p.Name
	}
	_, failed := t.denied[call]
	delete(t.denied, call)
	failed = failed || strings.HasPrefix(content, "Error:") || strings.HasPrefix(content, deniedText)
	t.result(name, content, failed, at)
}

func (t *turn) result(name, content string, failed bool, at int64) {
	b := quoted([]byte(`{"rawResponse":{"toolResult":{"name":`), name)
	b = append(b, `,"isError":`...)
	b = append(b, boolean(failed)...)
	t.chunk(name, append(member(b, "result", content), '}', '}', '}'), at)
}

func boolean(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// deniedText begins the result of a call that its person refused.
const deniedText = "Denied by human:"

// answered notes which calls were denied: they have a result that says so, the
// agent's own or ours (SMO-156). Who needed no code is told so (SMO-209).
func (t *turn) answered(run *chat.Run, b *chat.AnswerBody, at int64) {
	for _, i := range run.Interrupts {
		switch {
		case i.ID != b.Interrupt:
		case refused(i):
			t.deny(i)
		case i.Unasked == chat.InterruptAnswered && WantsCode(i) && !t.mirror:
			t.conn.out.send(verifiedFrame(t.request, at))
		}
	}
}

// refused says that a question was for an approval of a call, and is settled
// without one.
func refused(i *chat.Interrupt) bool {
	return i.Kind == chat.InterruptApproval && i.Call != "" && i.Status != chat.InterruptOpen && !i.Approved()
}

func (t *turn) deny(i *chat.Interrupt) {
	if t.denied == nil {
		t.denied = make(map[string]string)
	}
	t.denied[i.Call] = i.Tool
}

// settleDenied tells of denied calls whose agent says nothing of a result.
func (t *turn) settleDenied(at int64) {
	for call, name := range t.denied {
		delete(t.denied, call)
		t.result(name, deniedText+" user rejected the action", true, at)
	}
}

// end frees the slot, and only then sends the terminal frame (SMO-022, SMO-167).
func (t *turn) end(run *chat.Run, b *chat.RunEndBody, at int64) {
	c := t.conn
	if t.sending > 0 && b.Status == chat.RunComplete {
		t.last = func() { t.sending, t.last = 0, nil; t.end(run, b, at) }
		return
	}
	stopped := b.Status == chat.RunCancelled && b.Cause != chat.CauseTimeout
	if !stopped {
		t.flush()
		t.settleDenied(at)
	}
	t.stopTimers()
	if c.turn == t {
		c.turn = nil
	}
	delete(c.mirrors, t.run)
	c.server.forget(t)
	switch {
	case stopped:
		c.out.send(cancelled(t.request, at))
	case b.Status == chat.RunComplete:
		c.out.send(t.eventual(run, b, at))
	default:
		e := &Error{CodeAgent, b.Text}
		if b.Code == chat.CodeAgentUnavailable {
			e.Code = CodeUnavailable
		}
		if e.Message == "" {
			e.Message = "The agent failed."
		}
		c.out.send(failure(t.request, e, at))
	}
}
