package e2e

import (
	"encoding/json"
	"testing"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// intakeCall is the call by which a model asks for a mail address.
var intakeCall = line{Kind: "toolCall", Name: "request_identity_intake", Arguments: `{"fields":[{"key":"email","required":true}]}`}

// deletes is a stage with a tool that wants an approval.
func deletes() stage {
	var s stage
	_ = json.Unmarshal([]byte(`{"tools":[{"name":"delete_record","result":"Record 42 deleted."}],"confirmTools":["delete_record"]}`), &s)
	return s
}

// A turn that waits without a limit outlives its socket, its edge and the store's
// process, and is answered on another edge.
func TestSmoothParkOutlivesAll(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	h := smoothOn(t, 2, "redis "+s.URL(), "park none")
	p := h.actor.load(stage{}, []line{intakeCall, {Kind: "text", Text: "thanks"}})
	a := operate(t, h.edges[0].base, nil)
	session := a.session(map[string]any{"supports": []string{"identity_form"}}).text("data.sessionId")
	a.say(session, "q", "hi")
	card, _ := a.until("interaction_required")
	a.hangUp()
	h.edges[0].kill()
	h.dead[0] = true
	s.Shutdown()
	s.Run()
	h.until("the edge serves again", func() bool { return h.edges[1].unready() == "" })
	b := operate(t, h.edges[1].base, nil)
	b.send(map[string]any{"action": "get_session", "requestId": "g", "sessionId": session})
	b.expect("immediate_response")
	again := b.expect("interaction_required")
	if again.text("requestId") != "q" || again.text("data.data.interactionId") != card.text("data.data.interactionId") {
		t.Errorf("SMO-159 it was %s, and is %s", card, again)
	}
	b.send(map[string]any{
		"action": "submit_interaction", "requestId": "s", "sessionId": session,
		"interactionId": card.text("data.data.interactionId"), "values": map[string]any{"email": "ann@example.com"},
	})
	f, said := b.until("eventual_response")
	if f.text("requestId") != "q" || said != "thanks" || len(p.inputs()) != 2 {
		t.Errorf("SMO-184 %q %s; the agent was called %d times", said, f, len(p.inputs()))
	}
}

// A turn that waits for too long goes on without an answer.
func TestSmoothParkEnds(t *testing.T) {
	t.Parallel()
	h := smoothOn(t, 1, `file "DIR"`, "park 700ms")
	h.actor.load(deletes(), []line{
		{Kind: "toolCall", Name: "delete_record", Arguments: `{}`}, intakeCall, {Kind: "text", Text: "without"},
	})
	o := operate(t, h.edges[0].base, nil)
	session := o.session(map[string]any{"supports": []string{"identity_form"}}).text("data.sessionId")
	o.say(session, "q", "hi")
	o.until("write_confirmation_required")
	o.expect("stream_chunk")
	f := o.expect("stream_chunk")
	if f.at("data.state.rawResponse.toolResult.isError") != true {
		t.Errorf("SMO-158 the tool counts as denied: %s", f)
	}
	card := o.expect("interaction_required")
	o.expect("stream_chunk")
	f = o.expect("stream_chunk")
	if r := f.text("data.state.rawResponse.toolResult.result"); f.at("data.state.rawResponse.toolResult.isError") != false || r == "" {
		t.Errorf("SMO-187 nobody has answered: %s", f)
	}
	if f, said := o.until("eventual_response"); said != "without" || f.text("requestId") != "q" {
		t.Errorf("SMO-158 SMO-187 the turn goes on: %q %s", said, f)
	}
	for action, more := range map[string]map[string]any{
		"confirm_tool_action": {"approved": true},
		"submit_interaction":  {"interactionId": card.text("data.data.interactionId"), "declined": true},
	} {
		more["action"], more["requestId"], more["sessionId"] = action, action, session
		o.send(more)
		if f := o.expect("error"); f.text("requestId") != action {
			t.Errorf("SMO-157 SMO-185 it is too late: %s", f)
		}
	}
}

// With on_disconnect cancel a turn ends with its connection, and so does the
// agent's call.
func TestSmoothDisconnectCancels(t *testing.T) {
	t.Parallel()
	h := smoothOn(t, 1, `file "DIR"`, "on_disconnect cancel")
	h.actor.load(stage{}, []line{{Kind: "part", Text: "half"}, {Kind: "hang"}, {Kind: "text", Text: "next"}})
	a := operate(t, h.edges[0].base, nil)
	session := a.session(nil).text("data.sessionId")
	a.say(session, "q", "hi")
	a.until("stream_token")
	a.hangUp()
	b := operate(t, h.edges[0].base, nil)
	h.until("SMO-169 the turn is over", func() bool {
		b.send(map[string]any{"action": "get_session", "requestId": "g", "sessionId": session})
		b.expect("immediate_response")
		return b.silent() == nil && !b.working()
	})
	b.say(session, "r", "go on")
	if _, said := b.until("eventual_response"); said != "next" {
		t.Errorf("SMO-169 the agent goes on with the old turn: %q", said)
	}
	b.send(map[string]any{"action": "get_conversation_messages", "requestId": "m", "sessionId": session})
	f := b.expect("immediate_response")
	if f.text("data.messages.0.content.text") != "next" || f.text("data.messages.1.content.text") != "go on" || f.text("data.messages.2.content.text") != "hi" {
		t.Errorf("SMO-165 SMO-169 nothing of a stopped turn is in the history: %s", f)
	}
}
