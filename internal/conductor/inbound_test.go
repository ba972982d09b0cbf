package conductor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// caller is an agent that dials in: each of its calls says what it is told to.
type caller struct {
	wakes bool

	mu    sync.Mutex
	woken []string
	bell  chan struct{}
	lines chan *line
}

// line is one call of it.
type line struct {
	call *agent.Call
	say  chan agent.Event
	end  chan agent.Outcome
	gone chan struct{}
}

func newCaller() *caller {
	return &caller{bell: make(chan struct{}, 64), lines: make(chan *line, 64)}
}

func (a *caller) Run(ctx context.Context, call *agent.Call, emit func(agent.Event) error) agent.Outcome {
	l := &line{call, make(chan agent.Event), make(chan agent.Outcome), make(chan struct{})}
	defer close(l.gone)
	a.lines <- l
	for {
		select {
		case ev := <-l.say:
			if emit(ev) != nil {
				return agent.Outcome{Status: chat.RunCancelled}
			}
		case out := <-l.end:
			return out
		case <-ctx.Done():
			return agent.Outcome{Status: chat.RunCancelled}
		}
	}
}

func (a *caller) Wakes() bool { return a.wakes }

func (a *caller) Wake(_ context.Context, _ chat.Key, run string, _ func(context.Context) bool) error {
	a.mu.Lock()
	a.woken = append(a.woken, run)
	a.mu.Unlock()
	a.bell <- struct{}{}
	return nil
}

func (a *caller) line(t *testing.T) *line {
	t.Helper()
	select {
	case l := <-a.lines:
		return l
	case <-time.After(patience):
		t.Fatal("the agent was not called")
		return nil
	}
}

// hears waits until the agent is woken.
func (a *caller) hears(t *testing.T) {
	t.Helper()
	select {
	case <-a.bell:
	case <-time.After(patience):
		t.Fatal("PIN-254 the agent was not woken")
	}
}

func (l *line) says(text string) {
	select {
	case l.say <- agent.Event{Kind: chat.KindTextDelta, ID: "text", Text: text}:
	case <-l.gone:
	}
}

func (l *line) ends(o agent.Outcome) {
	select {
	case l.end <- o:
	case <-l.gone:
	}
}

func asks(name string) agent.Outcome {
	return agent.Outcome{Status: chat.RunSuspended, Interrupts: []*chat.Interrupt{{
		Kind: chat.InterruptApproval, Upstream: name, Alias: name, Payload: []byte(`{}`),
	}}}
}

// inbound is a realm whose runs may take half an hour.
func inbound(a *caller) *Realm {
	r := realmOf(a)
	r.RunTimeout = 30 * time.Minute
	return r
}

// jumps moves the clock and waits until an edge has looked at what is due since.
func (e *edge) jumps(d time.Duration) {
	e.w.moved.Add(d.Milliseconds())
	for range 3 {
		<-e.link.beaten
		<-e.link.looked
	}
}

// takes has an agent take a run up at the edge.
func (e *edge) takes(key chat.Key, run string) {
	e.w.t.Helper()
	if err := e.TakeUpRun(context.Background(), key, run); err != nil {
		e.w.t.Fatal(err)
	}
}

// loses waits until the edge knows that it has the run no more.
func (e *edge) loses(key chat.Key, run string) {
	e.w.t.Helper()
	a := e.Serving(key, run)
	if a.Agent() == nil {
		return
	}
	select {
	case <-a.Gone():
	case <-time.After(patience):
		e.w.t.Fatal("the edge still has the run")
	}
}

func (a *caller) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.woken)
}

