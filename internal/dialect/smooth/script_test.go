package smooth_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// script is an agent that does what a scenario's file says its model does.
type script struct {
	mu    sync.Mutex
	setup setup
	items []scriptItem
	calls int
	// seen are the calls that were made to it.
	seen []*agent.Call
	// confirm are the tools that the gateway asks about.
	confirm agent.Patterns
	// gate, if it is set, holds each text until it is closed.
	gate chan struct{}
}

type setup struct {
	Tools []struct {
		Name   string `json:"name"`
		Result string `json:"result"`
	} `json:"tools"`
	Confirm   []string `json:"confirmTools"`
	Knowledge []struct {
		Source  string `json:"source"`
		Content string `json:"content"`
	} `json:"knowledge"`
}

// scriptItem is a text, a tool's call, or (beyond the corpus) a question with a
// schema, a failure or a custom event.
type scriptItem struct {
	Kind      string         `json:"kind"`
	Text      string         `json:"text"`
	Name      string         `json:"name"`
	Arguments string         `json:"arguments"`
	Value     jsontext.Value `json:"value"`
}

func (s *script) load(set setup, items []scriptItem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setup, s.items, s.seen = set, items, nil
}

// says loads a script of items.
func (s *script) says(items ...scriptItem) { s.load(setup{}, items) }

func text(s string) scriptItem { return scriptItem{Kind: "text", Text: s} }

func call(name, args string) scriptItem {
	return scriptItem{Kind: "toolCall", Name: name, Arguments: args}
}

func (s *script) last() *agent.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) == 0 {
		return nil
	}
	return s.seen[len(s.seen)-1]
}

func (s *script) calledWith() []*agent.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func (s *script) next() (scriptItem, setup, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if len(s.items) == 0 {
		return scriptItem{Kind: "text"}, s.setup, s.calls
	}
	i := s.items[0]
	s.items = s.items[1:]
	return i, s.setup, s.calls
}

func (s *script) Confirm(tool string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.confirm.Match(tool)
}

func (s *script) Run(ctx context.Context, c *agent.Call, emit func(agent.Event) error) agent.Outcome {
	s.mu.Lock()
	s.seen = append(s.seen, c)
	set, gate := s.setup, s.gate
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return agent.Outcome{Status: chat.RunCancelled}
		}
	}
	for _, a := range c.Answers {
		if a.Kind == chat.InterruptApproval {
			result := "Denied by human: user rejected the action"
			if string(a.Answer) == "true" {
				result = set.result(a.Tool)
			}
			_ = emit(agent.Event{Kind: chat.KindToolResult, ID: a.Call, Name: a.Tool, Text: result})
		}
	}
	for {
		i, set, n := s.next()
		if ctx.Err() != nil {
			return agent.Outcome{Status: chat.RunCancelled}
		}
		switch i.Kind {
		case "toolCall":
			if out := s.tool(ctx, c, i, set, n, emit); out != nil {
				return *out
			}
		case "custom":
			_ = emit(agent.Event{Kind: chat.KindCustom, Name: i.Name, Value: i.Value})
		case "reasoning":
			id := "r" + strconv.Itoa(n)
			_ = emit(agent.Event{Kind: chat.KindReasoningStart, ID: id})
			_ = emit(agent.Event{Kind: chat.KindReasoningDelta, ID: id, Text: i.Text})
			_ = emit(agent.Event{Kind: chat.KindReasoningEnd, ID: id})
		case "ask":
			q := &chat.Interrupt{Kind: chat.InterruptQuestion, Upstream: "q" + strconv.Itoa(n), Payload: i.Value}
			if i.Arguments != "" {
				q.Schema = jsontext.Value(i.Arguments)
			}
			return agent.Outcome{Status: chat.RunSuspended, Interrupts: []*chat.Interrupt{q}}
		case "state":
			_ = emit(agent.Event{Kind: chat.KindState, Value: i.Value})
		case "step":
			_ = emit(agent.Event{Kind: chat.KindStep, Name: i.Name})
			_ = emit(agent.Event{Kind: chat.KindStep, Name: i.Name, Done: true})
		case "fail":
			return agent.Failed(i.Name, i.Text)
		case "wait":
			<-ctx.Done()
			return agent.Outcome{Status: chat.RunCancelled}
		case "end":
			return agent.Outcome{Status: chat.RunComplete}
		case "part":
			say(n, i.Text, emit)
		default:
			if list := set.citations(); list != nil {
				_ = emit(agent.Event{Kind: chat.KindCustom, Name: "citations", Value: list})
			}
			say(n, i.Text, emit)
			return agent.Outcome{Status: chat.RunComplete, Usage: jsontext.Value(`[{"inputTokens":10,"outputTokens":5}]`)}
		}
	}
}

// say streams a text, a few characters at a time.
func say(n int, text string, emit func(agent.Event) error) {
	id := "m" + strconv.Itoa(n)
	_ = emit(agent.Event{Kind: chat.KindTextStart, ID: id})
	for part := range slices.Chunk([]rune(text), 3) {
		_ = emit(agent.Event{Kind: chat.KindTextDelta, ID: id, Text: string(part)})
	}
	_ = emit(agent.Event{Kind: chat.KindTextEnd, ID: id})
}

func (s *script) tool(ctx context.Context, c *agent.Call, i scriptItem, set setup, n int, emit func(agent.Event) error) *agent.Outcome {
	id := "c" + strconv.Itoa(n)
	_ = emit(agent.Event{Kind: chat.KindToolStart, ID: id, Name: i.Name})
	_ = emit(agent.Event{Kind: chat.KindToolArgs, ID: id, Text: i.Arguments})
	_ = emit(agent.Event{Kind: chat.KindToolEnd, ID: id})
	switch {
	case s.Confirm(i.Name):
		<-ctx.Done() // it is slower than the gateway
		return &agent.Outcome{Status: chat.RunCancelled}
	case slices.Contains(set.Confirm, i.Name):
		return &agent.Outcome{Status: chat.RunSuspended, Interrupts: []*chat.Interrupt{{
			Kind: chat.InterruptApproval, Upstream: "a" + strconv.Itoa(n), Call: id, Tool: i.Name,
		}}}
	case slices.ContainsFunc(c.Tools, func(t chat.ClientTool) bool { return t.Name == i.Name }):
		return &agent.Outcome{Status: chat.RunComplete}
	}
	_ = emit(agent.Event{Kind: chat.KindToolResult, ID: id, Text: set.result(i.Name)})
	return nil
}

func (s setup) result(tool string) string {
	for _, t := range s.Tools {
		if t.Name == tool {
			return t.Result
		}
	}
	return "Error: no tool " + strings.ToUpper(tool)
}

func (s setup) citations() jsontext.Value {
	if len(s.Knowledge) == 0 {
		return nil
	}
	type citation struct {
		ID      string  `json:"id"`
		Title   string  `json:"title"`
		Snippet string  `json:"snippet"`
		Score   float64 `json:"score"`
	}
	var list []citation
	for _, k := range s.Knowledge {
		list = append(list, citation{k.Source, k.Source, k.Content, 0.9})
	}
	v, err := json.Marshal(list)
	if err != nil {
		return nil
	}
	return v
}
