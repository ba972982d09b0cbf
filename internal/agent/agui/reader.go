package agui

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// Bounds of what a reader remembers of a stream.
const (
	maxLanes  = 1_000
	maxHidden = 10_000
	maxAsked  = 64
)

// reader turns the events of one stream into those of the thread.
type reader struct {
	agent *Agent
	call  *agent.Call
	emit  func(agent.Event) error
	err   error  // of emit
	id    string // of the last token

	lanes    map[string]*chunk // by subagent, "" is the agent
	hidden   map[string]bool   // messages that are not the assistant's
	thinking string            // the open block of the first generation's thinking
	thoughts int
	board    board
	asked    []*chat.Interrupt // by the custom event of the first generation
	streamed bool              // text or calls came as events
	final    []said            // the answer according to the last snapshot
}

// chunk is a block that grows by chunks, which have no end of their own.
type chunk struct {
	kind chat.Kind // of its delta
	id   string
}

func newReader(a *Agent, call *agent.Call, emit func(agent.Event) error) *reader {
	r := &reader{
		agent: a, call: call, emit: emit,
		lanes: make(map[string]*chunk), hidden: make(map[string]bool),
	}
	r.board.begin(a.cfg, call.State)
	return r
}

// send emits an event unless an earlier one failed.
func (r *reader) send(ev agent.Event) {
	if r.err == nil {
		r.err = r.emit(ev)
	}
}

// event handles one event: an outcome is the run's end, an error is emit's.
func (r *reader) event(data []byte) (*agent.Outcome, error) {
	ev, ok := r.token(data)
	if !ok {
		ev, ok = decodeEvent(data)
	}
	if !ok {
		return nil, r.err
	}
	kind := string(ev.Type)
	r.closeChunks(kind, string(ev.Subagent))
	switch {
	case kind == "RUN_STARTED":
		r.started(ev)
	case kind == "RUN_FINISHED":
		r.recite()
		return r.finished(ev), r.err
	case kind == "RUN_ERROR":
		// Its words may be about what people wrote, so the agent's own log has them.
		r.agent.cfg.Log.Warn("the agent said that it failed", "code", fmt.Sprintf("%.64s", string(ev.Code)))
		o := r.outcome(agent.Failed(string(ev.Code), publicText(words(ev.Error))))
		o.Usage = ev.Usage
		return &o, r.err
	case strings.HasSuffix(kind, "_CHUNK"):
		r.chunk(kind, ev)
	case strings.HasPrefix(kind, "TEXT_MESSAGE_"):
		r.text(kind, ev)
	case strings.HasPrefix(kind, "TOOL_CALL_"):
		r.tool(kind, ev)
	case strings.HasPrefix(kind, "REASONING_"), strings.HasPrefix(kind, "THINKING_"):
		r.reasoning(kind, ev)
	default:
		r.side(kind, ev)
	}
	return nil, r.err
}

func (r *reader) started(ev event) {
	if r.agent.cfg.Legacy {
		return
	}
	major, _, _ := strings.Cut(string(ev.Version), ".")
	if n, err := strconv.Atoi(major); err == nil && n >= 1 {
		r.agent.peer.Store(peerOne)
	} else {
		r.agent.peer.Store(peerOld)
	}
}

func (r *reader) text(kind string, ev event) {
	id := string(ev.Message)
	out := agent.Event{ID: id, Subagent: string(ev.Subagent)}
	switch kind {
	case "TEXT_MESSAGE_START":
		// An agent may echo the user's words; only the assistant's are an answer.
		if ev.Role != "" && ev.Role != "assistant" {
			if len(r.hidden) < maxHidden {
				r.hidden[id] = true
			}
			return
		}
		delete(r.hidden, id)
		out.Kind = chat.KindTextStart
	case "TEXT_MESSAGE_CONTENT":
		out.Kind, out.Text = chat.KindTextDelta, words(ev.Delta)
	case "TEXT_MESSAGE_END":
		out.Kind = chat.KindTextEnd
	default:
		return
	}
	if !r.hidden[id] {
		r.streamed = r.streamed || out.Subagent == ""
		r.send(out)
	}
}

