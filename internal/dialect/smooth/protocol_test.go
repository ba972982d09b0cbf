package smooth_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/edge"
)

// statuses are those that each type of event may have.
var statuses = map[string][]any{
	"immediate_response": {200.0, 202.0}, "eventual_response": {200.0}, "cancelled": {499.0},
}

// hold checks what holds for every frame, whatever is tested.
func (c *client) hold(f frame) {
	if status, ok := f["status"]; ok {
		known := false
		for _, s := range statuses[f.kind()] {
			known = known || s == status
		}
		if !known || f.kind() == "immediate_response" && (status == 202.0) != (f.text("message") == "Processing your request...") {
			c.t.Errorf("SMO-006 SMO-111 a status that %s does not have: %s", f.kind(), f)
		}
	} else if statuses[f.kind()] != nil {
		c.t.Errorf("SMO-006 no status: %s", f)
	}
	if f.kind() == "stream_chunk" && (f.text("node") == "" || f.at("node") != f.at("data.node") || f.at("data.done") != nil) {
		c.t.Errorf("SMO-141 SMO-142 a chunk: %s", f)
	}
	if e := f.text("error.message"); f.kind() == "error" && (e == "" || strings.Contains(e, "smooth:") || strings.Contains(e, ".go")) {
		c.t.Errorf("SMO-128 an inner detail: %s", f)
	}
}

// TestEachActionsAnswer: what each action is answered with, at once, and that
// none but a message runs the agent.
func TestEachActionsAnswer(t *testing.T) {
	s := serve(t, nil)
	c := s.dial("ann")
	session := c.session("").text("data.sessionId")
	unknown := "99999999-9999-4999-8999-999999999999"
	for _, a := range []struct{ frame, kind, code string }{
		{`{"action":"create_conversation_session","requestId":"r","agentId":"` + anyAgent + `"}`, "immediate_response", ""},
		{`{"action":"create_conversation_session","requestId":"r"}`, "error", "VALIDATION_ERROR"},
		{`{"action":"get_session","requestId":"r","sessionId":"` + session + `"}`, "immediate_response", ""},
		{`{"action":"get_session","requestId":"r","sessionId":"` + unknown + `"}`, "error", "SESSION_NOT_FOUND"},
		{`{"action":"get_conversation_messages","requestId":"r","sessionId":"` + session + `"}`, "immediate_response", ""},
		{`{"action":"send_message","requestId":"r","sessionId":"` + session + `","message":""}`, "error", "VALIDATION_ERROR"},
		{`{"action":"confirm_tool_action","requestId":"r","sessionId":"` + session + `","approved":true}`, "error", "NO_PENDING_CONFIRMATION"},
		{`{"action":"submit_interaction","requestId":"r","sessionId":"` + session + `","interactionId":"i","values":{}}`, "error", "NO_PENDING_INTERACTION"},
		{`{"action":"verify_otp","requestId":"r","sessionId":"` + session + `","code":"1"}`, "otp_invalid", ""},
		{`{"action":"ping","requestId":"r"}`, "pong", ""},
	} {
		c.send("%s", a.frame)
		if f := c.next(); f.kind() != a.kind || f.text("error.code") != a.code || f.text("requestId") != "r" {
			t.Errorf("SMO-100 SMO-125 %s is answered with %s", a.frame, f)
		}
	}
	c.send(`{"action":"cancel","requestId":"r"}`)
	c.silent("SMO-100 SMO-166 a cancel; SMO-128 the connection stays through errors")
	if call := s.agent.last(); call != nil {
		t.Errorf("SMO-086 no message was sent, and the agent ran: %+v", call)
	}
	c.send(`{"requestId":7}`)
	c.refused("SMO-125 there is no id to echo", "VALIDATION_ERROR", "")
	s.agent.says(text("hi"))
	c.say(session, "q", "hi")
	c.until("eventual_response")
	if s.agent.last() == nil {
		t.Error("SMO-086 a message runs the agent")
	}
}

func TestASessionHasItsParts(t *testing.T) {
	s := serve(t, nil)
	c := s.dial("ann")
	made := c.session("")
	ids := map[string]bool{}
	for _, name := range []string{"sessionId", "conversationId", "userParticipantId", "agentParticipantId"} {
		ids[made.text("data."+name)] = true
	}
	if len(ids) != 4 || ids[""] {
		t.Errorf("SMO-044 a session, a conversation and two participants: %s", made)
	}
	session := made.text("data.sessionId")
	c.send(`{"action":"get_session","requestId":"g","sessionId":%q}`, session)
	f := c.expect("immediate_response")
	for _, name := range []string{"sessionId", "conversationId", "userParticipantId", "agentParticipantId"} {
		if f.text("data."+name) != made.text("data."+name) {
			t.Errorf("SMO-044 %s: made %s, found %s", name, made, f)
		}
	}
	if f.text("data.status") != "active" || f.text("data.threadId") != made.text("data.conversationId") {
		t.Errorf("SMO-064 a session in use: %s", f)
	}
	s.agent.says(text("hello"))
	c.say(session, "q", "hi")
	c.until("eventual_response")
	c.send(`{"action":"get_conversation_messages","requestId":"m","sessionId":%q}`, session)
	f = c.expect("immediate_response")
	if f.text("data.messages.1.from.id") != made.text("data.userParticipantId") || f.text("data.messages.0.from.id") != made.text("data.agentParticipantId") {
		t.Errorf("SMO-044 messages are of the session's participants: %s", f)
	}
}

