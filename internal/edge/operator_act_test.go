package edge

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent/echo"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/pilotoo"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
	"github.com/parlance-gateway/parlance/internal/room"
)

// An operator closes one connection of a thread, on the edge that has it.
func TestOperatorClosesAConnection(t *testing.T) {
	a, b := newPair(t)
	ctx, p := t.Context(), person("ann")
	th, err := a.Desk().Create(ctx, p, dialect.NewThread{})
	if err != nil {
		t.Fatal(err)
	}
	key := chat.Key{Realm: "default", Thread: th.ID}
	one, two := newWatcher(), newWatcher()
	for _, w := range []*watcher{one, two} {
		if _, err := a.Desk().Join(ctx, p, th.ID, pilotoo.Variant{}, w); err != nil {
			t.Fatal(err)
		}
	}
	members := a.OpenMembers()
	if len(members) != 2 || members[0].ID == "" || members[0].ID == members[1].ID || members[0].Thread != th.ID || members[0].Subject != chat.Subject(p.Subject) {
		t.Fatalf("%+v", members)
	}
	var elsewhere *ElsewhereError
	eventually(t, "the news of her at the other edge", func() bool {
		return errors.As(b.CloseMember(ctx, key, members[0].ID), &elsewhere)
	})
	if elsewhere.Edge != "a" {
		t.Errorf("she is on edge %q", elsewhere.Edge)
	}
	for _, id := range []string{"", "nobody"} {
		if err := b.CloseMember(ctx, key, id); err != ErrNoMember {
			t.Errorf("member %q: %v", id, err)
		}
	}
	if err := a.CloseMember(ctx, key, members[0].ID); err != nil {
		t.Fatal(err)
	}
	closed := func(w *watcher) room.CloseReason {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.closed
	}
	if (closed(one) == room.CloseOperator) == (closed(two) == room.CloseOperator) {
		t.Errorf("closed were %q and %q", closed(one), closed(two))
	}
	if err := a.CloseMember(ctx, key, members[0].ID); err != ErrNoMember {
		t.Errorf("once more: %v", err)
	}
}

