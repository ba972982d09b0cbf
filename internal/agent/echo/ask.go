package echo

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

const approvedTool = "ring_bell"

// ask ends the segment with questions, or calls a client tool.
func (t *turn) ask(a action) {
	var list []*chat.Interrupt
	switch a.do {
	case "/ask":
		id := t.toolCall(approvedTool, `{"times": 1}`)
		list = append(list, &chat.Interrupt{
			Kind: chat.InterruptApproval, Call: id, Tool: approvedTool,
			Payload: value("reason", "tool_call", "message", "May I ring the bell?", "toolCallId", id),
		})
	case "/ask2":
		t.closeText()
		for _, q := range []string{"What is your name?", "What is your favourite colour?"} {
			list = append(list, &chat.Interrupt{
				Kind:    chat.InterruptQuestion,
				Payload: value("reason", "input_required", "message", q),
			})
		}
	case "/client":
		kind := t.declared(a.tool)
		if kind == "" {
			t.say("There is no client tool "+a.tool+".", t.agent.delay)
			return
		}
		id := t.toolCall(a.tool, a.args)
		if kind == chat.ToolOneWay {
			t.say("The client was told.", t.agent.delay)
			return
		}
		list = append(list, &chat.Interrupt{Kind: chat.InterruptClientTool, Call: id, Tool: a.tool})
	}
	st, err := json.Marshal(state{Step: t.step})
	if err != nil {
		t.end(agent.Failed(chat.CodeAgentError, "the echo agent cannot remember where it was"))
		return
	}
	t.end(agent.Outcome{Status: chat.RunSuspended, Interrupts: list, State: st})
}

func (t *turn) declared(tool string) chat.ToolKind {
	for _, d := range t.call.Tools {
		if d.Name == tool {
			return d.Kind
		}
	}
	return ""
}

// settled says what was decided, before the script goes on.
func (t *turn) settled(a action) {
	for n, i := range t.call.Answers {
		switch a.do {
		case "/ask":
			t.approved(i)
		case "/ask2":
			t.say("Answer "+strconv.Itoa(n+1)+": "+agent.AnswerText(i), t.agent.delay)
		case "/client":
			t.say(a.tool+" answered: "+agent.AnswerText(i), t.agent.delay)
		}
	}
}

// approved says whether an approval was given (PIL-090), and why not.
func (t *turn) approved(i *chat.Interrupt) {
	yes, reason := decision(i)
	said, done := "You denied it.", "denied"
	if yes {
		said, done = "You approved it: the bell rang.", "the bell rang"
	}
	if reason != "" {
		said += " Your reason: " + reason
	}
	if i.Call != "" {
		t.result(i.Call, done)
	}
	t.say(said, t.agent.delay)
}

func decision(i *chat.Interrupt) (yes bool, reason string) {
	if i.Status != chat.InterruptAnswered {
		return false, ""
	}
	if json.Unmarshal(i.Answer, &yes) == nil {
		return yes, ""
	}
	var d struct {
		Approved bool           `json:"approved"`
		Reason   jsontext.Value `json:"reason"`
	}
	if json.Unmarshal(i.Answer, &d) != nil {
		return false, ""
	}
	reason, _ = agent.Unquote(d.Reason)
	return d.Approved, reason
}
