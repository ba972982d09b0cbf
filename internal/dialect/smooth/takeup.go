package smooth

import (
	"context"
	"errors"
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
	watch := slices.Contains(supports, capabilityWatch)
	var run *chat.Run
	if !c.busy() {
		// The journal is asked, since this edge may be behind the one where the
		// turn was begun a moment ago.
		run, err = c.server.o.Desk.Take(ctx, c.who, s.Thread, c.id, supports, func(st *chat.State) *chat.Run {
			return mine(st, s, others, chat.Subject(c.who.Subject))
		})
		if err != nil && !errors.Is(err, chat.ErrUnknownRun) {
			return err
		}
	}
	st := v.seat.State()
	c.mu.Lock()
	defer c.mu.Unlock()
	again := c.askedForCode(st)
	v.supports, v.watch = supports, v.watch || watch
	c.out.send(reply)
	if run != nil && !c.closed {
		c.resume(s.Thread, run, st.Run(run.ID), supports)
	} else if again != nil {
		c.turn.asked = ""
		c.turn.park(again)
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

// resume shows a turn that was taken over from here on. shown is the run as far
// as this connection's feed has come, nil if it has not come to the run yet.
// Holds c.mu.
func (c *conn) resume(thread string, run, shown *chat.Run, supports []string) {
	session, silent := strings.CutSuffix(run.Origin.Session, quiet)
	t := &turn{
		conn: c, request: run.Origin.Request, run: run.ID, thread: thread, session: session,
		stream: !silent, supports: supports, done: make(chan struct{}), awaited: true,
	}
	if shown != nil {
		t.recall(shown)
	}
	c.turn = t
	if cfg := c.config(); cfg != nil {
		t.startTimers(cfg)
	}
	if shown != nil && shown.Status == chat.RunSuspended {
		t.waits = true
		t.park(shown)
	}
	c.server.know(t)
}

// askedForCode is the run of this connection's turn, if it waits for a code: to
// ask for the session again is to ask for the code again. Holds c.mu.
func (c *conn) askedForCode(st *chat.State) *chat.Run {
	if c.turn == nil {
		return nil
	}
	r := st.Run(c.turn.run)
	if r == nil || r.Status != chat.RunSuspended || r.Stop != nil || r.Open() == nil || !WantsCode(r.Open()) {
		return nil
	}
	return r
}

// recall notes what the turn's former frames said.
func (t *turn) recall(run *chat.Run) {
	t.awaited = run.Holder != t.conn.id
	for _, p := range run.Parts {
		t.begun = t.begun || p.Type == chat.PartText && len(p.Text) > 0
	}
	for _, i := range run.Interrupts {
		if p := run.Part(i.Call); p != nil && !p.Done && refused(i) {
			t.deny(i)
		}
	}
}

// mine is the newest live turn of the conversation that the session's person
// began: by this session, or with others, for one that came back by its
// conversation, by another.
func mine(st *chat.State, s *session, others bool, by chat.Subject) *chat.Run {
	var other *chat.Run
	for _, r := range slices.Backward(st.Runs) {
		if r.Origin.Dialect != Name || r.Origin.By != by || r.Stop != nil {
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
