package conductor

import (
	"context"
	"fmt"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

const (
	// takeEvery is how often an edge may take one run from another that lives, in
	// ms: two agents that speak for one run through two edges (PIN-206) must not
	// do nothing but that.
	takeEvery = 2_000
	// takeTries bounds what it takes to claim a run.
	takeTries = 4
	// quiet is how long an owner that lives must have written nothing before its
	// run is taken, beside the time that it gathers text for: what its agent had
	// said through it is then in the journal.
	quiet = 200 * time.Millisecond
	// quietTries bounds how long an owner is waited for that goes on writing.
	quietTries = 5
)

// Attempt is this edge's hold of a run. The zero value is none.
type Attempt struct{ r *runner }

// Agent serves the run, or is nil where this edge does not have it.
func (a Attempt) Agent() agent.Agent {
	if a.r == nil {
		return nil
	}
	return a.r.agent
}

// Call is how the agent was called, or nil where it is not called yet.
func (a Attempt) Call() *agent.Call {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	return a.r.call
}

// Gone is closed when this edge has let the run go.
func (a Attempt) Gone() <-chan struct{} { return a.r.gone }

// Unsaved says, after Gone, that some of what the agent said was not stored.
func (a Attempt) Unsaved() bool { return a.r.unsaved }

// Serving is this edge's hold of a run.
func (c *Conductor) Serving(key chat.Key, run string) Attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	var last *runner
	for a, r := range c.runners {
		if a.key == key && a.run == run && (last == nil || a.fence > last.owner.Fence) {
			last = r
		}
	}
	if last == nil {
		return Attempt{}
	}
	select {
	case <-last.gone:
		return Attempt{}
	default:
		return Attempt{last}
	}
}

// TakeRun makes this edge the owner of an active run because its agent speaks
// here, whoever has it and whether that edge lives or not. It returns nil also for
// a run that is not active; the errors are chat.ErrUnknownRun, chat.ErrRunEnded
// and ErrBusy.
func (c *Conductor) TakeRun(ctx context.Context, key chat.Key, run string) error {
	for range takeTries {
		if c.Serving(key, run).Agent() != nil {
			return nil
		}
		r, err := c.FindRun(ctx, key, run)
		switch {
		case err != nil:
			return err
		case !c.DialsIn(key.Realm, r.Agent):
			return chat.ErrUnknownRun
		case r.Status != chat.RunActive:
			return nil
		}
		if !c.mayTake(ctx, key, run) {
			return ErrBusy
		}
		m, err := c.quietRun(ctx, key, run)
		if err != nil {
			return err
		}
		fence, _, res, err := c.j.Claim(ctx, journal.Claim{
			Key: key, Run: run, Fence: m.Fence, Owner: c.o.Boot, Living: true, Tag: c.o.Random() >> 1,
		})
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		case res != journal.OK:
			continue
		}
		return c.taken(ctx, key, run, fence)
	}
	return ErrBusy
}

// taken begins to serve a run that was claimed.
func (c *Conductor) taken(ctx context.Context, key chat.Key, run string, fence uint64) error {
	snap, err := c.j.Load(ctx, journal.Load{Key: key})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err) // the run lapses, or is taken once more
	}
	epoch, st := snap.Meta.Epoch, snap.State(nil)
	if snap.Meta.Runs[run].Due != 0 {
		// It was left to whoever takes it; nobody need look at it any more.
		d, err := c.carry(ctx, &Command{ID: newCommand(), Key: key, Decide: DecideTaken(run, fence)})
		if err != nil {
			return err
		}
		if epoch, st = d.View.Meta.Epoch, d.View.State; d.View.Meta.Runs[run].Fence != fence {
			return ErrBusy
		}
	}
	if r := st.Run(run); r != nil && r.Status == chat.RunActive && r.Stop == nil {
		c.o.Logger.Info("a run goes on where its agent is", "realm", key.Realm, "run", run)
		c.own(key, epoch, fence, r, st, nil, c.stamp(ctx))
	}
	return nil
}

