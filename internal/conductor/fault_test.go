package conductor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/agent/echo"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// dead is a link on which nothing goes through any more.
func dead(any) error { return errCut }

func TestLostEdge(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		t.Run(fmt.Sprintf("that says goodbye: %v", leaves), func(t *testing.T) {
			w := newWorld(t)
			s, other := &script{run: hangs}, &script{run: says("again"), retry: true}
			a, b := w.edge(realmOf(s)), w.edge(realmOf(other))
			streamed, pending := w.tape(a.create("t1")), w.tape(a.create("t2"))
			r1, _ := a.start("t1", say("m1", "hi"))
			streamed.kind(r1, chat.KindTextDelta)
			a.link.set(func(call any) error {
				if c, ok := call.(journal.Commit); ok && c.Entries[0].Kind == chat.KindRunActive {
					return errCut
				}
				return nil
			}, nil)
			r2, _ := a.start("t2", say("m1", "hi"))
			if !leaves {
				a.link.set(dead, nil)
			}
			a.off()
			b.pass(journal.OwnerDeadline + 5*time.Second)
			if end := streamed.end(r1); end.Status != chat.RunError || end.Code != chat.CodeEdgeLost || content(end) != "so far" {
				t.Errorf("PIL-130 what had streamed ended as %+v %q", end, content(end))
			}
			if end := pending.end(r2); end.Status != chat.RunComplete || content(end) != "again" {
				t.Errorf("what was pending ended as %+v %q", end, content(end))
			}
			if n := len(other.called()); n != 1 || len(s.called()) != 1 {
				t.Errorf("the agents were called %d and %d times", len(s.called()), n)
			}
			streamed.whole()
			pending.whole()
		})
	}
}

func TestSilentActiveRunStartsAgainWhereTheAgentBearsIt(t *testing.T) {
	for _, retry := range []bool{true, false} {
		t.Run(fmt.Sprint(retry), func(t *testing.T) {
			w := newWorld(t)
			begun := make(chan struct{})
			s := &script{run: func(ctx context.Context, _ *agent.Call, _ func(agent.Event) error) agent.Outcome {
				close(begun)
				<-ctx.Done()
				return agent.Outcome{Status: chat.RunCancelled}
			}}
			other := &script{run: says("again"), retry: retry}
			a, b := w.edge(realmOf(s)), w.edge(realmOf(other))
			tape := w.tape(a.create("t"))
			run, _ := a.start("t", say("m1", "hi"))
			<-begun
			a.link.set(dead, nil)
			a.off()
			b.pass(journal.OwnerDeadline + 5*time.Second)
			end := tape.end(run)
			if retry && (end.Status != chat.RunComplete || content(end) != "again") {
				t.Errorf("ended as %+v", end)
			}
			if !retry && end.Code != chat.CodeEdgeLost {
				t.Errorf("ended as %+v", end)
			}
			tape.whole()
		})
	}
}

func TestZombieHangsUp(t *testing.T) {
	w := newWorld(t)
	on, hungUp := make(chan struct{}), make(chan error, 1)
	s := &script{run: func(ctx context.Context, _ *agent.Call, emit func(agent.Event) error) agent.Outcome {
		_ = emit(agent.Event{Kind: chat.KindTextDelta, ID: "t", Text: "so far"})
		<-on
		for {
			if err := emit(agent.Event{Kind: chat.KindTextDelta, ID: "t", Text: " too late"}); err != nil {
				hungUp <- err
				return agent.Outcome{Status: chat.RunCancelled}
			}
		}
	}}
	a, b := w.edge(realmOf(s)), w.edge(echoes())
	tape := w.tape(a.create("t"))
	run, _ := a.start("t", say("m1", "hi"))
	tape.kind(run, chat.KindTextDelta)
	a.link.set(dead, nil) // it lives on, cut off
	b.pass(journal.OwnerDeadline + 5*time.Second)
	if end := tape.end(run); end.Code != chat.CodeEdgeLost || content(end) != "so far" {
		t.Errorf("ended as %+v %q", end, content(end))
	}
	a.link.set(nil, nil)
	close(on)
	<-hungUp
	tape.whole()
	if got := tape.state().Tail[1].Content(); got != "so far" {
		t.Errorf("the thread says %q", got)
	}
}

