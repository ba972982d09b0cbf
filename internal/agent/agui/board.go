package agui

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// Bounds of what is kept and shown of an agent's state.
const (
	maxState      = 1 << 20
	maxShown      = 16 << 10 // a larger state is shown when it is set, not at each change
	maxActivities = 200
)

// board holds an agent's state and its activities, and the todos among them.
type board struct {
	cfg        Config
	state      any
	known      bool // the agent has set or changed its state
	activities map[string]activity
	todos      []chat.Todo
	listed     bool // a list was shown
}

type activity struct {
	kind    string
	content any
}

// begin takes up the state that the agent left.
func (b *board) begin(cfg Config, state jsontext.Value) {
	b.cfg, b.activities, b.state = cfg, make(map[string]activity), map[string]any{}
	if s, err := decode(state); err == nil && s != nil {
		b.state = s
	}
	if list, ok := b.list(); ok {
		b.todos = list
	}
}

// last is the state as the agent left it, or nil where it never set one.
func (b *board) last() jsontext.Value {
	if !b.known {
		return nil
	}
	v, err := encode(b.state)
	if err != nil || len(v) > maxState {
		return nil
	}
	return v
}

func (b *board) event(kind string, ev event) []agent.Event {
	switch kind {
	case "STATE_SNAPSHOT":
		s, err := decode(ev.Snapshot)
		if err != nil {
			return nil
		}
		return b.set(s, maxState)
	case "STATE_DELTA":
		s, err := patch(b.state, ev.Delta)
		if err != nil {
			return nil
		}
		return b.set(s, maxShown)
	}
	return b.activity(kind, ev)
}

// set takes a new state and shows it if it is not larger than most.
func (b *board) set(s any, most int) []agent.Event {
	v, err := encode(s)
	if err != nil || len(v) > maxState {
		return nil
	}
	b.state, b.known = s, true
	var out []agent.Event
	if len(v) <= most {
		out = append(out, agent.Event{Kind: chat.KindState, Value: v})
	}
	list, ok := b.list()
	if !ok {
		if !b.listed {
			return out
		}
		list = []chat.Todo{}
	}
	return append(out, b.show(list)...)
}

func (b *board) list() ([]chat.Todo, bool) {
	if b.cfg.TodosPointer == "-" {
		return nil, false
	}
	path, err := pointer(b.cfg.TodosPointer)
	if err != nil {
		return nil, false
	}
	at, err := find(b.state, path)
	if err != nil {
		return nil, false
	}
	return todos(at)
}

// show tells of a list that is not the last one.
func (b *board) show(list []chat.Todo) []agent.Event {
	if slices.Equal(list, b.todos) {
		return nil
	}
	b.todos, b.listed = list, true
	return []agent.Event{{Kind: chat.KindTodos, Todos: list}}
}

func (b *board) activity(kind string, ev event) []agent.Event {
	id := string(ev.Message)
	have, known := b.activities[id]
	if !known && len(b.activities) == maxActivities {
		return nil
	}
	next := activity{kind: string(ev.Activity)}
	var err error
	switch {
	case kind == "ACTIVITY_DELTA":
		if !known {
			return nil
		}
		next.kind = have.kind
		next.content, err = patch(have.content, ev.Patch)
	case known && ev.Replace.Kind() == 'f':
		return nil
	default:
		next.content, err = decode(ev.Content)
	}
	if err != nil {
		return nil
	}
	v, err := encode(next.content)
	if err != nil || len(v) > maxState {
		return nil
	}
	b.activities[id] = next
	out := []agent.Event{{Kind: chat.KindActivity, ID: id, Name: next.kind, Value: v, Subagent: string(ev.Subagent)}}
	if next.kind == b.cfg.TodosActivity && ev.Subagent == "" {
		content := next.content
		if o, ok := content.(map[string]any); ok {
			content = o["todos"]
		}
		if list, ok := todos(content); ok {
			out = append(out, b.show(list)...)
		}
	}
	return out
}

// todos reads a list as agents write it: of strings, or of objects that name
// what is to be done and how far it is.
func todos(v any) ([]chat.Todo, bool) {
	items, ok := v.([]any)
	if !ok {
		return nil, false
	}
	list := make([]chat.Todo, 0, len(items))
	for _, item := range items {
		switch t := item.(type) {
		case string:
			list = append(list, chat.Todo{Content: t, Status: "pending"})
		case map[string]any:
			todo := chat.Todo{ID: first(t, "id"), Content: first(t, "content", "text", "title", "task", "description", "name"), Status: first(t, "status", "state")}
			if done, _ := t["done"].(bool); done && todo.Status == "" {
				todo.Status = "completed"
			}
			if done, _ := t["completed"].(bool); done && todo.Status == "" {
				todo.Status = "completed"
			}
			list = append(list, todo)
		}
	}
	return list, true
}

// first is the first of the members that is a text or a number.
func first(t map[string]any, names ...string) string {
	for _, name := range names {
		switch v := t[name].(type) {
		case string:
			if v != "" {
				return v
			}
		case interface{ String() string }: // a number as it was written
			return v.String()
		}
	}
	return ""
}
