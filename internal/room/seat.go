package room

import (
	"context"
	"sync"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Seat is a member's place in a room. A held seat is delivered nothing; what
// comes meanwhile waits in the room and is delivered at Release, in order from
// the seat's own position. All methods may be called from any goroutine, and
// none from within Member.
type Seat struct {
	room    *Room
	variant Variant
	member  Member
	// Guarded by room.mu.
	holds int
	state *chat.State // of a held seat
	pos   uint64
	who   *journal.Attending
	gone  bool // dropped from the room
	left  bool // given up by its user
}

// State is the thread at the seat's position.
func (s *Seat) State() *chat.State {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	if s.holds > 0 {
		return s.state
	}
	return s.room.seq.State
}

// Live returns the encodings of the records of live runs' current segments, up
// to the seat's position, oldest first. truncated says that the room no longer
// has the beginning of one (PIL-165).
func (s *Seat) Live() (enc []any, truncated bool) {
	r := s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.seq.State
	if s.holds > 0 {
		st = s.state
	}
	from := make(map[string]uint64, len(st.Runs))
	for _, run := range st.Runs {
		if run.Status == chat.RunSuspended || run.Status == chat.RunPending {
			continue
		}
		from[run.ID] = run.SegmentPos
		if len(r.ring.items) == 0 || r.ring.items[0].rec.Pos > run.SegmentPos {
			truncated = true
		}
	}
	to := len(r.ring.items)
	for to > 0 && r.ring.items[to-1].rec.Pos > st.Pos {
		to--
	}
	first := to
	for i := range r.ring.items[:to] {
		if pos, live := from[r.ring.items[i].rec.Run]; live && r.ring.items[i].rec.Pos >= pos {
			first = i
			break
		}
	}
	r.ring.each(first, to, s.variant, Change{Key: r.key, Epoch: r.seq.Epoch}, func(rec *chat.Record, e any) {
		if pos, live := from[rec.Run]; live && rec.Pos >= pos && e != nil {
			enc = append(enc, e)
		}
	})
	switch counts := r.rooms.o.Counts; {
	case truncated:
		counts.Cut.Add(1)
	case len(from) > 0:
		counts.Caught.Add(1)
	}
	return enc, truncated
}

// Hold stops the feed. Holds nest: the feed goes on with the last Release.
func (s *Seat) Hold() {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	if s.holds++; s.holds == 1 {
		s.state, s.pos = s.room.seq.State, s.room.seq.State.Pos
	}
}

// Refresh moves a held seat to the newest position; what lies between is not
// delivered, since the caller is about to show the newest state instead.
func (s *Seat) Refresh() {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	if s.holds > 0 {
		s.state, s.pos = s.room.seq.State, s.room.seq.State.Pos
	}
}

// Reach is Refresh to a position that has at least a log number which somebody was
// told at another edge: where the room is behind, it looks at the journal first. A
// number that the thread has not got to, which is none of its epoch's, changes
// nothing.
func (s *Seat) Reach(ctx context.Context, log uint64) {
	r := s.room
	looked, over := make(chan struct{}, 1), make(chan struct{})
	end := sync.OnceFunc(func() { close(over) })
	w := &Watcher{
		Change: func(*Change) {}, Epoch: func(CloseReason) { end() },
		Meta: func(*journal.Meta) {
			select {
			case looked <- struct{}{}:
			default:
			}
		},
	}
	if s.reached(log) || !r.watch(w) {
		return
	}
	defer func() {
		r.mu.Lock()
		delete(r.watchers, w)
		r.mu.Unlock()
	}()
	// What was being read already when this was called may be too old.
	for range 2 {
		r.put(journal.Notice{Resync: true})
		select {
		case <-looked:
		case <-over:
			return
		case <-ctx.Done():
			return
		}
		if s.reached(log) {
			return
		}
	}
}

// reached refreshes a held seat and says whether it has come so far.
func (s *Seat) reached(log uint64) bool {
	s.Refresh()
	return s.State().Log >= log
}

// Release delivers what was kept and lets the feed go on.
func (s *Seat) Release() {
	r := s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.holds == 0 {
		return
	}
	if s.holds--; s.holds > 0 || s.gone {
		return
	}
	from, ok := r.ring.after(s.pos, r.seq.State.Pos)
	if !ok {
		r.drop(s, CloseSlow)
		return
	}
	r.ring.each(from, len(r.ring.items), s.variant, Change{Key: r.key, Epoch: r.seq.Epoch}, func(_ *chat.Record, e any) {
		if e != nil {
			s.member.Deliver(e)
		}
	})
	s.state = nil
}

// Leave gives the seat up; nothing is delivered afterwards.
func (s *Seat) Leave() {
	r := s.room
	r.mu.Lock()
	again := s.left
	s.left, s.gone = true, true
	s.absent()
	delete(r.seats, s)
	r.mu.Unlock()
	if !again {
		r.rooms.release(r)
	}
}
