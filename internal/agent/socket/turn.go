package socket

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// Run implements agent.Agent: it turns what is pushed into events until a push
// ends the segment.
func (a *Agent) Run(ctx context.Context, c *agent.Call, emit func(agent.Event) error) agent.Outcome {
	s := a.enter(c)
	defer a.leave(c, s)
	t := turn{emit: emit, shown: Said(c.Draft), open: slices.ContainsFunc(c.Draft, open)}
	var idle <-chan time.Time
	var timer *time.Timer
	if a.idle > 0 {
		timer = time.NewTimer(a.idle)
		defer timer.Stop()
		idle = timer.C
	}
	for {
		select {
		case r := <-s.pushes:
			out, err := t.take(r.push)
			if err != nil {
				err = ErrAbsent // the attempt is over
			}
			r.done <- err
			if out != nil {
				return *out
			}
			if timer != nil {
				timer.Reset(a.idle)
			}
		case <-idle:
			return agent.Outcome{Status: chat.RunCancelled, Code: "idle", Text: "the agent gave no sign of life"}
		case <-ctx.Done():
			return agent.Outcome{Status: chat.RunCancelled}
		}
	}
}

// open says that a part is text that an earlier attempt at the segment began.
func open(p *chat.Part) bool { return p.Type == chat.PartText && p.Open }

// Said is the text that a run has written.
func Said(draft []*chat.Part) string {
	var b strings.Builder
	for _, p := range draft {
		if p.Type == chat.PartText {
			b.Write(p.Text)
		}
	}
	return b.String()
}

// turn is one segment.
type turn struct {
	emit func(agent.Event) error
	// shown is what the run has said, to begin with before this attempt; open says
	// that the segment has a block.
	shown string
	open  bool
}

// block names the segment's one block of text.
const block = "text"

func (t *turn) take(p Push) (*agent.Outcome, error) {
	switch {
	case p.Text != nil:
		return nil, t.text(*p.Text)
	case p.Suspend != nil:
		return t.suspend(p.Suspend)
	}
	out := agent.Outcome{Status: p.End}
	if p.End == chat.RunError {
		out.Code, out.Text = chat.CodeAgentError, "the agent failed"
	}
	return &out, nil
}

// text makes a delta of the whole text: what prolongs the former adds its end,
// anything else is said anew in its place (PIN-197, PIL-222). So is the text of
// earlier segments, since it goes on in a block of this one.
func (t *turn) text(now string) error {
	if now == t.shown || now == "" {
		return nil // what was said is taken back only by what is said instead
	}
	ev := agent.Event{Kind: chat.KindTextDelta, ID: block}
	if rest, ok := strings.CutPrefix(now, t.shown); !t.open {
		t.open, ev.Text = true, now
		if err := t.emit(agent.Event{Kind: chat.KindTextStart, ID: block, Rewrite: t.shown != ""}); err != nil {
			return err
		}
	} else if ok {
		ev.Text = rest
	} else {
		ev.Text, ev.Rewrite = now, true
	}
	t.shown = now
	return t.emit(ev)
}

// suspend shows the tool call that waits and ends the segment with its question.
func (t *turn) suspend(q *Suspend) (*agent.Outcome, error) {
	events := []agent.Event{
		{Kind: chat.KindToolStart, ID: q.Call, Name: q.Tool, Parent: block},
		{Kind: chat.KindToolArgs, ID: q.Call, Text: string(q.Args)},
		{Kind: chat.KindToolEnd, ID: q.Call},
	}
	for _, ev := range events {
		if err := t.emit(ev); err != nil {
			return nil, err
		}
	}
	payload, err := json.Marshal(struct {
		Reason string         `json:"reason"`
		Call   string         `json:"toolCallId"`
		Tool   string         `json:"toolName"`
		Args   jsontext.Value `json:"args"`
	}{"tool_call", q.Call, q.Tool, q.Args})
	if err != nil {
		return nil, err
	}
	return &agent.Outcome{Status: chat.RunSuspended, Interrupts: []*chat.Interrupt{{
		Kind: chat.InterruptApproval, Upstream: q.Call, Alias: q.Call, Call: q.Call, Tool: q.Tool, Payload: payload,
	}}}, nil
}
