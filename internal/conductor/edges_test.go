package conductor

import (
	"context"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// silent says that it was called and then nothing, until its context ends.
func silent(begun chan<- struct{}) *script {
	return &script{retry: true, run: func(ctx context.Context, _ *agent.Call, _ func(agent.Event) error) agent.Outcome {
		begun <- struct{}{}
		<-ctx.Done()
		return agent.Outcome{Status: chat.RunCancelled}
	}}
}

// named is a realm that has an agent of that name.
func named(name string, a agent.Agent) *Realm {
	return &Realm{Agents: map[string]agent.Agent{name: a}, Default: name}
}

// knows waits until an edge knows that another has the agent.
func (e *edge) knows(agent string) {
	e.w.t.Helper()
	late := time.After(patience)
	for !e.fleet.Load().Has("r", agent) {
		select {
		case <-e.link.beaten:
		case <-late:
			e.w.t.Fatalf("nobody is known to have %s", agent)
		}
	}
}

func TestFleet(t *testing.T) {
	f := NewFleet("me", []journal.Edge{
		{Boot: "me", Agents: map[string][]string{"r": {"mine"}}},
		{Boot: "b", Agents: map[string][]string{"r": {"a", "b"}, "s": {"c"}}},
		{Boot: "c", Draining: true, Agents: map[string][]string{"r": {"d"}}},
	})
	for _, c := range []struct {
		realm, agent string
		has          bool
	}{{"r", "a", true}, {"r", "b", true}, {"s", "c", true}, {"r", "c", false}, {"r", "mine", false}, {"r", "d", false}} {
		if f.Has(c.realm, c.agent) != c.has {
			t.Errorf("%s in %s: %v", c.agent, c.realm, !c.has)
		}
	}
	if (Fleet{}).Has("r", "a") {
		t.Error("nobody is known, yet one has an agent")
	}
}

// F45: a newer schema is written when every living edge has read it for a while.
func TestSchemaRisesWhenAllEdgesReadIt(t *testing.T) {
	fleet := func(schemas ...int) (list []journal.Edge) {
		for _, s := range schemas {
			list = append(list, journal.Edge{Schema: s})
		}
		return list
	}
	var a accord
	for i, c := range []struct {
		edges []journal.Edge
		at    int64
		want  int
	}{
		{fleet(2, 1, 2), 0, 0},
		{fleet(2, 1, 2), accordPatience, 1},
		{fleet(2, 2), accordPatience + 1, 0}, // the old one was not heard
		{fleet(2, 1, 2), accordPatience + 10_000, 0},
		{fleet(2, 2), accordPatience + 20_000, 0}, // it has gone
		{fleet(2, 3), 2*accordPatience + 19_999, 0},
		{fleet(2, 3), 2*accordPatience + 20_000, 2},
		{nil, 2*accordPatience + 30_000, 0},
	} {
		if got := a.take(c.edges, c.at); got != c.want {
			t.Errorf("step %d: %d", i, got)
		}
	}
}

func TestSweepLeavesRunsToEdgesThatHaveTheirAgent(t *testing.T) {
	reach := map[string]Reach{"here": Here, "there": Elsewhere, "gone": Nowhere}
	for _, c := range []struct {
		name   string
		agent  string
		lapsed bool
		sealed bool
		after  int64 // first act, in ms after it was seen first; -1 is never
	}{
		{"a lost run whose agent is here", "here", true, false, lapsePatience},
		{"a lost run whose agent is elsewhere", "there", true, false, endPatience},
		{"a lost run whose agent is nowhere", "gone", true, false, endPatience},
		{"a run that nobody owns, agent here", "here", false, false, 0},
		{"a run that nobody owns, agent elsewhere", "there", false, false, -1},
		{"a run that nobody owns, agent nowhere", "gone", false, false, agentPatience},
		{"a sealed run, agent elsewhere", "there", false, true, 0},
		{"a sealed run of a lost edge, agent nowhere", "gone", true, true, lapsePatience},
	} {
		s := Sweep{Reach: func(_, a string) Reach { return reach[a] }}
		item := journal.DueItem{Key: chat.Key{Realm: "r", Thread: "t"}, Run: "x", Lapsed: c.lapsed, Meta: journal.RunMeta{Agent: c.agent, Sealed: c.sealed}}
		first := int64(-1)
		for now := int64(0); now <= 30_000 && first < 0; now += 500 {
			if len(s.Seen([]journal.DueItem{item}, now)) > 0 {
				first = now
			}
		}
		if first != c.after {
			t.Errorf("F53 %s: acted on after %d ms, want %d", c.name, first, c.after)
		}
	}
}

func TestRunGoesToTheEdgeThatHasItsAgent(t *testing.T) {
	w := newWorld(t)
	b := w.edge(named("b", &script{run: says("from b")}))
	a := w.edge(named("a", &script{run: says("from a")}))
	a.knows("b")
	key := Key(ann, "t")
	if _, err := a.Create(context.Background(), ann, "t", chat.Info{Agent: "b"}); err != nil {
		t.Fatal(err)
	}
	tape := w.tape(key)
	run, _ := a.start("t", say("m1", "hi"))
	if end := tape.end(run); end.Status != chat.RunComplete || content(end) != "from b" {
		t.Errorf("ended as %+v %q", end, content(end))
	}
	tape.whole()
	_ = b
}

func TestAnswerResumesOnTheEdgeThatHasTheAgent(t *testing.T) {
	w := newWorld(t)
	b := w.edge(named("b", echoes().Agents["a"]))
	a := w.edge(named("a", &script{run: says("from a")}))
	a.knows("b")
	tape := w.tape(b.create("t"))
	run, _ := b.start("t", say("m1", "/ask x"))
	q := tape.kind(run, chat.KindInterrupt).Body.(*chat.InterruptBody).Interrupt
	tape.kind(run, chat.KindRunSuspended)
	if _, err := a.AnswerQuestion(context.Background(), ann, "t", chat.Answer{Interrupt: q.ID, Value: []byte("true")}, nil); err != nil {
		t.Fatal(err)
	}
	if end := tape.end(run); end.Status != chat.RunComplete {
		t.Errorf("ended as %+v", end)
	}
	if m := tape.load().Meta; len(m.Runs) != 0 {
		t.Errorf("%+v is left", m.Runs)
	}
	tape.whole()
}

func TestRunWhoseAgentNobodyHasEnds(t *testing.T) {
	w := newWorld(t)
	a := w.edge(named("a", &script{run: says("from a")}))
	if _, err := a.Create(context.Background(), ann, "t", chat.Info{Agent: "b"}); err != nil {
		t.Fatal(err)
	}
	tape := w.tape(Key(ann, "t"))
	run, _ := a.start("t", say("m1", "hi"))
	a.pass(9 * time.Second)
	if st := tape.state(); st.Run(run) == nil {
		t.Error("it ended before another edge could come")
	}
	a.pass(3 * time.Second)
	if end := tape.end(run); end.Status != chat.RunError || end.Code != chat.CodeAgentUnavailable {
		t.Errorf("ended as %+v", end)
	}
	tape.whole()
}

func TestLostRunEndsThoughItsAgentIsGone(t *testing.T) {
	w := newWorld(t)
	s := &script{run: hangs}
	lost, left := w.edge(named("b", s)), w.edge(named("a", s))
	streamed, pending := w.tape(lost.create("t1")), w.tape(lost.create("t2"))
	r1, _ := lost.start("t1", say("m1", "hi"))
	streamed.kind(r1, chat.KindTextDelta)
	lost.link.set(func(call any) error {
		if c, ok := call.(journal.Commit); ok && len(c.Entries) > 0 && c.Entries[0].Kind == chat.KindRunActive {
			return errCut
		}
		return nil
	}, nil)
	r2, _ := lost.start("t2", say("m1", "hi"))
	lost.link.set(dead, nil)
	lost.off()
	left.pass(20 * time.Second)
	if end := streamed.end(r1); end.Code != chat.CodeEdgeLost || content(end) != "so far" {
		t.Errorf("F22 what had streamed ended as %+v", end)
	}
	if end := pending.end(r2); end.Code != chat.CodeAgentUnavailable {
		t.Errorf("F54 what was pending ended as %+v", end)
	}
}

func TestOneOfManySweepersWins(t *testing.T) {
	w := newWorld(t)
	s, other := &script{run: hangs}, &script{run: says("again"), retry: true}
	a := w.edge(realmOf(s))
	sweepers := []*edge{w.edge(realmOf(other)), w.edge(realmOf(other)), w.edge(realmOf(other))}
	var tapes []*tape
	var runs []string
	a.link.set(func(call any) error {
		if c, ok := call.(journal.Commit); ok && len(c.Entries) > 0 && c.Entries[0].Kind == chat.KindRunActive {
			return errCut
		}
		return nil
	}, nil)
	for _, id := range []string{"t1", "t2", "t3", "t4", "t5"} {
		tapes = append(tapes, w.tape(a.create(id)))
		run, _ := a.start(id, say("m1", "hi"))
		runs = append(runs, run)
	}
	a.link.set(dead, nil)
	a.off()
	for range 30 {
		w.moved.Add(500)
		for _, e := range sweepers {
			<-e.link.looked
			<-e.link.beaten
		}
	}
	for i, tape := range tapes {
		if end := tape.end(runs[i]); end.Status != chat.RunComplete || content(end) != "again" {
			t.Errorf("F53 ended as %+v", end)
		}
		tape.whole()
	}
	if n := len(other.called()); n != len(tapes) {
		t.Errorf("F53 %d calls for %d runs", n, len(tapes))
	}
}

func TestDrainHandsOver(t *testing.T) {
	w := newWorld(t)
	begun := make(chan struct{}, 1)
	s := silent(begun)
	a, b := w.edge(realmOf(s)), w.edge(realmOf(&script{run: says("again"), retry: true}))
	a.knows("a")
	tape, spoken := w.tape(a.create("t")), w.tape(a.create("t2"))
	run, _ := a.start("t", say("m1", "hi"))
	<-begun
	s.mu.Lock()
	s.run = hangs
	s.mu.Unlock()
	r2, _ := a.start("t2", say("m1", "hi"))
	spoken.kind(r2, chat.KindTextDelta)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a.Drain(ctx)
	if end := tape.end(run); end.Status != chat.RunComplete || content(end) != "again" {
		t.Errorf("F43 what had said nothing ended as %+v %q", end, content(end))
	}
	if end := spoken.end(r2); end.Code != chat.CodeShutdown || content(end) != "so far" {
		t.Errorf("F43 what had streamed ended as %+v %q", end, content(end))
	}
	// What comes now goes to the other edge from the start.
	spoken.whole()
	r3, _ := a.start("t2", say("m2", "hi"))
	if end := spoken.end(r3); content(end) != "again" {
		t.Errorf("F43 a message to an edge that drains ended as %+v", end)
	}
	tape.whole()
	_ = b
}

func TestDrainAloneEndsRuns(t *testing.T) {
	w := newWorld(t)
	begun := make(chan struct{}, 1)
	a := w.edge(realmOf(silent(begun)))
	tape := w.tape(a.create("t"))
	run, _ := a.start("t", say("m1", "hi"))
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a.Drain(ctx)
	if end := tape.end(run); end.Code != chat.CodeShutdown {
		t.Errorf("F43 ended as %+v", end)
	}
	tape.whole()
}

func TestLeaseThatRanOutHoldsTheRun(t *testing.T) {
	w := newWorld(t)
	more, hungUp := make(chan string), make(chan struct{})
	s := &script{run: func(ctx context.Context, _ *agent.Call, emit func(agent.Event) error) agent.Outcome {
		for word := range more {
			if emit(agent.Event{Kind: chat.KindTextDelta, ID: "t", Text: word}) != nil {
				close(hungUp)
				return agent.Outcome{Status: chat.RunCancelled}
			}
		}
		return done0
	}}
	for _, c := range []struct {
		name string
		back bool // the store comes back before anybody claims
	}{{"F1 an outage ends nobody's run", true}, {"F20 F23 a zombie writes nothing and hangs up", false}} {
		t.Run(c.name, func(t *testing.T) {
			more, hungUp = make(chan string), make(chan struct{})
			a, b := w.edge(realmOf(s)), w.edge(echoes())
			id := "back"
			if !c.back {
				id = "gone"
			}
			tape := w.tape(a.create(id))
			run, _ := a.start(id, say("m1", "hi"))
			more <- "one "
			tape.kind(run, chat.KindTextDelta)
			a.link.set(func(call any) error {
				if _, ok := call.(beat); ok {
					return errCut
				}
				return nil
			}, nil) // it could write, and must not
			if c.back {
				b.link.set(func(call any) error {
					if _, ok := call.(beat); ok {
						return errCut
					}
					return nil
				}, nil)
			}
			w.moved.Add(journal.OwnerDeadline.Milliseconds())
			for range 3 {
				<-a.link.beaten
			}
			pos := tape.load().Meta.Pos
			go func() {
				for range 200 {
					select {
					case more <- "two ":
					case <-hungUp:
						return
					}
				}
				close(more)
			}()
			for range 20 {
				<-a.link.beaten
			}
			if now := tape.load().Meta.Pos; now != pos {
				t.Errorf("%d records were written without a lease", now-pos)
			}
			if c.back {
				a.link.set(nil, nil)
				if end := tape.end(run); end.Status != chat.RunComplete || len(content(end)) != 4*201 {
					t.Errorf("ended as %+v %q", end, content(end))
				}
			} else {
				b.pass(6 * time.Second)
				if end := tape.end(run); end.Code != chat.CodeEdgeLost || content(end) != "one " {
					t.Errorf("ended as %+v %q", end, content(end))
				}
				a.link.set(nil, nil)
				<-hungUp
			}
			tape.whole()
		})
	}
}
