package conductor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/agent/echo"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/identity"
)

func TestCancelFromAnotherEdge(t *testing.T) {
	w := newWorld(t)
	s := &script{run: hangs, stopped: make(chan string, 1)}
	a, b := w.edge(realmOf(s)), w.edge(echoes())
	tape := w.tape(a.create("t"))
	run, segment := a.start("t", say("m1", "hi"))
	tape.kind(run, chat.KindTextDelta)
	if err := b.Cancel(context.Background(), person("bob"), segment, false); err != chat.ErrUnknownRun {
		t.Errorf("PIL-045 a stranger's cancel: %v", err)
	}
	if err := b.Cancel(context.Background(), ann, segment, false); err != nil {
		t.Fatal(err)
	}
	end := tape.end(run)
	if end.Status != chat.RunCancelled || end.Cause != chat.CauseUser || content(end) != "so far" {
		t.Errorf("PIL-097 PIL-098 ended as %+v %q", end, content(end))
	}
	select {
	case got := <-s.stopped:
		if got != run {
			t.Errorf("the agent was told of %s", got)
		}
	case <-time.After(patience):
		t.Error("the agent was not told")
	}
	for _, e := range []*edge{a, b} {
		if err := e.Cancel(context.Background(), ann, segment, false); err != chat.ErrUnknownRun {
			t.Errorf("PIL-096 a second cancel: %v", err)
		}
	}
	tape.whole()
}

// PIL-097: an edge that learns that a run is not its own before it learns that it
// was stopped tells the agent all the same.
func TestAgentIsToldOfAStopThatComesLate(t *testing.T) {
	w := newWorld(t)
	s := &script{run: hangs, stopped: make(chan string, 1)}
	a, b := w.edge(realmOf(s)), w.edge(echoes())
	key := a.create("t")
	tape := w.tape(key)
	run, segment := a.start("t", say("m1", "hi"))
	tape.kind(run, chat.KindTextDelta)
	r := a.Serving(key, run).r
	r.mu.Lock() // the record of the stop waits here
	cancelled := make(chan error, 1)
	go func() { cancelled <- b.Cancel(context.Background(), ann, segment, false) }()
	for deadline := time.Now().Add(patience); ; {
		if _, err := b.FindRun(context.Background(), key, run); errors.Is(err, chat.ErrRunEnded) {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("the run is not stopped")
		}
	}
	r.mails = append(r.mails, mail{shut: true})
	r.mu.Unlock()
	ring(r.bell)
	select {
	case got := <-s.stopped:
		if got != run {
			t.Errorf("the agent was told of %s", got)
		}
	case <-time.After(patience):
		t.Error("the agent was not told")
	}
	if err := <-cancelled; err != nil {
		t.Error(err)
	}
	tape.end(run)
}

func TestRacingAnswersHaveOneWinner(t *testing.T) {
	w := newWorld(t)
	r := echoes()
	edges := []*edge{w.edge(r), w.edge(r)}
	tape := w.tape(edges[0].create("t"))
	for round := range 8 {
		run, _ := edges[round%2].start("t", say(fmt.Sprint("m", round), "/ask"))
		q := tape.kind(run, chat.KindInterrupt).Body.(*chat.InterruptBody).Interrupt
		tape.kind(run, chat.KindRunSuspended)
		var won atomic.Int32
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				_, err := edges[i%2].AnswerQuestion(context.Background(), ann, "t", chat.Answer{Interrupt: q.ID, Value: []byte("true")}, nil)
				switch {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, chat.ErrNotWaiting):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("PIL-089 %d answers won", won.Load())
		}
		if end := tape.end(run); end.Status != chat.RunComplete || content(end) == "" {
			t.Fatalf("ended as %+v", end)
		}
	}
	tape.whole()
}

func TestCancelAgainstFinishHasOneTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := echoes()
	a, b := w.edge(r), w.edge(r)
	tape := w.tape(a.create("t"))
	ends := map[chat.RunStatus]int{}
	for round := range 60 {
		run, segment := a.start("t", say(fmt.Sprint("m", round), "one two"))
		if round%3 == 0 {
			tape.kind(run, chat.KindTextDelta)
		}
		err := []*edge{a, b}[round%2].Cancel(context.Background(), ann, segment, false)
		end := tape.end(run)
		ends[end.Status]++
		if (err == nil) != (end.Status == chat.RunCancelled) || (err != nil && !errors.Is(err, chat.ErrUnknownRun)) {
			t.Fatalf("the cancel said %v, the run ended as %+v", err, end)
		}
	}
	tape.whole()
	t.Logf("ended %v", ends)
}