// quietRun waits until a run's owner has written all that it may have gathered.
// One that has lapsed, or that nobody has, is quiet.
func (c *Conductor) quietRun(ctx context.Context, key chat.Key, run string) (journal.RunMeta, error) {
	var pace time.Duration
	if r := c.o.Realm(key.Realm); r != nil {
		pace = r.Pace
	}
	var last journal.RunMeta
	for n := 0; ; n++ {
		snap, err := c.j.Load(ctx, journal.Load{Key: key})
		if err != nil {
			return last, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		m, live := snap.Meta.Runs[run]
		switch {
		case !live:
			return m, chat.ErrRunEnded
		case m.Owner == "", m.Owner == c.o.Boot, m.Lapsed(c.o.Now()):
			return m, nil
		case n > 0 && (n == quietTries || m.W == last.W && m.Fence == last.Fence):
			return m, nil
		}
		last = m
		pause := pace + quiet
		if !sleep(ctx, &pause) {
			return last, ErrBusy
		}
	}
}

// mayTake waits until this edge may take the run again; false if ctx ends first.
func (c *Conductor) mayTake(ctx context.Context, key chat.Key, run string) bool {
	k := runKey{key, run}
	for {
		c.mu.Lock()
		now := c.o.Now()
		for other, at := range c.took {
			if now-at >= takeEvery {
				delete(c.took, other)
			}
		}
		at, recently := c.took[k]
		if !recently {
			c.took[k] = now
		}
		c.mu.Unlock()
		if !recently {
			return true
		}
		pause := time.Duration(takeEvery-(now-at)) * time.Millisecond
		if !sleep(ctx, &pause) {
			return false
		}
	}
}

// runKey names a run.
type runKey struct {
	key chat.Key
	run string
}

// goesOn says that a claimed run of an agent that dials in is served on, since
// its agent may speak again through any edge.
func (c *Conductor) goesOn(key chat.Key, r *chat.Run) bool {
	return r.Status == chat.RunActive && r.Stop == nil && c.DialsIn(key.Realm, r.Agent)
}

// Release lets the runs of a thread go whose agents dial in, if this edge drains:
// theirs has left it.
func (c *Conductor) Release(key chat.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.draining {
		return
	}
	for a, r := range c.runners {
		if _, ok := r.agent.(agent.Inbound); ok && a.key == key {
			r.post(mail{hand: make(chan bool, 1)})
		}
	}
}

// leaves says that a run can be let go whatever it has said: its agent goes on
// with it through another edge, or through this one after a restart.
func (l *loop) leaves() bool {
	_, ok := l.agent.(agent.Inbound)
	return ok && l.own.Status == chat.RunActive
}

// leave ends the call, writes all that the run has said, and then lets it go: it
// is due at once, and whichever edge its agent speaks to has it next, or one that
// has the agent configured.
func (l *loop) leave() {
	if l.owner.Phase != PhaseStreaming || l.leaving {
		return
	}
	l.leaving = true
	l.hangUp()
	for {
		select {
		case ev := <-l.events:
			l.entries(l.repair.Event(ev))
		case out := <-l.ended:
			if out.Status != chat.RunCancelled { // it was ending just now
				l.finish(out)
				return
			}
			l.rest()
			l.do(l.owner.Finish(agent.Outcome{Status: chat.RunActive}, l.now(), l.tag()))
			return
		}
	}
}

// left says that the owner's end is that it lets the run go.
func (o *Owner) left() bool { return o.outcome != nil && o.outcome.Status == chat.RunActive }

// DecideLeave lets an active run go after its owner has written everything.
func DecideLeave(o *Owner) func(*View) (Plan, error) {
	return func(v *View) (Plan, error) {
		if _, err := owned(v, o); err != nil {
			return Plan{}, err
		}
		return Plan{
			Guards: []journal.Guard{{Run: o.Run, Fence: o.Fence, W: o.W(), Owner: true}},
			Runs:   []journal.RunChange{{Run: o.Run, NewOwner: true, Due: atOnce(v)}},
		}, nil
	}
}
