package smooth

import (
	"context"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
)

// card is a question as this protocol asks it: a confirmation, or an
// interaction of a kind. A question that it cannot ask of this client has an
// answer of its own instead.
type card struct {
	question *chat.Interrupt
	confirm  bool
	otp      bool
	text     string // of a confirmation
	kind     *kind
	spec     jsontext.Value
	reason   string
	// raised says that the agent called the tool of the kind: the answer is the
	// call's result. Else it is the answer to a question of the agent's.
	raised bool
	// auto is given at once where the client cannot be asked; nil declines.
	unasked bool
	auto    jsontext.Value
}

// defaultReason is why a card is shown where the agent does not say.
const defaultReason = "to help you better"

// card says how a question is asked of a client with these capabilities.
func (c *Config) card(run *chat.Run, i *chat.Interrupt, supports []string) card {
	k := card{question: i}
	if WantsCode(i) {
		k.otp = true
		return k
	}
	switch i.Kind {
	case chat.InterruptApproval:
		k.confirm = true
		k.text = describe(i, "Allow '"+first(i.Tool, "this action")+"' to run?")
	case chat.InterruptClientTool:
		c.raise(&k, run, supports)
	case chat.InterruptQuestion:
		c.asked(&k, supports)
	default:
		k.unasked = true
	}
	return k
}

// raise is a call of a card's tool.
func (c *Config) raise(k *card, run *chat.Run, supports []string) {
	name, ok := strings.CutPrefix(k.question.Tool, raisePrefix)
	kind := c.kind(name)
	if !ok || kind == nil {
		k.unasked = true
		return
	}
	k.raised, k.kind = true, kind
	args := jsontext.Value("{}")
	if p := run.Part(k.question.Call); p != nil && jsontext.Value(p.Text).IsValid() {
		args = jsontext.Value(p.Text)
	}
	var err error
	if k.spec, err = kind.spec(args); err != nil {
		text := err.Error()
		if e, ok := errors.AsType[*Error](err); ok {
			text = e.Message
		}
		k.unasked, k.auto = true, quoted(nil, "Error: "+text)
		return
	}
	k.reason = first(entry(args).text("reason", maxText), defaultReason)
	if !contains(supports, kind.capability) {
		// The agent's model asks in words instead (SMO-176).
		b := quoted([]byte(`{"mode":"conversational","kind":`), kind.name)
		b = member(raw(b, "spec", k.spec), "reason", k.reason)
		b = member(b, "instructions", "The user's client cannot show this card. Ask for the same in plain words, one thing at a time, and go on with the answers.")
		k.unasked, k.auto = true, append(b, '}')
	}
}

