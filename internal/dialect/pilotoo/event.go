package pilotoo

import (
	"github.com/parlance-gateway/parlance/internal/chat"
)

// The types of events (PIL-110).
const (
	runStarted      = "RUN_STARTED"
	runFinished     = "RUN_FINISHED"
	runCancelled    = "RUN_CANCELLED"
	runError        = "RUN_ERROR"
	textStart       = "TEXT_MESSAGE_START"
	textContent     = "TEXT_MESSAGE_CONTENT"
	textEnd         = "TEXT_MESSAGE_END"
	toolStart       = "TOOL_CALL_START"
	toolArgs        = "TOOL_CALL_ARGS"
	toolEnd         = "TOOL_CALL_END"
	toolResult      = "TOOL_CALL_RESULT"
	interrupt       = "INTERRUPT"
	runPaused       = "RUN_PAUSED"
	reasonStart     = "REASONING_START"
	reasonContent   = "REASONING_CONTENT"
	reasonEnd       = "REASONING_END"
	todosSnapshot   = "TODOS_SNAPSHOT"
	subagentStarted = "SUBAGENT_STARTED"
	subagentEnded   = "SUBAGENT_FINISHED"
)

// record writes the envelopes of a record: exactly as many as chat counted in
// its N, for every kind.
func (w *writer) record(r *chat.Record, run *chat.Run) {
	switch b := r.Body.(type) {
	case *chat.RunActiveBody:
		w.started(run.Opening)
	case *chat.RunResumedBody:
		w.started(nil)
	case *chat.RunSuspendedBody:
		w.end(w.begin(runPaused))
		w.end(w.begin(runFinished))
	case *chat.RunEndBody:
		w.ended(b, run)
	case *chat.BlockBody:
		w.block(r.Kind, b.Part)
	case *chat.DeltaBody:
		w.delta(r.Kind, b)
	case *chat.ToolStartBody:
		e := member(w.begin(toolStart), "toolCallId", b.Call)
		e = member(e, "toolCallName", b.Name)
		w.end(optional(e, "parentMessageId", b.Parent))
	case *chat.ToolEndBody:
		w.end(member(w.begin(toolEnd), "toolCallId", b.Call))
	case *chat.ToolResultBody:
		e := member(w.begin(toolResult), "messageId", b.Message)
		e = member(e, "toolCallId", b.Call)
		w.end(member(e, "content", b.Content))
	case *chat.InterruptBody:
		w.end(question(append(w.begin(interrupt), ','), b.Interrupt, run))
	case *chat.TodosBody:
		w.end(todos(append(w.begin(todosSnapshot), `,"todos":`...), b.Todos))
	case *chat.SubagentStartBody:
		w.end(subagent(w.begin(subagentStarted), b.Subagent))
	case *chat.SubagentEndBody:
		w.subagentEnd(b, run)
	}
}

// started opens a segment: with the question, if it is the run's first
// (PIL-112, PIL-113).
func (w *writer) started(opening *chat.Message) {
	e := w.begin(runStarted)
	if opening != nil {
		e = userMessage(opening).append(append(e, `,"message":`...))
	}
	w.end(e)
}

// block begins or ends text or reasoning.
func (w *writer) block(k chat.Kind, part string) {
	switch k {
	case chat.KindTextStart:
		w.end(append(member(w.begin(textStart), "messageId", part), `,"role":"assistant"`...))
	case chat.KindTextEnd:
		w.end(member(w.begin(textEnd), "messageId", part))
	case chat.KindReasoningStart:
		w.end(member(w.begin(reasonStart), "messageId", part))
	case chat.KindReasoningEnd:
		w.end(member(w.begin(reasonEnd), "messageId", part))
	}
}

func (w *writer) delta(k chat.Kind, b *chat.DeltaBody) {
	event, id := textContent, "messageId"
	switch k {
	case chat.KindReasoningDelta:
		event = reasonContent
	case chat.KindToolArgs:
		event, id = toolArgs, "toolCallId"
	}
	w.end(member(member(w.begin(event), id, b.Part), "delta", b.Text))
}

// ended closes what is open (PIL-099) and ends the segment with exactly one
// terminal (PIL-130). A run that has no segment on the wire is shown as one
// that began and ended (PIL-221).
func (w *writer) ended(b *chat.RunEndBody, run *chat.Run) {
	switch {
	case run.Status == chat.RunPending:
		w.started(run.Opening)
	case run.Status != chat.RunActive:
		w.started(nil)
	default:
		w.closers(run, b.Status)
	}
	switch {
	case b.Status == chat.RunCancelled && b.Cause != chat.CauseTimeout:
		w.end(w.begin(runCancelled))
	case b.Status == chat.RunComplete:
		w.end(w.begin(runFinished))
	default:
		code, text := b.Code, b.Text
		if code == "" && b.Cause == chat.CauseTimeout {
			code = chat.CodeRunTimeout
		}
		if code == "" {
			code = chat.CodeAgentError
		}
		if text == "" {
			text = "the run failed"
		}
		w.end(member(member(w.begin(runError), "code", code), "message", text))
	}
}

func (w *writer) closers(run *chat.Run, status chat.RunStatus) {
	c := run.Closers()
	for _, p := range c.Parts {
		switch p.Type {
		case chat.PartText:
			w.block(chat.KindTextEnd, p.ID)
		case chat.PartReasoning:
			w.block(chat.KindReasoningEnd, p.ID)
		default:
			w.end(member(w.begin(toolEnd), "toolCallId", p.ID))
		}
	}
	for _, s := range c.Subagents {
		w.subagentEnd(&chat.SubagentEndBody{ID: s.ID, Failed: status != chat.RunComplete}, run)
	}
}

// subagent appends what both events of a subagent carry (PIL-124, PIL-127).
func subagent(e []byte, s chat.Subagent) []byte {
	e = member(e, "toolCallId", s.Call)
	e = member(e, "name", s.Name)
	e = optional(e, "taskId", s.TaskID)
	return optional(e, "childThreadId", s.Child)
}

func (w *writer) subagentEnd(b *chat.SubagentEndBody, run *chat.Run) {
	s := chat.Subagent{ID: b.ID}
	for _, known := range run.Subagents {
		if known.ID == b.ID {
			s = known
		}
	}
	e := subagent(w.begin(subagentEnded), s)
	if b.Failed && !b.Detached {
		e = append(e, `,"status":"error"`...)
	} else {
		e = append(e, `,"status":"finished"`...)
	}
	if b.Detached {
		e = append(e, `,"detached":true`...)
	}
	w.end(e)
}
