package pingerchips

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// The events that agents send (PIN-192 to PIN-205).
const (
	PushStart   = "run:start"
	PushToken   = "run:token"
	PushSuspend = "run:suspend"
	PushResume  = "run:resume"
	PushEnd     = "run:end"
	// EventApproval tells an agent of a decision (PIN-172).
	EventApproval = "tool_approval"
)

// MaxContent bounds the text of an agent's token, in bytes (PIN-196).
const MaxContent = 1 << 20

// What an [Agent] refuses a push with, beside the errors of package chat.
var (
	// ErrNotActive: the run is pending or suspended.
	ErrNotActive = errors.New("the run is not active")
	// ErrNotPending: the run was taken up, and waits for a decision.
	ErrNotPending = errors.New("the run is not pending")
)

// AgentPush is an agent's push. Which fields count depends on the event.
type AgentPush struct {
	Run string
	// Owner is the client for whom an agent begins a run by itself, or "".
	Owner   string
	Content string
	// Call, Tool and Args are of the call that waits for a decision; Args is an
	// object.
	Call, Tool string
	Args       jsontext.Value
	Status     chat.RunStatus
}

// ParseAgentPush reads an agent's push; known is false for an event that is none.
func ParseAgentPush(event string, payload []byte) (p AgentPush, known bool, err error) {
	if _, known = agentVerbs[event]; !known {
		return p, false, nil
	}
	o, err := readObject(payload)
	if err != nil {
		return p, true, err
	}
	if p.Run, err = o.id("runId"); err != nil {
		return p, true, err
	}
	switch event {
	case PushStart:
		p.Owner, err = o.optionalID("ownerClientId")
	case PushToken:
		if p.Content, err = o.text("content"); err == nil && len(p.Content) > MaxContent {
			err = tooLarge
		}
	case PushSuspend:
		err = p.readCall(o)
	case PushEnd:
		p.Status, err = endStatus(o)
	}
	return p, true, err
}

func (p *AgentPush) readCall(o object) (err error) {
	if p.Call, err = o.id("toolCallId"); err != nil {
		return err
	}
	if p.Tool, err = o.id("toolName"); err != nil {
		return err
	}
	p.Args = jsontext.Value("{}")
	if o.given("args") {
		if p.Args = o["args"]; p.Args.Kind() != '{' {
			return invalidPayload
		}
	}
	return nil
}

// endStatus reads the reason of a run's end (PIN-201, PIN-202).
func endStatus(o object) (chat.RunStatus, error) {
	if !o.given("reason") {
		return chat.RunComplete, nil
	}
	s, err := o.text("reason")
	if err != nil {
		return "", err
	}
	switch status := chat.RunStatus(s); status {
	case chat.RunComplete, chat.RunCancelled, chat.RunError:
		return status, nil
	}
	return "", invalidReason
}

// Approval is the payload of EventApproval.
func Approval(run, call string, approved bool) []byte {
	b := field(quoted([]byte(`{"runId":`), run), "toolCallId", call)
	return append(truth(b, "approved", approved), '}')
}
