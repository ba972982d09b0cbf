package edge

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent/echo"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
	"github.com/parlance-gateway/parlance/internal/room"
)

// all is a variant that shows every record as it is.
type all struct{}

func (all) Encode(c *room.Change) any { return c.Record }

// watcher is a member that keeps what it was shown.
type watcher struct {
	mu     sync.Mutex
	recs   []*chat.Record
	closed room.CloseReason
	bell   chan struct{}
}

func newWatcher() *watcher { return &watcher{bell: make(chan struct{}, 1)} }

func (w *watcher) ring() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

func (w *watcher) Deliver(e any) {
	w.mu.Lock()
	w.recs = append(w.recs, e.(*chat.Record))
	w.mu.Unlock()
	w.ring()
}

func (w *watcher) Close(why room.CloseReason) {
	w.mu.Lock()
	w.closed = why
	w.mu.Unlock()
	w.ring()
}

// until waits for a record that ok accepts and returns all so far.
func (w *watcher) until(t *testing.T, ok func(*chat.Record) bool) []*chat.Record {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for n := 0; ; {
		w.mu.Lock()
		for ; n < len(w.recs); n++ {
			if ok(w.recs[n]) {
				out := w.recs[: n+1 : n+1]
				w.mu.Unlock()
				return out
			}
		}
		w.mu.Unlock()
		select {
		case <-w.bell:
		case <-deadline:
			t.Fatalf("what was waited for did not come; %d records", n)
		}
	}
}

func kind(k chat.Kind) func(*chat.Record) bool {
	return func(r *chat.Record) bool { return r.Kind == k }
}