func TestOperatorDeletesAThread(t *testing.T) {
	a, b := newPair(t)
	ctx, p := t.Context(), person("ann")
	th, err := a.Desk().Create(ctx, p, dialect.NewThread{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Desk().Start(ctx, p, dialect.Start{Thread: th.ID, Message: say("m1", "/slow")}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []chat.Key{{Realm: "other", Thread: th.ID}, {Realm: "default", Tenant: "other", Thread: th.ID}, {Realm: "default", Thread: "none"}, {Realm: "default"}} {
		if err := b.DeleteThread(ctx, key); !errors.Is(err, chat.ErrNoThread) {
			t.Errorf("%+v: %v", key, err)
		}
	}
	if err := b.DeleteThread(ctx, chat.Key{Realm: "default", Thread: th.ID}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Desk().Get(ctx, p, th.ID); err != chat.ErrNoThread {
		t.Errorf("it is there still: %v", err)
	}
	if list, _, err := a.Desk().List(ctx, p, "", 10); err != nil || len(list) != 0 {
		t.Errorf("she is shown %v %v", list, err)
	}
	eventually(t, "the end of its run", func() bool { return a.Stats().Runs == 0 })
}

// quietMeter is told and forgets.
type quietMeter struct{}

func (quietMeter) Command(string, string, time.Duration)                  {}
func (quietMeter) Journal(string, string, time.Duration)                  {}
func (quietMeter) RunEnded(string, chat.RunStatus, string, time.Duration) {}
func (quietMeter) FirstToken(string, time.Duration)                       {}

// newMetered starts a hub that counts.
func newMetered(t *testing.T, name string) *Hub {
	t.Helper()
	j, err := filejournal.Open(t.Context(), filejournal.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	h := NewHub(j, Options{Name: name, Meter: quietMeter{}})
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	off, err := h.Activate([]*Site{{
		Name: "test", Realm: "default", Agents: []NamedAgent{{Name: "echo", Agent: echo.New(echo.Config{Delay: time.Millisecond})}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(off)
	return h
}

// What an edge tells of itself: who wrote which record, where things are, and how
// its agents do.
func TestOperatorFindsAndCounts(t *testing.T) {
	h := newMetered(t, "a")
	ctx, p := t.Context(), person("ann")
	th, err := h.Desk().Create(ctx, p, dialect.NewThread{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWatcher()
	seat, err := h.Desk().Join(ctx, p, th.ID, all{}, w)
	if err != nil {
		t.Fatal(err)
	}
	defer seat.Leave()
	seat.Release()
	started, err := h.Desk().Start(ctx, p, dialect.Start{Thread: th.ID, Message: say("m1", "/slow")})
	if err != nil {
		t.Fatal(err)
	}
	w.until(t, kind(chat.KindTextDelta))
	place := Found{Realm: "default", Thread: th.ID}
	for id, want := range map[string]Found{
		th.ID: place, started.Run: {Realm: "default", Thread: th.ID, Run: started.Run}, started.Segment: {Realm: "default", Thread: th.ID, Segment: started.Segment},
	} {
		if got, err := h.Find(ctx, id); err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%s is found at %+v %v", id, got, err)
		}
	}
	for _, id := range []string{"", "none", "\x01"} {
		if got, err := h.Find(ctx, id); err != nil || len(got) != 0 {
			t.Errorf("%q is found at %+v %v", id, got, err)
		}
	}
	if err := h.CancelRun(ctx, started.Segment); err != nil {
		t.Fatal(err)
	}
	w.until(t, kind(chat.KindRunEnd))
	fences := map[string]uint64{}
	err = h.Records(ctx, chat.Key{Realm: "default", Thread: th.ID}, journal.Cursor{}, false, func(views []RecordView) error {
		for _, v := range views {
			if strings.HasPrefix(v.Kind, "run.") && v.Edge != "a" {
				t.Errorf("record %d (%s) was written by %q", v.Pos, v.Kind, v.Edge)
			}
			fences[v.Kind] = v.Fence
		}
		return nil
	})
	if err != nil || fences["run.active"] != 1 || fences["run.pending"] != 0 {
		t.Errorf("%v %v", fences, err)
	}
	var v PulseView
	eventually(t, "the run in the counts", func() bool {
		v = h.Pulse()
		return len(v.Agents) == 1 && v.Agents[0].Ended[chat.RunCancelled] == 1
	})
	writes, whole := int64(0), true // of what may be two minutes
	for _, m := range v.Minutes {
		writes, whole = writes+m.Writes, whole && m.At%60_000 == 0
	}
	if a := v.Agents[0]; a.Agent != "echo" || a.Answers != 1 || a.Reasons["user"] != 1 || v.Since == 0 || writes == 0 || !whole {
		t.Errorf("%+v", v)
	}
	eventually(t, "the pulse in the roster", func() bool {
		edges, err := h.Edges(ctx)
		return err == nil && len(edges) == 1 && edges[0].Pulse != nil && edges[0].Pulse.Ended == 1 && edges[0].Pulse.Journal > 0
	})
}

// A pulse keeps an hour, names some agents, and knows a minute from the next.
func TestPulseIsBounded(t *testing.T) {
	now := int64(1_000_000 * 60_000)
	p := newPulse(quietMeter{}, func() int64 { return now })
	for i := range 200 {
		p.Journal("commit", "done", 3*time.Millisecond)
		p.Journal("append", "error", time.Second)
		p.Journal("load", "ok", time.Second)
		p.Command("send", "unavailable", time.Millisecond)
		p.Command("send", "late", time.Millisecond)
		p.FirstToken("agent"+string(rune('A'+i)), 40*time.Millisecond)
		p.RunEnded("agent"+string(rune('A'+i)), chat.RunError, chat.CodeAgentTimeout, time.Second)
		now += 60_000
	}
	minutes, agents := p.view()
	if len(minutes) != pulseMinutes || len(agents) != pulseAgents+1 {
		t.Fatalf("%d minutes and %d agents", len(minutes), len(agents))
	}
	want := Minute{At: now - 60_000, Commands: 2, Refused: 1, Writes: 1, WriteMicros: 3000, WriteErrors: 1, Answers: 1, AnswerMillis: 40, Ended: 1, Failed: 1}
	if got := minutes[pulseMinutes-1]; got != want {
		t.Errorf("%+v", got)
	}
	if got := *p.told(); got != (journal.Pulse{Journal: 3000, Agent: 40, Ended: 200, Failed: 200}) {
		t.Errorf("%+v", got)
	}
	now += 3_600_000
	if got := *p.told(); got.Journal != 0 || got.Agent != 0 || got.Ended != 200 {
		t.Errorf("an hour later: %+v", got)
	}
}
