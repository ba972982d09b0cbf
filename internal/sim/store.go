package sim

import (
	"maps"
	"slices"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// undoLimit bounds how many writes a failover can lose.
const undoLimit = 24

// store is a model of what holds the threads: ledgers, deadlines and an index,
// and beside them what no store knows, namely the truth about each thread.
type store struct {
	w       *world
	down    bool
	threads []*thread
	segs    map[string]chat.Key
	undo    []undone
	downAt  int64
	upSince int64
	falls   int // failovers
}

// thread is a ledger with its truth.
type thread struct {
	key chat.Key
	l   *journal.Ledger
	// truth is the fold of all that the ledger has; states has one for each
	// record that was ever stored, those that were lost too.
	truth  *chat.State
	states map[place]*chat.State
	epochs map[uint64]uint64 // a record's epoch, by tag
	ended  map[string]uint64 // the tag of a run's end
	lost   map[uint64]bool   // tags of records that a failover lost
	dead   bool              // deleted at least once
	losses int
}

// place names a record: a write that was lost and tried again has the same tag
// elsewhere.
type place struct{ pos, tag uint64 }

// undone is what a failover needs to take a write back.
type undone struct {
	t     *thread
	l     journal.Ledger
	truth *chat.State
	tags  []uint64
	segs  []string
	cid   journal.CommandID
}

// hasEnded says that the run's end is in the store.
func (t *thread) hasEnded(run string) bool {
	tag, ok := t.ended[run]
	return ok && !t.lost[tag]
}

func newStore(w *world, threads int) *store {
	s := &store{w: w, segs: map[string]chat.Key{}}
	for range threads {
		s.threads = append(s.threads, &thread{
			key: chat.Key{Realm: "r", Thread: w.id("t")}, l: journal.NewLedger(), truth: &chat.State{},
			states: map[place]*chat.State{}, epochs: map[uint64]uint64{}, ended: map[string]uint64{}, lost: map[uint64]bool{},
		})
	}
	return s
}

func (s *store) thread(key chat.Key) *thread {
	for _, t := range s.threads {
		if t.key == key {
			return t
		}
	}
	panic("sim: no such thread")
}

// save keeps what a write is about to change.
func (s *store) save(t *thread) *undone {
	u := undone{t: t, l: *t.l, truth: t.truth}
	u.l.Meta.Runs = maps.Clone(t.l.Meta.Runs)
	u.l.Records = slices.Clip(u.l.Records)
	u.l.Commands = slices.Clip(u.l.Commands)
	if len(s.undo) >= undoLimit {
		s.undo = append(s.undo[:0], s.undo[1:]...)
	}
	s.undo = append(s.undo, u)
	return &s.undo[len(s.undo)-1]
}

// failover loses the newest n writes.
func (s *store) failover(n int) {
	n = min(n, len(s.undo))
	s.falls++
	s.w.checker.holders()
	for range n {
		u := s.undo[len(s.undo)-1]
		s.undo = s.undo[:len(s.undo)-1]
		l := u.l
		*u.t.l = l
		u.t.truth = u.truth.Clip()
		u.t.losses++
		for _, tag := range u.tags {
			u.t.lost[tag] = true
		}
		for _, seg := range u.segs {
			delete(s.segs, seg)
		}
		if u.cid != (journal.CommandID{}) {
			s.w.checker.lostCommand(u.cid)
		}
		s.w.count("writes lost")
	}
	s.w.checker.vanished()
	s.w.log("store: failover, %d writes lost", n)
}

func (s *store) append(a journal.Append, boot string) journal.Appended {
	t, now := s.thread(a.Key), s.w.now
	s.w.bug.appending(t.l, &a)
	u := s.save(t)
	r := t.l.Append(a, now)
	if r.Result != journal.Stored {
		s.undo = s.undo[:len(s.undo)-1]
		s.w.count("append " + r.Result.String())
		return r
	}
	if m := t.l.Meta.Runs[a.Run]; m.Owner != boot && s.w.bug != FenceUnchecked {
		s.w.fail("fence: %s wrote to %s, which %s owns", boot, a.Run, m.Owner)
	}
	s.stored(t, u, r.Records)
	s.publish(t, journal.Notice{Epoch: t.l.Meta.Epoch, Records: r.Records})
	return r
}

func (s *store) commit(c journal.Commit) journal.Committed {
	t, now := s.thread(c.Key), s.w.now
	s.w.bug.committing(t.l, &c)
	u := s.save(t)
	t.l.Nodes = maps.Clone(t.l.Nodes) // what was saved keeps the one that was
	was := t.l.Exists
	r := t.l.Commit(c, now)
	if r.Result != journal.Done {
		s.undo = s.undo[:len(s.undo)-1]
		s.w.count("commit " + r.Result.String())
		return r
	}
	if !was {
		t.truth = t.l.Base.Clip()
	}
	u.cid = c.Command
	for _, seg := range c.Segments {
		s.segs[seg] = c.Key
		u.segs = append(u.segs, seg)
	}
	s.w.checker.committed(c, t)
	s.stored(t, u, r.Records)
	s.publish(t, journal.Notice{Epoch: r.Epoch, Rev: r.Rev, Records: r.Records})
	return r
}

// stored notes the truth about new records and checks them.
func (s *store) stored(t *thread, u *undone, recs []*chat.Record) {
	for _, r := range recs {
		s.w.checker.record(t, r)
		t.truth = t.truth.Apply(r)
		t.states[place{r.Pos, r.Tag}] = t.truth
		delete(t.lost, r.Tag) // a write that was lost and tried again
		t.epochs[r.Tag] = t.l.Meta.Epoch
		u.tags = append(u.tags, r.Tag)
		if s.w.tracing {
			s.w.log("store: %s/%x %d %s %s fence %d", t.key.Thread, t.l.Meta.Epoch>>48, r.Pos, r.Kind, r.Run, t.l.Meta.Runs[r.Run].Fence)
		}
	}
	s.w.checker.ledger(t)
}

func (s *store) load(q journal.Load) journal.Snapshot {
	t := s.thread(q.Key)
	s.w.bug.loading(t.l, &q)
	return t.l.Load(q, s.w.now)
}

// look is load for one who wants the state and no records: it gets the truth,
// which base and records are held to elsewhere, so that it need not be folded
// again each time.
func (s *store) look(q journal.Load) journal.Snapshot {
	snap := s.load(q)
	if snap.Exists && !snap.Continues && s.w.bug == "" {
		snap.Base, snap.Records = s.thread(q.Key).truth.Clip(), nil
	}
	return snap
}

func (s *store) trim(q journal.Trim) journal.Result {
	t := s.thread(q.Key)
	if s.w.bug.trimming(t.l, &q) {
		return journal.OK
	}
	s.save(t)
	r := t.l.Trim(q)
	if r != journal.OK {
		s.undo = s.undo[:len(s.undo)-1]
		return r
	}
	s.w.count("trim")
	s.w.log("store: %s trimmed to %d", t.key.Thread, t.l.Meta.Floor)
	s.w.checker.trimmed(t)
	return r
}

func (s *store) reset(q journal.Reset, shown uint64) journal.Result {
	t := s.thread(q.Key)
	s.w.bug.resetting(t.l, &q)
	u := s.save(t)
	was, seen := t.l.Meta.Epoch, t.truth
	r := t.l.Reset(q)
	if r != journal.OK || t.l.Meta.Epoch == was {
		s.undo = s.undo[:len(s.undo)-1]
		s.w.count("reset " + r.String())
		return r
	}
	s.w.count("reset")
	s.w.log("store: %s reset from %d to %d, epoch %x", t.key.Thread, seen.Pos, q.Base.Pos, q.NewEpoch>>48)
	s.w.checker.reset(t, seen, q, shown)
	t.truth = q.Base.Clip()
	t.states[place{q.Base.Pos, q.Base.Tag}], t.epochs[q.Base.Tag] = t.truth, q.NewEpoch
	u.tags = append(u.tags, q.Base.Tag)
	s.publish(t, journal.Notice{Epoch: q.NewEpoch, Rev: t.l.Meta.Rev, Reset: true})
	return r
}

// delete deletes a thread that its deleter saw in an epoch, made by the record of
// a tag.
func (s *store) delete(key chat.Key, epoch, born uint64) journal.Result {
	t := s.thread(key)
	if s.w.bug == DeleteByName {
		epoch = t.l.Meta.Epoch
	}
	was, is := t.l.Exists, t.truth.Born
	s.save(t)
	if r := t.l.Delete(epoch, s.w.now); r != journal.OK || !was {
		s.undo = s.undo[:len(s.undo)-1]
		s.w.count("delete too late")
		return r
	}
	if is != born {
		s.w.fail("delete: %s was deleted by one who meant the thread that was there before", key.Thread)
	}
	t.dead = true
	t.truth = &chat.State{}
	s.w.count("delete")
	s.w.log("store: %s deleted", key.Thread)
	s.publish(t, journal.Notice{Epoch: t.l.Meta.Epoch, Deleted: true})
	return journal.OK
}

// claimed is the answer to a claim.
type claimed struct {
	fence uint64
	res   journal.Result
}

func (s *store) claim(q journal.Claim) claimed {
	t := s.thread(q.Key)
	before := t.l.Meta.Runs[q.Run]
	s.save(t)
	fence, _, res := t.l.Claim(q, before.Lapsed(s.w.now), s.w.now)
	if res != journal.OK {
		s.undo = s.undo[:len(s.undo)-1]
		return claimed{0, res}
	}
	if before.Fence == q.Fence {
		s.w.count("claim")
		s.w.log("store: %s claimed by %s from %s, fence %d", q.Run, q.Owner, before.Owner, fence)
		s.w.checker.claimed(t, q, before)
	}
	return claimed{fence, res}
}

func (s *store) beat(boot string, owned []journal.Owned) (lost []journal.Owned) {
	for _, o := range owned {
		if !s.thread(o.Key).l.Renew(o.Run, boot, o.Fence, s.w.now) {
			lost = append(lost, o)
		}
	}
	s.w.bug.beating(s, boot)
	return lost
}

func (s *store) due(limit int) (items []journal.DueItem) {
	for _, t := range s.threads {
		if !t.l.Exists {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(t.l.Meta.Runs)) {
			m := t.l.Meta.Runs[id]
			i := journal.DueItem{Key: t.key, Run: id, Meta: m, Lapsed: m.Lapsed(s.w.now)}
			if s.w.bug == ImmortalOwner {
				i.Lapsed = false
			}
			if (i.Lapsed || (m.Due != 0 && m.Due <= s.w.now)) && len(items) < limit {
				items = append(items, i)
			}
		}
	}
	return items
}

// publish sends a notice to all who follow; the channel may do anything to it.
func (s *store) publish(t *thread, n journal.Notice) {
	for _, e := range s.w.edges {
		p := e.p
		if p == nil || p.room(t.key) == nil {
			continue
		}
		if e.cut || e.deaf || (!s.w.calm && s.w.chance(0.03)) {
			continue
		}
		d := s.w.delay()
		s.w.after(d, func() { p.notice(t.key, n) })
		if !s.w.calm && s.w.chance(0.03) {
			s.w.after(d+s.w.between(0, 400), func() { p.notice(t.key, n) })
		}
	}
}

// reconnected tells every follower that it may have missed something.
func (s *store) reconnected() {
	for _, e := range s.w.edges {
		e.resync()
	}
}