func TestWithdrawnQuestionIsToldToTheAgent(t *testing.T) {
	w := newWorld(t)
	s := &script{history: -1}
	s.run = func(ctx context.Context, call *agent.Call, emit func(agent.Event) error) agent.Outcome {
		if len(s.called()) > 1 {
			return says("fine")(ctx, call, emit)
		}
		says("may I?")(ctx, call, emit)
		return agent.Outcome{Status: chat.RunSuspended, Interrupts: []*chat.Interrupt{{Kind: chat.InterruptApproval, Upstream: "theirs"}}}
	}
	e := w.edge(realmOf(s))
	tape := w.tape(e.create("t"))
	first, segment := e.start("t", say("m1", "do it"))
	tape.kind(first, chat.KindRunSuspended)
	if err := e.Cancel(context.Background(), ann, segment, false); err != chat.ErrUnknownRun {
		t.Errorf("PIL-096 a paused run was cancelled: %v", err)
	}
	refuse := say("m2", "never mind")
	refuse.RefuseWaiting = true
	if _, _, err := e.StartRun(context.Background(), ann, "t", refuse); err != chat.ErrWaiting {
		t.Errorf("PIL-047 refuse: %v", err)
	}
	second, _ := e.start("t", say("m2", "never mind"))
	if end := tape.end(first); end.Status != chat.RunCancelled || end.Cause != chat.CauseWithdraw {
		t.Errorf("PIL-047 the waiting run ended as %+v", end)
	}
	tape.end(second)
	call := s.called()[1]
	if len(call.Withdrawn) != 1 || call.Withdrawn[0].Upstream != "theirs" || call.Withdrawn[0].Status != chat.InterruptWithdrawn {
		t.Errorf("PIL-047 the agent is told of %+v", call.Withdrawn)
	}
	if got := ids(call.Messages); got != "m1 "+call.Messages[1].ID+" m2" || call.Messages[1].Content() != "may I?" {
		t.Errorf("the agent is given %s", got)
	}
	tape.whole()
}

func ids(list []*chat.Message) (out string) {
	for i, m := range list {
		if i > 0 {
			out += " "
		}
		out += m.ID
	}
	return out
}

func TestAgentIsGivenItsBranch(t *testing.T) {
	w := newWorld(t)
	s := &script{history: -1}
	s.run = func(ctx context.Context, call *agent.Call, emit func(agent.Event) error) agent.Outcome {
		return says("to "+call.Messages[len(call.Messages)-1].ID)(ctx, call, emit)
	}
	e := w.edge(realmOf(s))
	key := e.create("t")
	tape := w.tape(key)
	ask := func(c chat.Start) (answer string) {
		run, _ := e.start("t", c)
		return tape.end(run).Message.ID
	}
	a1 := ask(say("m1", "one"))
	a2 := ask(say("m2", "two"))
	fork := say("m3", "other")
	fork.Fork = "m2"
	a3 := ask(fork)
	a4 := ask(say("m4", "on"))
	old := say("m5", "older branch") // PIL-042: m2 is no longer shown
	old.Fork = "m2"
	ask(old)
	calls := s.called()
	for i, want := range []string{"m1", "m1 " + a1 + " m2", "m1 " + a1 + " m3", "m1 " + a1 + " m3 " + a3 + " m4", "m1 " + a1 + " m5"} {
		if got := ids(calls[i].Messages); got != want {
			t.Errorf("PIL-038 call %d is given %s, want %s", i, got, want)
		}
	}
	_, _ = a2, a4
	up := func(i int) string { return calls[i].Upstream }
	if up(0) == "" || up(1) != up(0) || up(2) == up(0) || up(3) != up(2) || up(4) == up(2) || up(4) == up(0) {
		t.Errorf("upstream ids are not those of branches: %q", []string{up(0), up(1), up(2), up(3), up(4)})
	}
	st, err := e.Conductor.Load(context.Background(), ann, identity.Subscribe, key)
	if err != nil {
		t.Fatal(err)
	}
	list, err := e.History(context.Background(), key, st, 100)
	if err != nil || len(list) != 4 || list[2].ID != "m5" {
		t.Errorf("PIL-039 shown is %s %v", ids(list), err)
	}
	s.history = 1
	ask(say("m6", "short"))
	if got := s.called()[5].Messages; len(got) != 2 || got[1].ID != "m6" {
		t.Errorf("with a history of 1: %s", ids(got))
	}
	s.history = 0
	ask(say("m7", "shorter"))
	if got := ids(s.called()[6].Messages); got != "m7" {
		t.Errorf("with a history of 0: %s", got)
	}
}

