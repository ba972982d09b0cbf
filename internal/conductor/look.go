package conductor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// lookLimit bounds what one look sees. It is far more than an edge that is lost
// leaves behind: what is not seen now has all of the sweep's patience yet to
// wait, and a run is to end within 20 s of losing its owner.
const lookLimit = 4096

// look asks what is due and acts on it: runs whose edge was lost, runs that
// were sealed and not ended, questions whose time is over, threads to trim.
func (c *Conductor) look(ctx context.Context) {
	c.mu.Lock()
	draining := c.draining
	c.mu.Unlock()
	if draining {
		return
	}
	tctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	items, err := c.j.Due(tctx, lookLimit)
	cancel()
	if c.ctx.Err() == nil {
		c.looks.note(c.o.Logger, err)
	}
	if err != nil && len(items) == 0 {
		c.sweep.Failed()
		return
	}
	// What a part of the store that did not answer has is not among the items, and
	// so must be seen anew.
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for _, i := range c.sweep.Seen(items, c.o.Now()) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := c.act(ctx, i); err != nil && c.ctx.Err() == nil {
				c.o.Logger.Warn("something due could not be done", "realm", i.Key.Realm, "run", i.Run, "error", err)
			}
		})
	}
	wg.Wait()
}

func (c *Conductor) act(ctx context.Context, i journal.DueItem) error {
	switch {
	case i.Run == "":
		return c.trimNow(ctx, i.Key)
	case i.Lapsed:
		return c.takeOver(ctx, i)
	case i.Meta.Sealed:
		_, err := c.carry(ctx, &Command{ID: newCommand(), Key: i.Key, Decide: DecideEndSealed(i.Run, c.o.Now())})
		if errors.Is(err, ErrSealLost) {
			return nil // it is not sealed any more, so nothing is due
		}
		return err
	case i.Meta.Owner == "":
		return c.takeUnowned(ctx, i)
	default:
		return c.expire(ctx, i)
	}
}

// takeUnowned takes up a run that is due and that nobody owns: one that was left
// to an edge that has its agent, or a paused one whose time is over.
func (c *Conductor) takeUnowned(ctx context.Context, i journal.DueItem) error {
	tctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	snap, err := c.j.Load(tctx, journal.Load{Key: i.Key})
	if err != nil {
		return err
	}
	r := snap.State(nil).Run(i.Run)
	in, realm := c.inbound(i.Key.Realm, i.Meta.Agent)
	switch {
	case r == nil:
		return nil
	case in != nil && awaits(r):
		return c.overdue(ctx, i, in, realm)
	case r.Status == chat.RunSuspended && !awaits(r):
		return c.expire(ctx, i)
	case snap.Meta.Runs[i.Run].Owner != "":
		return nil // somebody was faster
	}
	return c.takeOver(ctx, i)
}

