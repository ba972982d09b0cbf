package agui

import (
	"maps"
	"slices"
	"strings"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// chunk expands an event that starts, continues and ends a block at once: a
// block of chunks lasts until something else of its subagent comes.
func (r *reader) chunk(kind string, ev event) {
	lane := string(ev.Subagent)
	open := r.lanes[lane]
	var start, delta agent.Event
	id := string(ev.Message)
	switch kind {
	case "TEXT_MESSAGE_CHUNK":
		start.Kind, delta.Kind = chat.KindTextStart, chat.KindTextDelta
	case "REASONING_MESSAGE_CHUNK":
		start.Kind, delta.Kind = chat.KindReasoningStart, chat.KindReasoningDelta
	case "TOOL_CALL_CHUNK":
		id = string(ev.Call)
		start.Kind, delta.Kind = chat.KindToolStart, chat.KindToolArgs
		start.Name, start.Parent = string(ev.CallName), string(ev.Parent)
	default:
		return
	}
	if open != nil && (open.kind != delta.Kind || (id != "" && id != open.id)) {
		r.closeChunk(lane)
		open = nil
	}
	if open == nil {
		if len(r.lanes) == maxLanes {
			return
		}
		open = &chunk{delta.Kind, id}
		r.lanes[lane] = open
		hide := delta.Kind == chat.KindTextDelta && ev.Role != "" && ev.Role != "assistant"
		if hide {
			open.kind = chat.KindNone
		}
		start.ID, start.Subagent = id, lane
		if !hide {
			r.streamed = r.streamed || lane == ""
			r.send(start)
		}
	}
	if s := words(ev.Delta); s != "" && open.kind != chat.KindNone {
		r.send(agent.Event{Kind: delta.Kind, ID: open.id, Subagent: lane, Text: s})
	}
}

// closeChunks ends the blocks of chunks that an event of this kind ends: all
// at the run's own events, else that of the event's subagent.
func (r *reader) closeChunks(kind, lane string) {
	switch {
	case strings.HasPrefix(kind, "RUN_"), kind == "MESSAGES_SNAPSHOT":
		for _, lane := range slices.Sorted(maps.Keys(r.lanes)) {
			r.closeChunk(lane)
		}
	case strings.HasSuffix(kind, "_CHUNK"), kind == "RAW", strings.HasPrefix(kind, "ACTIVITY_"),
		kind == "REASONING_ENCRYPTED_VALUE", kind == "SUBAGENT_STARTED":
	default:
		r.closeChunk(lane)
	}
}

func (r *reader) closeChunk(lane string) {
	c := r.lanes[lane]
	if c == nil {
		return
	}
	delete(r.lanes, lane)
	end := chat.KindNone
	switch c.kind {
	case chat.KindTextDelta:
		end = chat.KindTextEnd
	case chat.KindReasoningDelta:
		end = chat.KindReasoningEnd
	case chat.KindToolArgs:
		end = chat.KindToolEnd
	default:
		return
	}
	r.send(agent.Event{Kind: end, ID: c.id, Subagent: lane})
}
