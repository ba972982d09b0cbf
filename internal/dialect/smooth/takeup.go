package smooth

import (
	"context"
	"slices"
	"strings"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// takeUp answers with reply, and then shows the live turn of a session that came
// back: its open card under the requestId that it had, and its frames from now
// on. The connection that showed it before gets nothing more (SMO-159). others
// takes up also what another session of the same person began.
func (c *conn) takeUp(ctx context.Context, s *session, others bool, reply []byte) error {
	supports, err := c.supports(ctx, s.Thread)
	if err != nil {
		return err
	}
	v, err := c.view(ctx, s.Thread)
	if err != nil {
		return err
	}
	defer v.done()
	st := v.seat.State()
	watch := slices.Contains(supports, capabilityWatch)
	run := mine(st, s, others, chat.Subject(c.who.Subject))
	live, _ := v.seat.Live()
	if run != nil {
		c.server.release(run.ID, c)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v.supports, v.watch = supports, v.watch || watch
	c.out.send(reply)
	if run != nil && c.turn == nil {
		session, silent := strings.CutSuffix(run.Origin.Session, quiet)
		t := &turn{
			conn: c, request: run.Origin.Request, run: run.ID, thread: s.Thread, session: session,
			stream: !silent, supports: supports, done: make(chan struct{}),
		}
		for _, e := range live {
			if e, ok := e.(*Encoded); ok && e.run.ID == run.ID {
				t.note(e)
			}
		}
		c.turn = t
		if cfg := c.config(); cfg != nil {
			t.startTimers(cfg)
		}
		if run.Status == chat.RunSuspended {
			t.park(run)
		}
		c.server.know(t)
	}
	if !v.watch {
		return nil
	}
	for _, r := range st.Runs {
		if r.Status != chat.RunSuspended || r.Stop != nil || c.turn != nil && c.turn.run == r.ID {
			continue
		}
		if t := c.shows(v, r); t != nil {
			t.park(r)
		}
	}
	return nil
}

// mine is the newest live turn of the conversation that the session's person
// began: by this session, or with others, for one that came back by its
// conversation, by another.
func mine(st *chat.State, s *session, others bool, by chat.Subject) *chat.Run {
	var other *chat.Run
	for _, r := range slices.Backward(st.Runs) {
		if r.Origin.Dialect != "smooth" || r.Origin.By != by || r.Stop != nil {
			continue
		}
		if id, _ := strings.CutSuffix(r.Origin.Session, quiet); id == s.ID {
			return r
		}
		if others && other == nil {
			other = r
		}
	}
	return other
}

// release takes a run from the connection of this edge that shows it.
func (s *Server) release(run string, to *conn) {
	s.mu.Lock()
	t := s.turns[run]
	if t != nil && t.conn != to {
		delete(s.turns, run)
	}
	s.mu.Unlock()
	if t == nil || t.conn == to {
		return
	}
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	if t.conn.turn == t {
		t.conn.turn = nil
	}
	t.stopTimers()
}
