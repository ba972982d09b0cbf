package room

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Options are what Rooms needs beside its journal.
type Options struct {
	// Now is the clock, in Unix milliseconds.
	Now func() int64
	// Random draws 64 bits.
	Random func() uint64
	Logger *slog.Logger
	// LoadTimeout bounds one look at the journal (default 5 s), RetryPause the
	// time between two that failed (default 250 ms).
	LoadTimeout, RetryPause time.Duration
	// Boot names this edge in the journal's roster, which is told who is in which
	// room; "" tells it nothing. AttendEvery is how often, at most, for a thread
	// (default 1 s).
	Boot        string
	AttendEvery time.Duration
	// Ended is told of a run that ended, and to which members that was shown, with
	// the room locked: it must not block, nor keep them. Nil is nobody.
	Ended func(c *Change, shown iter.Seq[Member])
	// Counts are told what the rooms do; nil is nobody.
	Counts *Counts
}

// Rooms are the threads that are open on this edge. A room opens with its
// first seat or watcher and closes with the last.
type Rooms struct {
	j   journal.Journal
	o   Options
	ctx context.Context
	end context.CancelFunc
	wg  sync.WaitGroup

	mu    sync.Mutex
	rooms map[chat.Key]*Room

	attended attendance
	// reads and resets are what rooms ask of the journal.
	reads, resets outage
}

// New makes an empty set of rooms; Close ends it.
func New(j journal.Journal, o Options) *Rooms {
	if o.LoadTimeout == 0 {
		o.LoadTimeout = 5 * time.Second
	}
	if o.RetryPause == 0 {
		o.RetryPause = 250 * time.Millisecond
	}
	if o.AttendEvery == 0 {
		o.AttendEvery = attendEvery
	}
	if o.Counts == nil {
		o.Counts = new(Counts)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, end := context.WithCancel(context.Background())
	rs := &Rooms{j: j, o: o, ctx: ctx, end: end, rooms: make(map[chat.Key]*Room)}
	rs.reads.what, rs.resets.what = "rooms could not read their threads", "rooms could not begin an epoch after a loss"
	rs.wg.Add(1)
	go rs.tick()
	if o.Boot != "" {
		rs.wg.Add(1)
		go rs.attend()
	}
	return rs
}

// Close closes every member and waits for the rooms' work. Joins fail from
// then on with journal.ErrClosed.
func (rs *Rooms) Close() {
	rs.mu.Lock()
	rs.end() // under the lock, so that no room opens after the look at them
	rooms := make([]*Room, 0, len(rs.rooms))
	for _, r := range rs.rooms {
		rooms = append(rooms, r)
	}
	rs.mu.Unlock()
	for _, r := range rooms {
		r.shutDown()
		r.stop()
	}
	rs.wg.Wait()
}

// forget ends a room that has let everybody go, and makes place for a fresh
// one of the thread.
func (rs *Rooms) forget(r *Room) {
	rs.mu.Lock()
	if rs.rooms[r.key] == r {
		delete(rs.rooms, r.key)
	}
	rs.mu.Unlock()
	r.stop()
}

// Len is how many rooms are open.
func (rs *Rooms) Len() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.rooms)
}

// tick lets every room look at the clock: those with live runs compare
// themselves with the store now and then.
func (rs *Rooms) tick() {
	defer rs.wg.Done()
	t := time.NewTicker(time.Second)
	defer t.Stop()
	var rooms []*Room
	for {
		select {
		case <-rs.ctx.Done():
			return
		case <-t.C:
		}
		rs.mu.Lock()
		rooms = rooms[:0]
		for _, r := range rs.rooms {
			rooms = append(rooms, r)
		}
		rs.mu.Unlock()
		for _, r := range rooms {
			r.tick()
		}
	}
}

// enter returns the thread's room, opened, with one more user.
func (rs *Rooms) enter(ctx context.Context, key chat.Key) (*Room, error) {
	rs.mu.Lock()
	if rs.ctx.Err() != nil {
		rs.mu.Unlock()
		return nil, journal.ErrClosed
	}
	r := rs.rooms[key]
	if r == nil {
		r = newRoom(rs, key)
		rs.rooms[key] = r
	}
	r.users++
	rs.mu.Unlock()
	r.follow()
	select {
	case <-r.ready:
		return r, nil
	case <-ctx.Done():
		rs.release(r)
		return nil, ctx.Err()
	case <-rs.ctx.Done():
		rs.release(r)
		return nil, journal.ErrClosed
	}
}

// release gives one use of a room back and closes it with the last.
func (rs *Rooms) release(r *Room) {
	rs.mu.Lock()
	r.users--
	last := r.users == 0
	if last && rs.rooms[r.key] == r {
		delete(rs.rooms, r.key)
	}
	rs.mu.Unlock()
	if last {
		r.stop()
	}
}

// Join takes a seat for a member, held, at the thread's present state. The
// caller looks at State for whether the thread exists and who may see it, and
// leaves again if not.
func (rs *Rooms) Join(ctx context.Context, key chat.Key, v Variant, m Member) (*Seat, error) {
	for {
		r, err := rs.enter(ctx, key)
		if err != nil {
			return nil, err
		}
		if s := r.seat(v, m); s != nil {
			return s, nil
		}
		rs.forget(r)
		rs.release(r)
	}
}

// Watcher sees a thread without being a member of it: an owner does, for as
// long as it owns a run there. The functions are called in order and must not
// block or call the room.
type Watcher struct {
	Change func(*Change)
	// Epoch says that a new epoch began, or that the thread is gone.
	Epoch func(CloseReason)
	// Meta shows what the thread's runs are like whenever the room has looked at
	// the store, as it does when somebody has changed something without a record;
	// nil does not want to know. It must not be changed.
	Meta func(*journal.Meta)
}

// Watch calls w for every change from now on, until stop is called.
func (rs *Rooms) Watch(ctx context.Context, key chat.Key, w *Watcher) (stop func(), err error) {
	for {
		r, err := rs.enter(ctx, key)
		if err != nil {
			return nil, err
		}
		if r.watch(w) {
			return sync.OnceFunc(func() {
				r.mu.Lock()
				delete(r.watchers, w)
				r.mu.Unlock()
				rs.release(r)
			}), nil
		}
		rs.forget(r)
		rs.release(r)
	}
}

// Peek returns the state of a thread that is open here, and where it stands,
// so that a command need not load all of it.
func (rs *Rooms) Peek(key chat.Key) (*chat.State, journal.Cursor) {
	rs.mu.Lock()
	r := rs.rooms[key]
	rs.mu.Unlock()
	if r == nil {
		return nil, journal.Cursor{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.seq.Ready || !r.seq.State.Exists {
		return nil, journal.Cursor{}
	}
	return r.seq.State, r.seq.Cursor()
}

// Acknowledged tells the thread's room, if it is open, what a write's own
// answer said: it comes sooner than the channel's notice, and what was
// acknowledged must never be missing later.
func (rs *Rooms) Acknowledged(key chat.Key, n journal.Notice) {
	rs.mu.Lock()
	r := rs.rooms[key]
	rs.mu.Unlock()
	if r != nil {
		r.put(n)
	}
}
