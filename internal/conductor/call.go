package conductor

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// startCall calls the agent, once, on a context that belongs to the run.
func (l *loop) startCall() {
	if l.agent == nil {
		l.ended <- agent.Failed(chat.CodeAgentUnavailable, "the agent is not available")
		return
	}
	l.wg.Go(func() {
		call, err := l.c.newCall(l.callCtx, l.key, l.state, l.own, l.agent)
		if err != nil {
			l.ended <- agent.Failed(chat.CodeAgentUnavailable, "the conversation could not be read")
			return
		}
		ctx, span := l.c.begin(l.callCtx, Work{Kind: WorkCall, Key: l.key, Run: l.own, Call: call, Fence: l.owner.Fence})
		if stamp := span.Stamp(); stamp != "" {
			call.Traceparent = stamp
		}
		l.mu.Lock()
		l.call = call
		l.mu.Unlock()
		out := l.safely(ctx, call, span)
		span.End(string(out.Status), nil)
		l.ended <- out
	})
}

// safely keeps a panic in an agent's adapter within its own run.
func (l *loop) safely(ctx context.Context, call *agent.Call, span Span) (out agent.Outcome) {
	defer func() {
		if v := recover(); v != nil {
			l.c.o.Logger.Error("an agent's adapter panicked", "agent", l.own.Agent, "panic", fmt.Sprint(v))
			out = agent.Failed(chat.CodeAgentError, "the agent failed")
		}
	}()
	began, silent := time.Now(), l.c.o.Meter != nil || l.c.o.Tracer != nil
	return l.agent.Run(ctx, call, func(ev agent.Event) error {
		if silent {
			silent = false
			span.First()
			if l.c.o.Meter != nil {
				l.c.o.Meter.FirstToken(l.own.Agent, time.Since(began))
			}
		}
		if err := l.callCtx.Err(); err != nil {
			return err
		}
		select {
		case l.events <- ev:
			return nil
		default:
		}
		select {
		case l.events <- ev:
			return nil
		case <-l.callCtx.Done():
			return l.callCtx.Err()
		}
	})
}

// newCall gathers what an agent is given for a segment.
func (c *Conductor) newCall(ctx context.Context, key chat.Key, st *chat.State, run *chat.Run, a agent.Agent) (*agent.Call, error) {
	limit := -1
	if h, ok := a.(agent.History); ok {
		limit = h.History()
	}
	messages, err := c.branch(ctx, key, st, run, limit)
	if err != nil {
		return nil, err
	}
	if run.Origin.Finished {
		messages = slices.DeleteFunc(messages, func(m *chat.Message) bool {
			return m.Role == chat.Assistant && m.Status != chat.MessageComplete
		})
	}
	call := &agent.Call{
		Key: key, Run: run.ID, Segment: run.Segment(), Origin: run.Origin, Upstream: run.Upstream,
		Messages: messages, Draft: run.Parts, Withdrawn: run.Withdrawn, Tools: run.Tools, State: run.State,
		Open:        func(ctx context.Context, id string) (io.ReadCloser, error) { return c.o.Open(ctx, key, id) },
		Traceparent: run.Trace,
	}
	if n := len(run.Segments); n > 1 {
		for _, i := range run.Interrupts {
			if i.Segment == n-2 {
				call.Answers = append(call.Answers, i)
			}
		}
	}
	return call, nil
}

// branch is the path that ends at the run's message: what hangs below other
// siblings is left out, and with a limit all but the newest.
func (c *Conductor) branch(ctx context.Context, key chat.Key, st *chat.State, run *chat.Run, limit int) ([]*chat.Message, error) {
	var path []*chat.Message
	wanted := run.Message
	take := func(list []*chat.Message) {
		for i := len(list) - 1; i >= 0 && wanted != "" && (limit < 0 || len(path) <= limit); i-- {
			if list[i].ID == wanted {
				path = append(path, list[i])
				wanted = list[i].Parent
			}
		}
	}
	take(st.Tail)
	o := c.older(key, st)
	defer o.close()
	for page := st.Chunks - 1; page >= 0 && wanted != "" && (limit < 0 || len(path) <= limit); page-- {
		list, err := o.pages(ctx, page, page+1)
		if err != nil {
			return nil, err
		}
		take(list)
	}
	for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
		path[i], path[j] = path[j], path[i]
	}
	return path, nil
}

// maxHidden bounds how many messages are read that are not shown.
const maxHidden = 5_000

// History returns the newest messages of the default view of a state, oldest
// first, at most limit of them. What was replaced is left out, as long as it is
// at most maxHidden messages further back.
func (c *Conductor) History(ctx context.Context, key chat.Key, st *chat.State, limit int) ([]*chat.Message, error) {
	list := st.Tail
	o := c.older(key, st)
	defer o.close()
	for page := st.Chunks - 1; page >= 0 && len(list) < limit+maxHidden; page-- {
		if len(chat.View(list)) >= limit && chat.Whole(list) {
			break
		}
		further, err := o.pages(ctx, page, page+1)
		if err != nil {
			return nil, err
		}
		list = append(further, list...)
	}
	view := chat.View(list)
	return view[max(0, len(view)-limit):], nil
}
