package conductor

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/agent/echo"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
	"github.com/parlance-gateway/parlance/internal/room"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait; none takes long unless something is broken.
const patience = time.Minute

// world is one store with edges on it, on one clock that a test can move.
type world struct {
	t     *testing.T
	j     journal.Journal
	moved atomic.Int64
	still bool // rooms see a clock that stands
	// unasked is the edges' Options.Unasked.
	unasked func(string, *chat.Run, *chat.Interrupt) (chat.InterruptStatus, jsontext.Value)
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	j, err := filejournal.Open(context.Background(), filejournal.Options{
		Dir: t.TempDir(), Clock: func() time.Time { return time.UnixMilli(w.now()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.j = j
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) now() int64 { return time.Now().UnixMilli() + w.moved.Load() }

// edge is one conductor with its rooms, on a link to the store that can fail.
type edge struct {
	*Conductor
	w     *world
	link  *link
	rooms *room.Rooms
	off   func()
}

func (w *world) edge(r *Realm) *edge { return w.hasty(r, 0) }

// hasty is an edge whose commands give up after a while; 0 is the default.
func (w *world) hasty(r *Realm, timeout time.Duration) *edge {
	l := &link{Journal: w.j, looked: make(chan struct{}, 1), beaten: make(chan struct{}, 1)}
	seen := w.now
	if w.still {
		seen = func() int64 { return 1 }
	}
	rooms := room.New(l, room.Options{Now: seen, Random: rand.Uint64, RetryPause: time.Millisecond})
	c := New(l, rooms, Options{
		Boot: uuid.NewString(), Now: w.now, Random: rand.Uint64, BeatEvery: 5 * time.Millisecond, SweepEvery: 5 * time.Millisecond, CommandTimeout: timeout,
		Realm: func(string) *Realm { return r }, Unasked: w.unasked,
		Edge: func() journal.Edge {
			return journal.Edge{Agents: map[string][]string{"r": slices.Sorted(maps.Keys(r.Agents))}}
		},
		Open: func(context.Context, chat.Key, string) (io.ReadCloser, error) { return nil, errors.New("no file") },
	})
	e := &edge{Conductor: c, w: w, link: l, rooms: rooms}
	e.off = sync.OnceFunc(func() { c.Close(); rooms.Close() })
	w.t.Cleanup(e.off)
	return e
}

// pass lets time go by while the edge beats and looks.
func (e *edge) pass(d time.Duration) {
	const step = 500 * time.Millisecond
	for ; d > 0; d -= step {
		e.w.moved.Add(step.Milliseconds())
		for range 2 { // the second one began after the clock had moved
			<-e.link.beaten
			<-e.link.looked
		}
	}
}

// link lets a test stand between an edge and the store: before decides whether
// a call is carried out, after whether its answer arrives.
type link struct {
	journal.Journal
	mu             sync.Mutex
	before, after  func(call any) error
	confirm        func(journal.Rev) (journal.Result, error) // nil is OK
	looked, beaten chan struct{}
}

type beat struct{}

type due struct{}

func (l *link) set(before, after func(call any) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before, l.after = before, after
}

func carried[T any](l *link, call any, do func() (T, error)) (res T, err error) {
	l.mu.Lock()
	before, after := l.before, l.after
	l.mu.Unlock()
	if before != nil {
		if err := before(call); err != nil {
			return res, err
		}
	}
	out, err := do()
	if err == nil && after != nil {
		if err := after(call); err != nil {
			return res, err
		}
	}
	return out, err
}

func (l *link) Append(ctx context.Context, a journal.Append) (journal.Appended, error) {
	return carried(l, a, func() (journal.Appended, error) { return l.Journal.Append(ctx, a) })
}

func (l *link) Commit(ctx context.Context, c journal.Commit) (journal.Committed, error) {
	return carried(l, c, func() (journal.Committed, error) { return l.Journal.Commit(ctx, c) })
}

func (l *link) Load(ctx context.Context, q journal.Load) (journal.Snapshot, error) {
	return carried(l, q, func() (journal.Snapshot, error) { return l.Journal.Load(ctx, q) })
}

// Confirm implements journal.Confirmer.
func (l *link) Confirm(_ context.Context, _ chat.Key, _ uint64, rev journal.Rev) (journal.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.confirm == nil {
		return journal.OK, nil
	}
	return l.confirm(rev)
}

func (l *link) Beat(ctx context.Context, boot string, owned []journal.Owned) ([]journal.Owned, error) {
	defer func() {
		select {
		case l.beaten <- struct{}{}:
		default:
		}
	}()
	return carried(l, beat{}, func() ([]journal.Owned, error) { return l.Journal.Beat(ctx, boot, owned) })
}

func (l *link) Leave(ctx context.Context, boot string) error {
	_, err := carried(l, beat{}, func() (int, error) { return 0, l.Journal.Leave(ctx, boot) })
	return err
}

func (l *link) Claim(ctx context.Context, q journal.Claim) (fence uint64, rev journal.Rev, res journal.Result, err error) {
	_, err = carried(l, q, func() (int, error) {
		fence, rev, res, err = l.Journal.Claim(ctx, q)
		return 0, err
	})
	return fence, rev, res, err
}

func (l *link) Due(ctx context.Context, n int) ([]journal.DueItem, error) {
	items, err := carried(l, due{}, func() ([]journal.DueItem, error) { return l.Journal.Due(ctx, n) })
	select {
	case l.looked <- struct{}{}:
	default:
	}
	return items, err
}

var errCut = errors.New("no answer")

// script is an agent that a test writes, with all abilities.
type script struct {
	run     func(ctx context.Context, call *agent.Call, emit func(agent.Event) error) agent.Outcome
	history int
	retry   bool

	mu      sync.Mutex
	calls   []*agent.Call
	stopped chan string
}

func (s *script) Run(ctx context.Context, call *agent.Call, emit func(agent.Event) error) agent.Outcome {
	s.mu.Lock()
	s.calls = append(s.calls, call)
	run := s.run
	s.mu.Unlock()
	return run(ctx, call, emit)
}

func (s *script) History() int { return s.history }
func (s *script) Retry() bool  { return s.retry }
func (s *script) Cancel(_ context.Context, call *agent.Call) {
	if s.stopped != nil {
		s.stopped <- call.Run
	}
}

func (s *script) called() []*agent.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

var done0 = agent.Outcome{Status: chat.RunComplete}

func says(words ...string) func(context.Context, *agent.Call, func(agent.Event) error) agent.Outcome {
	return func(_ context.Context, _ *agent.Call, emit func(agent.Event) error) agent.Outcome {
		for _, w := range words {
			if emit(agent.Event{Kind: chat.KindTextDelta, ID: "t", Text: w}) != nil {
				return agent.Outcome{Status: chat.RunCancelled}
			}
		}
		return done0
	}
}

// hangs says a word and waits for the end of its context.
func hangs(ctx context.Context, _ *agent.Call, emit func(agent.Event) error) agent.Outcome {
	_ = emit(agent.Event{Kind: chat.KindTextDelta, ID: "t", Text: "so far"})
	<-ctx.Done()
	return agent.Outcome{Status: chat.RunCancelled}
}

func realmOf(a agent.Agent) *Realm {
	return &Realm{Agents: map[string]agent.Agent{"a": a}, Default: "a"}
}

func echoes() *Realm { return realmOf(echo.New(echo.Config{Delay: -1})) }

func person(id string) identity.Principal {
	return identity.Principal{Realm: "r", Subject: identity.Subject{Issuer: "test", ID: id}, Caps: identity.OwnThreads(identity.UserVerbs)}
}

var ann = person("ann")

func (e *edge) create(id string) chat.Key {
	e.w.t.Helper()
	if _, err := e.Create(context.Background(), ann, id, chat.Info{}); err != nil {
		e.w.t.Fatal(err)
	}
	return Key(ann, id)
}

func say(id, text string) chat.Start {
	return chat.Start{Message: &chat.Message{ID: id, Role: chat.User, Parts: []*chat.Part{{ID: id, Type: chat.PartText, Text: chat.Text(text)}}}, OneRun: true}
}

func (e *edge) start(thread string, s chat.Start) (run, segment string) {
	e.w.t.Helper()
	run, segment, err := e.StartRun(context.Background(), ann, thread, s)
	if err != nil {
		e.w.t.Fatal(err)
	}
	return run, segment
}

// tape has all records of a thread, read from the store as they come.
type tape struct {
	w    *world
	key  chat.Key
	bell chan struct{}
}

func (w *world) tape(key chat.Key) *tape {
	t := &tape{w: w, key: key, bell: make(chan struct{}, 1)}
	stop := w.j.Follow(key, func(journal.Notice) {
		select {
		case t.bell <- struct{}{}:
		default:
		}
	})
	w.t.Cleanup(stop)
	return t
}

func (t *tape) load() journal.Snapshot {
	t.w.t.Helper()
	snap, err := t.w.j.Load(context.Background(), journal.Load{Key: t.key})
	if err != nil {
		t.w.t.Fatal(err)
	}
	return snap
}

// state is the thread as it is now.
func (t *tape) state() *chat.State {
	t.w.t.Helper()
	snap := t.load()
	return snap.State(nil)
}

// until waits for a record that ok accepts.
func (t *tape) until(what string, ok func(*chat.Record) bool) *chat.Record {
	t.w.t.Helper()
	late := time.After(patience)
	for {
		snap := t.load()
		if i := slices.IndexFunc(snap.Records, ok); i >= 0 {
			return snap.Records[i]
		}
		select {
		case <-t.bell:
		case <-late:
			var seen []string
			for _, r := range snap.Records {
				seen = append(seen, r.Kind.String())
			}
			t.w.t.Fatalf("%s did not come: %s", what, strings.Join(seen, " "))
		}
	}
}

func (t *tape) kind(run string, k chat.Kind) *chat.Record {
	t.w.t.Helper()
	return t.until(k.String()+" of "+run, func(r *chat.Record) bool { return r.Kind == k && r.Run == run })
}

func (t *tape) end(run string) *chat.RunEndBody {
	t.w.t.Helper()
	return t.kind(run, chat.KindRunEnd).Body.(*chat.RunEndBody)
}

// whole checks what must hold of every finished run.
func (t *tape) whole() {
	t.w.t.Helper()
	ended := map[string]bool{}
	active := map[string]int{}
	for _, r := range t.load().Records {
		if r.Run != "" && ended[r.Run] {
			t.w.t.Errorf("a %s after the end of its run", r.Kind)
		}
		switch r.Kind {
		case chat.KindRunEnd:
			ended[r.Run] = true
		case chat.KindRunActive:
			if active[r.Run]++; active[r.Run] > 1 {
				t.w.t.Error("a run became active twice")
			}
		}
	}
}

func content(b *chat.RunEndBody) string {
	if b.Message == nil {
		return ""
	}
	return b.Message.Content()
}
