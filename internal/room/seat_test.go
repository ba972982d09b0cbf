package room

import (
	"context"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// speak writes a run of all that streams, one record a write, and calls each
// after every one.
func speak(th *thread, run string, words int, each func()) {
	th.start(run)
	each()
	step := func(e chat.Entry) {
		th.append(run, e)
		each()
	}
	step(chat.NewEntry(chat.KindReasoningStart, run, &chat.BlockBody{Part: run + "-r"}))
	step(chat.NewEntry(chat.KindReasoningDelta, run, &chat.DeltaBody{Part: run + "-r", Text: "hm"}))
	step(chat.NewEntry(chat.KindReasoningEnd, run, &chat.BlockBody{Part: run + "-r"}))
	step(begin(run, run+"-t"))
	for range words {
		step(say(run, run+"-t", "word "))
	}
	step(chat.NewEntry(chat.KindToolStart, run, &chat.ToolStartBody{Call: run + "-c", Name: "look", Parent: run + "-t"}))
	step(chat.NewEntry(chat.KindToolArgs, run, &chat.DeltaBody{Part: run + "-c", Text: "{}"}))
	step(chat.NewEntry(chat.KindTodos, run, &chat.TodosBody{Todos: []chat.Todo{{Content: "x", Status: "pending"}}}))
	step(chat.NewEntry(chat.KindSubagentStart, run, &chat.SubagentStartBody{Subagent: chat.Subagent{ID: run + "-s", Name: "sub", Call: run + "-c"}}))
	th.end(run) // with a text, a call and a subagent open
	each()
}

func TestAttachAnywhereIsWatchingFromTheStart(t *testing.T) {
	j := openJournal(t)
	rs := openRooms(t, j)
	th := newThread(t, j, "t")
	first := newMember()
	s := join(t, rs, th.key, newExact("first"), first)
	defer s.Leave()
	s.Release()
	from := th.st.Pos

	type late struct {
		*member
		seat *Seat
		pos  uint64
	}
	v := newExact("late")
	var lates []late
	for _, run := range []string{"r1", "r2"} {
		speak(th, run, 40, func() {
			first.reaches(t, th.st.Pos)
			l := late{member: newMember(), pos: th.st.Pos}
			l.seat = join(t, rs, th.key, v, l)
			if got := text(l.seat.State()); got != th.truth(l.pos) {
				t.Fatalf("joined at\n%s\nwant\n%s", got, th.truth(l.pos))
			}
			enc, truncated := l.seat.Live()
			if truncated {
				t.Fatal("truncated")
			}
			want := 0
			if r := th.st.Run(run); r != nil {
				want = int(l.pos - r.SegmentPos + 1)
			}
			if len(enc) != want {
				t.Fatalf("PIL-163 the replay at %d has %d records, want %d", l.pos, len(enc), want)
			}
			for i, e := range enc {
				if e.(*view).rec.Seq != uint64(i)+1 {
					t.Fatalf("PIL-167 the replay is not contiguous at %d", i)
				}
				e.(*view).check(t, th)
			}
			if len(lates)%2 == 0 { // the others hold their feed to the end
				l.seat.Release()
			}
			lates = append(lates, l)
		})
	}
	end := th.st.Pos
	first.reaches(t, end)
	first.follows(t, th, from, end)
	for i, l := range lates {
		if i%2 == 1 {
			l.seat.Release()
		}
		if l.pos < end {
			l.reaches(t, end)
		}
		l.follows(t, th, l.pos, end)
		if got := text(l.seat.State()); got != th.truth(end) {
			t.Fatalf("the %d. ended at\n%s\nwant\n%s", i, got, th.truth(end))
		}
		l.seat.Leave()
	}
}

// TestHeldFeedIsEncodedAsItWas: nobody but one member, who holds his feed, is
// there while a whole run goes by; afterwards he is shown all of it, as it was.
func TestHeldFeedIsEncodedAsItWas(t *testing.T) {
	j := openJournal(t)
	rs := openRooms(t, j)
	th := newThread(t, j, "t")
	m, w := newMember(), newMember()
	s := join(t, rs, th.key, newExact("held"), m)
	defer s.Leave()
	other := join(t, rs, th.key, newExact("other"), w)
	defer other.Leave()
	other.Release()
	from := th.st.Pos
	speak(th, "r1", 200, func() {})
	w.reaches(t, th.st.Pos)
	if n := len(m.all()); n != 0 {
		t.Fatalf("%d were delivered to a held seat", n)
	}
	s.Release()
	m.follows(t, th, from, th.st.Pos)
}

func TestHoldsNest(t *testing.T) {
	j := openJournal(t)
	rs := openRooms(t, j)
	th := newThread(t, j, "t")
	m, w := newMember(), newMember()
	s, other := join(t, rs, th.key, newExact("a"), m), join(t, rs, th.key, newExact("b"), w)
	defer s.Leave()
	defer other.Leave()
	other.Release()
	s.Hold()
	at := th.st.Pos
	th.start("r1")
	w.reaches(t, th.st.Pos)
	s.Release()
	if n := len(m.all()); n != 0 || s.State().Pos != at {
		t.Fatalf("one of two holds released: %d shown, state at %d", n, s.State().Pos)
	}
	s.Release()
	m.follows(t, th, at, th.st.Pos)
	s.Release() // one too many does nothing
	m.follows(t, th, at, th.st.Pos)

	s.Hold()
	th.append("r1", begin("r1", "p"), say("r1", "p", "not shown"))
	w.reaches(t, th.st.Pos)
	s.Refresh()
	skipped := th.st.Pos
	if got := text(s.State()); got != th.truth(skipped) {
		t.Fatalf("refreshed to %s", got)
	}
	shown := len(m.all())
	th.append("r1", say("r1", "p", "shown"))
	w.reaches(t, th.st.Pos)
	s.Release()
	m.reaches(t, th.st.Pos)
	if got := m.all(); len(got) != shown+1 || got[shown].rec.Pos != skipped+1 {
		t.Fatalf("after a refresh: %d more", len(got)-shown)
	}
	s.Refresh() // of a seat that is not held: nothing
	th.append("r1", say("r1", "p", "and on"))
	m.reaches(t, th.st.Pos)
	if n := len(m.all()); n != shown+2 {
		t.Fatalf("%d shown", n)
	}
}

func TestRingIsBounded(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries int
		size    int
	}{
		{"PIL-177 by 10,000 records", 3 * 4096, 1},
		{"PIL-177 by 4 MiB", 100, 64 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := openJournal(t)
			rs := openRooms(t, j)
			th := newThread(t, j, "t")
			v := newExact("v")
			v.light = true
			m, w := newMember(), newMember()
			s, other := join(t, rs, th.key, v, m), join(t, rs, th.key, v, w)
			defer s.Leave()
			defer other.Leave()
			other.Release()
			th.start("r1")
			th.append("r1", chat.NewEntry(chat.KindToolStart, "r1", &chat.ToolStartBody{Call: "c", Name: "look"}))
			some := make([]chat.Entry, min(c.entries, 16))
			for i := range some {
				some[i] = chat.NewEntry(chat.KindToolResult, "r1", &chat.ToolResultBody{Call: "c", Message: "m", Content: strings.Repeat("x", c.size)})
			}
			many := some
			for len(many) < c.entries/8 {
				many = append(many, some...)
			}
			for n := 0; n < c.entries; n += len(many) {
				th.append("r1", many...)
				w.reaches(t, th.st.Pos)
			}
			r := s.room
			r.mu.Lock()
			items, bytes, marks := len(r.ring.items), r.ring.bytes, 0
			if r.ring.items[0].before == nil {
				t.Error("the first item is no mark")
			}
			for _, it := range r.ring.items {
				if it.before != nil {
					marks++
				}
			}
			r.mu.Unlock()
			if items > ringRecords+markRecords || bytes > ringBytes+markBytes+(c.size+512) {
				t.Errorf("%d records of %d bytes are kept", items, bytes)
			}
			if marks > items/markRecords+bytes/markBytes+1 {
				t.Errorf("%d marks in %d records", marks, items)
			}
			l := newMember()
			v.name = "late"
			late := join(t, rs, th.key, v, l)
			defer late.Leave()
			enc, truncated := late.Live()
			if !truncated || len(enc) == 0 || enc[0].(*view).rec.Seq <= 1 {
				t.Errorf("PIL-165 joined a run that is longer than the ring: truncated %v, %d", truncated, len(enc))
			}
			for i := 1; i < len(enc); i++ {
				if enc[i].(*view).rec.Seq != enc[i-1].(*view).rec.Seq+1 {
					t.Fatal("a hole")
				}
			}
			s.Release()
			m.closes(t, CloseSlow)
			s.Hold()
			s.Release()
			m.closes(t, CloseSlow)
			th.end("r1")
			w.reaches(t, th.st.Pos)
			r.mu.Lock()
			items = len(r.ring.items)
			r.mu.Unlock()
			if items > ringAlways+markRecords {
				t.Errorf("%d records are kept of a run that has ended", items)
			}
		})
	}
}

