package conductor

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
	"github.com/parlance-gateway/parlance/internal/room"
)

// twins are two stores that are written alike until the second lags, and then
// stands in for the first: what was written meanwhile is lost. Nobody is told.
type twins struct {
	journal.Journal // the first
	second          journal.Journal

	mu          sync.Mutex
	lag, failed bool
	deaf        bool // no notice comes through
}

func (t *twins) set(lag, failed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lag, t.failed = lag, failed
}

// now is the store that answers; also is the one that gets what is written too.
func (t *twins) now() (answers, also journal.Journal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.failed:
		return t.second, nil
	case t.lag:
		return t.Journal, nil
	}
	return t.Journal, t.second
}

func (t *twins) Append(ctx context.Context, a journal.Append) (journal.Appended, error) {
	j, also := t.now()
	if also != nil {
		if _, err := also.Append(ctx, a); err != nil {
			return journal.Appended{}, err
		}
	}
	return j.Append(ctx, a)
}

func (t *twins) Commit(ctx context.Context, c journal.Commit) (journal.Committed, error) {
	j, also := t.now()
	if also != nil {
		if _, err := also.Commit(ctx, c); err != nil {
			return journal.Committed{}, err
		}
	}
	return j.Commit(ctx, c)
}

func (t *twins) Load(ctx context.Context, q journal.Load) (journal.Snapshot, error) {
	j, _ := t.now()
	return j.Load(ctx, q)
}

func (t *twins) Reset(ctx context.Context, q journal.Reset) (journal.Result, error) {
	j, _ := t.now()
	return j.Reset(ctx, q)
}

// Beat says nothing of runs: that is another way to learn of a loss.
func (t *twins) Beat(context.Context, string, []journal.Owned) ([]journal.Owned, error) {
	return nil, nil
}

func (t *twins) Due(context.Context, int) ([]journal.DueItem, error) { return nil, nil }

func (t *twins) Follow(key chat.Key, f func(journal.Notice)) func() {
	of := func(second bool) func(journal.Notice) {
		return func(n journal.Notice) {
			t.mu.Lock()
			live := t.failed == second && !t.deaf
			t.mu.Unlock()
			if live {
				f(n)
			}
		}
	}
	stop1, stop2 := t.Journal.Follow(key, of(false)), t.second.Follow(key, of(true))
	return func() { stop1(); stop2() }
}

// newTwins is a world on twins whose rooms never look at the clock, so that they
// learn of a loss by what they are told only.
func newTwins(t *testing.T) (*world, *twins) {
	w := newWorld(t)
	second, err := filejournal.Open(context.Background(), filejournal.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	})
	j := &twins{Journal: w.j, second: second}
	w.j, w.still = j, true
	return w, j
}

// speaks says what it is given until that is closed.
func speaks(words <-chan string) *script {
	return &script{run: func(_ context.Context, _ *agent.Call, emit func(agent.Event) error) agent.Outcome {
		for word := range words {
			if emit(agent.Event{Kind: chat.KindTextDelta, ID: "t", Text: word}) != nil {
				return agent.Outcome{Status: chat.RunCancelled}
			}
		}
		return done0
	}}
}

