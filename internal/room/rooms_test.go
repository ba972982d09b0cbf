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

func TestHerdIsEncodedOnce(t *testing.T) {
	const members = 1000
	j := openJournal(t)
	rs := openRooms(t, j)
	th := newThread(t, j, "t")
	a, b := newExact("a"), newExact("b")
	var all []*member
	for i := range members {
		m, v := newMember(), a
		if i%2 == 1 {
			v = b
		}
		s := join(t, rs, th.key, v, m)
		defer s.Leave()
		s.Release()
		all = append(all, m)
	}
	from := th.st.Pos
	speak(th, "r1", 20, func() {})
	for _, m := range all {
		m.reaches(t, th.st.Pos)
		if n := len(m.all()); n != int(th.st.Pos-from) {
			t.Fatalf("%d records delivered, want %d", n, th.st.Pos-from)
		}
	}
	if want := int64(th.st.Pos - from); a.encoded.Load() != want || b.encoded.Load() != want {
		t.Errorf("%d records were encoded %d and %d times for %d members", want, a.encoded.Load(), b.encoded.Load(), members)
	}
}

func TestHerdThatJoinsARunIsEncodedOnce(t *testing.T) {
	j := openJournal(t)
	rs := openRooms(t, j)
	th := newThread(t, j, "t")
	th.start("r1")
	th.append("r1", begin("r1", "p"), say("r1", "p", "a"), say("r1", "p", "b"))
	v := newExact("v")
	for range 200 {
		s := join(t, rs, th.key, v, newMember())
		defer s.Leave()
		if enc, truncated := s.Live(); len(enc) != 4 || truncated {
			t.Fatalf("%d, truncated %v", len(enc), truncated)
		}
	}
	if n := v.encoded.Load(); n != 4 {
		t.Errorf("4 records were encoded %d times", n)
	}
}

func TestTwoEdgesSeeOneOrder(t *testing.T) {
	j := openJournal(t)
	one, two := openRooms(t, j), openRooms(t, j)
	th := newThread(t, j, "t")
	m1, m2 := newMember(), newMember()
	s1, s2 := join(t, one, th.key, newExact("a"), m1), join(t, two, th.key, newExact("b"), m2)
	defer s1.Leave()
	defer s2.Leave()
	s1.Release()
	s2.Release()
	from := th.st.Pos
	speak(th, "r1", 100, func() {
		// Half of what is written here is told by the write's own answer too.
		if th.st.Pos%2 == 0 {
			snap, err := j.Load(context.Background(), journal.Load{Key: th.key})
			if err != nil {
				t.Fatal(err)
			}
			one.Acknowledged(th.key, journal.Notice{Epoch: th.epoch, Rev: th.rev, Records: snap.Records[len(snap.Records)-1:]})
		}
	})
	for _, m := range []*member{m1, m2} {
		m.reaches(t, th.st.Pos)
		m.follows(t, th, from, th.st.Pos)
	}
	if st, at := two.Peek(th.key); st == nil || at.Pos != th.st.Pos || at.Epoch != th.epoch || at.Tag != th.st.Tag {
		t.Errorf("peeked at %+v", at)
	}
	if st, _ := two.Peek(chat.Key{Realm: "r", Thread: "not open"}); st != nil {
		t.Error("peeked into a room that is not open")
	}
}

func TestDeletedThreadClosesItsMembers(t *testing.T) {
	j := openJournal(t)
	rs := openRooms(t, j)
	th := newThread(t, j, "t")
	m, held := newMember(), newMember()
	s, h := join(t, rs, th.key, newExact("v"), m), join(t, rs, th.key, newExact("v"), held)
	s.Release()
	told := make(chan CloseReason, 1)
	stop, err := rs.Watch(t.Context(), th.key, &Watcher{Change: func(*Change) {}, Epoch: func(why CloseReason) { told <- why }})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := j.Delete(t.Context(), th.key, th.epoch); err != nil || res != journal.OK {
		t.Fatal(res, err)
	}
	m.closes(t, CloseDeleted)
	held.closes(t, CloseDeleted)
	if why := <-told; why != CloseDeleted {
		t.Errorf("the watcher was told %s", why)
	}
	// Nobody has left yet; who comes now finds what is there, not what was.
	late := join(t, rs, th.key, newExact("v"), newMember())
	if late.State().Exists {
		t.Error("joined a thread that was deleted")
	}
	late.Leave()
	again := newThread(t, j, "t")
	m2 := newMember()
	s2 := join(t, rs, th.key, newExact("v"), m2)
	if !s2.State().Exists || s2.State().Pos != again.st.Pos {
		t.Errorf("made again: %s", text(s2.State()))
	}
	s2.Release()
	again.start("r1")
	m2.reaches(t, again.st.Pos)
	h.Release()
	if n := len(m.all()) + len(held.all()); n != 0 {
		t.Errorf("%d were delivered of another thread", n)
	}
	for _, x := range []*Seat{s, h, s2} {
		x.Leave()
	}
	stop()
	if n := rs.Len(); n != 0 {
		t.Errorf("%d rooms are open", n)
	}
}