func TestCapabilitiesGateKinds(t *testing.T) {
	const ask = `{"questions":[{"question":"Which?","header":"Which","options":[{"label":"a"},{"label":"b"}]}]}`
	s := serve(t, nil)
	for _, c := range []struct{ supports, raise, args, first string }{
		{`"identity_form","holograms"`, "request_identity_intake", intakeRaise, "interaction_required"},
		{`"identity_form","holograms"`, "request_choices", ask, "stream_chunk"},
		{`"choice_chips",""`, "request_choices", ask, "interaction_required"},
		{`"choice_chips"`, "request_identity_intake", intakeRaise, "stream_chunk"},
	} {
		d := s.dial("ann")
		session := d.session(`,"supports":[` + c.supports + `]`).text("data.sessionId")
		s.agent.says(call(c.raise, c.args), text("well"))
		d.say(session, "q", "hi")
		if f := d.next(); f.kind() != c.first {
			t.Errorf("SMO-047 %s with %s: %s", c.raise, c.supports, f)
		}
		if c.first == "interaction_required" {
			d.expect("stream_chunk")
			d.silent("SMO-021 a turn that waits for its person says nothing until then")
			d.send(`{"action":"cancel"}`)
			d.expect("cancelled")
		} else {
			d.until("eventual_response")
		}
	}
}

func TestATurnNeedsNoKeepalive(t *testing.T) {
	s := serve(t, func(e *edge.Site) { e.Smooth.Keepalive = -1 })
	gate := make(chan struct{})
	s.agent.gate = gate
	s.agent.says(text("whole"))
	c := s.dial("ann")
	c.say(c.session("").text("data.sessionId"), "turn", "hi")
	if f := c.within(20 * time.Millisecond); f != nil {
		t.Errorf("SMO-035 nothing was to come: %s", f)
	}
	close(gate)
	c.until("eventual_response")
}

// TestNothingInnerIsShown: what an agent keeps for itself, its state and events
// that the protocol does not have, reaches no client.
func TestNothingInnerIsShown(t *testing.T) {
	s := serve(t, nil)
	c := s.dial("ann")
	session := c.session("").text("data.sessionId")
	s.agent.says(
		scriptItem{Kind: "state", Value: []byte(`{"key":"hunter2"}`)},
		scriptItem{Kind: "custom", Name: "trace", Value: []byte(`{"key":"hunter2"}`)},
		scriptItem{Kind: "part", Text: "before"},
		scriptItem{Kind: "step", Name: "lookup"},
		text("after"),
	)
	c.say(session, "q", "hi")
	order := ""
	for _, f := range c.until("eventual_response") {
		if strings.Contains(f.String(), "hunter2") {
			t.Errorf("SMO-144 %s", f)
		}
		order += f.text("token")
		if f.kind() == "stream_chunk" {
			order += "|" + f.text("node") + "|"
		}
	}
	if order != "before|lookup|after" {
		t.Errorf("SMO-141 a chunk of a node comes once, after the node's tokens: %s", order)
	}
}

// TestFramesOfSeveralRuns: a client that watches its conversation gets frames of
// another run while its own turn is in flight, and can tell them apart.
func TestFramesOfSeveralRuns(t *testing.T) {
	s := serve(t, nil)
	c := s.dial("ann")
	f := c.session(`,"supports":["thread_watch","identity_form"]`)
	session, thread := f.text("data.sessionId"), f.text("data.conversationId")
	s.agent.says(call("request_identity_intake", intakeRaise), text("thanks"))
	c.say(session, "turn", "a quote, please")
	card := c.expect("interaction_required")
	c.expect("stream_chunk")
	s.agent.says(text("beside"), text("thanks"))
	m := &chat.Message{ID: conductor.NewID(), Role: chat.User, Parts: []*chat.Part{{ID: "p", Type: chat.PartText, Text: chat.Text("hi")}}}
	started, err := s.hub.Desk().Start(t.Context(), person("ann"), dialect.Start{Thread: thread, Dialect: "pilotoo", Message: m})
	if err != nil {
		t.Fatal(err)
	}
	list := c.until("eventual_response")
	for _, f := range list {
		if f.text("requestId") != "run:"+started.Run {
			t.Errorf("SMO-024 a frame of the other run: %s", f)
		}
	}
	c.submitEmail(session, card.text("data.data.interactionId"))
	list = c.until("eventual_response")
	if f := list[len(list)-1]; f.text("requestId") != "turn" || f.text("data.data.response.responseParts.0") != "thanks" {
		t.Errorf("SMO-024 the turn's own end: %s", f)
	}
}