func TestOutageLosesNothing(t *testing.T) {
	w := newWorld(t)
	var words []string
	for i := range 300 {
		words = append(words, fmt.Sprint(i, " "))
	}
	s := &script{run: says(words...)}
	e := w.edge(realmOf(s))
	tape := w.tape(e.create("t"))
	var n atomic.Int32
	e.link.set(func(call any) error {
		if _, ok := call.(journal.Append); ok && n.Add(1)%3 != 0 {
			return errCut
		}
		return nil
	}, nil)
	run, _ := e.start("t", say("m1", "hi"))
	if end := tape.end(run); end.Status != chat.RunComplete || content(end) != strings.Join(words, "") {
		t.Errorf("ended as %+v with %d bytes", end, len(content(end)))
	}
	tape.whole()
}

// TestLostAnswers: each write is carried out, and its first answer is lost.
func TestLostAnswers(t *testing.T) {
	w := newWorld(t)
	r := echoes()
	e := w.edge(r)
	tape := w.tape(e.create("t"))
	var mu sync.Mutex
	told := map[any]bool{}
	e.link.set(nil, func(call any) error {
		var id any
		switch c := call.(type) {
		case journal.Append:
			id = c.Tag
		case journal.Commit:
			id = c.Command
		default:
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if told[id] {
			return nil
		}
		told[id] = true
		return errCut
	})
	if _, err := e.Create(context.Background(), ann, "t2", chat.Info{}); err != nil {
		t.Errorf("create: %v", err)
	}
	run, _ := e.start("t", say("m1", "one two three /ask four"))
	q := tape.kind(run, chat.KindInterrupt).Body.(*chat.InterruptBody).Interrupt
	tape.kind(run, chat.KindRunSuspended)
	out, err := e.AnswerQuestion(context.Background(), ann, "t", chat.Answer{Interrupt: q.ID, Value: []byte("true")}, nil)
	if err != nil || out.Segment == "" || out.Run != run {
		t.Fatalf("answer: %+v %v", out, err)
	}
	if end := tape.end(run); end.Status != chat.RunComplete || !strings.HasPrefix(content(end), "one two three") || strings.Count(content(end), "three") != 1 {
		t.Errorf("ended as %+v %q", end, content(end))
	}
	run, segment := e.start("t", say("m2", "/slow"))
	tape.kind(run, chat.KindTextDelta)
	if err := e.Cancel(context.Background(), ann, segment, false); err != nil {
		t.Errorf("cancel: %v", err)
	}
	if end := tape.end(run); end.Status != chat.RunCancelled {
		t.Errorf("ended as %+v", end)
	}
	tape.whole()
}

func TestPanicEndsItsOwnRun(t *testing.T) {
	w := newWorld(t)
	s := &script{run: func(_ context.Context, _ *agent.Call, emit func(agent.Event) error) agent.Outcome {
		_ = emit(agent.Event{Kind: chat.KindTextDelta, ID: "t", Text: "so far"})
		panic("secret detail")
	}}
	e := w.edge(realmOf(s))
	tape := w.tape(e.create("t"))
	run, _ := e.start("t", say("m1", "hi"))
	end := tape.end(run)
	if end.Status != chat.RunError || end.Code != chat.CodeAgentError || content(end) != "so far" || strings.Contains(end.Text, "secret") {
		t.Errorf("PIL-131 ended as %+v", end)
	}
}

func TestNothingIsSaidAfterTheEnd(t *testing.T) {
	w := newWorld(t)
	late := make(chan error, 1)
	var stray sync.WaitGroup
	s := &script{run: func(ctx context.Context, _ *agent.Call, emit func(agent.Event) error) agent.Outcome {
		_ = emit(agent.Event{Kind: chat.KindTextDelta, ID: "t", Text: "so far"})
		stray.Go(func() { // an adapter that lost track of its own goroutine
			<-ctx.Done()
			var err error
			for range 1000 {
				if err = emit(agent.Event{Kind: chat.KindTextDelta, ID: "t", Text: " late"}); err != nil {
					break
				}
			}
			late <- err
		})
		<-ctx.Done()
		_ = emit(agent.Event{Kind: chat.KindTextDelta, ID: "t", Text: " too late"})
		return done0
	}}
	e := w.edge(realmOf(s))
	tape := w.tape(e.create("t"))
	run, segment := e.start("t", say("m1", "hi"))
	tape.kind(run, chat.KindTextDelta)
	if err := e.Cancel(context.Background(), ann, segment, false); err != nil {
		t.Fatal(err)
	}
	if err := <-late; err == nil {
		t.Error("nobody told the agent to stop")
	}
	stray.Wait()
	if end := tape.end(run); content(end) != "so far" || end.Status != chat.RunCancelled {
		t.Errorf("PIL-099 ended as %+v %q", end, content(end))
	}
	tape.whole()
}

func TestFastAgentIsSlowedDown(t *testing.T) {
	const deltas = 100_000
	w := newWorld(t)
	var emitted atomic.Int64
	held := make(chan struct{})
	s := &script{run: func(_ context.Context, _ *agent.Call, emit func(agent.Event) error) agent.Outcome {
		for i := range deltas {
			// Blocks that alternate cannot be merged.
			if emit(agent.Event{Kind: chat.KindStep, Name: fmt.Sprint("s", i/2%2), Done: i%2 == 1}) != nil {
				break
			}
			emitted.Add(1)
		}
		return done0
	}}
	e := w.edge(realmOf(s))
	tape := w.tape(e.create("t"))
	blocked := make(chan struct{})
	var once sync.Once
	e.link.set(func(call any) error {
		if _, ok := call.(journal.Append); ok {
			once.Do(func() { close(blocked) })
			<-held
		}
		return nil
	}, nil)
	run, segment := e.start("t", say("m1", "hi"))
	<-blocked
	// The store answers nothing: the agent comes to stand.
	for was := int64(-1); was != emitted.Load(); {
		was = emitted.Load()
		for range 3 {
			<-e.link.beaten
		}
	}
	if n := emitted.Load(); n > backlogLimit+eventBuffer+64 {
		t.Errorf("%d events were taken while nothing could be stored", n)
	}
	close(held)
	tape.until("the last", func(r *chat.Record) bool { return emitted.Load() > 2000 || r.Kind == chat.KindRunEnd })
	if err := e.Cancel(context.Background(), ann, segment, false); err != nil && err != chat.ErrUnknownRun {
		t.Fatal(err)
	}
	tape.end(run)
}

func TestLongThreadIsTrimmedAndStaysReadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := &script{run: func(ctx context.Context, call *agent.Call, emit func(agent.Event) error) agent.Outcome {
		if call.Messages[len(call.Messages)-1].ID == "long" {
			for i := range trimRecords {
				_ = emit(agent.Event{Kind: chat.KindCustom, Name: "x", Value: []byte(fmt.Sprint(i))})
			}
		}
		return says("to "+call.Messages[len(call.Messages)-1].ID)(ctx, call, emit)
	}, history: -1}
	e := w.edge(realmOf(s))
	key := e.create("t")
	tape := w.tape(key)
	for i := range 60 {
		run, _ := e.start("t", say(fmt.Sprint("m", i), "hi"))
		tape.end(run)
	}
	run, _ := e.start("t", say("long", "hi"))
	ended := func() bool { st := tape.state(); return st.Run(run) == nil }
	late := time.After(patience)
	for !ended() || tape.load().Meta.Floor == 0 {
		select {
		case <-e.link.beaten:
		case <-late:
			t.Fatal("not trimmed")
		}
	}
	snap := tape.load()
	if n := snap.Meta.Pos - snap.Meta.Floor; n > 10 {
		t.Errorf("%d records are kept", n)
	}
	st := snap.State(nil)
	list, err := e.History(context.Background(), key, st, 1000)
	if err != nil || len(list) != 122 {
		t.Fatalf("%d messages, %v", len(list), err)
	}
	for i := range 60 {
		if list[2*i].ID != fmt.Sprint("m", i) || list[2*i+1].Content() != fmt.Sprint("to m", i) {
			t.Fatalf("message %d is %+v", i, list[2*i])
		}
	}
	if _, _, err := e.StartRun(context.Background(), ann, "t", say("m0", "hi")); err != chat.ErrDuplicateMessage {
		t.Errorf("PIL-035 an id of a page: %v", err)
	}
	fork := say("f", "hi")
	fork.Fork = "m1"
	run, _ = e.start("t", fork)
	tape.end(run)
	if got := ids(s.called()[len(s.called())-1].Messages); got != "m0 "+list[1].ID+" f" {
		t.Errorf("PIL-038 a fork at a page gives the agent %s", got)
	}
	st = tape.state()
	if list, err = e.History(context.Background(), key, st, 1000); err != nil || len(list) != 4 || list[2].ID != "f" {
		t.Errorf("PIL-039 after a fork at a page: %s %v", ids(list), err)
	}
	if list, err = e.History(context.Background(), key, st, 10); err != nil || len(list) != 4 {
		t.Errorf("PIL-039 after a fork at a page, the newest 10: %s %v", ids(list), err)
	}
}

func TestAnswerOfTheLargestSizeEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := &script{run: func(_ context.Context, _ *agent.Call, emit func(agent.Event) error) agent.Outcome {
		for range agent.MaxAnswer/(32<<10) + 8 {
			if emit(agent.Event{Kind: chat.KindTextDelta, ID: "t", Text: strings.Repeat("\"\n", 16<<10)}) != nil {
				break
			}
		}
		return done0
	}}
	e := w.edge(realmOf(s))
	tape := w.tape(e.create("t"))
	run, _ := e.start("t", say("m1", "hi"))
	if end := tape.end(run); end.Code != chat.CodeAnswerTooLong || len(content(end)) != agent.MaxAnswer {
		t.Errorf("ended %s %s with %d bytes", end.Status, end.Code, len(content(end)))
	}
}

func TestOutageAtTheEndEndsNobodysRun(t *testing.T) {
	w := newWorld(t)
	e := w.hasty(realmOf(&script{run: says("whole")}), 300*time.Millisecond)
	tape := w.tape(e.create("t"))
	var tries atomic.Int32
	e.link.set(func(call any) error {
		c, ok := call.(journal.Commit)
		if ok && c.Entries[0].Kind == chat.KindRunEnd && tries.Add(1) < 8 { // longer than a command tries
			return errCut
		}
		return nil
	}, nil)
	run, _ := e.start("t", say("m1", "hi"))
	if end := tape.end(run); end.Status != chat.RunComplete || content(end) != "whole" {
		t.Errorf("ended as %+v", end)
	}
	tape.whole()
}

