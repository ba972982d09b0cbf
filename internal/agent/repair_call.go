package agent

import (
	"strconv"
	"strings"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// EncryptedCall is the Name of a reasoning.encrypted event whose ID is a call.
const EncryptedCall = "tool-call"

// calls are the tool calls of a run.
type calls struct {
	byKey   map[string]*toolCall // the newest of each id that the agent used
	byID    map[string]*toolCall
	list    []*toolCall // in the order of their starts
	foreign map[string]bool
	next    int // index of the next call
}

type toolCall struct {
	id, agent, name string
	client          chat.ToolKind
	index           int
	held            string
	args            []byte
	gated           bool // it waits for an approval
	cut             bool // it was closed because another waits for one
	open, done      bool
	// earlier calls began in a segment before; again says that the agent tells
	// of one anew, which adds nothing.
	earlier, again bool
}

func newCalls(run *chat.Run, segment int) calls {
	c := calls{
		byKey: make(map[string]*toolCall), byID: make(map[string]*toolCall),
		foreign: make(map[string]bool),
	}
	for _, p := range run.Parts {
		if p.Type != chat.PartTool {
			continue
		}
		t := &toolCall{id: p.ID, agent: p.ID, name: p.Name, index: c.next, args: p.Text, done: p.Done, earlier: true}
		if p.Open && p.Segment == segment { // an earlier attempt at the segment began it
			t.open, t.again = true, len(p.Text) > 0
		}
		c.byKey[key(p.ID)], c.byID[p.ID] = t, t
		c.list = append(c.list, t)
		c.next++
	}
	return c
}

func (r *Repair) call(ev Event) []chat.Entry {
	k := key(ev.ID)
	c := r.calls.byKey[k]
	if r.foreignCall(ev, k, c) {
		r.heed(ev, k)
		r.counts.Dropped++
		return nil
	}
	switch ev.Kind {
	case chat.KindToolStart:
		switch {
		case c != nil && (c.open || c.again):
		case c != nil && c.earlier && !c.done && c.name == toolName(ev.Name):
			c.again = true
		default:
			out, _ := r.openCall(ev, k)
			return out
		}
		r.counts.Dropped++
		return nil
	case chat.KindToolArgs:
		return r.args(ev, k, c)
	case chat.KindToolEnd:
		if c == nil || !c.open {
			r.counts.Dropped++
			return nil
		}
		out := r.endCall(c)
		r.hold(c)
		return out
	}
	return r.toolResult(ev, k, c)
}

// foreignCall says that the event is about a subagent's call: only the agent's
// own calls are part of its answer.
func (r *Repair) foreignCall(ev Event, k string, c *toolCall) bool {
	if ev.Kind == chat.KindToolStart {
		if ev.Subagent != "" {
			if (c == nil || c.done) && len(r.calls.foreign) < maxForeign {
				r.calls.foreign[k] = true
			}
			return true
		}
		delete(r.calls.foreign, k)
		return false
	}
	// A subagent may tell the result of the call that it serves, no more.
	return r.calls.foreign[k] || (ev.Subagent != "" && (c == nil || ev.Kind != chat.KindToolResult))
}

func (r *Repair) openCall(ev Event, k string) ([]chat.Entry, *toolCall) {
	if !r.part() {
		return nil, nil
	}
	id := ev.ID
	if !chat.ValidID(id) || r.used[id] || strings.HasPrefix(id, r.run.Answer) {
		r.counts.Mended++
		id = r.run.Answer + "-c" + strconv.Itoa(r.calls.next)
	}
	c := &toolCall{id: id, agent: ev.ID, name: toolName(ev.Name), index: r.calls.next, open: true}
	c.gated = r.gated(ev.Name, c.name)
	for _, t := range r.run.Tools {
		if t.Name == c.name {
			c.client = t.Kind
		}
	}
	r.calls.next++
	r.used[id] = true
	r.calls.byKey[k], r.calls.byID[id] = c, c
	r.calls.list = append(r.calls.list, c)
	return []chat.Entry{r.entry(chat.KindToolStart, &chat.ToolStartBody{Call: id, Name: c.name, Parent: r.parent(ev.Parent)})}, c
}

// parent finds the text part that a call follows: the one that the agent
// names, if it has begun, else the last one of this segment.
func (r *Repair) parent(id string) string {
	if b := r.text.byKey[key(id)]; b != nil && !r.text.waits(b) {
		return b.part
	}
	if p := r.run.Part(id); p != nil && p.Type == chat.PartText {
		return id
	}
	return r.text.last
}

func (r *Repair) args(ev Event, k string, c *toolCall) []chat.Entry {
	var out []chat.Entry
	switch {
	case ev.Text == "" || (c != nil && c.again):
		r.counts.Dropped++
		return nil
	case c == nil || !c.open:
		if ev.Name == "" {
			r.counts.Dropped++
			return nil
		}
		r.counts.Mended++
		if out, c = r.openCall(ev, k); c == nil {
			return out
		}
	}
	var text string
	text, c.held = whole(c.held + ev.Text)
	return append(out, r.writeArgs(c, text)...)
}

func (r *Repair) writeArgs(c *toolCall, text string) []chat.Entry {
	text = r.take(text)
	if c.client != "" || c.gated {
		c.args = append(c.args, text...)
	}
	return r.deltas(chat.KindToolArgs, c.id, text)
}

// endCall ends a call's arguments; a one-way client tool returns nothing, at
// once (PIL-069, PIL-076).
func (r *Repair) endCall(c *toolCall) []chat.Entry {
	var out []chat.Entry
	if c.held != "" {
		out, c.held = r.writeArgs(c, flush(c.held)), ""
	}
	c.open = false
	out = append(out, r.entry(chat.KindToolEnd, &chat.ToolEndBody{Call: c.id}))
	if c.client == chat.ToolOneWay {
		out = append(out, r.result(c, ""))
	}
	return out
}

func (r *Repair) toolResult(ev Event, k string, c *toolCall) []chat.Entry {
	var out []chat.Entry
	if c == nil {
		if ev.Name == "" {
			r.counts.Dropped++
			return nil
		}
		r.counts.Mended++
		if out, c = r.openCall(ev, k); c == nil {
			return out
		}
	}
	if c.open {
		out = append(out, r.endCall(c)...)
	}
	if c.done {
		r.counts.Dropped++
		return out
	}
	return append(out, r.result(c, ev.Text))
}

func (r *Repair) result(c *toolCall, content string) chat.Entry {
	c.done = true
	content = r.take(cleanText(content, maxResult))
	// The number is that of the call's part, so no two results share one.
	id := r.run.Answer + "-t" + strconv.Itoa(c.index)
	return r.entry(chat.KindToolResult, &chat.ToolResultBody{Call: c.id, Message: id, Content: content})
}

// endCalls closes what is open; broken says that the agent did not end well, so
// that nobody is asked about a call that may not be whole.
func (r *Repair) endCalls(broken bool) []chat.Entry {
	var out []chat.Entry
	for _, c := range r.calls.list {
		if c.open {
			r.counts.Mended++
			c.cut = r.gate.halted
			out = append(out, r.endCall(c)...)
			if !broken {
				r.hold(c)
			}
		}
	}
	return out
}

func toolName(s string) string {
	if s = cleanName(s, maxName); s == "" {
		return "tool"
	}
	return s
}