func TestRunThatTheStoreLostIsRestored(t *testing.T) {
	for _, c := range []struct {
		name string
		// lag is what the store loses: "all" of the run, or its last "words".
		lag string
		// epoch: the thread was given a new epoch meanwhile.
		epoch bool
		// more: the agent goes on after the loss, so an append finds it; else the
		// commit of the end does.
		more bool
	}{
		{"F4 the end finds that the run is gone", "all", false, false},
		{"F4 an append finds that the run has ended", "all", false, true},
		{"F4 an append finds a gap", "words", false, true},
		{"F4 an append finds a new epoch", "words", true, true},
		{"F4 the end finds a new epoch", "words", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, j := newTwins(t)
			words := make(chan string)
			e := w.edge(realmOf(speaks(words)))
			tape := w.tape(e.create("t"))
			epochs := make(chan room.CloseReason, 8)
			stop, err := e.rooms.Watch(context.Background(), tape.key, &room.Watcher{
				Change: func(*room.Change) {},
				Epoch:  func(why room.CloseReason) { epochs <- why },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			if c.lag == "all" {
				j.set(true, false)
			}
			run, _ := e.start("t", say("m1", "hi"))
			if c.lag == "all" && !c.more {
				tape.kind(run, chat.KindRunActive) // it says nothing, so nothing is appended
			} else {
				words <- "one "
				tape.kind(run, chat.KindTextDelta)
				j.set(true, false)
				words <- "two "
				tape.until("two", func(r *chat.Record) bool {
					b, ok := r.Body.(*chat.DeltaBody)
					return ok && b.Text == "two "
				})
			}
			j.set(false, true)
			if c.epoch {
				snap := tape.load()
				base := snap.State(nil).Clip()
				base.Pos, base.Log, base.Tag = base.Pos+journal.PositionJump, base.Log+journal.PositionJump, 77
				res, err := j.Reset(context.Background(), journal.Reset{
					Key: tape.key, Seen: journal.Cursor{Epoch: snap.Meta.Epoch, Pos: snap.Meta.Pos, Tag: snap.Meta.Tag},
					NewEpoch: 99, Tag: 77, Base: base,
				})
				if err != nil || res != journal.OK {
					t.Fatalf("%v %v", res, err)
				}
			}
			want := "one two "
			if c.lag == "all" && !c.more {
				want = ""
			}
			if c.more {
				words <- "three"
				want += "three"
			}
			close(words)
			// The end may be in the base of the new epoch already; and the news of an
			// epoch may come before the agent's last word.
			st := tape.state()
			for late := time.After(patience); len(st.Runs) > 0 || len(st.Tail) < 2; st = tape.state() {
				select {
				case <-e.link.beaten:
				case <-late:
					t.Fatalf("the run %s was not restored: %d messages, %d runs", run, len(st.Tail), len(st.Runs))
				}
			}
			if q, m := st.Tail[0], st.Tail[1]; q.ID != "m1" || m.Content() != want && (!c.epoch || m.Content() != "one two ") || m.Status != chat.MessageError {
				t.Errorf("the thread says %q, %q %s", q.ID, m.Content(), m.Status)
			}
			select {
			case why := <-epochs:
				if why != room.CloseEpoch {
					t.Errorf("members were told %s", why)
				}
			case <-time.After(patience):
				t.Error("nobody was told of the loss")
			}
			tape.whole()
		})
	}
}

// TestRefusedAppendLetsTheRoomLookAgain: the store has lost records and somebody
// else has ended the run there, and no notice says so: members learn it from what
// the owner's append is answered.
func TestRefusedAppendLetsTheRoomLookAgain(t *testing.T) {
	w, j := newTwins(t)
	words := make(chan string)
	e := w.edge(realmOf(speaks(words)))
	tape := w.tape(e.create("t"))
	epochs := make(chan room.CloseReason, 8)
	stop, err := e.rooms.Watch(context.Background(), tape.key, &room.Watcher{
		Change: func(*room.Change) {},
		Epoch:  func(why room.CloseReason) { epochs <- why },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	run, _ := e.start("t", say("m1", "hi"))
	words <- "one "
	tape.kind(run, chat.KindTextDelta)
	j.set(true, false)
	words <- "two "
	tape.until("two", func(r *chat.Record) bool {
		b, ok := r.Body.(*chat.DeltaBody)
		return ok && b.Text == "two "
	})
	j.mu.Lock()
	j.failed, j.deaf = true, true
	j.mu.Unlock()
	b := w.edge(echoes())
	if err := b.stopRun(context.Background(), tape.key, run, chat.Stop{Cause: chat.CauseUser}); err != nil {
		t.Fatal(err)
	}
	words <- "three"
	close(words)
	select {
	case why := <-epochs:
		if why != room.CloseEpoch {
			t.Errorf("F4 members were told %s", why)
		}
	case <-time.After(patience):
		t.Error("F4 nobody was told of the loss")
	}
}

func TestOwnerWithoutALeaseWritesNothing(t *testing.T) {
	text := func(s string) []chat.Entry {
		return []chat.Entry{chat.NewEntry(chat.KindTextDelta, "r", &chat.DeltaBody{Part: "p", Text: s})}
	}
	o := Owner{Run: "r", Pace: 40}
	o.Start(false)
	first := o.Entries(text("a"), 0, 1).Append
	if first == nil {
		t.Fatal("nothing is written with a lease")
	}
	o.Lapse()
	for name, d := range map[string]Do{
		"a lost answer":       o.Retry(),
		"more text":           o.Entries(text("b"), 10, 2),
		"text that is due":    o.Tick(100, 3),
		"the agent's end":     o.Finish(done0, 110, 4),
		"another lost answer": o.Retry(),
	} {
		if d.Append != nil || d.End {
			t.Errorf("F23 %s is written without a lease: %+v", name, d)
		}
	}
	if d := o.Renew(5); d.Append == nil || d.Append.Tag != first.Tag || d.Append.W != first.W {
		t.Errorf("F1 the append in flight is not sent again as it was: %+v", d)
	}
	d := o.Appended(journal.Appended{Result: journal.Stored}, 6)
	if d.Append == nil || d.Append.W != 1 {
		t.Fatalf("F1 what waited is not written: %+v", d)
	}
	if d = o.Appended(journal.Appended{Result: journal.Stored}, 7); !d.End {
		t.Errorf("the end does not follow: %+v", d)
	}
	idle := Owner{Run: "r"}
	idle.Start(false)
	idle.Lapse()
	if d := idle.Entries(text("a"), 0, 1); d.Append != nil {
		t.Error("F23 the first text is written without a lease")
	}
	if d := idle.Renew(2); d.Append == nil {
		t.Error("F1 the first text is not written with a lease again")
	}
	if d := o.Renew(8); d.Append != nil || d.End {
		t.Errorf("a lease that was there is renewed: %+v", d)
	}
}

func TestBusyThreadEndsNobodysRun(t *testing.T) {
	w := newWorld(t)
	e, b := w.edge(realmOf(&script{run: says("whole")})), w.edge(echoes())
	key := e.create("t")
	tape := w.tape(key)
	var n atomic.Int32
	e.link.set(func(call any) error {
		c, ok := call.(journal.Commit)
		if ok && len(c.Entries) > 0 && (c.Entries[0].Kind == chat.KindRunEnd || c.Entries[0].Kind == chat.KindRunActive) && n.Add(1)%(maxDecisions+4) != 0 {
			// Somebody else is always faster.
			return b.tellTask(context.Background(), key, chat.Task{ID: fmt.Sprint("t", n.Load()%8)})
		}
		return nil
	}, nil)
	run, _ := e.start("t", say("m1", "hi"))
	if end := tape.end(run); end.Status != chat.RunComplete || content(end) != "whole" {
		t.Errorf("ended as %+v", end)
	}
	if n.Load() <= maxDecisions {
		t.Errorf("only %d tries", n.Load())
	}
	tape.whole()
}
