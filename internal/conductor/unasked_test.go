package conductor

import (
	"context"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// asksTwo is an agent that asks two questions, and then says what came of them.
func asksTwo(ctx context.Context, call *agent.Call, emit func(agent.Event) error) agent.Outcome {
	if !call.Resumed() {
		return agent.Outcome{Status: chat.RunSuspended, Interrupts: []*chat.Interrupt{
			{Kind: chat.InterruptQuestion, Tool: "code"}, {Kind: chat.InterruptQuestion, Tool: "form"},
		}}
	}
	for _, i := range call.Answers {
		says(string(i.Status)+string(i.Answer)+" ")(ctx, call, emit)
	}
	return done0
}

func nobody(_ string, _ *chat.Run, i *chat.Interrupt) (chat.InterruptStatus, jsontext.Value) {
	if i.Tool == "code" {
		return chat.InterruptAnswered, jsontext.Value(`"ok"`)
	}
	return chat.InterruptDeclined, nil
}

// TestQuestionsThatNobodyIsAsked: the run's owner settles them, without anybody
// who watches and without a look at what is due.
func TestQuestionsThatNobodyIsAsked(t *testing.T) {
	w := newWorld(t)
	w.unasked = nobody
	e := w.edge(realmOf(&script{run: asksTwo}))
	e.link.set(func(call any) error {
		if _, ok := call.(due); ok {
			return errCut
		}
		return nil
	}, nil)
	tape := w.tape(e.create("t"))
	run, _ := e.start("t", say("m1", "hi"))
	if end := tape.end(run); end.Status != chat.RunComplete || content(end) != `answered"ok" declined ` {
		t.Errorf("SMO-176 ended as %+v %q", end, content(end))
	}
	tape.whole()
}

// TestQuestionsThatNobodyIsAskedOutliveTheirEdge: they are due for any edge.
func TestQuestionsThatNobodyIsAskedOutliveTheirEdge(t *testing.T) {
	w := newWorld(t)
	w.unasked = nobody
	a, b := w.edge(realmOf(&script{run: asksTwo})), w.edge(realmOf(&script{run: asksTwo}))
	noAnswer := func(call any) error {
		if c, ok := call.(journal.Commit); ok && c.Entries[0].Kind == chat.KindAnswer {
			return errCut
		}
		return nil
	}
	a.link.set(noAnswer, nil)
	b.link.set(noAnswer, nil)
	tape := w.tape(a.create("t"))
	run, _ := a.start("t", say("m1", "hi"))
	tape.kind(run, chat.KindRunSuspended)
	a.link.set(dead, nil)
	a.off()
	b.link.set(nil, nil)
	b.pass(time.Second)
	if end := tape.end(run); end.Status != chat.RunComplete || content(end) != `answered"ok" declined ` {
		t.Errorf("SMO-176 ended as %+v %q", end, content(end))
	}
	tape.whole()
}
