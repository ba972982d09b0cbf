package agent

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// Gated is an ability: to name tools whose calls wait for a person, where the
// agent does not ask itself. A call that is complete and has no result yet ends
// the segment at once with a question for an approval; the agent, or for a tool
// of a client's the client, goes on with the call only once it is approved.
type Gated interface{ Confirm(tool string) bool }

// Patterns are names of tools with * for any characters, also none.
type Patterns []string

// MaxPatterns bounds a list of patterns, maxPattern one of them, in bytes.
const (
	MaxPatterns = 64
	maxPattern  = 256
)

// CheckPattern says what is wrong with a pattern, for who wrote it.
func CheckPattern(p string) error {
	switch {
	case p == "":
		return errors.New("it is empty")
	case len(p) > maxPattern:
		return errors.New("it has more than 256 bytes")
	case !utf8.ValidString(p) || strings.ContainsFunc(p, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return errors.New("it has characters that no tool's name has")
	case strings.ContainsAny(p, `?[]{}\`):
		return errors.New("only * is special in it, and stands for any characters")
	}
	return nil
}

// Match says whether one of the patterns is that of a whole name. It takes time
// in proportion to the name.
func (p Patterns) Match(name string) bool {
	for _, pattern := range p {
		if matches(pattern, name) {
			return true
		}
	}
	return false
}

func matches(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	name, ok := strings.CutPrefix(name, head)
	if !ok || !star {
		return ok && name == ""
	}
	for {
		next, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(name, next)
		}
		_, after, ok := strings.Cut(name, next) // the first is never worse than a later one
		if !ok {
			return false
		}
		name, rest = after, more
	}
}

// gate holds what waits for an approval that the gateway asks for.
type gate struct {
	confirm func(tool string) bool
	halted  bool
	asks    []*chat.Interrupt
	// grants are calls of the agent's that a person approved and that have no
	// result: where the agent makes one anew, the very same, it was approved.
	grants  []grant
	foreign map[string]*foreignCall
}

type grant struct{ name, args string }

// foreignCall is a gated call of a subagent, which is no part of the answer.
type foreignCall struct {
	id, name string
	args     []byte
	long     bool // its arguments are more than can be kept, so none of them are
}

// Gate makes calls of the tools that confirm names wait for an approval.
func (r *Repair) Gate(confirm func(tool string) bool) {
	r.gate = gate{confirm: confirm, foreign: make(map[string]*foreignCall)}
	for _, i := range r.run.Interrupts {
		if i.Gate != chat.GateAgent || !i.Approved() {
			continue
		}
		g := grant{name: i.Tool}
		if c := r.calls.byID[i.Call]; c != nil {
			if c.done {
				continue
			}
			g.args = canonical(c.args)
		} else if i.Segment == r.segment-1 {
			var p asked
			if json.Unmarshal(i.Payload, &p) != nil {
				continue
			}
			g.args = canonical(p.Args)
		} else {
			continue
		}
		r.gate.grants = append(r.gate.grants, g)
	}
}

// Halted says that a call waits for an approval: the agent's call is to end at
// once, and nothing that it says counts any more.
func (r *Repair) Halted() bool { return r.gate.halted }

func (r *Repair) gated(raw, name string) bool {
	return r.gate.confirm != nil && (r.gate.confirm(raw) || r.gate.confirm(name))
}

// hold asks for a call that is complete, unless the very same was approved.
func (r *Repair) hold(c *toolCall) {
	if !c.gated || c.done || r.gate.halted || r.granted(c.name, c.args) {
		return
	}
	carrier := chat.GateAgent
	if c.client == chat.ToolBlocking {
		carrier = chat.GateClient
	}
	r.askFor(c.agent, c.id, c.name, c.args, carrier)
}

// asked is what a window is shown of a call that waits.
type asked struct {
	Reason string         `json:"reason"`
	Call   string         `json:"toolCallId"`
	Tool   string         `json:"toolName"`
	Args   jsontext.Value `json:"args,omitzero"`
}

// askFor ends the segment with a question about a call; id is the agent's, shown
// the one that windows know.
func (r *Repair) askFor(id, shown, name string, args []byte, carrier chat.Gate) {
	v, ok := cleanValue(args, maxPayload/2)
	if !ok {
		v = nil
	}
	payload, err := json.Marshal(asked{"tool_call", shown, name, v})
	if err != nil { // cannot be: all of it is clean
		payload = nil
	}
	r.gate.halted = true
	r.gate.asks = append(r.gate.asks, &chat.Interrupt{
		Kind: chat.InterruptApproval, Gate: carrier, Upstream: id, Call: id, Tool: name, Payload: payload,
	})
}

// granted takes the approval of a call, if there is one.
func (r *Repair) granted(name string, args []byte) bool {
	i := slices.Index(r.gate.grants, grant{name, canonical(args)})
	if i >= 0 {
		r.gate.grants = slices.Delete(r.gate.grants, i, i+1)
	}
	return i >= 0
}

// canonical makes equal arguments equal text.
func canonical(args []byte) string {
	v := jsontext.Value(args).Clone()
	if len(v) == 0 || v.Canonicalize() != nil {
		return string(args)
	}
	return string(v)
}

// heed watches a subagent's call, which nobody is shown.
func (r *Repair) heed(ev Event, k string) {
	if r.gate.confirm == nil {
		return
	}
	c := r.gate.foreign[k]
	switch ev.Kind {
	case chat.KindToolStart:
		name := toolName(ev.Name)
		switch {
		case !r.gated(ev.Name, name):
		case r.calls.foreign[k] && len(r.gate.foreign) < maxForeign:
			r.gate.foreign[k] = &foreignCall{id: ev.ID, name: name}
		case !r.gate.halted: // its end may not be told from others', so nobody waits for it
			r.askFor(ev.ID, cleanName(ev.ID, maxKey), name, nil, chat.GateAgent)
		}
	case chat.KindToolArgs:
		switch {
		case c == nil || c.long:
		case len(c.args)+len(ev.Text) > maxPayload/2:
			c.args, c.long = nil, true
		default:
			c.args = append(c.args, ev.Text...)
		}
	case chat.KindToolEnd:
		if c != nil && (c.long || !r.granted(c.name, c.args)) {
			r.askFor(c.id, cleanName(c.id, maxKey), c.name, c.args, chat.GateAgent)
		}
		delete(r.gate.foreign, k)
	default:
		delete(r.gate.foreign, k)
	}
}

// refusals are the results of calls that nobody approved.
func (r *Repair) refusals() []chat.Entry {
	var out []chat.Entry
	for _, i := range r.run.Interrupts {
		if i.Gate == "" || i.Status == chat.InterruptOpen || i.Approved() {
			continue
		}
		if c := r.calls.byID[i.Call]; c != nil && !c.done {
			out = append(out, r.result(c, Refusal(i)))
		}
	}
	return out
}

// Refusal is the result of a call that was not approved.
func Refusal(i *chat.Interrupt) string {
	why := "user rejected the action"
	var o struct {
		Reason string `json:"reason"`
	}
	switch {
	case i.Status == chat.InterruptExpired:
		why = "nobody approved the action in time"
	case i.Answer.Kind() == '{' && json.Unmarshal(i.Answer, &o) == nil && o.Reason != "":
		why = cleanText(o.Reason, maxErrorText)
	}
	return "Denied by human: " + why
}

// Unasked is what a resumed segment comes to where no agent is to be called:
// calls of a client's tools that were approved are the client's now.
func (r *Repair) Unasked() (Outcome, bool) {
	o := Outcome{Status: chat.RunSuspended}
	for _, i := range r.run.Interrupts {
		if i.Gate != chat.GateClient || i.Segment != r.segment-1 || !i.Approved() {
			continue
		}
		if c := r.calls.byID[i.Call]; c != nil && !c.done {
			o.Interrupts = append(o.Interrupts, &chat.Interrupt{Kind: chat.InterruptClientTool, Call: c.id, Tool: c.name})
		}
	}
	return o, len(o.Interrupts) > 0
}
