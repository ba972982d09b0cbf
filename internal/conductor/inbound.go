package conductor

import (
	"context"
	"errors"
	"fmt"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// ErrNotPending: the run was taken up, and waits for a decision.
var ErrNotPending = errors.New("the run is not pending")

// wakeAgain is when an agent is woken once more for a run that it has not taken
// up, in ms; each further time is as far off again as the run has waited.
const wakeAgain = 60_000

// inbound is a realm's agent of that name, if it is one that dials in, or nil.
func (c *Conductor) inbound(realm, name string) (agent.Inbound, *Realm) {
	r := c.o.Realm(realm)
	if r == nil {
		return nil, nil
	}
	in, _ := r.Agents[name].(agent.Inbound)
	return in, r
}

// DialsIn says whether a realm's agent of that name dials in.
func (c *Conductor) DialsIn(realm, name string) bool {
	in, _ := c.inbound(realm, name)
	return in != nil
}

// nextLook is when somebody must look at a run that has waited for its agent
// since then, in Unix milliseconds: when its time is over, or to wake the agent
// again. 0 is never.
func nextLook(in agent.Inbound, r *Realm, since, now int64) int64 {
	due := int64(0)
	if r.RunTimeout > 0 {
		due = since + r.RunTimeout.Milliseconds()
	}
	if in.Wakes() {
		if again := now + max(wakeAgain, now-since); due == 0 || again < due {
			due = again
		}
	}
	return due
}

// await lets the runs that a plan makes wait for agents that dial in: they belong
// to no edge until their agent takes them up.
func (c *Conductor) await(p Plan, realm string) Plan {
	now := c.o.Now()
	for i := range p.Runs {
		ch := &p.Runs[i]
		if !ch.New || ch.End {
			continue
		}
		if in, r := c.inbound(realm, ch.Agent); in != nil {
			ch.Owner, ch.Due = "", nextLook(in, r, now, now)
		}
	}
	return p
}

// awaitResume says when to look at a run whose last question a plan settles, and
// whose agent goes on with it by itself.
func (c *Conductor) awaitResume(p Plan, realm string, r *chat.Run) Plan {
	if in, at := c.inbound(realm, r.Agent); in != nil && len(p.Runs) == 1 {
		now := c.o.Now()
		p.Runs[0].Due = nextLook(in, at, now, now)
	}
	return p
}

// opens says whether the run waits for an answer to another question.
func opens(r *chat.Run, but string) bool {
	for _, i := range r.Interrupts {
		if i.Status == chat.InterruptOpen && i.ID != but {
			return true
		}
	}
	return false
}

// wake tells an agent that dials in of a run that waits for it; nobody waits for
// that. What it cannot be told now it is told when the run is due.
func (c *Conductor) wake(key chat.Key, name, run string) {
	in, _ := c.inbound(key.Realm, name)
	if in == nil || !in.Wakes() {
		return
	}
	c.apart(func(ctx context.Context) {
		waits := func(ctx context.Context) bool {
			r, err := c.FindRun(ctx, key, run)
			if errors.Is(err, ErrUnavailable) {
				return true
			}
			if err != nil {
				return false
			}
			_, awaits := r.Awaits()
			return awaits
		}
		if err := in.Wake(ctx, key, run, waits); err != nil && ctx.Err() == nil {
			c.o.Logger.Warn("an agent was not woken", "realm", key.Realm, "agent", name, "run", run, "error", err)
		}
	})
}

// overdue looks at a run that waits for its agent and is due: its time is over,
// or the agent is woken again.
func (c *Conductor) overdue(ctx context.Context, i journal.DueItem, in agent.Inbound, realm *Realm) error {
	since, now := int64(0), c.o.Now()
	d, err := c.carry(ctx, &Command{ID: newCommand(), Key: i.Key, Decide: func(v *View) (Plan, error) {
		since = now
		m, r := v.Meta.Runs[i.Run], v.State.Run(i.Run)
		if r == nil || m.Owner != "" || m.Sealed || m.Due == 0 || m.Due > now {
			return Plan{}, nil // somebody was faster
		}
		var awaits bool
		if since, awaits = r.Awaits(); !awaits || realm.over(since, now) {
			return Plan{}, nil
		}
		return Plan{
			Guards: []journal.Guard{guard(v, i.Run, false)},
			Runs:   []journal.RunChange{{Run: i.Run, Due: nextLook(in, realm, since, now)}},
		}, nil
	}})
	switch {
	case err != nil:
		return err
	case d.Result == journal.Done:
		c.wake(i.Key, i.Meta.Agent, i.Run)
	case since != 0 && realm.over(since, now):
		return c.stopRun(ctx, i.Key, i.Run, chat.Stop{Cause: chat.CauseTimeout})
	}
	return nil
}

// over says that what began then has taken longer than a run may.
func (r *Realm) over(since, now int64) bool {
	return r.RunTimeout > 0 && now >= since+r.RunTimeout.Milliseconds()
}

// backToAgent lets a claimed run that nobody has begun wait for its agent.
func (c *Conductor) backToAgent(ctx context.Context, i journal.DueItem, fence uint64, in agent.Inbound, realm *Realm) error {
	d, err := c.carry(ctx, &Command{ID: newCommand(), Key: i.Key, Decide: func(v *View) (Plan, error) {
		m, r := v.Meta.Runs[i.Run], v.State.Run(i.Run)
		if r == nil || m.Fence != fence || m.Sealed || r.Status != chat.RunPending {
			return Plan{}, nil
		}
		return Plan{
			Guards: []journal.Guard{guard(v, i.Run, true)},
			Runs:   []journal.RunChange{{Run: i.Run, NewOwner: true, Due: nextLook(in, realm, r.Started, c.o.Now())}},
		}, nil
	}})
	if err == nil && d.Result == journal.Done {
		c.wake(i.Key, i.Meta.Agent, i.Run)
	}
	return err
}

// FindRun loads a live run. The errors are chat.ErrRunEnded, also of one that is
// ending, and ErrUnknownRun.
func (c *Conductor) FindRun(ctx context.Context, key chat.Key, run string) (*chat.Run, error) {
	st, from := c.rooms.Peek(key)
	snap, err := c.j.Load(ctx, journal.Load{Key: key, From: from, IDs: []string{chat.RunNode(run)}})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	r := snap.State(st).Run(run)
	if r != nil && r.Stop == nil {
		return r, nil
	}
	if _, had := snap.Nodes[chat.RunNode(run)]; r != nil || had {
		return nil, chat.ErrRunEnded
	}
	return nil, chat.ErrUnknownRun
}

// TakeUpRun makes a pending run active because its agent says so, and this edge
// its owner. One that is active already is left as it is. The errors are
// chat.ErrUnknownRun, chat.ErrRunEnded and ErrNotPending.
func (c *Conductor) TakeUpRun(ctx context.Context, key chat.Key, run string) error {
	d, err := c.carry(ctx, &Command{ID: newCommand(), Key: key, IDs: []string{chat.RunNode(run)}, Decide: func(v *View) (Plan, error) {
		r := v.State.Run(run)
		switch {
		case r == nil && v.Lookup(chat.RunNode(run)) == nil:
			return Plan{}, chat.ErrUnknownRun
		case r == nil || r.Stop != nil:
			return Plan{}, chat.ErrRunEnded
		case r.Status == chat.RunActive:
			return Plan{}, nil
		case r.Status != chat.RunPending:
			return Plan{}, ErrNotPending
		}
		return Plan{
			Entries: []chat.Entry{chat.NewEntry(chat.KindRunActive, run, &chat.RunActiveBody{})},
			Guards:  []journal.Guard{guard(v, run, false)},
			Runs:    []journal.RunChange{{Run: run, NewOwner: true, Owner: c.o.Boot}},
		}, nil
	}})
	if err == nil && d.Result != 0 {
		c.takeUp(key, run, d, nil)
	}
	return err
}

// ResumeRun goes on with a suspended run because its agent says so. The errors are
// chat.ErrUnknownRun and ErrNotSuspended.
func (c *Conductor) ResumeRun(ctx context.Context, key chat.Key, run string) error {
	segment := NewSegment()
	d, err := c.carry(ctx, &Command{ID: newCommand(), Key: key, Decide: func(v *View) (Plan, error) {
		entries, err := v.State.Resume(run, segment)
		if err != nil {
			return Plan{}, err
		}
		return Plan{
			Entries: entries, Guards: []journal.Guard{guard(v, run, false)}, Segments: []string{segment}, Result: []byte(segment),
			Runs: []journal.RunChange{{Run: run, NewOwner: true, Owner: c.o.Boot}},
		}, nil
	}})
	if err != nil {
		return err
	}
	c.takeUp(key, run, d, nil)
	return nil
}

// BeginRun begins a run that an agent that dials in began by itself, owned by
// this edge and active (PIN-193). b has the run's id and its origin. It returns
// the position of the run's first segment, or 0 if that is not known; the errors
// are chat.ErrUnknownRun where the realm has no such agent, chat.ErrDuplicateRun
// and chat.ErrTooManyRuns.
func (c *Conductor) BeginRun(ctx context.Context, p identity.Principal, thread string, b chat.Begin) (pos uint64, err error) {
	key := Key(p, thread)
	realm := c.o.Realm(key.Realm)
	if realm == nil {
		return 0, chat.ErrUnknownRun
	}
	b.Answer, b.Segment, b.Upstream, b.MaxRuns = NewID(), NewSegment(), NewID(), realm.MaxRuns
	if realm.SameUpstream {
		b.Upstream = thread
	}
	d, err := c.carry(ctx, &Command{
		ID: newCommand(), Key: key, IDs: []string{chat.RunNode(b.Run)},
		Decide: allowed(p, identity.RunLifecycle, key, func(v *View) (Plan, error) {
			chosen := b
			if chosen.Agent = c.beginner(realm, p.Subject.ID, v.State.Info.Agent); chosen.Agent == "" {
				return Plan{}, chat.ErrUnknownRun
			}
			entries, err := v.State.Begin(chosen, v.Lookup)
			if err != nil {
				return Plan{}, err
			}
			return Plan{
				Entries: entries, Segments: []string{b.Segment},
				Runs: []journal.RunChange{{Run: b.Run, New: true, NewOwner: true, Owner: c.o.Boot, Agent: chosen.Agent}},
			}, nil
		}),
	})
	if err != nil {
		return 0, err
	}
	c.takeUp(key, b.Run, d, nil)
	for _, r := range d.Records {
		pos = max(pos, r.Pos)
	}
	return pos, nil
}

// beginner is the configured agent that a process's own run is of: the one that
// it calls itself, the thread's, the default one, or the only one that dials in.
func (c *Conductor) beginner(r *Realm, self, thread string) string {
	for _, name := range []string{self, thread, r.Default} {
		if _, ok := r.Agents[name].(agent.Inbound); ok {
			return name
		}
	}
	first := ""
	for name, a := range r.Agents {
		if _, ok := a.(agent.Inbound); ok && (first == "" || name < first) {
			first = name
		}
	}
	return first
}
