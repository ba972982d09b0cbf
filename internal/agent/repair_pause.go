package agent

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// ask keeps a question that came as an event: it counts where the outcome
// brings none.
func (r *Repair) ask(ev Event) {
	if len(r.asked) == maxAsked {
		r.counts.Dropped++
		return
	}
	r.asked = append(r.asked, &chat.Interrupt{Upstream: ev.ID, Call: ev.Parent, Tool: ev.Name, Payload: ev.Value})
}

// pause completes the questions of an outcome: those that the agent asks and
// the calls of blocking client tools that it left to be answered.
func (r *Repair) pause(o Outcome) Outcome {
	if o.Status != chat.RunComplete && o.Status != chat.RunSuspended {
		o.Interrupts = nil
		return o
	}
	list := o.Interrupts
	if len(list) == 0 {
		list = r.asked
	}
	if r.gate.halted {
		list = r.gate.asks
	}
	o.Interrupts = nil
	covered, seen := make(map[string]bool), make(map[string]bool)
	for _, i := range list {
		if i == nil || (i.Upstream != "" && seen[i.Upstream]) {
			r.counts.Dropped++
			continue
		}
		seen[i.Upstream] = true
		q := r.question(*i)
		covered[q.Call] = true
		o.Interrupts = append(o.Interrupts, q)
	}
	for _, c := range r.calls.list {
		if c.client == chat.ToolBlocking && !c.done && !c.cut && !covered[c.id] {
			o.Interrupts = append(o.Interrupts, r.question(chat.Interrupt{Kind: chat.InterruptClientTool, Call: c.agent}))
		}
	}
	switch {
	case len(o.Interrupts) == 0:
		o.Status = chat.RunComplete
	case len(o.Interrupts) > maxAsked:
		f := Failed(chat.CodeAgentError, "the agent asked too many questions at once")
		f.State, f.Usage = o.State, o.Usage
		return f
	default:
		o.Status = chat.RunSuspended
	}
	for n, i := range o.Interrupts {
		i.ID = r.run.Answer + "-i" + strconv.Itoa(len(r.run.Interrupts)+n)
	}
	return o
}

// question makes an interrupt as a thread keeps it.
func (r *Repair) question(i chat.Interrupt) *chat.Interrupt {
	i.Status, i.Segment = chat.InterruptOpen, r.segment
	i.Answer, i.Otherwise, i.By = nil, nil, chat.Subject{}
	c := r.calls.byKey[key(i.Call)]
	if c == nil {
		c = r.calls.byID[i.Call]
	}
	i.Call, i.Tool = "", cleanName(i.Tool, maxName)
	if c != nil {
		i.Call, i.Tool = c.id, c.name
	}
	i.Upstream, i.Alias = cleanText(i.Upstream, maxKey), cleanText(i.Alias, maxKey)
	if v, ok := cleanValue(i.Schema, maxPayload); ok && v.Kind() == '{' {
		i.Schema = v
	} else {
		i.Schema = nil
	}
	waits := c != nil && c.client == chat.ToolBlocking
	switch {
	case i.Gate != "":
	case waits && (i.Kind == "" || i.Kind == chat.InterruptApproval):
		i.Kind = chat.InterruptClientTool
	case i.Kind == "" && c != nil:
		i.Kind = chat.InterruptApproval
	case i.Kind == "":
		i.Kind = chat.InterruptQuestion
	}
	if i.Kind == chat.InterruptClientTool {
		var args []byte
		if c != nil {
			args = c.args
		}
		i.Payload = clientCall(i.Tool, args)
		for _, t := range r.run.Tools {
			if t.Name == i.Tool {
				i.Otherwise = t.Otherwise
			}
		}
		if i.Schema == nil {
			i.Schema = r.resultSchema(i.Tool)
		}
		return &i
	}
	v, ok := cleanValue(i.Payload, maxPayload)
	if !ok {
		r.counts.Mended++
	}
	i.Payload = v
	return &i
}

func (r *Repair) resultSchema(tool string) jsontext.Value {
	for _, t := range r.run.Tools {
		if t.Name == tool {
			return t.Result
		}
	}
	return nil
}

// clientCall is what a window is shown of a blocking call (PIL-072, PIL-073):
// the arguments parsed; what is no object counts as none.
func clientCall(tool string, args []byte) jsontext.Value {
	v, ok := cleanValue(args, maxPayload)
	if !ok || v.Kind() != '{' {
		v = jsontext.Value("{}")
	}
	b, err := json.Marshal(struct {
		Tool string         `json:"clientTool"`
		Args jsontext.Value `json:"arguments"`
	}{tool, v})
	if err != nil { // cannot be: the name and the value are clean
		return jsontext.Value("{}")
	}
	return b
}

// AnswerText is the answer of an interrupt as a call's result: the text of a
// JSON string, any other value as JSON, and words where nobody answered.
func AnswerText(i *chat.Interrupt) string {
	if i.Status != chat.InterruptAnswered && len(i.Answer) == 0 {
		return "no answer: " + string(i.Status)
	}
	if s, ok := Unquote(i.Answer); ok {
		return s
	}
	return string(i.Answer)
}

// joinUsage adds a segment's usage to that of the segments before: an agent
// that reports a list reports only its own calls.
func joinUsage(before, now jsontext.Value) jsontext.Value {
	now, ok := cleanValue(now, maxPayload)
	if !ok || len(now) == 0 {
		return before
	}
	var a, b []jsontext.Value
	if len(before) == 0 || json.Unmarshal(before, &a) != nil || json.Unmarshal(now, &b) != nil {
		return now
	}
	v, err := json.Marshal(append(a, b...))
	if err != nil || len(v) > maxPayload {
		return now
	}
	return v
}
