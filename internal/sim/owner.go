package sim

import (
	"errors"
	"slices"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/room"
)

// backlog is how many entries may wait before the agent is made to wait.
const backlog = 64

// attempt is the shell of an Owner: its agent's call and its room.
type attempt struct {
	p    *proc
	o    conductor.Owner
	room *openRoom
	// held is the run as this attempt wrote it, acknowledged or not.
	held  *chat.State
	begun *chat.Run
	born  uint64
	call  *script
	wake  int64
	// orphan is since when the agent has spoken although the run is lost; 0 is
	// not at all.
	orphan int64
}

// own begins an attempt.
func (p *proc) own(key chat.Key, epoch, fence uint64, st *chat.State, id string) {
	run := st.Run(id)
	if run == nil {
		panic("sim: no run to own")
	}
	// As in the conductor, an attempt is this edge's until it has let go of all.
	for _, a := range slices.Concat(p.owners, p.restoring) {
		if a.o.Key == key && a.o.Run == run.ID && a.o.Fence == fence {
			return
		}
	}
	held := chat.State{Runs: []*chat.Run{run}}
	a := &attempt{p: p, held: held.Clip(), begun: run, born: st.Born, room: p.enter(key)}
	a.room.pins++
	a.o = conductor.Owner{Key: key, Epoch: epoch, Run: run.ID, Fence: fence, Boot: p.boot, Pace: []int64{0, 40}[p.e.w.rnd.IntN(2)]}
	p.owners = append(p.owners, a)
	p.e.w.log("%s owns %s, fence %d", p.boot, run.ID, fence)
	a.do(a.o.Start(run.Status == chat.RunPending))
}

// seen takes a record of the run that the room has applied.
func (a *attempt) seen(c *room.Change) {
	if b, ok := c.Record.Body.(*chat.RunDetachBody); ok && a.call != nil {
		a.call.detach(b.Calls)
	}
	if a.p.e.w.bug != OwnerIgnoresFence {
		a.do(a.o.Seen(c.Record))
	}
}

// do does what the owner asks for.
func (a *attempt) do(d conductor.Do) {
	p, w := a.p, a.p.e.w
	switch {
	case d.Abort:
		a.hangUp()
		a.leave()
		if d.Lost && w.bug != LossNotRestored {
			a.restore()
		}
		return
	case d.Open:
		p.run(&conductor.Command{ID: p.command(), Key: a.o.Key, Decide: conductor.DecideOpen(&a.o)}, patient, func(r result) {
			if errors.Is(r.err, conductor.ErrBusy) {
				a.do(conductor.Do{Open: a.o.Phase == conductor.PhaseOpening})
				return
			}
			if r.err == nil {
				a.hold(chat.NewEntry(chat.KindRunActive, a.o.Run, &chat.RunActiveBody{}))
			}
			a.do(a.o.Opened(r.err == nil))
			if r.err != nil {
				a.leave()
				a.lostBy(r)
			}
		})
	case d.End:
		a.end()
	case d.Append != nil:
		a.append(*d.Append)
	case d.Call:
		w.checker.called(a)
		a.call = p.e.w.newScript(a)
		a.call.next()
	}
	if at := a.o.Wake(); at != 0 && at != a.wake {
		a.wake = at
		w.after(at-p.now(), func() {
			if !p.dead {
				a.do(a.o.Tick(p.now(), w.random()))
			}
		})
	}
}

// hold folds what the attempt writes, for the case that the store loses it.
func (a *attempt) hold(entries ...chat.Entry) {
	for _, e := range entries {
		a.held = a.held.Apply(&chat.Record{Entry: e})
	}
}

func (a *attempt) hangUp() {
	if a.call != nil {
		a.call.stopped = true
	}
}

// leave gives the attempt up.
func (a *attempt) leave() {
	if i := slices.Index(a.p.owners, a); i >= 0 {
		a.p.e.w.log("%s lets %s go", a.p.boot, a.o.Run)
		a.p.owners = slices.Delete(a.p.owners, i, i+1)
		a.room.pins--
	}
}

func (a *attempt) append(q journal.Append) {
	p, w := a.p, a.p.e.w
	ask(p, &q.Key, func() journal.Appended { return w.store.append(q, p.boot) }, func(r journal.Appended, ok bool) {
		if !ok {
			w.after(w.between(10, 150), func() {
				if !p.dead {
					a.do(a.o.Retry())
				}
			})
			return
		}
		if w.bug == OwnerIgnoresFence && (r.Result == journal.Fenced || r.Result == journal.Sealed || r.Result == journal.Ended) {
			r.Result = journal.Stored
		}
		if r.Result == journal.Stored {
			p.notice(a.o.Key, journal.Notice{Epoch: a.o.Epoch, Records: r.Records})
		}
		if r.Result == journal.Gap || r.Result == journal.WrongEpoch || r.Result == journal.Ended || r.Result == journal.Fenced {
			p.notice(a.o.Key, journal.Notice{Resync: true})
		}
		a.do(a.o.Appended(r, w.random()))
	})
}

// end commits the end of the segment.
func (a *attempt) end() {
	p := a.p
	decide := conductor.DecideFinish(&a.o, p.now(), nil)
	p.run(&conductor.Command{ID: p.command(), Key: a.o.Key, Decide: decide}, patient, func(r result) {
		if a.o.Phase == conductor.PhaseOver {
			return
		}
		if errors.Is(r.err, conductor.ErrBusy) {
			a.end()
			return
		}
		a.hangUp()
		a.leave()
		a.o.Over()
		if r.err == nil {
			p.e.w.checker.settled(a)
		}
		a.lostBy(r)
	})
}

// lostBy restores the run if a commit of the owner failed because the store
// has lost some of it.
func (a *attempt) lostBy(r result) {
	if errors.Is(r.err, conductor.ErrLost) && r.view != nil && a.o.Lost(r.view) {
		a.restore()
	}
}

// restore ends the run with what this edge holds of it.
func (a *attempt) restore() {
	p := a.p
	p.e.w.count("restore")
	p.restoring = append(p.restoring, a)
	held := a.held.Run(a.o.Run)
	p.run(&conductor.Command{
		ID: p.command(), Key: a.o.Key, IDs: []string{held.Message, held.Answer, chat.RunNode(held.ID)},
		Decide: conductor.DecideRestore(conductor.Held{Run: held, Born: a.born, Boot: p.boot, Fence: a.o.Fence}, p.now()),
	}, patient, func(r result) {
		p.restoring = slices.DeleteFunc(p.restoring, func(x *attempt) bool { return x == a })
		if errors.Is(r.err, conductor.ErrBusy) {
			a.restore()
		}
	})
}
