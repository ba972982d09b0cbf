package agent

import (
	"slices"
	"strconv"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// subagents are those of a segment.
type subagents struct {
	byKey map[string]*subagent
	list  []*subagent
	next  int
}

type subagent struct {
	id      string
	running bool
}

// side repairs what stands beside the answer.
func (r *Repair) side(ev Event) []chat.Entry {
	switch ev.Kind {
	case chat.KindSubagentStart:
		return r.startSubagent(ev)
	case chat.KindSubagentEnd:
		return r.endSubagent(ev)
	case chat.KindStep:
		return r.step(ev)
	case chat.KindTodos, chat.KindState, chat.KindActivity, chat.KindCustom, chat.KindUsage:
	default:
		r.counts.Dropped++
		return nil
	}
	if r.sides++; r.sides > maxSides {
		r.counts.Dropped++
		return nil
	}
	if ev.Kind == chat.KindTodos {
		// A subagent's own plan is not the plan of the thread.
		if ev.Subagent != "" {
			r.counts.Dropped++
			return nil
		}
		return []chat.Entry{r.entry(ev.Kind, &chat.TodosBody{Todos: r.todos(ev.Todos)})}
	}
	v, ok := cleanValue(ev.Value, maxValue)
	if r.values += len(v); !ok || r.values > maxValues {
		r.counts.Dropped++
		return nil
	}
	if v == nil {
		v = []byte("null")
	}
	var body chat.Body
	switch ev.Kind {
	case chat.KindState:
		r.state = v
		body = &chat.StateBody{State: v}
	case chat.KindActivity:
		body = &chat.ActivityBody{ID: cleanName(ev.ID, chat.MaxID), Type: cleanName(ev.Name, maxName), Content: v}
	case chat.KindCustom:
		body = &chat.CustomBody{Name: cleanName(ev.Name, maxName), Value: v}
	case chat.KindUsage:
		body = &chat.UsageBody{Usage: v}
	}
	return []chat.Entry{r.entry(ev.Kind, body)}
}

// todos keeps what a list may say (PIL-123): entries with a content, a status
// of three, at most 500 of them.
func (r *Repair) todos(list []chat.Todo) []chat.Todo {
	kept := make([]chat.Todo, 0, min(len(list), maxTodos))
	for _, t := range list {
		t.ID, t.Content = cleanName(t.ID, chat.MaxID), cleanText(t.Content, maxTodo)
		if t.Content == "" || len(kept) == maxTodos {
			r.counts.Mended++
			continue
		}
		switch t.Status {
		case "pending", "in_progress", "completed":
		case "in-progress", "active", "running":
			t.Status = "in_progress"
		case "done", "complete", "finished":
			t.Status = "completed"
		default:
			t.Status = "pending"
		}
		kept = append(kept, t)
	}
	return kept
}

// step keeps the steps of the agent itself in pairs.
func (r *Repair) step(ev Event) []chat.Entry {
	name := cleanName(ev.Name, maxName)
	i := slices.Index(r.steps, name)
	if ev.Subagent != "" || name == "" || (i >= 0) != ev.Done || (!ev.Done && len(r.steps) == maxSteps) {
		r.counts.Dropped++
		return nil
	}
	if ev.Done {
		r.steps = slices.Delete(r.steps, i, i+1)
	} else {
		if r.sides++; r.sides > maxSides {
			r.counts.Dropped++
			return nil
		}
		r.steps = append(r.steps, name)
	}
	return []chat.Entry{r.entry(chat.KindStep, &chat.StepBody{Name: name, Done: ev.Done})}
}

func (r *Repair) endSteps() []chat.Entry {
	var out []chat.Entry
	for _, name := range r.steps {
		r.counts.Mended++
		out = append(out, r.entry(chat.KindStep, &chat.StepBody{Name: name, Done: true}))
	}
	r.steps = nil
	return out
}

// startSubagent begins a subagent's work. The fold knows subagents by id for
// the whole run, so one that starts again under its old id gets a new one.
func (r *Repair) startSubagent(ev Event) []chat.Entry {
	k := key(ev.ID)
	if s := r.subs.byKey[k]; (s != nil && s.running) || len(r.subs.list) == maxSubagents {
		r.counts.Dropped++
		return nil
	}
	id := ev.ID
	if !chat.ValidID(id) || r.used[id] {
		r.counts.Mended++
		id = r.run.Answer + "-s" + strconv.Itoa(r.subs.next)
	}
	s := &subagent{id: id, running: true}
	r.subs.next++
	r.used[id] = true
	r.subs.byKey[k] = s
	r.subs.list = append(r.subs.list, s)
	sub := chat.Subagent{
		ID: id, Name: cleanName(ev.Name, maxName), Running: true,
		TaskID: cleanName(ev.TaskID, chat.MaxID), Child: cleanName(ev.Child, chat.MaxID),
	}
	if c := r.calls.byKey[key(ev.Parent)]; c != nil {
		sub.Call = c.id
	}
	return []chat.Entry{r.entry(chat.KindSubagentStart, &chat.SubagentStartBody{Subagent: sub})}
}

func (r *Repair) endSubagent(ev Event) []chat.Entry {
	s := r.subs.byKey[key(ev.ID)]
	if s == nil || !s.running {
		r.counts.Dropped++
		return nil
	}
	return []chat.Entry{r.subagentEnd(s, ev.Failed, ev.Detached)}
}

func (r *Repair) subagentEnd(s *subagent, failed, detached bool) chat.Entry {
	s.running = false
	return r.entry(chat.KindSubagentEnd, &chat.SubagentEndBody{ID: s.id, Failed: failed, Detached: detached})
}

// endSubagents ends those that the agent left running (PIL-127); in a run that
// was stopped or failed they have failed.
func (r *Repair) endSubagents(status chat.RunStatus) []chat.Entry {
	failed := status == chat.RunCancelled || status == chat.RunError
	var out []chat.Entry
	for _, s := range r.subs.list {
		if s.running {
			r.counts.Mended++
			out = append(out, r.subagentEnd(s, failed, false))
		}
	}
	return out
}