// PIN-185 PIN-254: a run that nobody takes up belongs to no edge; its agent is
// woken again and again, and its time runs out.
func TestPendingRunWaitsForItsAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	worker := newCaller()
	worker.wakes = true
	a := w.edge(inbound(worker))
	tape := w.tape(a.create("t"))
	run, _ := a.start("t", say("m1", "hi"))
	if m := tape.load().Meta.Runs[run]; m.Owner != "" || m.Due == 0 || a.Runs() != 0 {
		t.Errorf("it is owned: %+v, and the edge has %d runs", m, a.Runs())
	}
	worker.hears(t)
	for n, after := range []time.Duration{61 * time.Second, 62 * time.Second, 3 * time.Minute, 5 * time.Minute, 10 * time.Minute} {
		a.jumps(after)
		worker.hears(t)
		if got := worker.count(); got != n+2 {
			t.Errorf("PIN-254 woken %d times, want %d", got, n+2)
		}
	}
	a.jumps(11 * time.Minute)
	end := tape.end(run)
	if end.Status != chat.RunCancelled || end.Cause != chat.CauseTimeout || end.Message != nil {
		t.Errorf("PIN-185 it ended as %+v", end)
	}
	if got := worker.count(); got != 6 || slices.ContainsFunc(worker.woken, func(r string) bool { return r != run }) {
		t.Errorf("PIN-254 woken for %v", worker.woken)
	}
	if m := tape.load().Meta; len(m.Runs) != 0 {
		t.Errorf("%+v is left", m.Runs)
	}
}

// PIN-185: an active run's time counts from when it was taken up, whichever edges
// it has been at.
func TestActiveRunTakesItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	worker := newCaller()
	a := w.edge(inbound(worker))
	key := a.create("t")
	tape := w.tape(key)
	run, _ := a.start("t", say("m1", "hi"))
	a.takes(key, run)
	worker.line(t).says("so far")
	tape.kind(run, chat.KindTextDelta)
	b := w.edge(inbound(worker))
	w.moved.Add((30*time.Minute - 2*time.Second).Milliseconds())
	if err := b.TakeRun(context.Background(), key, run); err != nil {
		t.Fatal(err)
	}
	worker.line(t)
	if end := tape.end(run); end.Cause != chat.CauseTimeout || content(end) != "so far" {
		t.Errorf("PIN-185 it ended as %+v", end)
	}
}

// PIN-194: an agent that comes back through another edge takes its run there, and
// goes on in the middle of its text.
func TestRunGoesWhereItsAgentIs(t *testing.T) {
	w := newWorld(t)
	worker, other := newCaller(), newCaller()
	a, b := w.edge(inbound(worker)), w.edge(inbound(other))
	key := a.create("t")
	tape := w.tape(key)
	run, _ := a.start("t", say("m1", "hi"))
	b.takes(key, run)
	first := other.line(t)
	first.says("one ")
	tape.kind(run, chat.KindTextDelta)
	first.says("two ")
	if err := a.TakeRun(context.Background(), key, run); err != nil {
		t.Fatal(err)
	}
	second := worker.line(t)
	<-first.gone // the one that lost it hears so
	if p := second.call.Draft; len(p) != 1 || string(p[0].Text) != "one two " || !p[0].Open {
		t.Errorf("PIN-194 it goes on after %+v", p)
	}
	second.says("three")
	second.ends(done0)
	end := tape.end(run)
	if end.Status != chat.RunComplete || content(end) != "one two three" || len(end.Message.Parts) != 1 {
		t.Errorf("PIN-194 it ended as %+v %q", end, content(end))
	}
	starts := 0
	for _, r := range tape.load().Records {
		if r.Kind == chat.KindTextStart {
			starts++
		}
	}
	if starts != 1 {
		t.Errorf("PIN-194 its text began %d times", starts)
	}
	tape.whole()
	a.loses(key, run)
	if err := a.TakeRun(context.Background(), key, run); !errors.Is(err, chat.ErrRunEnded) {
		t.Errorf("PIN-200 a run that has ended: %v", err)
	}
	if err := a.TakeRun(context.Background(), key, "none"); !errors.Is(err, chat.ErrUnknownRun) {
		t.Errorf("PIN-196 an unknown run: %v", err)
	}
	if err := a.TakeUpRun(context.Background(), key, run); !errors.Is(err, chat.ErrRunEnded) {
		t.Errorf("PIN-193 a run that has ended: %v", err)
	}
}

