package pingerchips

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// runInfo is the value of a run's slot (PIN-210).
type runInfo struct {
	id, owner      string
	status         chat.RunStatus
	started, ended int64
	// run has the question that a suspended run shows; nil for one that ended.
	run *chat.Run
}

func infoOf(r *chat.Run) runInfo {
	return runInfo{id: r.ID, owner: r.Origin.By.ID, status: r.Status, started: r.Started, run: r}
}

// ended is what the run's slot becomes at its end (PIN-091).
func (i runInfo) end(status chat.RunStatus, at int64) runInfo {
	i.status, i.ended, i.run = status, at, nil
	return i
}

func ranInfo(id string, r *chat.Ran) runInfo {
	return runInfo{id: id, owner: r.By.ID, status: r.Status, started: r.Started, ended: r.Ended}
}

func (i runInfo) append(b []byte) []byte {
	b = quoted(append(b, `{"runId":`...), i.id)
	b = field(b, "status", string(i.status))
	b = field(b, "ownerClientId", i.owner)
	b = number(b, "startedAt", i.started)
	if i.ended == 0 {
		b = append(key(b, "endedAt"), "null"...)
	} else {
		b = number(b, "endedAt", i.ended)
	}
	b = key(b, "suspendedTool")
	if q := i.question(); q != nil {
		return append(tool(append(b, '{'), q, i.run), '}', '}')
	}
	return append(b, "null}"...)
}

// question is what the run waits for, as far as it is shown (PIN-212).
func (i runInfo) question() *chat.Interrupt {
	if i.run == nil || i.status != chat.RunSuspended {
		return nil
	}
	return i.run.ShownQuestion()
}

// tool appends the members of a suspended tool (PIN-212). A question that is
// about no tool is shown as one of its kind (PIN-253).
func tool(b []byte, q *chat.Interrupt, r *chat.Run) []byte {
	b = quoted(append(b, `"toolCallId":`...), q.Name())
	name := q.Tool
	if name == "" {
		name = string(q.Kind)
	}
	b = field(b, "toolName", name)
	return append(key(b, "args"), arguments(q, r)...)
}

// arguments is what the tool would be called with: always an object.
func arguments(q *chat.Interrupt, r *chat.Run) []byte {
	if p := r.Part(q.Call); p != nil && isObject(jsontext.Value(p.Text)) {
		return bytes.TrimSpace(p.Text)
	}
	if !isObject(q.Payload) {
		return []byte("{}")
	}
	var o struct {
		Args      jsontext.Value `json:"args"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if json.Unmarshal(q.Payload, &o) == nil {
		for _, v := range []jsontext.Value{o.Args, o.Arguments} {
			if isObject(v) {
				return v
			}
		}
	}
	return q.Payload
}

// message appends a message (PIN-215): its text alone, whatever else it has.
func message(b []byte, m *chat.Message) []byte {
	b = node(b, m)
	return append(field(b, "content", m.Content()), '}')
}

// node appends a message without its content, open at the end (PIN-239).
func node(b []byte, m *chat.Message) []byte {
	b = quoted(append(b, `{"messageId":`...), m.ID)
	b = field(b, "runId", m.Run)
	b = field(b, "ownerClientId", m.By.ID)
	b = field(b, "role", string(m.Role))
	b = orNull(b, "parentId", m.Parent)
	b = orNull(b, "forkOf", m.ForkOf)
	b = orNull(b, "msgRegenerate", m.Regen)
	b = field(b, "status", string(m.Status))
	return number(b, "createdAt", m.Created)
}

func messages(b []byte, all []*chat.Message) []byte { return list(b, all, message) }

// window is what the slot messages shows of a state (PIN-071, PIN-093).
func window(st *chat.State) []*chat.Message { return newest(st.Tail, Window) }

func newest[E any](all []E, most int) []E { return all[max(0, len(all)-most):] }

func windowSize(all []*chat.Message) int {
	n := 0
	for _, m := range all {
		n += 320
		for _, p := range m.Parts {
			if p.Type == chat.PartText {
				n += len(p.Text)
			}
		}
	}
	return n
}