func newTestHub(t *testing.T) *Hub {
	t.Helper()
	j, err := filejournal.Open(t.Context(), filejournal.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	h := NewHub(j, Options{})
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	site := &Site{Name: "test", Realm: "default", Agents: []NamedAgent{{Name: "echo", Agent: echo.New(echo.Config{Delay: time.Millisecond})}}}
	off, err := h.Activate([]*Site{site})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(off)
	return h
}

func person(id string) identity.Principal {
	return identity.Principal{Realm: "default", Subject: identity.Subject{Issuer: "test", ID: id}, Caps: identity.OwnThreads(identity.UserVerbs)}
}

func say(id, text string) *chat.Message {
	return &chat.Message{ID: id, Role: chat.User, Parts: []*chat.Part{{ID: id, Type: chat.PartText, Text: chat.Text(text)}}}
}

func TestDeskRunsAMessage(t *testing.T) {
	h := newTestHub(t)
	d, ctx, p := h.Desk(), context.Background(), person("ann")
	th, err := d.Create(ctx, p, dialect.NewThread{Title: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	w := newWatcher()
	seat, err := d.Join(ctx, p, th.ID, all{}, w)
	if err != nil {
		t.Fatal(err)
	}
	defer seat.Leave()
	if _, err := d.Join(ctx, person("bob"), th.ID, all{}, newWatcher()); err != chat.ErrNoThread {
		t.Fatalf("another's thread: %v", err)
	}
	started, err := d.Start(ctx, p, dialect.Start{Thread: th.ID, Message: say("m1", "hi there"), OneRun: true})
	if err != nil {
		t.Fatal(err)
	}
	seat.Release()
	recs := w.until(t, kind(chat.KindRunEnd))
	for i, r := range recs {
		if i > 0 && (r.Pos != recs[i-1].Pos+1 || r.Prev != recs[i-1].Tag) {
			t.Fatalf("record %d does not follow: %+v", i, r)
		}
	}
	end := recs[len(recs)-1].Body.(*chat.RunEndBody)
	if end.Status != chat.RunComplete || end.Message.Content() == "" || end.Message.Run != started.Run {
		t.Fatalf("the run ended as %+v", end)
	}
	seat.Hold()
	seat.Refresh()
	list, err := d.History(ctx, p, th.ID, seat.State(), 1000)
	if err != nil || len(list) != 2 {
		t.Fatalf("history: %v %v", list, err)
	}
	if _, err := d.Start(ctx, p, dialect.Start{Thread: th.ID, Message: say("m1", "again")}); err != chat.ErrDuplicateMessage {
		t.Fatalf("a duplicate: %v", err)
	}
}

func TestDeskCancelsAndAnswers(t *testing.T) {
	h := newTestHub(t)
	d, ctx, p := h.Desk(), context.Background(), person("ann")
	th, err := d.Create(ctx, p, dialect.NewThread{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWatcher()
	seat, err := d.Join(ctx, p, th.ID, all{}, w)
	if err != nil {
		t.Fatal(err)
	}
	defer seat.Leave()
	seat.Release()
	started, err := d.Start(ctx, p, dialect.Start{Thread: th.ID, Message: say("m1", "/slow"), OneRun: true})
	if err != nil {
		t.Fatal(err)
	}
	w.until(t, kind(chat.KindTextDelta))
	if _, err := d.Start(ctx, p, dialect.Start{Thread: th.ID, Message: say("m2", "x"), OneRun: true}); err != chat.ErrBusy {
		t.Fatalf("while a run is in flight: %v", err)
	}
	if err := d.Cancel(ctx, person("bob"), started.Segment, false); err != chat.ErrUnknownRun {
		t.Fatalf("a stranger's cancel: %v", err)
	}
	if err := d.Cancel(ctx, p, started.Segment, false); err != nil {
		t.Fatal(err)
	}
	recs := w.until(t, kind(chat.KindRunEnd))
	end := recs[len(recs)-1].Body.(*chat.RunEndBody)
	if end.Status != chat.RunCancelled || end.Message.Content() == "" {
		t.Fatalf("cancelled as %+v", end)
	}
	if err := d.Cancel(ctx, p, started.Segment, false); err != chat.ErrUnknownRun {
		t.Fatalf("a second cancel: %v", err)
	}
	if _, err := d.Start(ctx, p, dialect.Start{Thread: th.ID, Message: say("m3", "/ask"), OneRun: true}); err != nil {
		t.Fatal(err)
	}
	recs = w.until(t, kind(chat.KindRunSuspended))
	q := recs[len(recs)-2].Body.(*chat.InterruptBody).Interrupt
	a, err := d.Answer(ctx, p, dialect.Answer{Thread: th.ID, Interrupt: q.ID, Value: []byte("true")})
	if err != nil || a.Segment == "" {
		t.Fatalf("answer: %+v %v", a, err)
	}
	if _, err := d.Answer(ctx, p, dialect.Answer{Thread: th.ID, Interrupt: q.ID, Value: []byte("true")}); err != chat.ErrNotWaiting {
		t.Fatalf("a second answer: %v", err)
	}
	n := len(recs)
	recs = w.until(t, func(r *chat.Record) bool { return r.Pos > recs[n-1].Pos && r.Kind == chat.KindRunEnd })
	if end := recs[len(recs)-1].Body.(*chat.RunEndBody); end.Status != chat.RunComplete {
		t.Fatalf("after the answer: %+v", end)
	}
	if err := d.Delete(ctx, p, th.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(ctx, p, th.ID); err != chat.ErrNoThread {
		t.Fatalf("a deleted thread: %v", err)
	}
}

// A thread that is made anew while the former one of its id is being deleted is
// listed as what it is, and stays listed.
func TestDeskListsAThreadMadeAnew(t *testing.T) {
	h := newTestHub(t)
	d, ctx, p := desk{h}, context.Background(), person("ann")
	if _, err := d.Create(ctx, p, dialect.NewThread{ID: "t1", Title: "old"}); err != nil {
		t.Fatal(err)
	}
	former, err := h.journal.Shelf().Get(ctx, p.Realm, shelfThread, shelfID("", "t1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.conductor.Delete(ctx, p, "t1"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(ctx, p, dialect.NewThread{ID: "t1", Title: "new"}); err != nil {
		t.Fatal(err)
	}
	if err := d.unlist(ctx, p.Realm, former); err != nil {
		t.Fatal(err)
	}
	if list, _, err := d.List(ctx, p, "", 10); err != nil || len(list) != 1 || list[0].Title != "new" {
		t.Errorf("%+v %v", list, err)
	}
	if err := d.Delete(ctx, p, "t1"); err != nil {
		t.Fatal(err)
	}
	if list, _, err := d.List(ctx, p, "", 10); err != nil || len(list) != 0 {
		t.Errorf("after it is deleted: %+v %v", list, err)
	}
}
