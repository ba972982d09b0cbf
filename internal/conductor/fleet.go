package conductor

import (
	"context"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Fleet is which agents the other living edges have, as they said last. An edge
// that drains takes nothing up, so it has none. The zero value knows of nobody.
type Fleet struct {
	agents map[[2]string]bool // realm and name
}

// NewFleet reads what the roster says of the edges other than the one asking.
func NewFleet(self string, edges []journal.Edge) Fleet {
	f := Fleet{agents: make(map[[2]string]bool)}
	for _, e := range edges {
		if e.Boot == self || e.Draining {
			continue
		}
		for realm, names := range e.Agents {
			for _, name := range names {
				f.agents[[2]string{realm, name}] = true
			}
		}
	}
	return f
}

// Has says whether another edge could take up a run of the agent.
func (f Fleet) Has(realm, agent string) bool { return f.agents[[2]string{realm, agent}] }

// reach says where an agent is.
func (c *Conductor) reach(realm, name string) Reach {
	switch {
	case name == backgroundAgent, c.has(realm, name):
		return Here // a background task's agent was lost with its edge: anybody ends it
	case c.fleet.Load().Has(realm, name):
		return Elsewhere
	}
	return Nowhere
}

// has says whether this edge has the agent.
func (c *Conductor) has(realm, name string) bool {
	r := c.o.Realm(realm)
	return r != nil && r.Agents[name] != nil
}

// starter is the boot id of the edge that is to own what a command begins: this
// one, or "" where another edge is to take it up, since this one lacks the agent
// or drains.
func (c *Conductor) starter(realm, name string) string {
	c.mu.Lock()
	draining := c.draining
	c.mu.Unlock()
	switch {
	case !c.has(realm, name), draining && c.fleet.Load().Has(realm, name):
		return ""
	}
	return c.o.Boot
}

// announce tells the other edges of this one, and learns of them.
func (c *Conductor) announce(ctx context.Context) {
	roster := c.j.Roster()
	if c.o.Edge != nil {
		e := c.o.Edge()
		e.Boot, e.Runs = c.o.Boot, c.Runs()
		c.mu.Lock()
		e.Draining = c.draining
		c.mu.Unlock()
		began := c.o.Now()
		if err := roster.Announce(ctx, e); err != nil {
			return // the heartbeat has said that the journal does not answer
		}
		if last := c.announced; last != 0 && began-last >= journal.OwnerDeadline.Milliseconds() {
			c.rooms.Retell()
		}
		c.announced = began
	}
	edges, err := roster.Edges(ctx)
	if err != nil {
		return // what was known stands; who needs an edge that is gone takes none
	}
	f := NewFleet(c.o.Boot, edges)
	c.fleet.Store(&f)
	if speaker, ok := c.j.(journal.Speaker); ok {
		if err := speaker.Speak(ctx, c.accord.take(edges, c.o.Now())); err != nil && c.ctx.Err() == nil {
			c.o.Logger.Warn("the journal's schema does not rise", "error", err)
		}
	}
}

// accordPatience is how long all edges must have read a schema before it is
// written, in ms: one that lives and was not heard for a while must not be shut
// out.
const accordPatience = 60_000

// accord is the newest schema that all edges read, and since when they do.
type accord struct {
	schema int
	since  int64
}

// take takes the living edges and returns what may be written, 0 if that is not
// sure.
func (a *accord) take(edges []journal.Edge, now int64) int {
	lowest := 0
	for _, e := range edges {
		if lowest == 0 || e.Schema < lowest {
			lowest = e.Schema
		}
	}
	if lowest != a.schema {
		a.schema, a.since = lowest, now
	}
	if now-a.since < accordPatience {
		return 0
	}
	return a.schema
}

// Announce tells the other edges anew, soon: what this edge has changed.
func (c *Conductor) Announce() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// handTimeout bounds a run's hand-over to another edge.
const handTimeout = 5 * time.Second

// DecideHandOver lets a run go that its owner has not streamed anything of: it
// is due at once, and whoever has its agent claims it.
func DecideHandOver(o *Owner, retry bool) func(*View) (Plan, error) {
	return func(v *View) (Plan, error) {
		r, err := owned(v, o)
		if err != nil {
			return Plan{}, err
		}
		if !Restarts(r, retry) {
			return Plan{}, errStreamed
		}
		return Plan{
			Guards: []journal.Guard{{Run: o.Run, Fence: o.Fence, W: o.W(), Owner: true}},
			Runs:   []journal.RunChange{{Run: o.Run, NewOwner: true, Due: atOnce(v)}},
		}, nil
	}
}

// atOnce is a due time that has passed.
func atOnce(v *View) int64 { return max(1, v.Meta.At) }

// CancelAny stops the run that find finds, for an operator, and returns when it
// has ended; chat.ErrUnknownRun if there is none.
func (c *Conductor) CancelAny(ctx context.Context, key chat.Key, find func(*chat.State) *chat.Run) error {
	err := c.stop(ctx, key, find, chat.Stop{Cause: chat.CauseUser}, true)
	if err == chat.ErrNoThread {
		return chat.ErrUnknownRun
	}
	return err
}
