package room

import (
	"slices"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Bounds of a sequencer.
const (
	// holdLimit is how many records may wait for a hole to fill.
	holdLimit = 4096
	// recentTags is how many applied records are remembered by tag, to tell an
	// echo from a foreign record.
	recentTags = 1024
	// sightings is how many records of epochs to come are remembered that do not
	// follow each other.
	sightings = 64
	// holePatience is how long a hole may wait for a late notice, in ms.
	holePatience = 20
	// probeEvery is how often a room with a live run compares itself with the
	// store although nothing seems wrong, in ms.
	probeEvery = 10_000
	// probeIdle is the same for a room without one: a notice that was lost with
	// nothing after it would never be missed.
	probeIdle = 60_000
)

// Sequencer puts the records of one thread in order and proves losses. A
// record is applied only if it follows the last one in position and by tag; an
// echo is known by its tag, never by its position.
type Sequencer struct {
	Epoch uint64
	State *chat.State
	// Rev is the newest revision that this edge saw acknowledged.
	Rev journal.Rev
	// Ready is false until the first load.
	Ready bool

	// ahead is what was seen lately of other epochs than ours: the store must
	// have it when we come to that epoch.
	ahead []sighting

	held   map[uint64]*chat.Record
	holeAt int64
	tags   []uint64 // of the newest applied records, oldest first

	// proved: the store has lost something of this epoch. It stays so until the
	// epoch is over, whoever ends it: a reset may fail, and what proved the loss
	// may be overtaken by newer commits meanwhile.
	proved bool

	want    bool // a load is wanted
	loading bool // a load is in flight
	from    journal.Cursor
	base    *chat.State // at from
	// revSent and aheadSent are what was known when the load was sent.
	revSent   journal.Rev
	aheadSent []sighting
	checked   int64
}

// sighting is a record and a revision that some store had.
type sighting struct {
	cursor journal.Cursor
	rev    journal.Rev
}

// in says whether the snapshot may have what was seen. Before the records that
// it carries nothing can be told.
func (g sighting) in(snap *journal.Snapshot) bool {
	at, newest := g.cursor.Pos, snap.Meta.Pos
	first := newest - uint64(len(snap.Records))
	switch {
	case g.cursor.Epoch != snap.Meta.Epoch:
		return true
	case lacks(snap.Meta.Rev, g.rev), at > newest:
		return false
	}
	return at <= first || snap.Records[at-first-1].Tag == g.cursor.Tag
}

// foreign says that the snapshot has another record where one was seen: one of
// the two is of a history that was lost, whichever was first.
func (g sighting) foreign(snap *journal.Snapshot) bool {
	at, newest := g.cursor.Pos, snap.Meta.Pos
	first := newest - uint64(len(snap.Records))
	return g.cursor.Epoch == snap.Meta.Epoch && at > first && at <= newest && snap.Records[at-first-1].Tag != g.cursor.Tag
}

// Step is what a sequencer asks for after an input.
type Step struct {
	// Applied are the records that were applied, in order, with the states
	// around them.
	Applied []Change
	// Load asks for a load from the cursor; the answer goes to Loaded or Failed.
	Load *journal.Cursor
	// Reset asks for a new epoch, because of a proved loss. NewEpoch and the
	// tags are for the shell to draw; whatever the answer, the shell calls Resync after
	// it.
	Reset *journal.Reset
	// Close says that every member must come back, and why.
	Close CloseReason
	// Restarted says that the state was taken anew, not reached by Applied.
	Restarted bool
	// Gone says that the thread is no longer there.
	Gone bool
}

// Cursor is where the sequencer stands.
func (q *Sequencer) Cursor() journal.Cursor {
	if !q.Ready {
		return journal.Cursor{}
	}
	return journal.Cursor{Epoch: q.Epoch, Pos: q.State.Pos, Tag: q.State.Tag}
}

// Resync asks for a load: the channel was interrupted, or a reset was tried.
func (q *Sequencer) Resync(now int64) Step {
	q.want = true
	return q.load(now)
}

// Notice takes records from the thread's channel or from a write's own answer.
func (q *Sequencer) Notice(n journal.Notice, now int64) Step {
	var s Step
	switch {
	case n.Resync, n.Deleted, n.Reset, !q.Ready, n.Epoch != q.Epoch:
		// Nothing here can be judged without the store.
		q.want = true
		q.sight(&n)
	default:
		if later(n.Rev, q.Rev) {
			q.Rev = n.Rev
			// A revision without its records (a claim, a commit that was done
			// before): see what it is while the store still has it.
			q.want = q.want || len(n.Records) == 0
		}
		for _, r := range n.Records {
			q.take(r, &s, now)
		}
		q.drain(&s)
	}
	s.Load = q.load(now).Load
	return s
}

// sight remembers the newest record of a notice that cannot be judged yet. One
// that follows what was seen before stands for that too: its tag is made of all
// tags before it.
func (q *Sequencer) sight(n *journal.Notice) {
	if len(n.Records) == 0 {
		return
	}
	first, last := n.Records[0], n.Records[len(n.Records)-1]
	g := sighting{journal.Cursor{Epoch: n.Epoch, Pos: last.Pos, Tag: last.Tag}, n.Rev}
	before := journal.Cursor{Epoch: n.Epoch, Pos: first.Pos - 1, Tag: first.Prev}
	if i := slices.IndexFunc(q.ahead, func(a sighting) bool { return a.cursor == before }); i >= 0 {
		if later(q.ahead[i].rev, g.rev) {
			g.rev = q.ahead[i].rev
		}
		q.ahead[i] = g
		return
	}
	if len(q.ahead) >= sightings {
		q.ahead = slices.Delete(q.ahead, 0, 1)
	}
	q.ahead = append(q.ahead, g)
}

func later(a, b journal.Rev) bool { return a.N > b.N }

// take applies a record, keeps it for later, or finds it suspicious.
func (q *Sequencer) take(r *chat.Record, s *Step, now int64) {
	switch {
	case r.Pos <= q.State.Pos:
		if tag, ok := q.tagOf(r.Pos); ok && tag != r.Tag {
			q.proved, q.want = true, true
		}
	case r.Pos == q.State.Pos+1:
		if r.Prev != q.State.Tag {
			// It follows a record that we do not have at our position: either
			// it or we are of a history that was lost. By the next look newer
			// commits may have hidden that.
			q.proved, q.want = true, true
			return
		}
		q.apply(r, s)
	case len(q.held) >= holdLimit:
		clear(q.held)
		q.want = true
	default:
		if q.held == nil {
			q.held = make(map[uint64]*chat.Record)
		}
		if len(q.held) == 0 {
			q.holeAt = now
		}
		q.compare(r)
		q.held[r.Pos] = r
	}
}

// compare looks whether another record is held for r's position: then the store
// has lost one of the two, whichever it was.
func (q *Sequencer) compare(r *chat.Record) {
	if h := q.held[r.Pos]; h != nil && h.Tag != r.Tag {
		q.proved, q.want = true, true
	}
}

func (q *Sequencer) apply(r *chat.Record, s *Step) {
	q.compare(r)
	before := q.State
	q.State = before.Apply(r)
	if len(q.tags) >= 2*recentTags {
		q.tags = append(q.tags[:0], q.tags[recentTags:]...)
	}
	q.tags = append(q.tags, r.Tag)
	s.Applied = append(s.Applied, Change{Epoch: q.Epoch, Record: r, Before: before, After: q.State})
}

// drain applies held records for as long as they follow.
func (q *Sequencer) drain(s *Step) {
	for len(q.held) > 0 {
		r, ok := q.held[q.State.Pos+1]
		if !ok {
			break
		}
		delete(q.held, r.Pos)
		if r.Prev != q.State.Tag {
			q.proved, q.want = true, true
			break
		}
		q.apply(r, s)
	}
	for pos := range q.held {
		if pos <= q.State.Pos {
			delete(q.held, pos)
		}
	}
}

// tagOf is the tag of the applied record at pos, if it is remembered.
func (q *Sequencer) tagOf(pos uint64) (uint64, bool) {
	back := q.State.Pos - pos
	if back >= uint64(len(q.tags)) {
		return 0, false
	}
	return q.tags[uint64(len(q.tags))-1-back], true
}

// Hole says whether a record waits for one before it.
func (q *Sequencer) Hole() bool { return len(q.held) > 0 }

// Due says whether Tick would ask for anything.
func (q *Sequencer) Due(now int64) bool {
	return (len(q.held) > 0 && now-q.holeAt >= holePatience) ||
		(q.Ready && now-q.checked >= probeIdle) ||
		(q.Ready && len(q.State.Runs) > 0 && now-q.checked >= probeEvery)
}

// Tick looks at the clock: a hole that nobody filled, or a probe that is due.
func (q *Sequencer) Tick(now int64) Step {
	q.want = q.want || q.Due(now)
	return q.load(now)
}

func (q *Sequencer) load(now int64) Step {
	if !q.want || q.loading {
		return Step{}
	}
	q.want, q.loading, q.checked = false, true, now
	q.from, q.base, q.revSent, q.aheadSent = q.Cursor(), q.State, q.Rev, slices.Clone(q.ahead)
	c := q.from
	return Step{Load: &c}
}

// Failed takes a load that had no answer; the shell calls Resync after a pause.
func (q *Sequencer) Failed() { q.loading, q.want = false, true }

// Loaded takes the store's answer to the load that is in flight.
func (q *Sequencer) Loaded(snap journal.Snapshot, now int64) Step {
	var s Step
	q.loading = false
	known := q.Ready && q.State.Exists
	switch {
	case !snap.Exists && !known:
		q.start(snap, &s)
		s.Gone = snap.Deleted
	case snap.Deleted:
		s.Close, s.Gone = CloseDeleted, true
	case !snap.Exists:
		// It vanished without a tombstone: the store lost all of it.
		s.Close, s.Gone = CloseEpoch, true
	case !q.Ready:
		q.start(snap, &s)
	case snap.Meta.Epoch != q.Epoch:
		if snap.Meta.Pos < q.State.Pos {
			// A new epoch is always above the old one, so the store lost a
			// reset, or all of a thread that was then made again.
			q.prove(snap, &s)
			break
		}
		if q.State.Exists {
			s.Close = CloseEpoch
		}
		q.start(snap, &s)
	case q.proved, lacks(snap.Meta.Rev, q.revSent):
		q.prove(snap, &s)
	case snap.Behind && snap.Meta.Pos < q.State.Pos:
		// Notices have brought us beyond it since it was asked for.
		if tag, ok := q.tagOf(snap.Meta.Pos); ok && tag != snap.Meta.Tag {
			q.prove(snap, &s)
		}
	case snap.Behind:
		s.Close = CloseBehind
		q.start(snap, &s)
	case !snap.Continues:
		q.prove(snap, &s)
	default:
		if later(snap.Meta.Rev, q.Rev) {
			q.Rev = snap.Meta.Rev
		}
		for _, r := range snap.Records {
			q.take(r, &s, now)
		}
		q.drain(&s)
	}
	if s.Reset == nil && snap.Exists {
		if slices.ContainsFunc(q.aheadSent, func(g sighting) bool { return !g.in(&snap) }) ||
			slices.ContainsFunc(q.ahead, func(g sighting) bool { return g.foreign(&snap) }) {
			q.prove(snap, &s)
		}
		q.ahead = slices.DeleteFunc(slices.Clone(q.ahead), func(g sighting) bool {
			return g.cursor.Epoch == snap.Meta.Epoch && g.cursor.Pos <= snap.Meta.Pos
		})
	}
	if s.Reset == nil {
		s.Load = q.load(now).Load
	}
	return s
}

// lacks says that a store at revision r has lost the revision seen.
func lacks(r, seen journal.Rev) bool {
	return r.N < seen.N || (r.N == seen.N && r.Tag != seen.Tag)
}

// start takes the snapshot as it is.
func (q *Sequencer) start(snap journal.Snapshot, s *Step) {
	s.Restarted, q.proved = true, false
	q.Ready, q.Epoch, q.Rev = true, snap.Meta.Epoch, snap.Meta.Rev
	q.State = snap.State(nil)
	clear(q.held)
	q.tags = q.tags[:0]
	for _, r := range snap.Records[max(0, len(snap.Records)-recentTags):] {
		q.tags = append(q.tags, r.Tag)
	}
}

// prove asks for a new epoch over what the store still has. Positions and log
// numbers leap beyond anything that this edge has shown.
func (q *Sequencer) prove(snap journal.Snapshot, s *Step) {
	base := snap.State(q.base).Clip()
	base.Pos = max(snap.Meta.Pos, q.State.Pos) + journal.PositionJump
	base.Log = max(snap.Meta.Log, q.State.Log) + journal.PositionJump
	s.Reset = &journal.Reset{
		Seen: journal.Cursor{Epoch: snap.Meta.Epoch, Pos: snap.Meta.Pos, Tag: snap.Meta.Tag},
		Base: base,
	}
	q.proved, q.want = true, true
}