func TestQuestionsExpire(t *testing.T) {
	w := newWorld(t)
	s := &script{}
	s.run = func(ctx context.Context, call *agent.Call, emit func(agent.Event) error) agent.Outcome {
		if !call.Resumed() {
			return agent.Outcome{Status: chat.RunSuspended, Interrupts: []*chat.Interrupt{{Kind: chat.InterruptQuestion}, {Kind: chat.InterruptQuestion}}}
		}
		for _, i := range call.Answers {
			says(string(i.Status)+" ")(ctx, call, emit)
		}
		return done0
	}
	r := realmOf(s)
	r.PauseTimeout = time.Minute
	e := w.edge(r)
	tape := w.tape(e.create("t"))
	run, _ := e.start("t", say("m1", "hi"))
	q := tape.kind(run, chat.KindInterrupt).Body.(*chat.InterruptBody).Interrupt
	tape.kind(run, chat.KindRunSuspended)
	out, err := e.AnswerQuestion(context.Background(), ann, "t", chat.Answer{Interrupt: q.ID, Value: []byte("1")}, nil)
	if err != nil || out.Segment != "" {
		t.Fatalf("PIL-087 the first of two answers: %+v %v", out, err)
	}
	e.pass(50 * time.Second)
	if tape.state().Run(run).Status != chat.RunSuspended {
		t.Error("expired before its time")
	}
	e.pass(15 * time.Second)
	if end := tape.end(run); end.Status != chat.RunComplete || content(end) != "answered expired " {
		t.Errorf("ended as %+v %q", end, content(end))
	}
	tape.whole()
}

func TestRunTimeout(t *testing.T) {
	w := newWorld(t)
	s := &script{run: hangs}
	r := realmOf(s)
	r.RunTimeout = 300 * time.Millisecond
	e := w.edge(r)
	tape := w.tape(e.create("t"))
	run, _ := e.start("t", say("m1", "hi"))
	if end := tape.end(run); end.Cause != chat.CauseTimeout || end.Code != chat.CodeRunTimeout || content(end) != "so far" {
		t.Errorf("PIL-130 ended as %+v", end)
	}
	tape.whole()
}

func TestDetach(t *testing.T) {
	w := newWorld(t)
	r := realmOf(echo.New(echo.Config{Delay: -1, Sub: 5 * time.Second}))
	a, b := w.edge(r), w.edge(r)
	parent := a.create("t")
	tape := w.tape(parent)
	run, segment := a.start("t", say("m1", "/sub"))
	call := tape.kind(run, chat.KindSubagentStart).Body.(*chat.SubagentStartBody).Subagent.Call
	if err := b.DetachCalls(context.Background(), ann, segment, "other"); err != chat.ErrNoSubagent {
		t.Errorf("PIL-105 another call: %v", err)
	}
	if err := b.DetachCalls(context.Background(), person("bob"), segment, call); err != chat.ErrUnknownRun {
		t.Errorf("PIL-045 a stranger: %v", err)
	}
	if err := b.DetachCalls(context.Background(), ann, segment, call); err != nil {
		t.Fatal(err)
	}
	task := tape.until("the task", func(r *chat.Record) bool { return r.Kind == chat.KindTask }).Body.(*chat.TaskBody).Task
	child := w.tape(chat.Key{Realm: "r", Thread: task.Child})
	snap := child.load()
	if !snap.Exists || task.Status != "running" || task.Parent != "t" || task.Call != call {
		t.Fatalf("PIL-107 PIL-108 the parent was told of %+v, the child exists: %v", task, snap.Exists)
	}
	if end := tape.end(run); end.Status != chat.RunComplete {
		t.Errorf("PIL-107 the parent ended as %+v", end)
	}
	sub := tape.kind(run, chat.KindSubagentEnd).Body.(*chat.SubagentEndBody)
	if !sub.Detached || sub.Failed {
		t.Errorf("PIL-106 the subagent ended as %+v", sub)
	}
	if err := b.DetachCalls(context.Background(), ann, segment, call); err != chat.ErrUnknownRun {
		t.Errorf("PIL-104 after the end: %v", err)
	}
	st := snap.State(nil)
	if st.Info.Owner != chat.Subject(ann.Subject) || st.Info.Task == nil {
		t.Errorf("the child is %+v", st.Info)
	}
	// It is stopped from the other edge; both threads are told.
	childRun := child.until("its run", func(r *chat.Record) bool { return r.Kind == chat.KindTextDelta }).Run
	if err := b.Cancel(context.Background(), ann, child.state().Run(childRun).Segment(), false); err != nil {
		t.Fatal(err)
	}
	over := func(r *chat.Record) bool {
		body, ok := r.Body.(*chat.TaskBody)
		return ok && body.Task.ID == task.ID && body.Task.Status == "cancelled"
	}
	tape.until("the task's end", over)
	child.until("the task's end", over)
	if got := child.state().Info.Task.Status; got != "cancelled" {
		t.Errorf("PIL-173 the child says it is %s", got)
	}
	tape.whole()
	child.whole()
}