// PIN-194 PIN-206: an edge that is asked for a run lets it go with all that it has
// accepted, however long the journal takes for it; one that hangs keeps it from
// nobody.
func TestRunGoesWithAllThatWasSaid(t *testing.T) {
	for name, hangs := range map[string]bool{"a journal that is slow": false, "an edge that hangs": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			worker, other := newCaller(), newCaller()
			a, b := w.edge(inbound(worker)), w.edge(inbound(other))
			key := a.create("t")
			tape := w.tape(key)
			run, _ := a.start("t", say("m1", "hi"))
			b.takes(key, run)
			first := other.line(t)
			first.says("one ")
			tape.kind(run, chat.KindTextDelta)
			held, stuck := make(chan struct{}), make(chan struct{})
			release, stick := sync.OnceFunc(func() { close(held) }), sync.OnceFunc(func() { close(stuck) })
			defer release()
			b.link.set(func(call any) error {
				if _, ok := call.(journal.Append); ok {
					stick()
					<-held
				}
				return nil
			}, nil)
			first.says("two ")
			<-stuck
			taken := make(chan error, 1)
			go func() { taken <- a.TakeRun(context.Background(), key, run) }()
			for late := time.Now().Add(patience); tape.load().Meta.Runs[run].Due == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(late) {
					t.Fatal("nobody asks for the run")
				}
			}
			want := "one two three"
			if hangs {
				w.moved.Add(askTime.Milliseconds())
				want = "one three"
			} else {
				select {
				case err := <-taken:
					t.Fatalf("taken from an owner that still writes: %v", err)
				default:
				}
				release()
			}
			if err := <-taken; err != nil {
				t.Fatal(err)
			}
			release()
			b.loses(key, run)
			second := worker.line(t)
			second.says("three")
			second.ends(done0)
			if end := tape.end(run); end.Status != chat.RunComplete || content(end) != want {
				t.Errorf("it ended as %+v %q, want %q", end, content(end), want)
			}
			tape.whole()
		})
	}
}

// PIN-206: an edge takes a run from another that lives at most once in two seconds.
func TestRunIsNotTakenTooOften(t *testing.T) {
	w := newWorld(t)
	worker, other := newCaller(), newCaller()
	a, b := w.edge(inbound(worker)), w.edge(inbound(other))
	key := a.create("t")
	run, _ := a.start("t", say("m1", "hi"))
	a.takes(key, run)
	worker.line(t)
	for _, e := range []struct{ taker, loser *edge }{{b, a}, {a, b}} {
		if err := e.taker.TakeRun(context.Background(), key, run); err != nil {
			t.Fatal(err)
		}
		e.loser.loses(key, run)
	}
	// took says when b has taken the run: a busy machine may be long past that.
	took := func(ago int64) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if _, ok := b.took[runKey{key, run}]; !ok {
			t.Error("it is not remembered that the run was taken")
		}
		b.took[runKey{key, run}] = b.o.Now() - ago
	}
	took(-time.Minute.Milliseconds())
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := b.TakeRun(ctx, key, run); !errors.Is(err, ErrBusy) {
		t.Errorf("PIN-206 taken again at once: %v", err)
	}
	took(takeEvery)
	if err := b.TakeRun(context.Background(), key, run); err != nil {
		t.Errorf("PIN-206 taken again later: %v", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.took) != 1 {
		t.Errorf("%d runs are remembered", len(b.took))
	}
}

