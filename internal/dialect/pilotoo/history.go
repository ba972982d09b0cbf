package pilotoo

import (
	"bytes"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// history is the answer to thread:messages (PIL-157), at one position of the
// thread: what it leaves out, the room delivers next.
type history struct {
	state *chat.State
	// messages are the newest of the default view, oldest first; live is what
	// the room holds of the running segments.
	messages  []*chat.Message
	live      []any
	truncated bool
	// limit bounds the messages.
	limit int
}

func (h *history) append(b []byte) []byte {
	b = append(b, `{"ok":true,"messages":[`...)
	for i, m := range h.bounded() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, m...)
	}
	b = append(b, ']')
	b = h.replay(b)
	if run, i := pending(h.state); i != nil {
		b = question(append(b, `,"pendingInterrupt":{`...), i, run)
		b = append(member(b, "runId", run.Segment()), '}')
	}
	if len(h.state.Todos) > 0 {
		b = todos(append(b, `,"todos":`...), h.state.Todos)
	}
	if t := h.state.Info.Task; t != nil {
		b = task(append(b, `,"task":`...), *t)
	}
	return append(b, '}')
}

// bounded encodes the messages and drops the oldest beyond the limits
// (PIL-162).
func (h *history) bounded() [][]byte {
	list := h.shown()
	if len(list) > h.limit {
		list = list[len(list)-h.limit:]
	}
	encoded, size := make([][]byte, len(list)), 0
	for i := len(list) - 1; i >= 0; i-- {
		encoded[i] = list[i].append(nil)
		if size += len(encoded[i]); size > maxHistoryBytes {
			return encoded[i+1:]
		}
	}
	return encoded
}

// shown lists the messages, and behind them what the finished segments of live
// runs wrote: the text of a paused run is never nowhere.
func (h *history) shown() []*message {
	var list []*message
	known := make(map[string]bool, len(h.messages))
	for _, m := range h.messages {
		known[m.ID] = true
		list = append(list, shown(m, h.state.Tasks)...)
	}
	whole := len(h.messages) < h.limit
	for _, run := range h.state.Runs {
		// A run whose question is on a branch that is not shown is not either. One
		// that its agent began in an empty thread answers nothing.
		if run.Drafted == 0 || (whole && run.Message != "" && !known[run.Message]) {
			continue
		}
		list = append(list, split(run.Answer, run.Started, run.Parts[:run.Drafted], h.state.Tasks)...)
	}
	return list
}

// replay appends the envelopes of the segments in flight, in the thread's order
// (PIL-163 to PIL-166). A paused run is not in flight: its segment has settled.
func (h *history) replay(b []byte) []byte {
	flying := make(map[string]string)
	for _, run := range h.state.Runs {
		if run.Status == chat.RunPending || run.Status == chat.RunActive {
			flying[run.ID] = run.Segment()
		}
	}
	if len(flying) == 0 {
		return b
	}
	var list [][]byte
	for _, v := range h.live {
		if e, ok := v.(*Encoded); ok && e.segment != "" && flying[e.run] == e.segment {
			list = append(list, e.envelopes...)
		}
	}
	list, cut := newest(list)
	b = append(b, `,"replay":{"envelopes":[`...)
	b = append(b, bytes.Join(list, []byte{','})...)
	if h.truncated || cut {
		return append(b, `],"truncated":true}`...)
	}
	return append(b, `],"truncated":false}`...)
}

// newest drops the oldest envelopes beyond the limits (PIL-177). What is left
// of each run is its end, so it stays contiguous with what comes next.
func newest(list [][]byte) (kept [][]byte, cut bool) {
	size := 0
	for i := len(list) - 1; i >= 0; i-- {
		if size += len(list[i]); size > maxReplayBytes || len(list)-i > maxReplay {
			return list[i+1:], true
		}
	}
	return list, false
}