// asked is a question of the agent's own: of a kind that it names, with a
// schema, or a plain one, which yes or no must do for.
func (c *Config) asked(k *card, supports []string) {
	o := entry(k.question.Payload)
	meta := entry(o.members["metadata"])
	name := first(meta.text("kind", maxName), o.text("kind", maxName))
	spec := meta.members["spec"]
	if spec.Kind() != '{' {
		spec = o.members["spec"]
	}
	k.reason = first(o.text("message", maxText), defaultReason)
	switch kind := c.kind(name); {
	case kind != nil && spec.Kind() == '{':
		k.kind = kind
		var err error
		args := spec
		if kind.name != intake.name && kind.name != choices.name {
			args = append(append(jsontext.Value(`{"spec":`), spec...), '}')
		}
		if k.spec, err = kind.spec(args); err != nil {
			k.unasked = true
			return
		}
	case len(k.question.Schema) > 0:
		k.kind = form(k.question.Schema)
		b := raw(quoted([]byte(`{"message":`), k.reason), "schema", k.question.Schema)
		k.spec = append(b, '}')
	case o.text("reason", maxName) == "input_required":
		k.unasked = true
		return
	default:
		k.confirm, k.text = true, describe(k.question, "Continue?")
		return
	}
	k.unasked = !contains(supports, k.kind.capability)
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// describe is what a confirmation is about, in the agent's words if it has any.
func describe(i *chat.Interrupt, otherwise string) string {
	if i.Payload.Kind() == '{' {
		if s := entry(i.Payload).text("message", maxText); s != "" {
			return s
		}
	}
	return otherwise
}

// frame is the event that shows the card.
func (k card) frame(request string, at int64) []byte {
	if k.confirm {
		b := quoted([]byte(`{"toolId":`), first(k.question.Tool, "action"))
		return nested(eventConfirm, request, append(member(b, "actionDescription", k.text), '}'), at)
	}
	b := quoted([]byte(`{"interactionId":`), k.question.ID)
	b = raw(member(b, "kind", k.kind.name), "spec", k.spec)
	return nested(eventInteraction, request, append(member(b, "reason", k.reason), '}'), at)
}

// Unasked is how a question of a run is settled that the client of its turn cannot
// be asked, or need not be, and with which answer; "" is one that waits for it. The
// run's owner settles it, whether or not a connection shows the turn.
func (c *Config) Unasked(run *chat.Run, i *chat.Interrupt) (chat.InterruptStatus, jsontext.Value) {
	k := c.card(run, i, run.Origin.Supports)
	switch {
	case k.otp:
		return c.codeless(run)
	case !k.unasked:
		return "", nil
	case k.auto == nil:
		return chat.InterruptDeclined, nil
	}
	return chat.InterruptAnswered, k.auto
}

// park shows the first question that is open, or answers what the client that took
// the turn up cannot be asked. Holds conn.mu.
func (t *turn) park(run *chat.Run) {
	i, cfg := run.Open(), t.conn.config()
	if i == nil || cfg == nil || t.asked == i.ID || i.Unasked != "" {
		return
	}
	t.asked = i.ID
	k := cfg.card(run, i, t.supports)
	if c := t.conn; k.confirm && !k.unasked && !t.mirror {
		c.server.spawn(func(ctx context.Context) { c.server.report("park", c.notePark(ctx, t, cfg.parkLife())) })
	}
	if k.otp {
		if c := t.conn; !t.mirror {
			c.server.spawn(func(ctx context.Context) {
				if err := t.askCode(ctx, cfg, i); err != nil && !errors.Is(err, chat.ErrNotWaiting) {
					c.server.report("code", err)
				}
			})
		}
		return
	}
	if !k.unasked {
		t.conn.out.send(k.frame(t.request, t.conn.server.now()))
		return
	}
	if t.mirror {
		return // whoever began the run is asked
	}
	a := dialect.Answer{Thread: t.thread, Interrupt: i.ID, Value: k.auto}
	if k.auto == nil {
		a.Status = chat.InterruptDeclined
	}
	c := t.conn
	c.server.spawn(func(ctx context.Context) {
		if _, err := c.server.o.Desk.Answer(ctx, c.who, a); err != nil && !errors.Is(err, chat.ErrNotWaiting) {
			c.server.report("fallback", err)
		}
	})
}

// waiting finds the question that a session's person is to answer: of the
// connection's own turn, of the turn that the session began, or of one that it
// watches and names by its request.
func (c *conn) waiting(st *chat.State, s *session, request string) (*chat.Run, *chat.Interrupt) {
	c.mu.Lock()
	own, watched := "", make(map[string]string)
	if c.turn != nil && c.turn.thread == s.Thread {
		own = c.turn.run
	}
	for run, m := range c.mirrors {
		if m.thread == s.Thread {
			watched[run] = m.request
		}
	}
	c.mu.Unlock()
	var found *chat.Run
	for _, r := range st.Runs {
		if r.Status != chat.RunSuspended || r.Stop != nil || r.Open() == nil {
			continue
		}
		switch session, _ := strings.CutSuffix(r.Origin.Session, quiet); {
		case watched[r.ID] != "" && watched[r.ID] == request:
			return r, r.Open()
		case r.Origin.Dialect != Name:
		case r.ID == own:
			return r, r.Open()
		case session == s.ID:
			found = r
		}
	}
	if found == nil {
		return nil, nil
	}
	return found, found.Open()
}

// parked is a session with its conversation, held.
func (c *conn) parked(ctx context.Context, id string) (*session, *view, error) {
	s, err := c.session(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	v, err := c.view(ctx, s.Thread)
	return s, v, err
}

// none words what is not there as nothing that waits.
func none(err error, nothing *Error) error {
	if errors.Is(err, errNoSession) || errors.Is(err, chat.ErrNoThread) || errors.Is(err, chat.ErrNotWaiting) || errors.Is(err, chat.ErrUnknownRun) {
		return nothing
	}
	return err
}

// submit answers a card (SMO-178 to SMO-187).
func (c *conn) submit(ctx context.Context, o *object, request string) error {
	o.required("requestId", maxText)
	id, interaction := o.session(), o.required("interactionId", maxText)
	name := o.text("kind", maxName)
	declined, _ := o.boolean("declined", false)
	var values jsontext.Value
	if !declined {
		values = o.object("values", maxValues)
	}
	if o.err != nil {
		return o.err
	}
	s, v, err := c.parked(ctx, id)
	if err != nil {
		return none(err, errNoInteraction)
	}
	defer v.done()
	run, i := c.waiting(v.seat.State(), s, request)
	cfg := c.config()
	if i == nil || cfg == nil {
		return errNoInteraction
	}
	k := cfg.card(run, i, nil)
	switch {
	case k.kind == nil:
		return errNoInteraction
	case i.ID != interaction:
		return &Error{CodeMismatch, "This is not the interaction that the session waits for."}
	case name != "" && name != k.kind.name:
		return &Error{CodeMismatch, "The session waits for an interaction of another kind."}
	case !declined && values == nil:
		return invalid("'values' is required unless 'declined' is true")
	}
	a := dialect.Answer{Thread: s.Thread, Interrupt: i.ID}
	if declined {
		return c.decline(ctx, a, s, k, request)
	}
	canonical, errs := k.kind.values(k.spec, values)
	if len(errs) > 0 {
		c.out.send(needsAttention(request, k, errs, c.server.now()))
		return nil
	}
	if a.Value = canonical; k.raised {
		a.Value = outcome("submitted", canonical, "")
	}
	if _, err := c.server.o.Desk.Answer(ctx, c.who, a); err != nil {
		return none(err, errNoInteraction)
	}
	if k.kind.name == intake.name {
		c.introduce(ctx, s, canonical)
	}
	b := member(quoted([]byte(`{"sessionId":`), s.ID), "interactionId", i.ID)
	b = raw(member(b, "kind", k.kind.name), "values", canonical)
	c.out.send(immediate(request, 200, "Interaction submitted", append(b, '}'), c.server.now()))
	return nil
}

func (c *conn) decline(ctx context.Context, a dialect.Answer, s *session, k card, request string) error {
	if a.Status = chat.InterruptDeclined; k.raised {
		a.Status, a.Value = chat.InterruptAnswered, outcome("declined", nil, "The user declined to answer.")
	}
	if _, err := c.server.o.Desk.Answer(ctx, c.who, a); err != nil {
		return none(err, errNoInteraction)
	}
	b := member(quoted([]byte(`{"sessionId":`), s.ID), "interactionId", a.Interrupt)
	c.out.send(immediate(request, 200, "Interaction declined", append(b, `,"declined":true}`...), c.server.now()))
	return nil
}

// introduce keeps who the person said to be with the session (SMO-190).
func (c *conn) introduce(ctx context.Context, s *session, values jsontext.Value) {
	o := entry(values)
	err := c.change(ctx, s.ID, func(s *session) {
		before := [2]string{first(s.Email, s.UserEmail), s.Phone}
		s.UserName = first(o.text("name", maxName), s.UserName)
		s.Email = first(o.text("email", maxName), s.Email)
		s.Phone = first(o.text("phone", maxName), s.Phone)
		if before != [2]string{first(s.Email, s.UserEmail), s.Phone} {
			s.Verified = false // that was at another address
		}
	})
	c.server.report("introduce", err)
}

// needsAttention is an interaction_invalid; the turn stays parked (SMO-182).
func needsAttention(request string, k card, errs []fieldError, at int64) []byte {
	b := member(quoted([]byte(`{"interactionId":`), k.question.ID), "kind", k.kind.name)
	b = append(b, `,"errors":[`...)
	for n, e := range errs {
		if n > 0 {
			b = append(b, ',')
		}
		b = append(member(quoted(append(b, `{"field":`...), e.field), "message", e.message), '}')
	}
	b = member(append(b, ']'), "message", "Some fields need attention.")
	return nested(eventInvalid, request, append(b, '}'), at)
}