// PIN-184: the edge of an agent dies; another one holds its run, and the agent goes
// on with it there.
func TestRunOutlivesItsEdge(t *testing.T) {
	w := newWorld(t)
	worker, other := newCaller(), newCaller()
	a, b := w.edge(inbound(worker)), w.edge(inbound(other))
	key := a.create("t")
	tape := w.tape(key)
	run, _ := a.start("t", say("m1", "hi"))
	a.takes(key, run)
	worker.line(t).says("so far")
	tape.kind(run, chat.KindTextDelta)
	cut := func(any) error { return errCut }
	a.link.set(cut, nil)
	b.pass(15 * time.Second)
	held := other.line(t)
	if b.Serving(key, run).Agent() == nil || len(held.call.Draft) != 1 {
		t.Errorf("F22 the other edge does not hold it: %+v", held.call)
	}
	held.says(" and on")
	held.ends(done0)
	if end := tape.end(run); end.Status != chat.RunComplete || content(end) != "so far and on" {
		t.Errorf("PIN-194 it ended as %+v %q", end, content(end))
	}
	tape.whole()
	a.link.set(nil, nil)
}

// PIN-173 PIN-185: what was decided and is never resumed is swept; what nobody has
// decided is not.
func TestDecidedRunWaitsForItsAgent(t *testing.T) {
	w := newWorld(t)
	worker := newCaller()
	worker.wakes = true
	a := w.edge(inbound(worker))
	key := a.create("t")
	tape := w.tape(key)
	run, _ := a.start("t", say("m1", "hi"))
	worker.hears(t)
	a.takes(key, run)
	l := worker.line(t)
	l.says("may I?")
	l.ends(asks("c"))
	q := tape.kind(run, chat.KindInterrupt).Body.(*chat.InterruptBody).Interrupt
	tape.kind(run, chat.KindRunSuspended)
	a.jumps(3 * time.Hour)
	if r := tape.state().Run(run); r == nil || r.Status != chat.RunSuspended {
		t.Fatal("PIN-185 a run that waits for a person was swept")
	}
	if _, err := a.AnswerQuestion(context.Background(), ann, "t", chat.Answer{Interrupt: q.ID, Value: []byte("true")}, nil); err != nil {
		t.Fatal(err)
	}
	worker.hears(t) // it is woken for a decision, too
	a.jumps(61 * time.Second)
	worker.hears(t)
	if r := tape.state().Run(run); r == nil || r.Status != chat.RunSuspended {
		t.Fatal("PIN-173 the decision has changed the run")
	}
	a.jumps(30 * time.Minute)
	if end := tape.end(run); end.Status != chat.RunCancelled || end.Cause != chat.CauseTimeout || content(end) != "may I?" {
		t.Errorf("PIN-185 it ended as %+v %q", end, content(end))
	}
	if err := a.ResumeRun(context.Background(), key, run); err == nil {
		t.Error("PIN-205 a run that has ended was resumed")
	}
}

// A run that was decided, and whose agent is configured no more, ends.
func TestDecidedRunWhoseAgentIsGone(t *testing.T) {
	w := newWorld(t)
	worker := newCaller()
	a := w.edge(inbound(worker))
	key := a.create("t")
	tape := w.tape(key)
	run, _ := a.start("t", say("m1", "hi"))
	a.takes(key, run)
	worker.line(t).ends(asks("c"))
	q := tape.kind(run, chat.KindInterrupt).Body.(*chat.InterruptBody).Interrupt
	tape.kind(run, chat.KindRunSuspended)
	if _, err := a.AnswerQuestion(context.Background(), ann, "t", chat.Answer{Interrupt: q.ID, Value: []byte("true")}, nil); err != nil {
		t.Fatal(err)
	}
	a.off()
	b := w.edge(named("b", &script{run: says("from b")}))
	w.moved.Add((31 * time.Minute).Milliseconds())
	b.pass(12 * time.Second)
	if end := tape.end(run); end.Code != chat.CodeAgentUnavailable {
		t.Errorf("it ended as %+v", end)
	}
}

