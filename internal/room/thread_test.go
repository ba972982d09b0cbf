package room

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait; none takes long unless something is broken.
const patience = time.Minute

func random() uint64 { return rand.Uint64()>>1 | 1 }

func openJournal(t testing.TB) *filejournal.Journal {
	t.Helper()
	j, err := filejournal.Open(context.Background(), filejournal.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

func openRooms(t testing.TB, j journal.Journal) *Rooms {
	t.Helper()
	rs := New(j, Options{Now: func() int64 { return time.Now().UnixMilli() }, Random: random, RetryPause: time.Millisecond})
	t.Cleanup(rs.Close)
	return rs
}

// thread is somebody who writes to a thread. states has the truth about it:
// the fold at each position, as text.
type thread struct {
	t     testing.TB
	j     journal.Journal
	key   chat.Key
	epoch uint64
	rev   journal.Rev
	st    *chat.State
	fence uint64
	w     uint64

	mu     sync.Mutex
	states map[uint64]string
}

func newThread(t testing.TB, j journal.Journal, id string) *thread {
	t.Helper()
	th := &thread{t: t, j: j, key: chat.Key{Realm: "r", Thread: id}, st: &chat.State{Schema: chat.SchemaVersion}, states: map[uint64]string{}}
	th.commit(nil, chat.NewEntry(chat.KindThread, "", &chat.ThreadBody{Info: chat.Info{Title: id}}))
	return th
}

func text(st *chat.State) string {
	b, err := st.Marshal()
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// took folds what was stored; the truth is kept where keep says so.
func (th *thread) took(recs []*chat.Record) {
	for _, r := range recs {
		if th.st.Pos == 0 && r.Pos > 1 {
			c := *th.st
			c.Pos = r.Pos - 1
			th.st = &c
		}
		th.st = th.st.Apply(r)
	}
	th.mu.Lock()
	defer th.mu.Unlock()
	th.states[th.st.Pos] = text(th.st)
}

// truth is the fold at a position where a write ended.
func (th *thread) truth(pos uint64) string {
	th.mu.Lock()
	defer th.mu.Unlock()
	return th.states[pos]
}

func (th *thread) commit(runs []journal.RunChange, entries ...chat.Entry) journal.Committed {
	th.t.Helper()
	var id journal.CommandID
	binary.LittleEndian.PutUint64(id.ID[:], random())
	res, err := th.j.Commit(context.Background(), journal.Commit{
		Key: th.key, Command: id, Epoch: th.epoch, Rev: th.rev, NewEpoch: random(), Tag: random(),
		Entries: entries, Runs: runs, Nodes: chat.NodesOf(entries),
	})
	if err != nil || res.Result != journal.Done {
		th.t.Fatalf("commit: %v %v", res.Result, err)
	}
	th.epoch, th.rev = res.Epoch, res.Rev
	th.took(res.Records)
	return res
}

// start begins a run and opens its segment.
func (th *thread) start(run string) {
	th.t.Helper()
	m := &chat.Message{ID: "m-" + run, Role: chat.User, Run: run, Parent: th.st.Head, Parts: []*chat.Part{{ID: "p", Type: chat.PartText, Text: chat.Text("hi")}}}
	res := th.commit([]journal.RunChange{{Run: run, New: true, NewOwner: true, Owner: "edge"}},
		chat.NewEntry(chat.KindMessage, "", &chat.MessageBody{Message: m}),
		chat.NewEntry(chat.KindRunPending, run, &chat.RunPendingBody{Run: &chat.Run{
			ID: run, Status: chat.RunPending, Message: m.ID, Opening: m, Answer: "a-" + run, Segments: []string{"s-" + run},
		}}))
	th.fence, th.w = res.Fences[run], 0
	th.commit([]journal.RunChange{{Run: run}}, chat.NewEntry(chat.KindRunActive, run, &chat.RunActiveBody{}))
}

func (th *thread) append(run string, entries ...chat.Entry) []*chat.Record {
	th.t.Helper()
	res, err := th.j.Append(context.Background(), journal.Append{
		Key: th.key, Epoch: th.epoch, Run: run, Fence: th.fence, W: th.w, Tag: random(), Entries: entries,
	})
	if err != nil || res.Result != journal.Stored {
		th.t.Fatalf("append: %v %v", res.Result, err)
	}
	th.w += uint64(len(entries))
	th.took(res.Records)
	return res.Records
}

func begin(run, part string) chat.Entry {
	return chat.NewEntry(chat.KindTextStart, run, &chat.BlockBody{Part: part})
}

func say(run, part, text string) chat.Entry {
	return chat.NewEntry(chat.KindTextDelta, run, &chat.DeltaBody{Part: part, Text: text})
}

// end ends a run as it stands, blocks open or not.
func (th *thread) end(run string) {
	th.t.Helper()
	th.commit([]journal.RunChange{{Run: run, End: true}}, th.st.Run(run).End(chat.End{Status: chat.RunComplete}))
}

// exact is a variant that shows a record with the states around it.
type exact struct {
	encoded *atomic.Int64
	name    string
	light   bool // leave the states out
}

func newExact(name string) exact { return exact{encoded: new(atomic.Int64), name: name} }

type view struct {
	rec           *chat.Record
	epoch         uint64
	before, after string
	run           bool // the change knew its run
}

func (v exact) Encode(c *Change) any {
	v.encoded.Add(1)
	e := &view{rec: c.Record, epoch: c.Epoch, run: c.Run() != nil}
	if !v.light {
		e.before, e.after = text(c.Before), text(c.After)
	}
	return e
}

// member keeps what it was shown.
type member struct {
	mu     sync.Mutex
	shown  []*view
	closed []CloseReason
	bell   chan struct{}
}

func newMember() *member { return &member{bell: make(chan struct{}, 1)} }

func (m *member) ring() {
	select {
	case m.bell <- struct{}{}:
	default:
	}
}

func (m *member) Deliver(e any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.closed) > 0 {
		panic("delivered to a closed member")
	}
	m.shown = append(m.shown, e.(*view))
	m.ring()
}

func (m *member) Close(why CloseReason) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = append(m.closed, why)
	m.ring()
}

func (m *member) all() []*view {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clip(m.shown)
}

// wait waits until ok holds.
func (m *member) wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	late := time.After(patience)
	for {
		m.mu.Lock()
		done := ok()
		m.mu.Unlock()
		if done {
			return
		}
		select {
		case <-m.bell:
		case <-late:
			t.Fatalf("%s did not come; %d shown, closed %v", what, len(m.shown), m.closed)
		}
	}
}

