package conductor

import (
	"context"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// forsakeAfter is how long the agent of a run that may be lost is held before
// its call is ended: an edge that is cut off cannot tell that from an outage of
// the store, which must end nobody's run.
const forsakeAfter = 2 * time.Minute

// ring lets every runner look at the lease.
func (c *Conductor) ring() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.runners {
		select {
		case r.bell <- struct{}{}:
		default:
		}
	}
}

// leased says whether this edge still owns a run, for all that it knows: it
// compares with when the heartbeat that was heard was sent, so it is never later
// than the store.
func (c *Conductor) leased(a attempt) bool {
	sent := c.lease.Load()
	if last, ok := (*c.unheard.Load())[a]; ok {
		sent = last
	}
	return c.o.Now()-sent < journal.OwnerDeadline.Milliseconds()
}

// renewed takes a heartbeat that was heard, but for some runs: their lease is
// what it was.
func (c *Conductor) renewed(sent int64, but []journal.Owned) {
	before, lease := *c.unheard.Load(), c.lease.Load()
	unheard := make(map[attempt]int64, len(but))
	for _, o := range but {
		a := attempt{o.Key, o.Run, o.Fence}
		last, ok := before[a]
		if !ok {
			last = lease
		}
		unheard[a] = last
	}
	c.unheard.Store(&unheard) // first, so that no run seems to be renewed meanwhile
	c.lease.Store(sent)
}

// lease stops or goes on as the edge's lease says. The agent is not read
// meanwhile, so it comes to stand; its call is ended when the store says that
// the run is lost, or after forsakeAfter.
func (l *loop) lease() {
	switch leased := l.c.leased(attempt{l.key, l.own.ID, l.owner.Fence}); {
	case !leased && !l.owner.Lapsed():
		l.owner.Lapse()
		if !l.leaves() { // a run that its agent comes back to need not be given up
			l.quit = time.After(forsakeAfter)
		}
		l.c.o.Logger.Warn("a run is held: the journal does not take heartbeats", "realm", l.key.Realm, "run", l.own.ID)
	case leased && l.owner.Lapsed():
		l.quit = nil
		l.do(l.owner.Renew(l.tag()))
	}
}

// forsake ends the agent's call; the segment's end is written if the run turns
// out to be still this edge's.
func (l *loop) forsake() {
	if l.owner.Phase == PhaseStreaming {
		l.finish(agent.Failed(chat.CodeEdgeLost, "the server that ran this was cut off"))
		l.hangUp()
	}
}

// handOver asks the run's owner to let it go to another edge; false if it could
// not, and the run is to be ended.
func (c *Conductor) handOver(ctx context.Context, r *runner) bool {
	_, dialsIn := r.agent.(agent.Inbound)
	if !dialsIn && !c.fleet.Load().Has(r.key.Realm, r.own.Agent) {
		return false
	}
	ok := make(chan bool, 1)
	r.post(mail{hand: ok})
	t := time.NewTimer(handTimeout)
	defer t.Stop()
	select {
	case done := <-ok:
		return done
	case <-r.gone: // it has ended meanwhile, or has just let go
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return dialsIn // it lapses, and goes on elsewhere
}

// handOver lets the run go, if nothing of it was said and its agent bears being
// called again. The call is told to end first.
func (l *loop) handOver() bool {
	a, ok := l.agent.(agent.Retrier)
	held := l.held.run(l.own.ID)
	if held == nil || !Restarts(held, ok && a.Retry()) || !l.owner.Silent() {
		return false
	}
	l.leaving = true
	l.hangUp()
	ctx, cancel := context.WithTimeout(l.ctx, handTimeout)
	defer cancel()
	_, err := l.c.carry(ctx, &Command{ID: newCommand(), Key: l.key, Decide: DecideHandOver(&l.owner, ok && a.Retry())})
	l.report("hand over", err)
	if err == nil {
		l.owner.Over()
		l.c.o.Logger.Info("a run goes to another edge", "realm", l.key.Realm, "run", l.own.ID)
	}
	return err == nil
}
