package pilotoo

import (
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// openOf are a run's open blocks of a type.
func openOf(run *chat.Run, kind chat.PartType) (ids []string) {
	for _, p := range run.Parts {
		if p.Open && p.Type == kind {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// work lets an agent do something that a repaired agent may do.
func (w *world) work(t *rapid.T, run *chat.Run) {
	texts, thoughts, calls := openOf(run, chat.PartText), openOf(run, chat.PartReasoning), openOf(run, chat.PartTool)
	words := rapid.SampledFrom([]string{"word ", "\"", "💬", "\u2028\n", "<b>"}).Draw(t, "words")
	id := run.ID
	switch rapid.IntRange(0, 16).Draw(t, "work") {
	case 0, 1:
		if len(texts) == 0 {
			part := run.Answer
			if run.Part(part) != nil {
				part = w.mint(run.Answer + "-")
			}
			w.write(chat.KindTextStart, id, &chat.BlockBody{Part: part})
		}
	case 2, 3, 4:
		if len(texts) > 0 {
			w.write(chat.KindTextDelta, id, &chat.DeltaBody{Part: texts[0], Text: words})
		}
	case 5:
		if len(texts) > 0 {
			// What carries a log alone is no envelope.
			e := chat.NewEntry(chat.KindTextDelta, id, &chat.DeltaBody{Part: texts[0]})
			e.N, e.Logged = 0, true
			w.commit([]chat.Entry{e, chat.NewEntry(chat.KindTextEnd, id, &chat.BlockBody{Part: texts[0]})})
		}
	case 6:
		if len(thoughts) == 0 {
			w.write(chat.KindReasoningStart, id, &chat.BlockBody{Part: w.mint("r")})
			return
		}
		w.write(chat.KindReasoningDelta, id, &chat.DeltaBody{Part: thoughts[0], Text: words})
	case 7:
		if len(thoughts) > 0 {
			w.write(chat.KindReasoningEncrypted, id, &chat.EncryptedBody{Part: thoughts[0], Value: "sealed"})
			w.write(chat.KindReasoningEnd, id, &chat.BlockBody{Part: thoughts[0]})
		}
	case 8, 9:
		if len(calls) == 0 {
			w.write(chat.KindToolStart, id, &chat.ToolStartBody{Call: w.mint("c"), Name: "search"})
			return
		}
		w.write(chat.KindToolArgs, id, &chat.DeltaBody{Part: calls[0], Text: words})
	case 10:
		if len(calls) > 0 {
			w.write(chat.KindToolEnd, id, &chat.ToolEndBody{Call: calls[0]})
		}
		for _, p := range run.Parts {
			if p.Type == chat.PartTool && !p.Open && !p.Done {
				w.write(chat.KindToolResult, id, &chat.ToolResultBody{Call: p.ID, Message: w.mint("x"), Content: words})
				return
			}
		}
	case 11:
		w.write(chat.KindTodos, id, &chat.TodosBody{Todos: []chat.Todo{{Content: words, Status: "in_progress"}, {ID: "2", Content: "b", Status: "odd"}}})
	case 12:
		w.unseen(t, run)
	case 13:
		w.subagents(t, run)
	case 14:
		if rapid.Bool().Draw(t, "pause") {
			w.settle(run)
			w.pause(id, &chat.Interrupt{ID: w.mint("i"), Kind: chat.InterruptQuestion, Payload: jsontext.Value(`{"ask":1}`)},
				&chat.Interrupt{ID: w.mint("i"), Kind: chat.InterruptApproval, Tool: "pay"})
		}
	case 15:
		if rapid.IntRange(0, 2).Draw(t, "finish") == 0 {
			w.finish(t, run)
		}
	}
}

// unseen writes what this protocol does not show.
func (w *world) unseen(t *rapid.T, run *chat.Run) {
	switch rapid.IntRange(0, 5).Draw(t, "unseen") {
	case 0:
		w.write(chat.KindState, run.ID, &chat.StateBody{State: jsontext.Value(`{"a":1}`)})
	case 1:
		w.write(chat.KindActivity, run.ID, &chat.ActivityBody{ID: "x", Type: "PLAN", Content: jsontext.Value(`{}`)})
	case 2:
		w.write(chat.KindStep, run.ID, &chat.StepBody{Name: "think"})
	case 3:
		w.write(chat.KindCustom, run.ID, &chat.CustomBody{Name: "x", Value: jsontext.Value(`1`)})
	case 4:
		w.write(chat.KindUsage, run.ID, &chat.UsageBody{Usage: jsontext.Value(`{"tokens":1}`)})
	default:
		w.write(chat.KindTask, run.ID, &chat.TaskBody{Task: chat.Task{ID: w.mint("k"), Status: "running", Parent: "t1", Child: "t2", Created: w.now, Updated: w.now}})
	}
}

func (w *world) subagents(t *rapid.T, run *chat.Run) {
	for _, s := range run.Subagents {
		if !s.Running {
			continue
		}
		if rapid.Bool().Draw(t, "detach") {
			if entries, err := w.state.Detach(run.ID, s.Call); err == nil {
				w.commit(entries)
				w.write(chat.KindSubagentEnd, run.ID, &chat.SubagentEndBody{ID: s.ID, Detached: true})
			}
			return
		}
		w.write(chat.KindSubagentEnd, run.ID, &chat.SubagentEndBody{ID: s.ID, Failed: rapid.Bool().Draw(t, "failed")})
		return
	}
	w.write(chat.KindSubagentStart, run.ID, &chat.SubagentStartBody{Subagent: chat.Subagent{ID: w.mint("g"), Call: w.mint("c"), Name: "scout", TaskID: "k", Child: "t2"}})
}

// settle closes what is open, as an agent's repair does before a pause.
func (w *world) settle(run *chat.Run) {
	c := run.Closers()
	for _, p := range c.Parts {
		switch p.Type {
		case chat.PartText:
			w.write(chat.KindTextEnd, run.ID, &chat.BlockBody{Part: p.ID})
		case chat.PartReasoning:
			w.write(chat.KindReasoningEnd, run.ID, &chat.BlockBody{Part: p.ID})
		default:
			w.write(chat.KindToolEnd, run.ID, &chat.ToolEndBody{Call: p.ID})
		}
	}
	for _, s := range c.Subagents {
		w.write(chat.KindSubagentEnd, run.ID, &chat.SubagentEndBody{ID: s.ID})
	}
}