// takeOver claims a run whose edge was lost, or that nobody owns. One that had streamed nothing is
// started again where that is safe: a pending one always, since its agent was
// never called; an active one if its agent says so. Any other is ended, with
// the text that it had.
func (c *Conductor) takeOver(ctx context.Context, i journal.DueItem) (err error) {
	ctx, span := c.begin(ctx, Work{Kind: WorkClaim, Key: i.Key, Run: &chat.Run{ID: i.Run, Agent: i.Meta.Agent}})
	outcome := "left alone"
	defer func() { span.End(outcome, err) }()
	tctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	fence, _, res, err := c.j.Claim(tctx, journal.Claim{
		Key: i.Key, Run: i.Run, Fence: i.Meta.Fence, Owner: c.o.Boot, Tag: c.o.Random() >> 1,
	})
	if err != nil || res != journal.OK {
		return err
	}
	span.Event("claim", "")
	snap, err := c.j.Load(tctx, journal.Load{Key: i.Key})
	if err != nil {
		return err
	}
	st := snap.State(nil)
	r := st.Run(i.Run)
	if r != nil {
		span.Link(r.Trace)
	}
	if in, realm := c.inbound(i.Key.Realm, i.Meta.Agent); r != nil && in != nil && r.Status == chat.RunPending && r.Stop == nil {
		return c.backToAgent(ctx, i, fence, in, realm)
	}
	if r != nil && (c.goesOn(i.Key, r) || c.restarts(i.Key, r) || i.Meta.Owner == "" && r.Stop == nil && r.Status != chat.RunSuspended && c.has(i.Key.Realm, r.Agent)) {
		if snap.Meta.Runs[i.Run].Due != 0 && r.Status == chat.RunActive {
			// No commit opens its segment, so one says that nobody need look again.
			d, err := c.carry(ctx, &Command{ID: newCommand(), Key: i.Key, Decide: DecideTaken(i.Run, fence)})
			if err != nil {
				return err // it lapses
			}
			if r = d.View.State.Run(i.Run); r == nil || d.View.Meta.Runs[i.Run].Fence != fence {
				return nil
			}
			st = d.View.State
		}
		outcome = "taken up"
		c.o.Logger.Info("a run of another edge is taken up", "realm", i.Key.Realm, "run", i.Run)
		c.own(i.Key, snap.Meta.Epoch, fence, r, st, nil, span.Stamp())
		return nil
	}
	stop := chat.Stop{Cause: chat.CauseEdgeLost}
	if r != nil && (i.Meta.Owner == "" || r.Status == chat.RunPending) && r.Agent != backgroundAgent {
		stop = chat.Stop{Code: chat.CodeAgentUnavailable, Message: "the agent is not available"}
	}
	outcome = "ended"
	c.o.Logger.Warn("a run that cannot go on is ended", "realm", i.Key.Realm, "run", i.Run)
	_, err = c.carry(ctx, &Command{
		ID: newCommand(), Key: i.Key,
		Decide: DecideEndLost(i.Run, fence, stop, NewSegment(), c.o.Now()),
	})
	return err
}

// restarts says whether the run may be started again by this edge.
func (c *Conductor) restarts(key chat.Key, r *chat.Run) bool {
	realm := c.o.Realm(key.Realm)
	if realm == nil || realm.Agents[r.Agent] == nil {
		return false
	}
	a, ok := realm.Agents[r.Agent].(agent.Retrier)
	return Restarts(r, ok && a.Retry())
}

// expire closes the questions whose time is over, or that nobody is asked; with the
// last one the run goes on, and its agent learns that nobody answered.
func (c *Conductor) expire(ctx context.Context, i journal.DueItem) error {
	snap, err := c.j.Load(ctx, journal.Load{Key: i.Key})
	if err != nil {
		return err
	}
	r := snap.State(nil).Run(i.Run)
	if r == nil {
		return nil
	}
	now := c.o.Now()
	for _, q := range r.Interrupts {
		if q.Status != chat.InterruptOpen || q.Deadline == 0 || q.Deadline > now {
			continue
		}
		a := chat.Answer{
			Interrupt: q.ID, Status: chat.InterruptExpired, Value: q.Otherwise, Segment: NewSegment(),
		}
		if q.Unasked != "" {
			a.Status = q.Unasked
		}
		var out Resumption
		d, err := c.carry(ctx, &Command{ID: newCommand(), Key: i.Key, Decide: func(v *View) (Plan, error) {
			return c.settle(v, i.Key.Realm, a, nil, &out)
		}})
		if errors.Is(err, chat.ErrNotWaiting) {
			continue // somebody answered meanwhile
		}
		if err != nil {
			return err
		}
		if out.Segment != "" {
			c.takeUp(i.Key, out.Run, d, nil)
		}
		c.wake(i.Key, out.awaited, out.Run)
	}
	return nil
}

// awaits says that the run waits for its agent.
func awaits(r *chat.Run) bool {
	_, ok := r.Awaits()
	return ok
}
