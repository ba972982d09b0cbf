package room

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

var errOutage = errors.New("no answer")

// unread stands between rooms and a real journal and lets loads fail.
type unread struct {
	journal.Journal
	mu    sync.Mutex
	left  int // loads that fail; less than 0 is all of them
	tried chan struct{}
}

func (o *unread) Load(ctx context.Context, q journal.Load) (journal.Snapshot, error) {
	o.mu.Lock()
	fail := o.left != 0
	if o.left > 0 {
		o.left--
	}
	o.mu.Unlock()
	select {
	case o.tried <- struct{}{}:
	default:
	}
	if fail {
		return journal.Snapshot{}, errOutage
	}
	return o.Journal.Load(ctx, q)
}

// fail lets the next n loads fail.
func (o *unread) fail(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left = n
}

func TestLoadsAreTriedAgain(t *testing.T) {
	j := &unread{Journal: openJournal(t), left: 5, tried: make(chan struct{}, 1)}
	rs := openRooms(t, j)
	th := newThread(t, j, "t")
	m := newMember()
	s := join(t, rs, th.key, newExact("v"), m)
	defer s.Leave()
	if got := text(s.State()); got != th.truth(th.st.Pos) {
		t.Errorf("opened at %s", got)
	}
	s.Release()
	j.fail(5)
	th.start("r1")
	th.append("r1", begin("r1", "p"))
	m.reaches(t, th.st.Pos)
}

func TestRoomThatNobodyWaitsForStopsTrying(t *testing.T) {
	j := &unread{Journal: openJournal(t), left: -1, tried: make(chan struct{}, 1)}
	rs := openRooms(t, j)
	settled := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := rs.Join(ctx, chat.Key{Realm: "r", Thread: "t"}, newExact("v"), newMember())
		failed <- err
	}()
	<-j.tried
	<-j.tried
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("joined: %v", err)
	}
	if n := rs.Len(); n != 0 {
		t.Errorf("%d rooms are open", n)
	}
	settles(t, settled)
}

// twins are two stores that are written alike, until one lags behind and then
// has to stand in for the other: what was written meanwhile is lost.
type twins struct {
	journal.Journal // the first
	second          journal.Journal

	mu     sync.Mutex
	lag    bool
	failed bool
	resync []func(journal.Notice)
}

func (t *twins) state() (now journal.Journal, both bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed {
		return t.second, false
	}
	return t.Journal, !t.lag
}

func (t *twins) Commit(ctx context.Context, c journal.Commit) (journal.Committed, error) {
	j, both := t.state()
	if both {
		if _, err := t.second.Commit(ctx, c); err != nil {
			return journal.Committed{}, err
		}
	}
	return j.Commit(ctx, c)
}

func (t *twins) Append(ctx context.Context, a journal.Append) (journal.Appended, error) {
	j, both := t.state()
	if both {
		if _, err := t.second.Append(ctx, a); err != nil {
			return journal.Appended{}, err
		}
	}
	return j.Append(ctx, a)
}

func (t *twins) Load(ctx context.Context, q journal.Load) (journal.Snapshot, error) {
	j, _ := t.state()
	return j.Load(ctx, q)
}

func (t *twins) Reset(ctx context.Context, q journal.Reset) (journal.Result, error) {
	j, _ := t.state()
	return j.Reset(ctx, q)
}

func (t *twins) Follow(key chat.Key, f func(journal.Notice)) func() {
	var mu sync.Mutex
	of := func(second bool) func(journal.Notice) {
		return func(n journal.Notice) {
			t.mu.Lock()
			live := t.failed == second
			t.mu.Unlock()
			if live {
				mu.Lock()
				defer mu.Unlock()
				f(n)
			}
		}
	}
	t.mu.Lock()
	t.resync = append(t.resync, f)
	t.mu.Unlock()
	stop1, stop2 := t.Journal.Follow(key, of(false)), t.second.Follow(key, of(true))
	return func() { stop1(); stop2() }
}

// failover makes the second stand in.
func (t *twins) failover() {
	t.mu.Lock()
	t.failed = true
	all := t.resync
	t.mu.Unlock()
	for _, f := range all {
		f(journal.Notice{Resync: true})
	}
}

