package pingerchips

import (
	"math/bits"
	"unicode/utf8"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/room"
)

// The slots of the extensions (PIN-251). Those of a run are there for as long as
// its stream is; none of them is in the log.
const (
	slotReasoning = "ext:reasoning:"
	slotTools     = "ext:tools:"
	slotSubagents = "ext:subagents:"
	slotTodos     = "ext:todos"
)

// extension is what a record changes of the extensions' slots, or nil. A slot is
// always told whole.
func extension(c *room.Change) *entry {
	var s slot
	run := c.After.Run(c.Record.Run)
	switch k := c.Record.Kind; {
	case k == chat.KindTodos:
		s = todosSlot(c.After.Todos)
	case run == nil || streamOf(run) == nil:
		return nil
	default:
		switch k {
		case chat.KindReasoningDelta, chat.KindToolArgs:
			b := c.Record.Body.(*chat.DeltaBody)
			if p := run.Part(b.Part); p == nil || !worth(len(p.Text)-len(b.Text), len(p.Text)) {
				return nil
			}
			if s = toolsSlot(run); k == chat.KindReasoningDelta {
				s = reasoningSlot(run)
			}
		case chat.KindReasoningEnd:
			s = reasoningSlot(run)
		case chat.KindToolStart, chat.KindToolEnd, chat.KindToolResult:
			s = toolsSlot(run)
		case chat.KindSubagentStart, chat.KindSubagentEnd:
			s = subagentsSlot(run)
		default:
			return nil
		}
	}
	return &entry{slots: []slot{s}}
}

// worth says whether a text that grew is told now: each time up to 32 bytes, and
// then ever more seldom, so that all that is told of it together is at most 32
// times as long as the text. The end of its block is told in any case.
func worth(was, is int) bool {
	step := func(n int) int { return n >> max(0, bits.Len(uint(n))-5) << max(0, bits.Len(uint(n))-5) }
	return step(was) != step(is)
}

// extensions are all slots of a state, for a snapshot.
func extensions(st *chat.State) (all []slot) {
	for _, r := range st.Runs {
		if streamOf(r) == nil {
			continue
		}
		has := make(map[chat.PartType]bool)
		for _, p := range r.Parts {
			has[p.Type] = true
		}
		if has[chat.PartReasoning] {
			all = append(all, reasoningSlot(r))
		}
		if has[chat.PartTool] {
			all = append(all, toolsSlot(r))
		}
		if len(r.Subagents) > 0 {
			all = append(all, subagentsSlot(r))
		}
	}
	if len(st.Todos) > 0 {
		all = append(all, todosSlot(st.Todos))
	}
	return all
}

func partsOf(r *chat.Run, t chat.PartType) (list []*chat.Part) {
	for _, p := range r.Parts {
		if p.Type == t {
			list = append(list, p)
		}
	}
	return newest(list, MaxExtItems)
}

// reasoningSlot is a text: the blocks, joined by an empty line.
func reasoningSlot(r *chat.Run) slot {
	var list []chat.Text
	for _, p := range partsOf(r, chat.PartReasoning) {
		if len(p.Text) > 0 {
			list = append(list, chat.Text(cut(p.Text)))
		}
	}
	return slot{key: slotReasoning + r.ID, value: func(b []byte) []byte { return text(b, list) }}
}

// toolsSlot lists a run's calls; args is text as the agent wrote it, so far.
func toolsSlot(r *chat.Run) slot {
	parts := partsOf(r, chat.PartTool)
	return slot{key: slotTools + r.ID, value: func(b []byte) []byte {
		return list(b, parts, func(b []byte, p *chat.Part) []byte {
			b = quoted(append(b, `{"toolCallId":`...), p.ID)
			b = field(b, "toolName", p.Name)
			b = field(b, "args", cut(p.Text))
			if !p.Done {
				return append(key(b, "result"), "null}"...)
			}
			return append(field(b, "result", cut([]byte(p.Result))), '}')
		})
	}}
}

func subagentsSlot(r *chat.Run) slot {
	agents := newest(r.Subagents, MaxExtItems)
	return slot{key: slotSubagents + r.ID, value: func(b []byte) []byte {
		return list(b, agents, func(b []byte, s chat.Subagent) []byte {
			b = quoted(append(b, `{"id":`...), s.ID)
			b = orNull(b, "toolCallId", s.Call)
			b = field(b, "name", s.Name)
			return append(truth(b, "running", s.Running), '}')
		})
	}}
}

func todosSlot(todos []chat.Todo) slot {
	return slot{key: slotTodos, value: func(b []byte) []byte {
		return list(b, newest(todos, MaxExtItems), func(b []byte, t chat.Todo) []byte {
			b = orNull(quoted(append(b, `{"content":`...), cut([]byte(t.Content))), "id", t.ID)
			return append(field(b, "status", t.Status), '}')
		})
	}}
}

// cut bounds a text, between two characters.
func cut(s []byte) []byte {
	if len(s) <= MaxExtText {
		return s
	}
	n := MaxExtText
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
