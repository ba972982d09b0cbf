package sim

import "github.com/parlance-gateway/parlance/internal/chat"

// Times of the network, in ms.
const (
	answerPatience = 600 // how long an edge waits for the store's answer
	lateCopy       = 1500
)

// delay is how long a message is on its way: mostly short, and while there are
// faults now and then longer than anybody waits for it.
func (w *world) delay() int64 {
	if !w.calm {
		switch r := w.rnd.IntN(100); {
		case r == 0:
			return w.between(200, 1000)
		case r < 12:
			return w.between(5, 60)
		}
	}
	return w.between(1, 4)
}

// reaches says whether the network carries a message between e and the store.
func (w *world) reaches(e *edge) bool {
	return !e.cut && !w.store.down && (w.calm || !w.chance(0.02))
}

// ask asks the store something and calls done with the answer, or with ok
// false where none came in time: then nobody knows what became of it. Writes of
// one thread (lane) reach the store in the order in which they were sent, as on
// one connection; but a copy of one that had no answer may come much later.
func ask[T any](p *proc, lane *chat.Key, exec func() T, done func(v T, ok bool)) {
	w := p.e.w
	settled := false
	settle := func(v T, ok bool) {
		if !settled && !p.dead {
			settled = true
			done(v, ok)
		}
	}
	// What is under way is under way to one server: another never gets it.
	server := w.store.falls
	arrive := w.now + w.delay()
	if lane != nil {
		arrive = max(arrive, p.lanes[*lane])
		p.lanes[*lane] = arrive
	}
	w.after(arrive-w.now, func() {
		if !w.reaches(p.e) || w.store.falls != server {
			return
		}
		v := exec()
		if !w.calm && w.chance(0.01) {
			w.after(w.between(1, lateCopy), func() {
				if !w.store.down && w.store.falls == server {
					w.count("late copy")
					exec()
				}
			})
		}
		w.after(w.delay(), func() {
			if w.reaches(p.e) {
				settle(v, true)
			} else {
				w.count("answer lost")
			}
		})
	})
	w.after(answerPatience, func() {
		var none T
		settle(none, false)
	})
}
