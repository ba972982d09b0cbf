package sim

import (
	"errors"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// How long a command tries, in ms: a client's until somebody must be told, an
// edge's own for as long as the edge lives.
const (
	clientPatience = 15_000
	patient        = 1 << 40
)

// errUnknown: the store did not say in time.
var errUnknown = errors.New("the journal does not answer")

// result is what came of a command.
type result struct {
	journal.Committed
	view *conductor.View
	err  error
	// falls is how often the store had failed over at the last decision.
	falls int
}

// run carries a command out, as long as patience lasts.
func (p *proc) run(c *conductor.Command, patience int64, done func(result)) {
	w := p.e.w
	if r := p.room(c.Key); r != nil && r.seq.Ready && r.seq.State.Exists && w.chance(0.7) {
		c.From, c.FromState = r.seq.Cursor(), r.seq.State
	}
	deadline, decided := w.now+patience, 0
	var do func(conductor.Ask)
	unknown := func() {
		w.after(w.between(20, 300), func() {
			switch {
			case p.dead:
			case w.now > deadline:
				done(result{err: errUnknown})
			default:
				do(c.Unknown())
			}
		})
	}
	do = func(q conductor.Ask) {
		switch {
		case q.Done:
			if w.bug == DoneBeforeRefused && q.Committed.Result == journal.DoneBefore {
				q.Err = chat.ErrDuplicateRun
			}
			res := result{q.Committed, c.View, q.Err, decided}
			if q.Err != nil {
				w.checker.refused(p, c, q.Err)
			} else if q.Committed.Result != 0 {
				w.checker.acknowledged(p, c, q.Committed.Result)
			}
			if res.Result == journal.Done || res.Result == journal.DoneBefore {
				p.notice(c.Key, journal.Notice{Epoch: res.Epoch, Rev: res.Rev, Records: res.Records})
			}
			done(res)
		case q.Load != nil:
			load, seen := *q.Load, 0
			ask(p, nil, func() journal.Snapshot { seen = w.store.falls; return w.store.look(load) }, func(snap journal.Snapshot, ok bool) {
				if !ok {
					unknown()
					return
				}
				decided = seen
				do(c.Loaded(snap, w.random(), w.random()))
			})
		case q.Commit != nil:
			commit := *q.Commit
			ask(p, &c.Key, func() journal.Committed { return w.store.commit(commit) }, func(r journal.Committed, ok bool) {
				if !ok {
					unknown()
					return
				}
				do(c.Committed(r))
			})
		}
	}
	do(c.Begin())
}

// create opens a thread.
func (p *proc) create(key chat.Key, done func(result)) {
	p.run(&conductor.Command{ID: p.command(), Key: key, Decide: func(v *conductor.View) (conductor.Plan, error) {
		entries, err := v.State.Create(chat.Info{Title: key.Thread})
		return conductor.Plan{Entries: entries}, err
	}}, clientPatience, done)
}

// start accepts a message and takes its run up.
func (p *proc) start(key chat.Key, s chat.Start, done func(result)) {
	ids := []string{s.Message.ID, chat.RunNode(s.Run)}
	if s.Fork != "" {
		ids = append(ids, s.Fork)
	}
	p.run(&conductor.Command{ID: p.command(), Key: key, IDs: ids, Decide: conductor.DecideStart(s, p.boot)}, clientPatience, func(r result) {
		if r.err == nil {
			p.takeUp(key, s.Run, r)
		}
		done(r)
	})
}

// takeUp begins the attempt that a command of this edge has made.
func (p *proc) takeUp(key chat.Key, run string, r result) {
	fence, mine := r.Fences[run]
	if !mine {
		return // somebody has taken it over since
	}
	w := p.e.w
	var load func()
	load = func() {
		ask(p, nil, func() journal.Snapshot { return w.store.look(journal.Load{Key: key}) }, func(snap journal.Snapshot, ok bool) {
			if !ok {
				w.after(100, load)
				return
			}
			if st := snap.State(nil); st.Run(run) != nil && snap.Meta.Runs[run].Owner == p.boot && snap.Meta.Runs[run].Fence == fence {
				p.own(key, snap.Meta.Epoch, fence, st, run)
			}
		})
	}
	if r.Result == journal.Done {
		st := r.view.State
		if len(r.Records) > 0 {
			c := *st
			c.Pos = r.Records[0].Pos - 1
			st = c.Clip()
		}
		for _, rec := range r.Records {
			st = st.Apply(rec)
		}
		p.own(key, r.Epoch, fence, st, run)
		return
	}
	load()
}

// answer settles a question, and takes the run up with the last one.
func (p *proc) answer(key chat.Key, a chat.Answer, done func(result)) {
	a.Segment = p.e.w.id("s")
	into := new(conductor.Resumption)
	p.run(&conductor.Command{ID: p.command(), Key: key, Decide: conductor.DecideAnswer(a, p.boot, nil, into)}, clientPatience, func(r result) {
		if r.err == nil && into.Segment != "" {
			p.takeUp(key, into.Run, r)
		}
		done(r)
	})
}

// cancel seals a run and ends it.
func (p *proc) cancel(key chat.Key, run string, cause chat.Cause, done func(result)) {
	p.cancelAs(p.command(), key, run, cause, func(r result) {
		if r.err == nil {
			p.e.w.checker.cancelled(p.e.w.store.thread(key), run, r)
		}
		done(r)
	})
}

func (p *proc) cancelAs(id journal.CommandID, key chat.Key, run string, cause chat.Cause, done func(result)) {
	w := p.e.w
	sealed, ended := "", false
	find := func(st *chat.State) *chat.Run { return st.Run(run) }
	decide := conductor.DecideStop(find, chat.Stop{Cause: cause}, w.id("s"), true, &sealed, &ended)
	p.run(&conductor.Command{ID: id, Key: key, Decide: decide}, clientPatience, func(r result) {
		if r.err != nil || ended {
			done(r)
			return
		}
		end := id
		end.Step = 1
		p.endSealed(key, run, end, func(r result) {
			if errors.Is(r.err, conductor.ErrSealLost) {
				p.cancelAs(id, key, run, cause, done)
				return
			}
			done(r)
		})
	})
}

// endSealed ends a sealed run, however long it takes.
func (p *proc) endSealed(key chat.Key, run string, id journal.CommandID, done func(result)) {
	p.run(&conductor.Command{ID: id, Key: key, Decide: conductor.DecideEndSealed(run, p.now())}, patient, func(r result) {
		if errors.Is(r.err, conductor.ErrBusy) {
			p.endSealed(key, run, id, done)
			return
		}
		if done != nil {
			done(r)
		}
	})
}

// detach asks a run's owner to let a subagent go.
func (p *proc) detach(key chat.Key, segment string, done func(result)) {
	var run string
	p.run(&conductor.Command{ID: p.command(), Key: key, Decide: conductor.DecideDetach(segment, "", &run)}, clientPatience, done)
}

// delete ends a thread's runs and then the thread; once more if the thread got
// into another epoch meanwhile.
func (p *proc) delete(key chat.Key, born uint64) {
	w := p.e.w
	ask(p, nil, func() journal.Snapshot { return w.store.look(journal.Load{Key: key}) }, func(snap journal.Snapshot, ok bool) {
		if !ok || !snap.Exists {
			return
		}
		st := snap.State(nil)
		if born != 0 && st.Born != born {
			return
		}
		runs, left := st.Runs, len(st.Runs)
		gone := func(result) {
			if left--; left <= 0 {
				ask(p, &key, func() journal.Result { return w.store.delete(key, snap.Meta.Epoch, st.Born) }, func(res journal.Result, ok bool) {
					if ok && res == journal.Lost {
						p.delete(key, st.Born)
					}
				})
			}
		}
		for _, r := range runs {
			p.cancel(key, r.ID, chat.CauseDeleted, gone)
		}
		if left == 0 {
			gone(result{})
		}
	})
}