// F43: an edge that drains waits for no run that its agent has not taken up, and
// leaves those that it has to others, with all that was said.
func TestDrainLeavesRunsToTheirAgents(t *testing.T) {
	w := newWorld(t)
	worker, other := newCaller(), newCaller()
	a := w.edge(inbound(worker))
	key := a.create("t")
	tape, waiting := w.tape(key), w.tape(a.create("t2"))
	run, _ := a.start("t", say("m1", "hi"))
	pending, _ := a.start("t2", say("m1", "hi"))
	a.takes(key, run)
	l := worker.line(t)
	for range 50 {
		l.says("word ")
	}
	b := w.edge(inbound(other))
	a.BeginDrain()
	a.Release(key)
	a.Drain(context.Background())
	held := other.line(t)
	if n := len(held.call.Draft); n != 1 || len(held.call.Draft[0].Text) != 250 {
		t.Errorf("F43 the next edge goes on after %+v", held.call.Draft)
	}
	held.ends(done0)
	if end := tape.end(run); end.Status != chat.RunComplete || len(content(end)) != 250 {
		t.Errorf("F43 it ended as %+v", end)
	}
	b.takes(Key(ann, "t2"), pending)
	other.line(t).ends(done0)
	if end := waiting.end(pending); end.Status != chat.RunComplete {
		t.Errorf("F43 what was pending ended as %+v", end)
	}
	tape.whole()
}

// PIN-193: whose agent begins a run.
func TestWhoBegins(t *testing.T) {
	w := newWorld(t)
	worker, other := newCaller(), newCaller()
	r := inbound(worker)
	r.Agents = map[string]agent.Agent{"b": worker, "c": other, "e": echoes().Agents["a"]}
	for i, c := range []struct{ self, thread, def, want string }{
		{"c", "b", "e", "c"}, {"x", "c", "b", "c"}, {"x", "e", "c", "c"}, {"e", "", "e", "b"},
	} {
		r.Default = c.def
		e := w.edge(r)
		p := person(c.self)
		p.Caps = p.Caps.WithThread(string(rune('s'+i)), identity.AgentVerbs)
		key := Key(ann, string(rune('s'+i)))
		if _, err := e.Create(context.Background(), ann, key.Thread, chat.Info{Agent: c.thread}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.BeginRun(context.Background(), p, key.Thread, chat.Begin{Run: "own"}); err != nil {
			t.Fatalf("PIN-193 %+v: %v", c, err)
		}
		snap, err := w.j.Load(context.Background(), journal.Load{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		if m := snap.Meta.Runs["own"]; m.Agent != c.want || m.Owner == "" {
			t.Errorf("PIN-193 %+v: begun by %q", c, m.Agent)
		}
		if _, err := e.BeginRun(context.Background(), ann, key.Thread, chat.Begin{Run: "another"}); !errors.Is(err, chat.ErrNoThread) {
			t.Errorf("PIN-190 somebody else's: %v", err)
		}
		e.off()
	}
}

// A client's runs that wait for an agent that dials in count among his, for as
// long as they wait.
func TestRunsThatWaitAreBounded(t *testing.T) {
	w := newWorld(t)
	r := inbound(newCaller())
	r.MaxClientRuns = 2
	a := w.edge(r)
	one, two, three := a.create("one"), a.create("two"), a.create("three")
	begin := func(key chat.Key, id string) (string, error) {
		run, _, err := a.StartRun(t.Context(), ann, key.Thread, say(id, "hi"))
		return run, err
	}
	first, err := begin(one, "m1")
	must(t, err)
	second, err := begin(two, "m2")
	must(t, err)
	if _, err := begin(three, "m3"); !errors.Is(err, chat.ErrTooManyRuns) {
		t.Errorf("a third run that waits: %v", err)
	}
	a.takes(one, first) // at work here: it counts once
	if _, err := begin(three, "m3"); !errors.Is(err, chat.ErrTooManyRuns) {
		t.Errorf("one at work and one that waits: %v", err)
	}
	must(t, a.CancelRun(t.Context(), ann, two.Thread, second))
	w.moved.Add(2_000)
	if _, err := begin(three, "m3"); err != nil {
		t.Errorf("when one has ended: %v", err)
	}
}
