package sim

import (
	"strconv"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Intervals of an edge, in ms.
const (
	beatEvery  = 2000
	sweepEvery = 1000
	tickEvery  = 1000
)

// edge is a machine: it has a link to the store, a clock that is a little
// wrong, and a process that comes and goes.
type edge struct {
	w    *world
	name string
	skew int64
	cut  bool // off from the store
	deaf bool // its channel of notices is broken and nobody noticed
	// whole is since when the link and the process have been well.
	whole int64
	boots int
	p     *proc
}

// proc is one life of an edge. When it dies all that it knew is gone.
type proc struct {
	e      *edge
	boot   string
	dead   bool
	rooms  []*openRoom
	owners []*attempt
	// restoring are attempts whose run the store may have lost.
	restoring []*attempt
	sweep     conductor.Sweep
	lanes     map[chat.Key]int64
}

func (e *edge) boot() {
	e.boots++
	e.whole = e.w.now
	e.p = &proc{e: e, boot: e.name + "." + strconv.Itoa(e.boots), lanes: map[chat.Key]int64{}}
	e.w.log("%s boots", e.p.boot)
	p := e.p
	e.w.after(e.w.between(0, beatEvery), p.beat)
	e.w.after(e.w.between(0, sweepEvery), p.look)
	e.w.after(e.w.between(0, tickEvery), p.tick)
}

func (e *edge) crash() {
	if e.p == nil {
		return
	}
	e.w.log("%s crashes", e.p.boot)
	e.w.count("crash")
	p := e.p
	e.p.dead, e.p = true, nil
	for _, c := range e.w.clients {
		if c.p == p {
			c.dropped("crash")
		}
	}
}

func (e *edge) cutOff() {
	e.cut = true
	e.w.log("%s is cut off from the store", e.name)
	e.w.count("partition")
}

func (e *edge) heal() {
	if !e.cut {
		return
	}
	e.cut, e.whole = false, e.w.now
	e.w.log("%s reaches the store again", e.name)
	e.resync()
}

// resync is what a subscription does when its connection is back.
func (e *edge) resync() {
	p := e.p
	if p == nil {
		return
	}
	for _, r := range p.rooms {
		e.w.after(e.w.between(1, []int64{300, 300, 300, 4000}[e.w.rnd.IntN(4)]), func() { p.notice(r.key, journal.Notice{Resync: true}) })
	}
}

// now is the edge's own clock.
func (p *proc) now() int64 { return p.e.w.now + p.e.skew }

func (p *proc) tick() {
	if p.dead {
		return
	}
	for _, r := range p.rooms {
		if p.e.w.bug == IdleNeverCompared && r.seq.Ready && !r.seq.Hole() && len(r.seq.State.Runs) == 0 {
			continue
		}
		if p.e.w.bug != HoleNeverFilled && r.seq.Due(p.now()) {
			r.step(r.seq.Tick(p.now()))
		}
	}
	p.closeRooms()
	p.e.w.after(tickEvery, p.tick)
}

// beat renews the deadlines of what this edge owns, as soon again as it fails.
func (p *proc) beat() {
	if p.dead {
		return
	}
	w := p.e.w
	owned := make([]journal.Owned, 0, len(p.owners))
	for _, a := range p.owners {
		owned = append(owned, journal.Owned{Key: a.o.Key, Run: a.o.Run, Fence: a.o.Fence})
	}
	ask(p, nil, func() []journal.Owned { return w.store.beat(p.boot, owned) }, func(lost []journal.Owned, ok bool) {
		if !ok {
			w.after(50, p.beat)
			return
		}
		for _, l := range lost {
			for _, a := range append([]*attempt(nil), p.owners...) {
				if a.o.Run == l.Run && a.o.Fence == l.Fence && w.bug != OwnerIgnoresFence {
					a.do(a.o.Shut(true))
				}
			}
		}
		w.after(beatEvery, p.beat)
	})
}

// look acts on what the store says is due.
func (p *proc) look() {
	if p.dead {
		return
	}
	w := p.e.w
	ask(p, nil, func() []journal.DueItem { return w.store.due(64) }, func(items []journal.DueItem, ok bool) {
		w.after(sweepEvery, p.look)
		if !ok {
			p.sweep.Failed()
			return
		}
		act := p.sweep.Seen(items, p.now())
		if w.bug == SweepWithoutPatience {
			act = items
		}
		for _, i := range act {
			p.act(i)
		}
	})
}

func (p *proc) act(i journal.DueItem) {
	w := p.e.w
	switch {
	case i.Lapsed:
		q := journal.Claim{Key: i.Key, Run: i.Run, Fence: i.Meta.Fence, Owner: p.boot, Tag: w.random()}
		ask(p, &i.Key, func() claimed { return w.store.claim(q) }, func(c claimed, ok bool) {
			if ok && c.res == journal.OK {
				p.takeOver(i, c.fence)
			}
		})
	case i.Meta.Sealed:
		p.endSealed(i.Key, i.Run, p.command(), nil)
	default:
		p.expire(i)
	}
}

// takeOver starts a claimed run again, if nothing was streamed and its agent
// can bear it, or ends it.
func (p *proc) takeOver(i journal.DueItem, fence uint64) {
	w := p.e.w
	ask(p, nil, func() journal.Snapshot { return w.store.look(journal.Load{Key: i.Key}) }, func(snap journal.Snapshot, ok bool) {
		if !ok {
			return // the run lapses again
		}
		st := snap.State(nil)
		r := st.Run(i.Run)
		if r != nil && r.Stop == nil && (conductor.Restarts(r, r.Agent == retrying) || w.bug == RetryAfterEvents && r.Status == chat.RunActive) {
			w.count("restart")
			p.own(i.Key, snap.Meta.Epoch, fence, st, i.Run)
			return
		}
		stop := chat.Stop{Cause: chat.CauseEdgeLost}
		p.run(&conductor.Command{
			ID: p.command(), Key: i.Key, Decide: conductor.DecideEndLost(i.Run, fence, stop, w.id("s"), p.now()),
		}, patient, func(result) {})
	})
}

// expire settles the questions of a paused run whose time is over.
func (p *proc) expire(i journal.DueItem) {
	w := p.e.w
	ask(p, nil, func() journal.Snapshot { return w.store.look(journal.Load{Key: i.Key}) }, func(snap journal.Snapshot, ok bool) {
		r := snap.State(nil).Run(i.Run)
		if !ok || r == nil {
			return
		}
		for _, q := range r.Interrupts {
			if q.Status == chat.InterruptOpen && q.Deadline != 0 && q.Deadline <= p.now() {
				p.answer(i.Key, chat.Answer{Interrupt: q.ID, Status: chat.InterruptExpired}, func(result) {})
				return
			}
		}
	})
}

// command mints a command's id.
func (p *proc) command() journal.CommandID {
	var id journal.CommandID
	w := p.e.w
	for i := range id.ID {
		id.ID[i] = byte(w.rnd.Uint32())
	}
	return id
}
