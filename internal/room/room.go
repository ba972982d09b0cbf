package room

import (
	"context"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// inboxLimit bounds the notices that wait for a room; beyond it the room is
// told to load instead.
const inboxLimit = 1024

// Room is a thread that is open on this edge. A notice is applied by whoever
// brings it, unless the room is at work or must ask the journal; then it waits in
// the inbox, which one goroutine works off, and none while it is empty.
type Room struct {
	rooms *Rooms
	key   chat.Key
	users int // guarded by rooms.mu
	ready chan struct{}
	// ctx ends with the room's last user.
	ctx context.Context
	end context.CancelFunc

	followOnce sync.Once
	unfollow   func()

	// inMu guards what waits to be worked off.
	inMu    sync.Mutex
	inbox   []journal.Notice
	working bool
	stopped bool
	// holeTimer runs while a hole is being watched.
	holeTimer *time.Timer

	// mu guards what members see. It is held while a change is delivered, so
	// that members get changes in order; delivering only queues.
	mu       sync.Mutex
	seq      Sequencer
	ring     ring
	seats    map[*Seat]struct{}
	watchers map[*Watcher]struct{}
	shut     bool // it has let everybody go, and takes nobody in any more
	attended int  // seats that count as members
}

func newRoom(rs *Rooms, key chat.Key) *Room {
	r := &Room{
		rooms: rs, key: key, ready: make(chan struct{}),
		seats: make(map[*Seat]struct{}), watchers: make(map[*Watcher]struct{}),
	}
	r.ctx, r.end = context.WithCancel(rs.ctx)
	return r
}

func (r *Room) follow() {
	r.followOnce.Do(func() {
		follow := r.rooms.j.Follow
		if p, ok := r.rooms.j.(journal.Prompt); ok {
			follow = p.FollowPromptly
		}
		r.unfollow = follow(r.key, r.put)
	})
}

// stop ends the subscription; what is being worked off ends by itself, soon.
// It may be called again.
func (r *Room) stop() {
	r.end()
	r.inMu.Lock()
	r.stopped = true
	r.inbox = nil
	if r.holeTimer != nil {
		r.holeTimer.Stop()
	}
	r.inMu.Unlock()
	r.follow() // so that unfollow is set, or never will be
	if r.unfollow != nil {
		r.unfollow()
	}
}

// put hands a notice to the room. It never blocks.
func (r *Room) put(n journal.Notice) {
	r.inMu.Lock()
	if r.stopped {
		r.inMu.Unlock()
		return
	}
	if r.working || n.Resync || !r.mu.TryLock() {
		defer r.inMu.Unlock()
		if len(r.inbox) >= inboxLimit {
			r.inbox = append(r.inbox[:0], journal.Notice{Resync: true})
		} else {
			r.inbox = append(r.inbox, n)
		}
		if !r.working {
			r.working = true
			r.rooms.wg.Add(1)
			go r.work(Step{})
		}
		return
	}
	r.working = true
	r.rooms.wg.Add(1)
	r.inMu.Unlock()
	step := r.apply(n)
	r.inMu.Lock()
	defer r.inMu.Unlock()
	if step.Load == nil && step.Reset == nil && (len(r.inbox) == 0 || r.stopped) {
		r.working = false
		r.rooms.wg.Done()
		return
	}
	go r.work(step)
}

// apply applies a notice and shows what comes of it; it returns what the sequencer
// asks of the journal. It is called with r.mu held and lets it go.
func (r *Room) apply(n journal.Notice) Step {
	step := r.seq.Notice(n, r.rooms.o.Now())
	r.carry(&step)
	hole := r.seq.Hole()
	r.mu.Unlock()
	if hole {
		r.watchHole()
	}
	return step
}

// work does what a step asks for, then works off the inbox.
func (r *Room) work(step Step) {
	defer r.rooms.wg.Done()
	r.serve(step)
	for {
		r.inMu.Lock()
		if len(r.inbox) == 0 || r.stopped {
			r.working = false
			r.inMu.Unlock()
			return
		}
		batch := r.inbox
		r.inbox = nil
		r.inMu.Unlock()
		for _, n := range batch {
			r.mu.Lock()
			r.serve(r.apply(n))
		}
	}
}

// watchHole looks again once a hole has had its time to fill by itself.
func (r *Room) watchHole() {
	r.inMu.Lock()
	defer r.inMu.Unlock()
	if r.holeTimer == nil && !r.stopped {
		r.holeTimer = time.AfterFunc(2*holePatience*time.Millisecond, func() {
			r.inMu.Lock()
			r.holeTimer = nil
			r.inMu.Unlock()
			r.tick()
		})
	}
}

// tick does nothing but look, unless a hole has waited or a probe is due.
func (r *Room) tick() {
	r.mu.Lock()
	due := r.seq.Due(r.rooms.o.Now())
	if due && r.seq.Hole() {
		r.rooms.o.Counts.Gaps.Add(1)
	}
	r.mu.Unlock()
	if due {
		r.put(journal.Notice{Resync: true})
	}
}

// serve does the I/O that a step asked for, until no step asks for more.
func (r *Room) serve(step Step) {
	for step.Load != nil || step.Reset != nil {
		if r.ctx.Err() != nil {
			r.rooms.reads.forget(r)
			r.rooms.resets.forget(r)
			return
		}
		if step.Reset != nil {
			step = r.reset(*step.Reset)
			continue
		}
		snap, err := r.load(*step.Load)
		if r.ctx.Err() == nil {
			r.rooms.reads.note(r.rooms.o.Logger, r, err)
		}
		r.mu.Lock()
		if err != nil {
			r.seq.Failed()
			r.mu.Unlock()
			r.pause()
			r.mu.Lock()
			step = r.seq.Resync(r.rooms.o.Now())
			r.mu.Unlock()
			continue
		}
		fresh := !r.seq.Ready
		step = r.seq.Loaded(snap, r.rooms.o.Now())
		if step.Restarted {
			r.refill(snap)
		}
		r.carry(&step)
		for w := range r.watchers {
			if w.Meta != nil && snap.Exists {
				w.Meta(&snap.Meta)
			}
		}
		if fresh && r.seq.Ready {
			close(r.ready)
		}
		gone := step.Gone && step.Close != ""
		r.shut = r.shut || gone
		r.mu.Unlock()
		if gone {
			// Who comes now finds the thread as it is, not what this room saw.
			r.rooms.forget(r)
		}
	}
}

func (r *Room) load(from journal.Cursor) (journal.Snapshot, error) {
	ctx, cancel := context.WithTimeout(r.ctx, r.rooms.o.LoadTimeout)
	defer cancel()
	return r.rooms.j.Load(ctx, journal.Load{Key: r.key, From: from})
}

// reset asks for a new epoch, and then looks at what the store has: this
// edge's, or that of another which was faster.
func (r *Room) reset(q journal.Reset) Step {
	q.Key, q.NewEpoch, q.Tag = r.key, r.rooms.o.Random()|1, r.rooms.o.Random()>>1
	q.Base.Tag = q.Tag
	ctx, cancel := context.WithTimeout(r.ctx, r.rooms.o.LoadTimeout)
	res, err := r.rooms.j.Reset(ctx, q)
	cancel()
	if r.ctx.Err() == nil {
		r.rooms.resets.note(r.rooms.o.Logger, r, err)
	}
	if err == nil {
		r.rooms.o.Logger.Error("the journal lost records: a new epoch begins", "realm", r.key.Realm, "result", res.String())
	} else {
		r.pause()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seq.Resync(r.rooms.o.Now())
}

func (r *Room) pause() {
	t := time.NewTimer(r.rooms.o.RetryPause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.ctx.Done():
	}
}

// refill makes the ring what the snapshot has of live segments.
func (r *Room) refill(snap journal.Snapshot) {
	r.ring = ring{}
	if len(r.seq.State.Runs) == 0 || snap.Base == nil {
		return // nobody can need what was before he came
	}
	st := snap.Base.Clip()
	for _, rec := range snap.Records {
		r.ring.push(rec, st)
		st = st.Apply(rec)
	}
	r.ring.trim(r.seq.State)
}

// carry shows what a step applied to watchers and members, with r.mu held.
func (r *Room) carry(step *Step) {
	if step.Close != "" {
		r.closeLocked(step.Close)
	}
	arrived := r.rooms.o.Counts.Arrived
	for i := range step.Applied {
		c := &step.Applied[i]
		c.Key = r.key
		it := r.ring.push(c.Record, c.Before)
		for w := range r.watchers {
			w.Change(c)
		}
		if restored(c) {
			// Nobody was shown what came back with the end: all begin anew, as they do
			// with an epoch.
			for s := range r.seats {
				r.drop(s, CloseEpoch)
			}
		}
		for s := range r.seats {
			if s.holds > 0 {
				continue
			}
			if e := it.as(s.variant, c); e != nil {
				s.member.Deliver(e)
			}
		}
		if c.Record.Kind == chat.KindRunEnd && r.rooms.o.Ended != nil {
			r.rooms.o.Ended(c, r.shown)
		}
		if arrived != nil {
			arrived(max(0, time.Duration(r.rooms.o.Now()-c.Record.At)*time.Millisecond))
		}
		if len(r.ring.items) > ringRecords || c.Record.Kind == chat.KindRunEnd || r.ring.bytes > ringBytes {
			r.ring.trim(c.After)
		}
	}
}

// restored says that a run's end brings more of it than the thread had, which the
// store had lost.
func restored(c *Change) bool {
	b, ok := c.Record.Body.(*chat.RunEndBody)
	if !ok || b.Cause != chat.CauseLogLost || b.Message == nil {
		return false
	}
	run := c.Before.Run(c.Record.Run)
	return run == nil || len(b.Message.Content()) > len((&chat.Message{Parts: run.Parts}).Content())
}

// shown goes through the members that are shown changes now. Holds r.mu.
func (r *Room) shown(yield func(Member) bool) {
	for s := range r.seats {
		if s.holds == 0 && !yield(s.member) {
			return
		}
	}
}

// seat makes a seat at the present state, or nil in a room that is shut.
func (r *Room) seat(v Variant, m Member) *Seat {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut {
		return nil
	}
	s := &Seat{room: r, variant: v, member: m, holds: 1, state: r.seq.State, pos: r.seq.State.Pos}
	r.seats[s] = struct{}{}
	return s
}

// watch takes a watcher in, unless the room is shut.
func (r *Room) watch(w *Watcher) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.shut {
		r.watchers[w] = struct{}{}
	}
	return !r.shut
}

// shutDown closes everybody and lets nobody in again.
func (r *Room) shutDown() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = true
	r.closeLocked(CloseShutdown)
}

func (r *Room) closeLocked(why CloseReason) {
	for s := range r.seats {
		r.drop(s, why)
	}
	for w := range r.watchers {
		w.Epoch(why)
	}
}

// drop closes a seat; its user still calls Leave.
func (r *Room) drop(s *Seat, why CloseReason) {
	if s.gone {
		return
	}
	s.gone = true
	s.absent()
	delete(r.seats, s)
	r.rooms.o.Counts.closed(why)
	s.member.Close(why)
}
