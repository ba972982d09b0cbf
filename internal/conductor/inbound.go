package conductor

import (
	"context"
	"fmt"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// dialsIn says whether a realm's agent of that name dials in, and so resumes its
// runs itself.
func (c *Conductor) dialsIn(realm, name string) bool {
	r := c.o.Realm(realm)
	if r == nil {
		return false
	}
	_, ok := r.Agents[name].(agent.Inbound)
	return ok
}

// AgentOf is the agent that a run of this edge is served by, or nil if this edge
// does not own the run.
func (c *Conductor) AgentOf(key chat.Key, run string) agent.Agent {
	c.mu.Lock()
	defer c.mu.Unlock()
	for a, r := range c.runners {
		if a.key == key && a.run == run {
			return r.agent
		}
	}
	return nil
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
