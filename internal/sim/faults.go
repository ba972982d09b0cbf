package sim

import (
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// faults lets things go wrong until the given time.
func (w *world) faults(until int64) {
	w.after(w.between(50, 2500), func() {
		if w.now >= until {
			return
		}
		w.fault()
		w.faults(until)
	})
}

func (w *world) fault() {
	e := w.edges[w.rnd.IntN(len(w.edges))]
	kind := w.rnd.IntN(10)
	if w.spared&(1<<kind) != 0 {
		return
	}
	switch kind {
	case 0:
		e.crash()
		w.after(w.between(200, 9000), func() {
			if e.p == nil {
				e.boot()
			}
		})
	case 1, 2:
		// Long enough, now and then, to lose all that the edge owns: it goes
		// on as a zombie.
		e.cutOff()
		w.after(w.between(100, []int64{2000, 22_000}[w.rnd.IntN(2)]), e.heal)
	case 3:
		w.outage(w.between(100, []int64{3000, 14_000}[w.rnd.IntN(2)]), 0)
	case 4:
		w.outage(w.between(20, 2500), 1+w.rnd.IntN([]int{3, undoLimit}[w.rnd.IntN(2)]))
	case 5, 6:
		w.trim()
	case 7:
		w.storm()
	case 8:
		e.deaf = true
		w.count("deaf")
		w.log("%s is deaf", e.name)
		w.after(w.between(100, []int64{3000, 25_000}[w.rnd.IntN(2)]), func() { e.deaf = false })
	case 9:
		// The process of an edge is replaced, quick enough to find its own
		// former life's runs.
		e.crash()
		w.after(w.between(1, 50), func() {
			if e.p == nil {
				e.boot()
			}
		})
	}
}

// outage takes the store away for a while; if it fails over meanwhile, its
// newest writes are lost.
func (w *world) outage(d int64, lose int) {
	if w.store.down {
		return
	}
	w.store.down, w.store.downAt = true, w.now
	w.count("outage")
	w.log("store: down")
	w.after(d, func() {
		if !w.store.down {
			return
		}
		if lose > 0 {
			w.count("failover")
			w.store.failover(lose)
		}
		w.up()
	})
}

func (w *world) up() {
	if !w.store.down {
		return
	}
	w.store.down, w.store.upSince = false, w.now
	w.bug.restarted(w.store)
	w.log("store: up")
	w.store.reconnected()
}

// trim lets some edge move a floor up to anywhere.
func (w *world) trim() {
	t := w.store.threads[w.rnd.IntN(len(w.store.threads))]
	e := w.edges[w.rnd.IntN(len(w.edges))]
	if e.p == nil {
		return
	}
	p, keep := e.p, w.rnd.IntN(20)
	ask(p, nil, func() journal.Snapshot { return w.store.load(journal.Load{Key: t.key}) }, func(snap journal.Snapshot, ok bool) {
		if !ok || !snap.Exists {
			return
		}
		first := snap.Base.Chunks
		snap.Records = snap.Records[:max(0, len(snap.Records)-keep)]
		base, pages := snap.State(nil).Compact()
		q := journal.Trim{Key: t.key, Epoch: snap.Meta.Epoch, Base: base, FirstPage: first, Pages: pages}
		ask(p, nil, func() journal.Result { return w.store.trim(q) }, func(journal.Result, bool) {})
	})
}

// storm lets many people write into one thread at once, and two answer or stop
// the same run through different edges.
func (w *world) storm() {
	w.count("storm")
	for range 4 + w.rnd.IntN(16) {
		c := w.clients[w.rnd.IntN(len(w.clients))]
		w.after(w.between(0, 30), func() {
			if c.p == nil || c.st == nil {
				return
			}
			switch runs := c.st.Runs; {
			case len(runs) > 0 && w.chance(0.4):
				run := runs[w.rnd.IntN(len(runs))]
				if i := run.Open(); i != nil {
					c.p.answer(c.key, chat.Answer{Interrupt: i.ID, Status: chat.InterruptAnswered, By: c.subject()}, func(result) {})
				} else {
					c.p.cancel(c.key, run.ID, chat.CauseUser, func(result) {})
				}
			default:
				c.say()
			}
		})
	}
}

// calmDown ends all faults: everything works again and goes on.
func (w *world) calmDown() {
	w.log("calm")
	w.calm = true
	for _, e := range w.edges {
		e.heal()
		e.deaf = false
		if e.p == nil {
			e.boot()
		}
	}
	w.up()
	for _, c := range w.clients {
		c.cutIn = 1 << 30
	}
}
