package echo

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

const (
	ticks  = 50
	maxSub = 3 * time.Second
)

// place is where a subagent works. Calls are unique within their run.
type place struct {
	key  chat.Key
	call string
}

// work is a subagent's task while it runs; what is left of it can be taken.
type work struct {
	mu    sync.Mutex
	done  int
	over  bool // finished or taken
	taken chan struct{}
}

// next takes one tick of work; false when the work is over or was taken.
func (w *work) next() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.done == ticks {
		w.over = true
		return false
	}
	w.done++
	return true
}

// take ends the work here and says how much was done.
func (w *work) take() (done int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return 0, false
	}
	w.over = true
	close(w.taken)
	return w.done, true
}

// subagent lets one work on a call of its own, until it has finished or gone
// to the background.
func (t *turn) subagent() {
	id := t.toolCall(taskTool, `{"title": "count to `+strconv.Itoa(ticks)+`"}`)
	sub := t.id("s")
	w := &work{taken: make(chan struct{})}
	at := place{t.call.Key, id}
	t.agent.mu.Lock()
	t.agent.subs[at] = w
	t.agent.mu.Unlock()
	defer func() {
		t.agent.mu.Lock()
		delete(t.agent.subs, at)
		t.agent.mu.Unlock()
	}()
	t.send(agent.Event{Kind: chat.KindSubagentStart, ID: sub, Name: "counter", Parent: id})
	t.send(agent.Event{Kind: chat.KindTextStart, ID: sub + "-t", Subagent: sub})
	for t.out == nil && w.next() {
		t.send(agent.Event{Kind: chat.KindTextDelta, ID: sub + "-t", Subagent: sub, Text: count(w.done)})
		if !wait(t.ctx, t.agent.tick, w.taken) {
			t.end(agent.Outcome{Status: chat.RunCancelled})
		}
	}
	t.send(agent.Event{Kind: chat.KindTextEnd, ID: sub + "-t", Subagent: sub})
	select {
	case <-w.taken:
		t.send(agent.Event{Kind: chat.KindSubagentEnd, ID: sub, Detached: true})
		t.result(id, "The task goes on in the background.")
		t.say("The subagent goes on in the background.", t.agent.delay)
	default:
		t.send(agent.Event{Kind: chat.KindSubagentEnd, ID: sub})
		t.result(id, "counted to "+strconv.Itoa(ticks))
		t.say("The subagent has finished.", t.agent.delay)
	}
}

func count(n int) string { return strconv.Itoa(n) + " " }

// Detach takes the rest of a subagent's work out of its run. The run goes on
// with a result that says so (PIL-107).
func (a *Agent) Detach(_ context.Context, call *agent.Call, toolCall string) (agent.Agent, string, error) {
	a.mu.Lock()
	w := a.subs[place{call.Key, toolCall}]
	a.mu.Unlock()
	if w == nil {
		return nil, "", chat.ErrNoSubagent
	}
	done, ok := w.take()
	if !ok {
		return nil, "", chat.ErrNoSubagent
	}
	return &counter{agent: a, from: done + 1}, "count to " + strconv.Itoa(ticks), nil
}

// counter is the rest of a subagent's work as an agent of its own.
type counter struct {
	agent *Agent
	from  int
}

// Run counts on.
func (c *counter) Run(ctx context.Context, call *agent.Call, emit func(agent.Event) error) agent.Outcome {
	t := &turn{agent: c.agent, ctx: ctx, call: call, emit: emit}
	t.openText()
	for n := c.from; n <= ticks; n++ {
		if !t.send(agent.Event{Kind: chat.KindTextDelta, ID: t.text, Text: count(n)}) || !t.pause(c.agent.tick) {
			break
		}
	}
	t.send(agent.Event{Kind: chat.KindTextDelta, ID: t.text, Text: "and done."})
	t.closeText()
	if t.out != nil {
		return *t.out
	}
	return agent.Outcome{Status: chat.RunComplete}
}
