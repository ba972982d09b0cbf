package smooth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
)

// confirm answers a write approval (SMO-151 to SMO-157). A session has one turn
// that waits, so a requestId that is no turn's is taken too (SMO-153).
func (c *conn) confirm(ctx context.Context, o *object, request string) error {
	o.required("requestId", maxText)
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
	if i == nil || cfg == nil || !cfg.card(run, i, nil).confirm {
		return errNoConfirmation
	}
	switch another, err := c.ofAnother(ctx, v.seat.State(), run, request); {
	case err != nil:
		return err
	case another:
		return errNoConfirmation
	}
	_, err = c.server.o.Desk.Answer(ctx, c.who, dialect.Answer{
		Thread: s.Thread, Interrupt: i.ID, Value: jsontext.Value(boolean(yes)),
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
// the conversation, or one that a connection of the same person shows, on this
// edge or another. What was meant for that one approves nothing here.
func (c *conn) ofAnother(ctx context.Context, st *chat.State, run *chat.Run, request string) (bool, error) {
	if request == run.Origin.Request {
		return false, nil
	}
	for _, r := range st.Runs {
		if r.ID != run.ID && r.Origin.Dialect == Name && r.Origin.Request == request {
			return true, nil
		}
	}
	if c.server.showsAnother(c.client, run.ID, request) {
		return true, nil
	}
	p, err := c.parkOf(ctx, request)
	if err != nil || p.Run == "" || p.Run == run.ID {
		return false, err
	}
	v, err := c.view(ctx, p.Thread)
	if errors.Is(err, chat.ErrNoThread) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer v.done()
	r := v.seat.State().Run(p.Run)
	return r != nil && r.Status == chat.RunSuspended && r.Stop == nil && r.Origin.Request == request, nil
}

func (s *Server) showsAnother(client, run, request string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.turns {
		if t.run != run && t.request == request && t.conn.client == client {
			return true
		}
	}
	return false
}

// parkNote says, to all edges, whose card a requestId of a client's shows.
type parkNote struct {
	Thread string `json:"thread"`
	Run    string `json:"run"`
}

// parkID is injective in the client and the requestId, and of bounded length.
func (c *conn) parkID(request string) string {
	sum := sha256.Sum256([]byte(c.client + "\x00" + request))
	return hex.EncodeToString(sum[:])
}

// parkOf is the park that a requestId of this client's was noted for last.
func (c *conn) parkOf(ctx context.Context, request string) (p parkNote, err error) {
	n, err := c.server.o.Desk.Note(ctx, c.who, notePark, c.parkID(request))
	if errors.Is(err, chat.ErrNoThread) {
		return p, nil
	}
	if err == nil {
		err = json.Unmarshal(n.Data, &p)
	}
	return p, err
}

// notePark tells the other edges of a card that is shown here. It is written
// beside the card, which waits for no shelf; a person is slower.
func (c *conn) notePark(ctx context.Context, t *turn, life time.Duration) error {
	data, err := json.Marshal(parkNote{t.thread, t.run})
	if err != nil {
		return err
	}
	for range 8 {
		n, err := c.server.o.Desk.Note(ctx, c.who, notePark, c.parkID(t.request))
		if err != nil && !errors.Is(err, chat.ErrNoThread) {
			return err
		}
		if string(n.Data) == string(data) {
			return nil
		}
		n = dialect.Note{Kind: notePark, ID: c.parkID(t.request), Data: data, Version: n.Version}
		if ok, err := c.server.o.Desk.PutNote(ctx, c.who, n, life); ok || err != nil {
			return err
		}
	}
	return errors.New("smooth: a card changes too often")
}