func TestCommandThatHasNoAnswerSaysSo(t *testing.T) {
	w := newWorld(t)
	e := w.hasty(echoes(), time.Second)
	tape := w.tape(e.create("t"))
	e.link.set(func(call any) error {
		if _, ok := call.(journal.Commit); ok {
			return errCut
		}
		return nil
	}, nil)
	if _, _, err := e.StartRun(context.Background(), ann, "t", say("m1", "hi")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a message: %v", err)
	}
	e.link.set(nil, nil)
	run, _ := e.start("t", say("m1", "hi")) // the client may send it again
	tape.end(run)
	tape.whole()
}

func TestTaskEndsAreToldThoughAnswersAreLost(t *testing.T) {
	w := newWorld(t)
	e := w.edge(realmOf(echo.New(echo.Config{Delay: -1, Sub: 500 * time.Millisecond})))
	tape := w.tape(e.create("t"))
	run, segment := e.start("t", say("m1", "/sub"))
	call := tape.kind(run, chat.KindSubagentStart).Body.(*chat.SubagentStartBody).Subagent.Call
	var mu sync.Mutex
	told := map[journal.CommandID]bool{}
	e.link.set(nil, func(call any) error {
		c, ok := call.(journal.Commit)
		mu.Lock()
		defer mu.Unlock()
		if !ok || told[c.Command] {
			return nil
		}
		told[c.Command] = true
		return errCut
	})
	if err := e.DetachCalls(context.Background(), ann, segment, call); err != nil {
		t.Fatal(err)
	}
	over := func(status string) func(*chat.Record) bool {
		return func(r *chat.Record) bool {
			b, ok := r.Body.(*chat.TaskBody)
			return ok && b.Task.Status == status
		}
	}
	task := tape.until("the task", over("running")).Body.(*chat.TaskBody).Task
	child := w.tape(chat.Key{Realm: "r", Thread: task.Child})
	tape.until("PIL-108 the task's end", over("finished"))
	child.until("PIL-108 the task's end", over("finished"))
	tape.end(run)
	child.whole()
}

// TestStopBeforeTheFirstLook: the run is stopped between the commit that began
// it and the owner's first look at the thread.
func TestStopBeforeTheFirstLook(t *testing.T) {
	w := newWorld(t)
	aborted := make(chan struct{})
	s := &script{run: func(ctx context.Context, _ *agent.Call, _ func(agent.Event) error) agent.Outcome {
		<-ctx.Done() // it says nothing, so no append tells it
		close(aborted)
		return agent.Outcome{Status: chat.RunCancelled}
	}, retry: true}
	a, b := w.edge(realmOf(s)), w.edge(realmOf(s))
	tape := w.tape(a.create("t"))
	run, segment := a.start("t", say("m1", "hi"))
	tape.kind(run, chat.KindRunActive)
	if err := b.Cancel(context.Background(), ann, segment, false); err != nil {
		t.Fatal(err)
	}
	if end := tape.end(run); end.Status != chat.RunCancelled {
		t.Errorf("PIL-097 ended as %+v", end)
	}
	if len(s.called()) > 0 {
		<-aborted
	}
	tape.whole()
}
