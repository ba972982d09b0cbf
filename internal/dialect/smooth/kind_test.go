package smooth_test

import (
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
	"github.com/parlance-gateway/parlance/internal/edge"
)

func TestAKindOfTheConfiguration(t *testing.T) {
	s := serve(t, func(e *edge.Site) {
		e.Smooth.Kinds = []smooth.Kind{{
			Name: "rating", Capability: "stars", Description: "Ask for a rating.",
			Spec:   []byte(`{"type":"object","required":["scale"],"properties":{"scale":{"type":"integer"}}}`),
			Values: []byte(`{"type":"object","required":["stars"],"properties":{"stars":{"type":"integer","minimum":1,"maximum":5}}}`),
		}}
	})
	c := s.dial("ann")
	session := c.session(`,"supports":["stars"]`).text("data.sessionId")
	s.agent.says(call("request_rating", `{"spec":{"scale":5},"reason":"to do better"}`), text("thanks"))
	c.say(session, "q", "hi")
	f := c.expect("interaction_required")
	if f.text("data.data.kind") != "rating" || f.at("data.data.spec.scale") != 5.0 || f.text("data.data.reason") != "to do better" {
		t.Errorf("SMO-193 %s", f)
	}
	c.expect("stream_chunk")
	id := f.text("data.data.interactionId")
	submit := func(values string) {
		c.send(`{"action":"submit_interaction","requestId":"s","sessionId":%q,"interactionId":%q,"values":%s}`, session, id, values)
	}
	submit(`{"stars":9}`)
	c.expect("interaction_invalid")
	submit(`{"stars":4}`)
	c.expect("immediate_response")
	f = c.expect("stream_chunk")
	if f.text("data.state.rawResponse.toolResult.result") != `{"status":"submitted","values":{"stars":4}}` {
		t.Errorf("SMO-187 SMO-193 %s", f)
	}
	c.until("eventual_response")
	s.agent.says(call("request_rating", `{"spec":{}}`), text("well"))
	c.say(session, "two", "again")
	if list := c.until("eventual_response"); list[1].at("data.state.rawResponse.toolResult.isError") != true {
		t.Errorf("SMO-193 a spec that the schema refuses: %v", list)
	}
}

func TestAQuestionWithASchema(t *testing.T) {
	s := serve(t, nil)
	c := s.dial("ann")
	ask := scriptItem{Kind: "ask", Value: []byte(`{"message":"How many?"}`), Arguments: `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`}
	session := c.session(`,"supports":["schema_form"]`).text("data.sessionId")
	ids := map[string]bool{}
	for range 2 {
		s.agent.says(ask, text("ok"))
		c.say(session, "q", "hi")
		f := c.expect("interaction_required")
		id := f.text("data.data.interactionId")
		if f.text("data.data.kind") != "form" || f.text("data.data.spec.schema.type") != "object" || ids[id] {
			t.Errorf("SMO-177 SMO-193 %s", f)
		}
		ids[id] = true
		c.send(`{"action":"submit_interaction","requestId":"s","sessionId":%q,"interactionId":%q,"values":{"n":"x"}}`, session, id)
		c.expect("interaction_invalid")
		c.send(`{"action":"submit_interaction","requestId":"s","sessionId":%q,"interactionId":%q,"values":{"n":3}}`, session, id)
		c.expect("immediate_response")
		c.until("eventual_response")
		if a := s.agent.last().Answers; len(a) != 1 || string(a[0].Answer) != `{"n":3}` {
			t.Errorf("the agent is answered %v", a)
		}
	}
	plain := c.session("").text("data.sessionId")
	s.agent.says(ask, text("never mind"))
	c.say(plain, "p", "hi")
	c.until("eventual_response")
	if a := s.agent.last().Answers; len(a) != 1 || a[0].Status != chat.InterruptDeclined {
		t.Errorf("SMO-176 who cannot be asked is declined for, at once: %v", a)
	}
}

func TestMessagesOfOtherDialects(t *testing.T) {
	s := serve(t, nil)
	c := s.dial("ann")
	f := c.session("")
	session, thread := f.text("data.sessionId"), f.text("data.conversationId")
	s.agent.says(text("from afar"))
	m := &chat.Message{ID: conductor.NewID(), Role: chat.User, Parts: []*chat.Part{{ID: "p", Type: chat.PartText, Text: chat.Text("elsewhere")}}}
	d := s.hub.Desk()
	if _, err := d.Start(t.Context(), person("ann"), dialect.Start{Thread: thread, Dialect: "pilotoo", Message: m}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for {
		c.send(`{"action":"get_conversation_messages","requestId":"m","sessionId":%q}`, session)
		f = c.expect("immediate_response")
		if f.text("data.messages.0.content.text") == "from afar" || time.Now().After(deadline) {
			break
		}
	}
	if f.text("data.messages.0.direction") != "outbound" || f.text("data.messages.1.content.text") != "elsewhere" || f.text("data.messages.1.direction") != "inbound" {
		t.Errorf("SMO-077 SMO-228 %s", f)
	}
	// An edit replaces the question and what hangs below it.
	s.agent.says(text("mended"))
	e := &chat.Message{ID: "not-a-uuid", Role: chat.User, Parts: []*chat.Part{{ID: "p2", Type: chat.PartText, Text: chat.Text("edited")}}}
	if _, err := d.Start(t.Context(), person("ann"), dialect.Start{Thread: thread, Dialect: "pilotoo", Message: e, Fork: m.ID}); err != nil {
		t.Fatal(err)
	}
	for f.text("data.messages.0.content.text") != "mended" && time.Now().Before(deadline) {
		c.send(`{"action":"get_conversation_messages","requestId":"m","sessionId":%q}`, session)
		f = c.expect("immediate_response")
	}
	list, _ := f.at("data.messages").([]any)
	if len(list) != 2 || f.text("data.messages.1.content.text") != "edited" {
		t.Errorf("SMO-081 only the default view is shown: %s", f)
	}
	if id := f.text("data.messages.1.id"); id == "not-a-uuid" || len(id) != 36 || id[14] != '5' {
		t.Errorf("SMO-220 an id that is no UUID is shown as one: %s", id)
	}
}

var _ agent.Agent = (*script)(nil)