func (r *reader) tool(kind string, ev event) {
	out := agent.Event{ID: string(ev.Call), Subagent: string(ev.Subagent)}
	switch kind {
	case "TOOL_CALL_START":
		out.Kind, out.Name, out.Parent = chat.KindToolStart, string(ev.CallName), string(ev.Parent)
	case "TOOL_CALL_ARGS":
		out.Kind, out.Text = chat.KindToolArgs, words(ev.Delta)
	case "TOOL_CALL_END":
		out.Kind = chat.KindToolEnd
	case "TOOL_CALL_RESULT":
		out.Kind, out.Text = chat.KindToolResult, words(ev.Content)
	default:
		return
	}
	r.streamed = r.streamed || out.Subagent == ""
	r.send(out)
}

// reasoning knows the spans only by the messages in them, and the names of the
// first generation, which gave no ids.
func (r *reader) reasoning(kind string, ev event) {
	out := agent.Event{ID: string(ev.Message), Subagent: string(ev.Subagent)}
	switch kind {
	case "REASONING_MESSAGE_START":
		out.Kind = chat.KindReasoningStart
	case "REASONING_MESSAGE_CONTENT":
		out.Kind, out.Text = chat.KindReasoningDelta, words(ev.Delta)
	case "REASONING_MESSAGE_END":
		out.Kind = chat.KindReasoningEnd
	case "REASONING_ENCRYPTED_VALUE":
		out.Kind, out.ID, out.Text = chat.KindReasoningEncrypted, string(ev.Entity), string(ev.Encrypted)
		if ev.Subtype == "tool-call" {
			out.Name = agent.EncryptedCall
		}
	case "THINKING_TEXT_MESSAGE_START", "THINKING_TEXT_MESSAGE_CONTENT":
		if r.thinking == "" {
			r.thoughts++
			r.thinking = "thinking-" + strconv.Itoa(r.thoughts)
		}
		out.Kind, out.ID = chat.KindReasoningStart, r.thinking
		if kind == "THINKING_TEXT_MESSAGE_CONTENT" {
			out.Kind, out.Text = chat.KindReasoningDelta, words(ev.Delta)
		}
	case "THINKING_TEXT_MESSAGE_END", "THINKING_END":
		if r.thinking == "" {
			return
		}
		out.Kind, out.ID, r.thinking = chat.KindReasoningEnd, r.thinking, ""
	default:
		return
	}
	r.send(out)
}

// side handles what stands beside the answer. RAW is not kept.
func (r *reader) side(kind string, ev event) {
	out := agent.Event{Subagent: string(ev.Subagent)}
	switch kind {
	case "STEP_STARTED", "STEP_FINISHED":
		out.Kind, out.Name, out.Done = chat.KindStep, string(ev.Step), kind == "STEP_FINISHED"
	case "CUSTOM":
		if ev.Name == "on_interrupt" {
			r.legacyInterrupt(ev.Value)
			return
		}
		out.Kind, out.Name, out.Value = chat.KindCustom, string(ev.Name), ev.Value
	case "SUBAGENT_STARTED":
		out.Kind, out.ID, out.Name, out.Parent = chat.KindSubagentStart, string(ev.Subagent), string(ev.Name), string(ev.ForCall)
		out.Subagent = ""
	case "SUBAGENT_FINISHED", "SUBAGENT_ERROR":
		// One that waits for an answer has not finished: the run's pause says so.
		if suspended(ev.Outcome) {
			return
		}
		out.Kind, out.ID, out.Failed = chat.KindSubagentEnd, string(ev.Subagent), kind == "SUBAGENT_ERROR"
		out.Subagent = ""
	case "STATE_SNAPSHOT", "STATE_DELTA", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA":
		for _, o := range r.board.event(kind, ev) {
			r.send(o)
		}
		return
	case "MESSAGES_SNAPSHOT":
		r.snapshot(ev.Messages)
		return
	default:
		return
	}
	r.send(out)
}
