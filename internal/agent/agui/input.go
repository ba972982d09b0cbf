package agui

import (
	"context"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

const protocolVersion = "1.0"

// legacyAsk begins the Upstream of a question that came as a custom event, as
// adapters of the first generation ask.
const legacyAsk = "on_interrupt:"

// input is what an agent is given (AG-UI 1.0, RunAgentInput).
type input struct {
	Thread    string         `json:"threadId"`
	Run       string         `json:"runId"`
	Version   string         `json:"protocolVersion,omitempty"`
	State     jsontext.Value `json:"state"`
	Messages  []message      `json:"messages"`
	Tools     []tool         `json:"tools"`
	Context   []struct{}     `json:"context"`
	Forwarded jsontext.Value `json:"forwardedProps"`
	Resume    []resume       `json:"resume,omitempty"`
}

type tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  jsontext.Value `json:"parameters,omitzero"`
}

type resume struct {
	Interrupt string         `json:"interruptId"`
	Status    string         `json:"status"`
	Payload   jsontext.Value `json:"payload,omitzero"`
}

func (a *Agent) input(ctx context.Context, call *agent.Call) (*input, error) {
	in := &input{
		Thread: call.Upstream, Run: call.Segment, Version: protocolVersion,
		State: call.State, Tools: []tool{}, Context: []struct{}{}, Forwarded: a.cfg.Forwarded,
	}
	if a.cfg.Legacy {
		in.Version = ""
	}
	if len(call.Origin.Props) > 0 {
		var err error
		if in.Forwarded, err = merged(in.Forwarded, call.Origin.Props); err != nil {
			return nil, err
		}
	}
	if len(in.State) == 0 {
		in.State = jsontext.Value("{}")
	}
	for _, t := range call.Tools {
		in.Tools = append(in.Tools, tool{t.Name, t.Description, t.Arguments})
	}
	var err error
	if in.Messages, err = a.messages(ctx, call); err != nil {
		return nil, err
	}
	return in, in.settle(call)
}

// merged adds to an object of the configuration what a client's dialect gave
// with the message; what is configured stays.
func merged(configured, given jsontext.Value) (jsontext.Value, error) {
	props := make(map[string]jsontext.Value)
	for _, v := range []jsontext.Value{given, configured} {
		if err := json.Unmarshal(v, &props); err != nil {
			return nil, err
		}
	}
	return json.Marshal(props, json.Deterministic(true))
}

// settle tells what became of the agent's questions: those of the segment
// before, and those of an earlier run that nobody will answer.
func (in *input) settle(call *agent.Call) error {
	var old []jsontext.Value
	for _, i := range append(call.Answers[:len(call.Answers):len(call.Answers)], call.Withdrawn...) {
		switch {
		case i.Upstream == "":
			// A client tool's call that the agent just left open: the tool
			// message says it.
		case i.Gate != "" && !i.Approved() && (i.Call != "" || i.Status == chat.InterruptWithdrawn):
			// The agent has not asked: the tool message says it.
		case i.Gate != "":
			in.Resume = append(in.Resume, resume{i.Upstream, "resolved", decision(i)})
		case strings.HasPrefix(i.Upstream, legacyAsk):
			if i.Status == chat.InterruptAnswered {
				old = append(old, i.Answer)
			}
		case i.Status == chat.InterruptAnswered:
			in.Resume = append(in.Resume, resume{i.Upstream, "resolved", answer(i)})
		default:
			in.Resume = append(in.Resume, resume{i.Upstream, "cancelled", nil})
		}
	}
	if len(old) == 0 {
		return nil
	}
	// The first generation resumes by a command, one value for all.
	props := make(map[string]jsontext.Value)
	if err := json.Unmarshal(in.Forwarded, &props); err != nil {
		return err
	}
	value := old[0]
	if len(old) > 1 {
		value, _ = json.Marshal(old)
	}
	command, err := json.Marshal(map[string]jsontext.Value{"resume": value})
	if err != nil {
		return err
	}
	props["command"] = command
	in.Forwarded, err = json.Marshal(props, json.Deterministic(true))
	return err
}

// decision is the payload of an approval that the gateway asked for.
func decision(i *chat.Interrupt) jsontext.Value {
	if i.Status == chat.InterruptAnswered && len(i.Answer) > 0 {
		return answer(i)
	}
	return jsontext.Value(`{"approved":false}`)
}

// answer is a payload as AG-UI wants it: an approval is an object.
func answer(i *chat.Interrupt) jsontext.Value {
	if k := i.Answer.Kind(); i.Kind == chat.InterruptApproval && (k == 't' || k == 'f') {
		return jsontext.Value(`{"approved":` + strconv.FormatBool(k == 't') + `}`)
	}
	return i.Answer
}