func (m *member) reaches(t testing.TB, pos uint64) {
	t.Helper()
	m.wait(t, fmt.Sprintf("position %d", pos), func() bool {
		return len(m.shown) > 0 && m.shown[len(m.shown)-1].rec.Pos >= pos
	})
}

func (m *member) closes(t testing.TB, why CloseReason) {
	t.Helper()
	m.wait(t, "close "+string(why), func() bool { return len(m.closed) > 0 })
	if len(m.closed) != 1 || m.closed[0] != why {
		t.Fatalf("closed %v, want %s once", m.closed, why)
	}
}

// follows checks that what was shown is whole from a position on, and that
// each record was shown with the very states that it stood between.
func (m *member) follows(t testing.TB, th *thread, from, to uint64) {
	t.Helper()
	shown := m.all()
	if len(shown) != int(to-from) {
		t.Fatalf("shown %d records, want those of (%d, %d]", len(shown), from, to)
	}
	for i, v := range shown {
		if v.rec.Pos != from+uint64(i)+1 {
			t.Fatalf("record %d is at %d", i, v.rec.Pos)
		}
		v.check(t, th)
	}
}

func (v *view) check(t testing.TB, th *thread) {
	t.Helper()
	if v.rec.Run != "" && !v.run {
		t.Fatalf("the %s at %d was encoded without its run", v.rec.Kind, v.rec.Pos)
	}
	if want := th.truth(v.rec.Pos - 1); want != "" && v.before != "" && v.before != want {
		t.Fatalf("the %s at %d was encoded after\n%s\nwant\n%s", v.rec.Kind, v.rec.Pos, v.before, want)
	}
	if want := th.truth(v.rec.Pos); want != "" && v.after != "" && v.after != want {
		t.Fatalf("the %s at %d was encoded into\n%s\nwant\n%s", v.rec.Kind, v.rec.Pos, v.after, want)
	}
}

func join(t testing.TB, rs *Rooms, key chat.Key, v Variant, m Member) *Seat {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := rs.Join(ctx, key, v, m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
