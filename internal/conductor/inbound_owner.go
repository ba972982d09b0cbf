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
	// askTime is how long an owner that lives is asked to let a run go, askAgain
	// when it is asked once more (one that has just taken it does not hear yet),
	// askLook how often one looks whether it did.
	askTime  = 3 * time.Second
	askAgain = 100 * time.Millisecond
	askLook  = 20 * time.Millisecond
	// quiet is how long an owner that does not let go must have written nothing
	// before its run is taken, beside the time that it gathers text for.
	quiet = 200 * time.Millisecond
	// quietTries bounds how long such an owner is waited for that goes on writing.
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
		m, err := c.askedRun(ctx, key, run)
		if err != nil {
			return err
		}
		if c.Serving(key, run).Agent() != nil {
			return nil // this edge has picked it up
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

// free says that a run is to be had without asking its owner.
func (c *Conductor) free(m journal.RunMeta) bool {
	return m.Owner == "" || m.Owner == c.o.Boot || m.Lapsed(c.o.Now())
}

// askedRun asks a run's owner to let it go, by which all that its agent has said
// through that edge is in the journal, and waits until it has. Of one that does
// not, because it hangs or knows nothing of this, the run is taken when it is
// quiet.
func (c *Conductor) askedRun(ctx context.Context, key chat.Key, run string) (journal.RunMeta, error) {
	began, asked := c.o.Now(), int64(0)
	for {
		snap, err := c.j.Load(ctx, journal.Load{Key: key})
		if err != nil {
			return journal.RunMeta{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		m, live := snap.Meta.Runs[run]
		now := c.o.Now()
		switch {
		case !live:
			return m, chat.ErrRunEnded
		case c.free(m):
			return m, nil
		case now-began >= askTime.Milliseconds():
			return c.quietRun(ctx, key, run)
		case m.Due == 0, now-asked >= askAgain.Milliseconds():
			asked = now
			if _, err := c.carry(ctx, &Command{ID: newCommand(), Key: key, Decide: DecideAsk(run)}); err != nil {
				return m, err
			}
		}
		pause := askLook
		if !sleep(ctx, &pause) {
			return m, ErrBusy
		}
	}
}

// DecideAsk marks an active run as one that another edge wants: it is due although
// its owner is well. The commit has no record, so every room that has the thread
// open looks at it.
func DecideAsk(run string) func(*View) (Plan, error) {
	return func(v *View) (Plan, error) {
		m, r := v.Meta.Runs[run], v.State.Run(run)
		if r == nil || r.Stop != nil || r.Status != chat.RunActive || m.Owner == "" || m.Sealed {
			return Plan{}, nil
		}
		return Plan{Runs: []journal.RunChange{{Run: run, Due: atOnce(v)}}}, nil
	}
}

// asked lets the run go when another edge wants it because its agent speaks there;
// nil for a run that no agent moves with.
func (r *runner) asked() func(*journal.Meta) {
	if _, ok := r.agent.(agent.Inbound); !ok || r.own.Status != chat.RunActive {
		return nil
	}
	epoch, run, fence := r.owner.Epoch, r.own.ID, r.owner.Fence
	return func(m *journal.Meta) {
		if at, ok := m.Runs[run]; ok && m.Epoch == epoch && at.Fence == fence && at.Due != 0 && !at.Sealed {
			r.post(mail{hand: make(chan bool, 1)})
		}
	}
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
		case c.free(m):
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

// DecideLeave lets an active run go after its owner has written everything. Where
// somebody has asked for it, he has it before anyone else looks.
func DecideLeave(o *Owner, now int64) func(*View) (Plan, error) {
	return func(v *View) (Plan, error) {
		if _, err := owned(v, o); err != nil {
			return Plan{}, err
		}
		due := atOnce(v)
		if v.Meta.Runs[o.Run].Due != 0 {
			due = now + askTime.Milliseconds()
		}
		return Plan{
			Guards: []journal.Guard{{Run: o.Run, Fence: o.Fence, W: o.W(), Owner: true}},
			Runs:   []journal.RunChange{{Run: o.Run, NewOwner: true, Due: due}},
		}, nil
	}
}
