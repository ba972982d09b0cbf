package conductor

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// A part of the store that does not answer holds the runs that are in it, and
// lets all others go on.
func TestRunsInAPartOfTheStoreThatAnswersGoOn(t *testing.T) {
	w := newWorld(t)
	on := map[string]chan struct{}{"t1": make(chan struct{}), "t2": make(chan struct{})}
	s := &script{run: func(_ context.Context, c *agent.Call, emit func(agent.Event) error) agent.Outcome {
		_ = emit(agent.Event{Kind: chat.KindTextDelta, ID: "t", Text: "so far"})
		<-on[c.Key.Thread]
		_ = emit(agent.Event{Kind: chat.KindTextDelta, ID: "t", Text: ", and more"})
		return agent.Outcome{Status: chat.RunComplete}
	}}
	e := w.edge(realmOf(s))
	held, well := w.tape(e.create("t1")), w.tape(e.create("t2"))
	r1, _ := e.start("t1", say("m1", "hi"))
	held.kind(r1, chat.KindTextDelta)
	r2, _ := e.start("t2", say("m1", "hi"))
	well.kind(r2, chat.KindTextDelta)
	e.mu.Lock()
	var runs [2]attempt
	for a := range e.runners {
		runs[slices.Index([]string{r1, r2}, a.run)] = a
	}
	e.mu.Unlock()
	silent := &journal.Unheard{Runs: []journal.Owned{{Key: runs[0].key, Run: r1, Fence: runs[0].fence}}, Err: errCut}
	e.link.set(nil, func(call any) error {
		if _, ok := call.(beat); ok {
			return silent
		}
		return nil
	})
	e.pass(journal.OwnerDeadline + 2*time.Second)
	if e.leased(runs[0]) || !e.leased(runs[1]) {
		t.Errorf("F8 leased: %v where nothing answers, %v elsewhere", e.leased(runs[0]), e.leased(runs[1]))
	}
	close(on["t1"])
	close(on["t2"])
	if end := well.end(r2); end.Status != chat.RunComplete || content(end) != "so far, and more" {
		t.Errorf("F8 the other run ended as %+v %q", end, content(end))
	}
	e.link.set(nil, nil)
	if end := held.end(r1); end.Status != chat.RunComplete || content(end) != "so far, and more" {
		t.Errorf("F8 the run that was held ended as %+v %q", end, content(end))
	}
	held.whole()
	well.whole()
}