func TestDetachNeedsTheAbility(t *testing.T) {
	w := newWorld(t)
	s := &script{run: func(ctx context.Context, _ *agent.Call, emit func(agent.Event) error) agent.Outcome {
		_ = emit(agent.Event{Kind: chat.KindToolStart, ID: "c", Name: "task"})
		_ = emit(agent.Event{Kind: chat.KindSubagentStart, ID: "s", Name: "sub", Parent: "c"})
		<-ctx.Done()
		return agent.Outcome{Status: chat.RunCancelled}
	}}
	e := w.edge(realmOf(s))
	tape := w.tape(e.create("t"))
	run, segment := e.start("t", say("m1", "hi"))
	tape.kind(run, chat.KindSubagentStart)
	if err := e.DetachCalls(context.Background(), ann, segment, ""); err != chat.ErrNoSubagent {
		t.Errorf("PIL-105 an agent that cannot: %v", err)
	}
	if err := e.Cancel(context.Background(), ann, segment, false); err != nil {
		t.Error(err)
	}
	tape.whole()
}

func TestDrain(t *testing.T) {
	w := newWorld(t)
	s := &script{}
	release := make(chan struct{})
	s.run = func(ctx context.Context, call *agent.Call, emit func(agent.Event) error) agent.Outcome {
		if call.Messages[0].ID == "slow" {
			return hangs(ctx, call, emit)
		}
		<-release
		return says("whole")(ctx, call, emit)
	}
	r := realmOf(s)
	r.MaxRuns = 8
	e := w.edge(r)
	one, two := w.tape(e.create("t1")), w.tape(e.create("t2"))
	r1, _ := e.start("t1", say("m1", "hi"))
	one.kind(r1, chat.KindRunActive)
	drained := make(chan struct{})
	go func() { e.Drain(context.Background()); close(drained) }()
	close(release)
	<-drained
	if end := one.end(r1); end.Status != chat.RunComplete || content(end) != "whole" {
		t.Errorf("drained: ended as %+v", end)
	}
	r2, _ := e.start("t2", say("slow", "hi"))
	two.kind(r2, chat.KindTextDelta)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e.Drain(ctx)
	if end := two.end(r2); end.Cause != chat.CauseShutdown || end.Code != chat.CodeShutdown || content(end) != "so far" {
		t.Errorf("out of time: ended as %+v", end)
	}
}

func TestDeleteEndsRuns(t *testing.T) {
	w := newWorld(t)
	aborted := make(chan struct{})
	s := &script{run: func(ctx context.Context, call *agent.Call, emit func(agent.Event) error) agent.Outcome {
		defer close(aborted)
		return hangs(ctx, call, emit)
	}}
	a, b := w.edge(realmOf(s)), w.edge(echoes())
	tape := w.tape(a.create("t"))
	run, _ := a.start("t", say("m1", "hi"))
	tape.kind(run, chat.KindTextDelta)
	if _, err := b.Delete(context.Background(), person("bob"), "t"); err != chat.ErrNoThread {
		t.Errorf("PIL-045 a stranger's delete: %v", err)
	}
	if _, err := b.Delete(context.Background(), ann, "t"); err != nil {
		t.Fatal(err)
	}
	<-aborted
	if _, _, err := a.StartRun(context.Background(), ann, "t", say("m2", "hi")); err != chat.ErrNoThread {
		t.Errorf("PIL-043 a message to a deleted thread: %v", err)
	}
}
