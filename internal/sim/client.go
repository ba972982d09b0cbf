package sim

import (
	"slices"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/room"
)

// client is a person's window: it watches one thread through one edge at a
// time, folds what it is shown, and does what people do.
type client struct {
	w      *world
	name   string
	key    chat.Key
	p      *proc
	member bool
	life   int // of its connection
	// st is what it was shown, folded; epoch is where that belongs to.
	st    *chat.State
	epoch uint64
	// cutIn is after how many more records its connection breaks.
	cutIn int
}

func (c *client) subject() chat.Subject { return chat.Subject{ID: c.name} }

func (c *client) cursor() journal.Cursor {
	if c.st == nil {
		return journal.Cursor{}
	}
	return journal.Cursor{Epoch: c.epoch, Pos: c.st.Pos, Tag: c.st.Tag}
}

// live is a client's life: every now and then it does something.
func (c *client) live() {
	c.w.after(c.w.between(10, 1500)*c.w.leisure, func() {
		if c.p == nil && (c.w.calm || c.w.chance(0.9)) {
			c.connect()
		} else if c.p != nil && !c.w.calm {
			c.act()
		}
		c.live()
	})
}

// connect goes to any edge and asks for the thread, from where it stands.
func (c *client) connect() {
	e := c.w.edges[c.w.rnd.IntN(len(c.w.edges))]
	if e.p == nil {
		return
	}
	c.life++
	c.p, c.member, c.cutIn = e.p, false, 1<<30
	if !c.w.calm && c.w.chance(0.5) {
		c.cutIn = c.w.rnd.IntN(60)
	}
	if !c.w.calm && c.w.chance(0.2) {
		c.st = nil // a reload of the page forgets all
	}
	life, p := c.life, c.p
	c.w.after(c.w.delay(), func() {
		if c.life != life || p.dead {
			return
		}
		r := p.enter(c.key)
		r.joining = append(r.joining, func() {
			if c.life == life {
				r.join(c, c.cursor())
			}
		})
		r.step(r.seq.Resync(p.now()))
	})
}

// dropped loses the connection.
func (c *client) dropped(why string) {
	if c.p != nil && !c.p.dead {
		if r := c.p.room(c.key); r != nil {
			if i := slices.Index(r.members, c); i >= 0 {
				r.members = slices.Delete(slices.Clone(r.members), i, i+1)
			}
		}
	}
	c.w.log("%s dropped: %s", c.name, why)
	c.p, c.member = nil, false
	c.life++
}

// refused: there is no such thread; people then make it.
func (c *client) refused() {
	c.w.log("%s: no thread %s", c.name, c.key.Thread)
	p := c.p
	c.st = nil
	c.dropped("no thread")
	if !c.w.calm {
		p.create(c.key, func(result) {})
	}
}

// closed: the edge says come back.
func (c *client) closed(why room.CloseReason) {
	c.w.count("closed " + string(why))
	c.p, c.member = nil, false
	c.life++
	c.w.log("%s closed: %s", c.name, why)
}

// snapshot is shown the whole thread anew.
func (c *client) snapshot(st *chat.State, epoch uint64) {
	c.w.log("%s sees %s whole at %x.%d", c.name, c.key.Thread, epoch>>48, st.Pos)
	c.member, c.st, c.epoch = true, st.Clip(), epoch
	c.w.count("snapshot")
	c.w.checker.whole(c)
}

// continued is told that what follows follows what it has.
func (c *client) continued() {
	c.w.count("continued")
	c.member = true
}

// deliver takes a record.
func (c *client) deliver(r *chat.Record, epoch uint64) {
	if !c.member {
		return
	}
	c.w.checker.shown(c, r, epoch)
	c.st = c.st.Apply(r)
	if c.w.rnd.IntN(24) == 0 {
		c.w.checker.whole(c)
	}
	if c.cutIn--; c.cutIn <= 0 {
		c.dropped("link")
	}
}

// act does something that a person may do.
func (c *client) act() {
	w, p := c.w, c.p
	st := c.st
	if !c.member || st == nil {
		return
	}
	switch r := w.rnd.IntN(20); {
	case r < 7:
		c.say()
	case r < 11:
		for _, run := range st.Runs {
			if i := run.Open(); i != nil && run.Status == chat.RunSuspended {
				by := w.id("by")
				w.count("answer")
				p.answer(c.key, chat.Answer{Interrupt: i.ID, Status: chat.InterruptAnswered, By: chat.Subject{ID: by}}, func(res result) {
					if res.err == nil {
						w.count("answer won")
					}
				})
				return
			}
		}
	case r < 14:
		if len(st.Runs) > 0 {
			w.count("cancel")
			p.cancel(c.key, st.Runs[w.rnd.IntN(len(st.Runs))].ID, chat.CauseUser, func(result) {})
		}
	case r < 16:
		for _, run := range st.Runs {
			if len(run.Subagents) > 0 {
				p.detach(c.key, run.Segment(), func(result) {})
				return
			}
		}
	case r < 19:
		c.dropped("goes away")
		if w.chance(0.1) {
			c.key, c.st = w.store.threads[w.rnd.IntN(len(w.store.threads))].key, nil
		}
	case w.bug == DeleteByName, w.chance(0.1): // else that bug would seldom show
		w.log("%s deletes %s", c.name, c.key.Thread)
		p.delete(c.key, 0)
	}
}

// say sends a message, sometimes the very same one twice or as a fork.
func (c *client) say() {
	w := c.w
	s := chat.Start{
		Message: &chat.Message{ID: w.id("m"), By: c.subject(), Parts: []*chat.Part{{ID: "x", Type: chat.PartText, Text: chat.Text("hello")}}},
		Run:     w.id("r"), Answer: w.id("a"), Segment: w.id("s"), WithdrawSegment: w.id("s"),
		Agent: plain, Origin: chat.Origin{By: c.subject()}, Upstream: w.id("u"), MaxRuns: 4, OneRun: w.chance(0.4),
	}
	if w.chance(0.4) {
		s.Agent = retrying
	}
	if n := len(c.st.Tail); n > 0 && w.chance(0.1) {
		s.Fork = c.st.Tail[w.rnd.IntN(n)].ID
	}
	w.count("start")
	send := func(p *proc) {
		p.start(c.key, s, func(r result) {
			if r.err == nil {
				w.count("start accepted")
			}
			w.log("%s: start of %s: %v", c.name, s.Run, r.err)
		})
	}
	send(c.p)
	if w.chance(0.1) {
		e := w.edges[w.rnd.IntN(len(w.edges))]
		if e.p != nil {
			again := s
			again.Run, again.Answer, again.Segment, again.WithdrawSegment = w.id("r"), w.id("a"), w.id("s"), w.id("s")
			p := e.p
			w.after(w.between(0, 50), func() {
				if !p.dead {
					p.start(c.key, again, func(result) {})
				}
			})
		}
	}
}
