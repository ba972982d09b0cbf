package smooth

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
)

// confirm answers a write approval (SMO-151 to SMO-157). A session has one turn
// that waits, so a requestId that is no turn's is taken too (SMO-153).
func (c *conn) confirm(ctx context.Context, o *object, request string) error {
	id := o.session()
	yes, given := o.boolean("approved", false)
	if o.err == nil && !given {
		o.fail("'approved' must be true or false")
	}
	if o.err != nil {
		return o.err
	}
	s, v, err := c.parked(ctx, id)
	if err != nil {
		return none(err, errNoConfirmation)
	}
	defer v.done()
	run, i := c.waiting(v.seat.State(), s, request)
	cfg := c.config()
	if i == nil || cfg == nil || !cfg.card(run, i, nil).confirm || c.ofAnother(v.seat.State(), run, request) {
		return errNoConfirmation
	}
	_, err = c.server.o.Desk.Answer(ctx, c.who, dialect.Answer{
		Thread: s.Thread, Interrupt: i.ID, Value: jsontext.Value(boolean(yes)), Tools: c.toolsFor(cfg, run),
	})
	if err != nil {
		return none(err, errNoConfirmation)
	}
	message := "Tool action rejected"
	if yes {
		message = "Tool action approved"
	}
	b := append(quoted([]byte(`{"sessionId":`), s.ID), `,"approved":`...)
	c.out.send(immediate(request, 200, message, append(append(b, boolean(yes)...), '}'), c.server.now()))
	return nil
}

// ofAnother says that a requestId is that of another live turn than run: one of
// the conversation, or one that a connection of the same person shows. What was
// meant for that one approves nothing here.
func (c *conn) ofAnother(st *chat.State, run *chat.Run, request string) bool {
	if request == "" || request == run.Origin.Request {
		return false
	}
	for _, r := range st.Runs {
		if r.ID != run.ID && r.Origin.Dialect == "smooth" && r.Origin.Request == request {
			return true
		}
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.turns {
		if t.run != run.ID && t.request == request && t.conn.client == c.client {
			return true
		}
	}
	return false
}
