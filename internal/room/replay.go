package room

import (
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Since returns the encodings of what the thread logged after a log number, up
// to the held seat's position. ok is false if the room does not remember it so
// far back; the journal may.
func (s *Seat) Since(after uint64) (enc []any, ok bool) {
	r := s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.holds == 0 {
		return nil, false
	}
	if s.state.Log <= after {
		return nil, true
	}
	// The first record that is wanted, and all from it to the seat's position.
	first, to := -1, len(r.ring.items)
	for to > 0 && r.ring.items[to-1].rec.Pos > s.pos {
		to--
	}
	for i := range r.ring.items[:to] {
		if log := r.ring.items[i].rec.Log; log != 0 {
			if log <= after+1 {
				first = i
			}
			if log >= after+1 {
				break
			}
		}
	}
	if first < 0 {
		return nil, false
	}
	r.ring.each(first, to, s.variant, Change{Key: r.key, Epoch: r.seq.Epoch}, func(rec *chat.Record, e any) {
		if rec.Log > after && e != nil {
			enc = append(enc, e)
		}
	})
	r.rooms.o.Counts.Replayed.Add(1)
	return enc, true
}

// Replay is Since from what the journal keeps. ok is false if that is not the
// seat's own past, or does not reach back so far.
func (s *Seat) Replay(snap journal.Snapshot, after uint64) (enc []any, ok bool) {
	s.room.mu.Lock()
	st, epoch, held := s.state, s.room.seq.Epoch, s.holds > 0 && !s.gone
	s.room.mu.Unlock()
	counts := s.room.rooms.o.Counts
	if !held || !snap.Exists || snap.Base == nil || snap.Meta.Epoch != epoch || snap.Base.Log > after {
		counts.Outdated.Add(1)
		return nil, false
	}
	c := Change{Key: s.room.key, Epoch: epoch, After: snap.Base.Clip()}
	for _, rec := range snap.Records {
		if rec.Pos > st.Pos {
			break
		}
		c.Record, c.Before, c.After = rec, c.After, c.After.Apply(rec)
		if rec.Log <= after {
			continue
		}
		if e := s.variant.Encode(&c); e != nil {
			enc = append(enc, e)
		}
	}
	if c.After.Pos != st.Pos || c.After.Tag != st.Tag {
		counts.Outdated.Add(1)
		return nil, false
	}
	counts.Reread.Add(1)
	return enc, true
}
