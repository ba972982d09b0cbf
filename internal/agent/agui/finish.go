package agui

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// finished reads how the agent says that it has finished. An outcome of a type
// that nobody knows is a success, as for any client of the protocol.
func (r *reader) finished(ev event) *agent.Outcome {
	o := agent.Outcome{Status: chat.RunComplete, Usage: ev.Usage}
	var end outcome
	if ev.Outcome.Kind() == '{' && json.Unmarshal(ev.Outcome, &end, lenient) != nil {
		end = outcome{}
	}
	var meta struct {
		Reason text `json:"finishReason"`
	}
	if ev.Metadata.Kind() == '{' {
		json.Unmarshal(ev.Metadata, &meta, lenient) //nolint:errcheck // then there is no reason
	}
	switch {
	case end.Type == "cancelled", end.Type == "" && (meta.Reason == "cancelled" || meta.Reason == "abort"):
		o.Status = chat.RunCancelled
	case end.Type == "interrupt":
		o.Status = chat.RunSuspended
		for _, i := range end.Interrupts {
			o.Interrupts = append(o.Interrupts, i.chat())
		}
	}
	if o.Status != chat.RunCancelled && len(o.Interrupts) == 0 && len(r.asked) > 0 {
		o.Status, o.Interrupts = chat.RunSuspended, r.asked
	}
	o = r.outcome(o)
	return &o
}

// outcome adds what the agent leaves in any case.
func (r *reader) outcome(o agent.Outcome) agent.Outcome {
	o.State = r.board.last()
	return o
}

// broken is the outcome of a stream that ended without saying so.
func (r *reader) broken(o agent.Outcome) agent.Outcome {
	r.closeChunks("RUN_", "")
	return r.outcome(o)
}

func suspended(v jsontext.Value) bool {
	var o outcome
	return v.Kind() == '{' && json.Unmarshal(v, &o, lenient) == nil && o.Type == "suspended"
}

// chat makes a question of an interrupt.
func (i interrupt) chat() *chat.Interrupt {
	q := &chat.Interrupt{Upstream: string(i.ID), Call: string(i.Call), Payload: i.payload()}
	if i.Schema.Kind() == '{' {
		q.Schema = i.Schema
	}
	if at, err := time.Parse(time.RFC3339, string(i.Expires)); err == nil {
		q.Deadline = max(at.UnixMilli(), 1)
	}
	switch {
	case i.Reason == "input_required", !plainApproval(q.Schema):
		q.Kind = chat.InterruptQuestion
	case i.Reason == "tool_call", i.Reason == "confirmation":
		q.Kind = chat.InterruptApproval
	}
	return q
}

// plainApproval says that yes or no, with a reason, is all that the schema asks
// for; an answer that may say more is a question's.
func plainApproval(schema jsontext.Value) bool {
	var s struct {
		Properties map[string]jsontext.Value `json:"properties"`
	}
	if len(schema) == 0 || json.Unmarshal(schema, &s, lenient) != nil {
		return len(schema) == 0
	}
	for name := range s.Properties {
		if name != "approved" && name != "reason" {
			return false
		}
	}
	return true
}

// payload is what a window is shown of an interrupt: what the agent said of it.
func (i interrupt) payload() jsontext.Value {
	v, err := json.Marshal(struct {
		Reason  string         `json:"reason,omitempty"`
		Message string         `json:"message,omitempty"`
		Call    string         `json:"toolCallId,omitempty"`
		Schema  jsontext.Value `json:"responseSchema,omitzero"`
		Expires string         `json:"expiresAt,omitempty"`
		Meta    jsontext.Value `json:"metadata,omitzero"`
	}{string(i.Reason), string(i.Message), string(i.Call), i.Schema, string(i.Expires), i.Meta}, lenient)
	if err != nil {
		return nil
	}
	return v
}

// legacyInterrupt keeps a question that came as a custom event, whose value is
// JSON, or JSON in a string. It counts if no outcome brings questions.
func (r *reader) legacyInterrupt(v jsontext.Value) {
	if len(r.asked) == maxAsked {
		return
	}
	if s, ok := agent.Unquote(v); ok && jsontext.Value(s).IsValid() {
		v = jsontext.Value(s)
	}
	payload, err := json.Marshal(struct {
		Reason  string         `json:"reason"`
		Message string         `json:"message,omitempty"`
		Value   jsontext.Value `json:"value,omitzero"`
	}{"on_interrupt", legacyMessage(v), v}, lenient)
	if err != nil {
		return
	}
	r.asked = append(r.asked, &chat.Interrupt{
		Kind: chat.InterruptQuestion, Upstream: legacyAsk + strconv.Itoa(len(r.asked)), Payload: payload,
	})
}

func legacyMessage(v jsontext.Value) string {
	if s, ok := agent.Unquote(v); ok {
		return s
	}
	var q struct {
		Message  text `json:"message"`
		Question text `json:"question"`
	}
	if v.Kind() != '{' || json.Unmarshal(v, &q, lenient) != nil {
		return ""
	}
	if q.Message != "" {
		return string(q.Message)
	}
	return string(q.Question)
}

// publicText is an agent's own words about its failure, as far as people may
// read them (PIL-131): one line without addresses, paths or a stack.
func publicText(s string) string {
	for _, inner := range []string{"://", "Traceback", "goroutine ", "File \"", ".py", ".go:", ".js:", ".ts:", "\n   at ", "\n\tat ", "Bearer ", "sk-", "/home/", "/usr/", "\\"} {
		if strings.Contains(s, inner) {
			return "the agent failed"
		}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
