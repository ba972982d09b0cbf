package sim

import (
	"slices"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/room"
)

// recent is how many applied records an open room remembers, for members that
// come back with a cursor.
const recent = 64

// openRoom is the shell of a sequencer.
type openRoom struct {
	p       *proc
	key     chat.Key
	seq     room.Sequencer
	members []*client
	recent  []*chat.Record
	joining []func()
	pins    int // owners that need the room
	behind  int
	shown   uint64 // the highest position that a member was shown
}

func (p *proc) room(key chat.Key) *openRoom {
	for _, r := range p.rooms {
		if r.key == key {
			return r
		}
	}
	return nil
}

// enter opens the room if need be; its first news is that it must load.
func (p *proc) enter(key chat.Key) *openRoom {
	if r := p.room(key); r != nil {
		return r
	}
	r := &openRoom{p: p, key: key}
	p.rooms = append(p.rooms, r)
	p.e.w.after(p.e.w.delay(), func() { p.notice(key, journal.Notice{Resync: true}) })
	return r
}

// closeRooms closes those that nobody uses, now and then.
func (p *proc) closeRooms() {
	p.rooms = slices.DeleteFunc(p.rooms, func(r *openRoom) bool {
		return r.pins == 0 && len(r.members) == 0 && len(r.joining) == 0 && p.e.w.chance(0.2)
	})
}

// notice hands a notice to the room, if it is open.
func (p *proc) notice(key chat.Key, n journal.Notice) {
	r := p.room(key)
	if r == nil || p.dead {
		return
	}
	n = p.e.w.bug.noticing(&r.seq, n)
	r.step(r.seq.Notice(n, p.now()))
	if r.seq.Hole() && p.e.w.bug != HoleNeverFilled {
		p.e.w.after(25, func() {
			if !p.dead {
				r.step(r.seq.Tick(p.now()))
			}
		})
	}
}

// step does what the sequencer asked for.
func (r *openRoom) step(s room.Step) {
	p, w := r.p, r.p.e.w
	if s.Close != "" || s.Restarted {
		w.log("%s: room %s restarted at %x.%d close %q", p.boot, r.key.Thread, r.seq.Epoch>>48, r.seq.State.Pos, s.Close)
	}
	if s.Restarted {
		r.recent = r.recent[:0]
	}
	if s.Close == room.CloseBehind {
		r.behind++
	}
	if s.Close != "" {
		r.close(s.Close)
	}
	for i := range s.Applied {
		r.apply(&s.Applied[i])
	}
	if s.Load != nil {
		r.load(*s.Load)
	}
	if s.Reset != nil {
		r.reset(*s.Reset)
	}
	if r.seq.Ready {
		joining := r.joining
		r.joining = nil
		for _, f := range joining {
			f()
		}
	}
}

func (r *openRoom) apply(c *room.Change) {
	r.recent = append(r.recent, c.Record)
	if len(r.recent) > 2*recent {
		r.recent = append(r.recent[:0], r.recent[recent:]...)
	}
	if len(r.members) > 0 {
		r.shown = c.Record.Pos
	}
	for _, m := range slices.Clone(r.members) {
		m.deliver(c.Record, c.Epoch)
	}
	for _, a := range slices.Clone(r.p.owners) {
		if a.o.Key == r.key && a.o.Run == c.Record.Run {
			a.seen(c)
		}
	}
}

func (r *openRoom) close(why room.CloseReason) {
	if r.p.e.w.bug == MembersStay && why == room.CloseEpoch {
		return
	}
	for _, m := range r.members {
		m.closed(why)
	}
	r.members = nil
	if why == room.CloseBehind {
		return // no loss: the owners go on
	}
	for _, a := range slices.Clone(r.p.owners) {
		if a.o.Key == r.key {
			a.do(a.o.Shut(why == room.CloseEpoch))
		}
	}
}

func (r *openRoom) load(from journal.Cursor) {
	w := r.p.e.w
	ask(r.p, nil, func() journal.Snapshot { return w.store.load(journal.Load{Key: r.key, From: from}) }, func(snap journal.Snapshot, ok bool) {
		if ok {
			r.step(r.seq.Loaded(snap, r.p.now()))
			return
		}
		r.seq.Failed()
		r.again()
	})
}

func (r *openRoom) again() {
	r.p.e.w.after(100, func() {
		if !r.p.dead {
			r.step(r.seq.Resync(r.p.now()))
		}
	})
}

func (r *openRoom) reset(q journal.Reset) {
	w := r.p.e.w
	q.Key, q.NewEpoch, q.Tag = r.key, w.random(), w.random()
	q.Base.Tag = q.Tag
	w.log("%s: room %s proves a loss: has %d, the store %d", r.p.boot, r.key.Thread, r.seq.State.Pos, q.Seen.Pos)
	ask(r.p, &r.key, func() journal.Result { return w.store.reset(q, r.shown) }, func(_ journal.Result, ok bool) {
		if ok {
			r.step(r.seq.Resync(r.p.now()))
		} else {
			r.again()
		}
	})
}

// join seats a member: behind its cursor if the room still has what follows,
// else with the whole state.
func (r *openRoom) join(c *client, cursor journal.Cursor) {
	st := r.seq.State
	if !st.Exists {
		c.refused()
		return
	}
	r.members = append(r.members, c)
	if cursor.Epoch == r.seq.Epoch && cursor.Pos == st.Pos && cursor.Tag == st.Tag {
		c.continued()
		return
	}
	if cursor.Epoch == r.seq.Epoch {
		if i := slices.IndexFunc(r.recent, func(x *chat.Record) bool { return x.Pos == cursor.Pos && x.Tag == cursor.Tag }); i >= 0 {
			c.continued()
			for _, rec := range slices.Clone(r.recent[i+1:]) {
				c.deliver(rec, r.seq.Epoch)
			}
			return
		}
	}
	if st.Pos < r.shown {
		r.p.e.w.fail("order: %s is shown %s at %d by a room that has shown %d", c.name, r.key.Thread, st.Pos, r.shown)
	}
	r.shown = st.Pos
	c.snapshot(st, r.seq.Epoch)
}