// late is a journal whose news do not come: a room learns by looking alone.
type late struct{ journal.Journal }

func (late) Follow(_ chat.Key, f func(journal.Notice)) (stop func()) {
	f(journal.Notice{Resync: true})
	return func() {}
}

// PIN-060 PIN-066: who was told of something at another edge is shown it here at
// once, though the news has not come; a number that nobody was told changes nothing.
func TestSeatReachesWhatAnotherEdgeTold(t *testing.T) {
	j := openJournal(t)
	rs := openRooms(t, late{j})
	th := newThread(t, j, "t")
	s := join(t, rs, th.key, newExact("v"), newMember())
	defer s.Leave()
	before := s.State().Log
	speak(th, "r1", 10, func() {})
	if s.Refresh(); s.State().Log != before {
		t.Fatal("the room is not behind")
	}
	s.Reach(t.Context(), th.st.Log)
	if st := s.State(); st.Log != th.st.Log || text(st) != text(th.st) {
		t.Errorf("log %d, want %d", st.Log, th.st.Log)
	}
	if enc, ok := s.Since(before); !ok || len(enc) == 0 {
		t.Errorf("what lies between is not known: %d %v", len(enc), ok)
	}
	s.Reach(t.Context(), th.st.Log+1)
	if got := s.State().Log; got != th.st.Log {
		t.Errorf("log %d, want %d", got, th.st.Log)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	s.Reach(gone, th.st.Log+1)
}