func TestCloseLetsEverybodyGo(t *testing.T) {
	j := openJournal(t)
	rs := New(j, Options{Now: func() int64 { return time.Now().UnixMilli() }, Random: random})
	th := newThread(t, j, "t")
	m, held := newMember(), newMember()
	s, h := join(t, rs, th.key, newExact("v"), m), join(t, rs, th.key, newExact("v"), held)
	s.Release()
	// People come in while it closes: each is refused or closed, never forgotten.
	var wg sync.WaitGroup
	late := make([]*member, 64)
	for i := range late {
		late[i] = newMember()
		wg.Go(func() {
			s, err := rs.Join(context.Background(), chat.Key{Realm: "r", Thread: fmt.Sprint("t", i%4)}, newExact("v"), late[i])
			if err != nil {
				if !errors.Is(err, journal.ErrClosed) {
					t.Error(err)
				}
				return
			}
			late[i].closes(t, CloseShutdown)
			s.Leave()
		})
	}
	rs.Close()
	wg.Wait()
	m.closes(t, CloseShutdown)
	held.closes(t, CloseShutdown)
	th.start("r1")
	h.Release()
	if n := len(m.all()) + len(held.all()); n != 0 {
		t.Errorf("%d delivered after the end", n)
	}
	if _, err := rs.Join(context.Background(), th.key, newExact("v"), newMember()); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("joined after the end: %v", err)
	}
	if _, err := rs.Watch(context.Background(), th.key, &Watcher{}); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("watched after the end: %v", err)
	}
	s.Leave()
	h.Leave()
	h.Leave()
	if n := rs.Len(); n != 0 {
		t.Errorf("%d rooms are open", n)
	}
	rs.Close() // again does nothing
}

// settles waits until there are at most n goroutines.
func settles(t *testing.T, n int) {
	t.Helper()
	late := time.Now().Add(patience)
	for runtime.NumGoroutine() > n {
		if time.Now().After(late) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, want at most %d\n%s", runtime.NumGoroutine(), n, buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}

func TestIdleRoomsHaveNoGoroutine(t *testing.T) {
	j := openJournal(t)
	rs := openRooms(t, j)
	settled := runtime.NumGoroutine()
	var seats []*Seat
	for i := range 100 {
		th := newThread(t, j, fmt.Sprint("t", i))
		m := newMember()
		s := join(t, rs, th.key, newExact("v"), m)
		s.Release()
		th.start("r1")
		m.reaches(t, th.st.Pos)
		seats = append(seats, s)
	}
	settles(t, settled)
	if n := rs.Len(); n != 100 {
		t.Errorf("%d rooms", n)
	}
	for _, s := range seats {
		s.Leave()
		s.Leave() // again does nothing
	}
	if n := rs.Len(); n != 0 {
		t.Errorf("%d rooms are open after the last has left", n)
	}
}

func TestRoomStaysWhileSomebodyIsThere(t *testing.T) {
	j := openJournal(t)
	rs := openRooms(t, j)
	th := newThread(t, j, "t")
	m := newMember()
	one, two := join(t, rs, th.key, newExact("v"), newMember()), join(t, rs, th.key, newExact("v"), m)
	two.Release()
	one.Leave()
	one.Leave() // must not take the other's place
	if rs.Len() != 1 {
		t.Fatal("closed under a member")
	}
	th.start("r1")
	m.reaches(t, th.st.Pos)
	two.Leave()
	n := len(m.all())
	th.append("r1", begin("r1", "p"))
	s := join(t, rs, th.key, newExact("v"), newMember())
	defer s.Leave()
	if len(m.all()) != n {
		t.Error("delivered after leaving")
	}
}

// TestHammer joins, holds, refreshes, asks, releases and leaves from many sides
// while two threads are written.
func TestHammer(t *testing.T) {
	j := openJournal(t)
	rs := openRooms(t, j)
	var threads []*thread
	for i := range 2 {
		threads = append(threads, newThread(t, j, fmt.Sprint("t", i)))
	}
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for _, th := range threads {
		writers.Go(func() {
			for i := range 6 {
				speak(th, fmt.Sprint("r", i), 40, func() {})
			}
		})
	}
	v := newExact("shared")
	v.light = true
	for i := range 16 {
		readers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				th, m := threads[(i+n)%2], newMember()
				s := join(t, rs, th.key, v, m)
				from := s.State().Pos
				s.Live()
				s.Release()
				s.Hold()
				s.State()
				s.Release()
				m.mu.Lock()
				for k, e := range m.shown {
					if e.rec.Pos != from+uint64(k)+1 {
						t.Errorf("shown %d as number %d after %d", e.rec.Pos, k, from)
					}
				}
				m.mu.Unlock()
				if n%3 == 0 {
					s.Hold()
					s.Refresh()
					s.Live()
					s.Release()
				}
				s.Leave()
			}
		})
	}
	writers.Wait()
	for _, th := range threads {
		m := newMember()
		s := join(t, rs, th.key, newExact("last"), m)
		if got := text(s.State()); s.State().Pos == th.st.Pos && got != th.truth(th.st.Pos) {
			t.Errorf("ended at %s", got)
		}
		s.Leave()
	}
	close(done)
	readers.Wait()
	if n := rs.Len(); n != 0 {
		t.Errorf("%d rooms are open", n)
	}
}

// What an owner restores after a loss was shown to nobody who came back meanwhile:
// members begin anew with it, and stay where an end brings nothing.
func TestRestoredTextIsShown(t *testing.T) {
	j := openJournal(t)
	rs := openRooms(t, j)
	th := newThread(t, j, "t")
	m := newMember()
	s := join(t, rs, th.key, newExact("v"), m)
	defer s.Leave()
	s.Release()
	lost := func(run, text string) {
		th.start(run)
		held := *th.st.Run(run)
		if text != "" {
			held.Parts = []*chat.Part{{ID: run + "-t", Type: chat.PartText, Text: chat.Text(text)}}
		}
		end := th.st.Run(run).End(chat.End{Status: chat.RunError, Cause: chat.CauseLogLost, Code: chat.CodeLogLost})
		end.Body.(*chat.RunEndBody).Message = held.Answered(1)
		th.commit([]journal.RunChange{{Run: run, End: true}}, end)
	}
	lost("r1", "")
	m.reaches(t, th.st.Pos)
	lost("r2", "what was said")
	m.closes(t, CloseEpoch)
}