func TestLostRecordsBeginAnEpoch(t *testing.T) {
	for _, c := range []struct {
		name string
		// after is what happens between the failover and the room's look.
		after func(th *thread)
	}{
		{"what was shown is gone", func(*thread) {}},
		{"what was shown is gone, and something else is in its place", func(th *thread) {
			th.append("r1", say("r1", "p", "other"), say("r1", "p", "more"), say("r1", "p", "than before"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &twins{Journal: openJournal(t), second: openJournal(t)}
			rs, other := openRooms(t, j), openRooms(t, j)
			th := newThread(t, j, "t")
			m, held, far := newMember(), newMember(), newMember()
			s, h := join(t, rs, th.key, newExact("v"), m), join(t, rs, th.key, newExact("v"), held)
			f := join(t, other, th.key, newExact("w"), far)
			defer s.Leave()
			defer h.Leave()
			defer f.Leave()
			s.Release()
			f.Release()
			told := make(chan CloseReason, 4)
			stop, err := rs.Watch(t.Context(), th.key, &Watcher{Change: func(*Change) {}, Epoch: func(why CloseReason) { told <- why }})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			th.start("r1")
			th.append("r1", begin("r1", "p"))
			back := &thread{t: t, j: j, key: th.key, epoch: th.epoch, rev: th.rev, st: th.st.Clip(), fence: th.fence, w: th.w, states: map[uint64]string{}}
			j.mu.Lock()
			j.lag = true
			j.mu.Unlock()
			th.append("r1", say("r1", "p", "one"))
			th.append("r1", say("r1", "p", "two"))
			m.reaches(t, th.st.Pos)
			far.reaches(t, th.st.Pos)
			shown := th.st.Pos
			// The writer, too, goes on from what the second has.
			j.mu.Lock()
			j.failed = true
			j.mu.Unlock()
			c.after(back)
			j.failover()
			m.closes(t, CloseEpoch)
			held.closes(t, CloseEpoch)
			far.closes(t, CloseEpoch)
			if why := <-told; why != CloseEpoch {
				t.Errorf("the watcher was told %s", why)
			}
			again := newMember()
			s2 := join(t, rs, th.key, newExact("v"), again)
			defer s2.Leave()
			st, at := rs.Peek(th.key)
			if at.Epoch == th.epoch || st.Pos <= shown {
				t.Errorf("a new epoch begins at %+v, after %d was shown", at, shown)
			}
			s2.Release()
			snap, err := j.Load(t.Context(), journal.Load{Key: th.key})
			if err != nil {
				t.Fatal(err)
			}
			back.epoch, back.rev, back.st = snap.Meta.Epoch, snap.Meta.Rev, snap.State(nil)
			back.append("r1", say("r1", "p", "goes on"))
			again.reaches(t, back.st.Pos)
		})
	}
}

func TestLostThreadIsAnEpoch(t *testing.T) {
	j := &twins{Journal: openJournal(t), second: openJournal(t), lag: true}
	rs := openRooms(t, j)
	th := newThread(t, j, "t")
	m := newMember()
	s := join(t, rs, th.key, newExact("v"), m)
	defer s.Leave()
	s.Release()
	j.failover()
	m.closes(t, CloseEpoch)
	late := join(t, rs, th.key, newExact("v"), newMember())
	defer late.Leave()
	if late.State().Exists {
		t.Error("joined a thread that is lost")
	}
}

// drops loses notices on their way.
type drops struct {
	journal.Journal
	mu   sync.Mutex
	seen int
}

func (d *drops) Follow(key chat.Key, f func(journal.Notice)) func() {
	return d.Journal.Follow(key, func(n journal.Notice) {
		d.mu.Lock()
		d.seen++
		lose := !n.Resync && d.seen%3 != 0
		d.mu.Unlock()
		if !lose {
			f(n)
		}
	})
}

func TestLostNoticesAreFound(t *testing.T) {
	j := &drops{Journal: openJournal(t)}
	rs := openRooms(t, j)
	th := newThread(t, j, "t")
	m := newMember()
	s := join(t, rs, th.key, newExact("v"), m)
	defer s.Leave()
	s.Release()
	from := th.st.Pos
	speak(th, "r1", 30, func() {})
	// The last notices may be lost as well; only a later one tells of them.
	for i := range 3 {
		th.commit(nil, chat.NewEntry(chat.KindTask, "", &chat.TaskBody{Task: chat.Task{ID: fmt.Sprint(i)}}))
	}
	late := time.After(patience)
	for len(m.all()) < int(th.st.Pos-from)-2 {
		select {
		case <-m.bell:
		case <-late:
			t.Fatalf("%d of %d came", len(m.all()), th.st.Pos-from)
		}
	}
	for i, v := range m.all() {
		if v.rec.Pos != from+uint64(i)+1 {
			t.Fatalf("record %d is at %d", i, v.rec.Pos)
		}
		v.check(t, th)
	}
}
