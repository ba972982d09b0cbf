package smooth_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/edge"
)

func TestWhatAnAgentIsGiven(t *testing.T) {
	s := serve(t, func(e *edge.Site) { e.Smooth.Models, e.Smooth.Skills = []string{"small-*"}, []string{"refunds"} })
	c := s.dial("ann")
	session := c.session(`,"userName":"Ann","metadata":{"plan":"pro"}`).text("data.sessionId")
	s.agent.says(text("ok"))
	inline := "data:text/plain;base64," + base64.StdEncoding.EncodeToString([]byte("hello"))
	c.send(`{"action":"send_message","requestId":"q","sessionId":%q,"message":" hi ","model":"small-1","skill":"refunds",
		"images":[{"url":"https://example.com/a.png","detail":"low"},{"url":"javascript:x"},{"url":"https://example.com/b.png","detail":"most"}],
		"files":[{"name":"a.txt","url":%q},{"name":"","url":"https://example.com/c"},{"name":"d.pdf","mimeType":"application/pdf","url":"https://example.com/d.pdf"}]}`, session, inline)
	c.until("eventual_response")
	call := s.agent.last()
	want := `{"model":"small-1","skill":"refunds","images":[{"url":"https://example.com/a.png","detail":"low"}],` +
		`"files":[{"name":"a.txt","mimeType":"text/plain"},{"name":"d.pdf","mimeType":"application/pdf","url":"https://example.com/d.pdf"}],` +
		`"user":{"name":"Ann"},"metadata":{"plan":"pro"}}`
	if got := string(call.Origin.Props); got != want {
		t.Errorf("SMO-091 SMO-092 SMO-094 SMO-095 SMO-097 the agent is given %s", got)
	}
	m := call.Messages[len(call.Messages)-1]
	if m.Content() != " hi " || len(m.Attachments) != 1 || m.Attachments[0].Name != "a.txt" || m.Attachments[0].Size != 5 {
		t.Errorf("SMO-092 SMO-095 the message stays what was typed: %q %v", m.Content(), m.Attachments)
	}
	s.agent.says(text("ok"))
	c.send(`{"action":"send_message","requestId":"q","sessionId":%q,"message":"again","images":[],"files":[]}`, session)
	for _, f := range c.until("eventual_response") {
		if f.text("requestId") != "q" {
			t.Errorf("SMO-102 an id of an earlier turn may be used again: %s", f)
		}
	}
	if p := string(s.agent.last().Origin.Props); strings.Contains(p, "files") || strings.Contains(p, "model") {
		t.Errorf("SMO-091 SMO-096 choices are of one turn: %s", p)
	}
}

func TestAgentsById(t *testing.T) {
	const known, unknown = "22222222-2222-4222-8222-222222222222", "33333333-3333-4333-8333-333333333333"
	s := serve(t, func(e *edge.Site) { e.Smooth.IDs = map[string]string{known: "helper"} })
	c := s.dial("ann")
	for id, code := range map[string]string{known: "", "helper": "", unknown: "AGENT_NOT_FOUND", "nobody": "VALIDATION_ERROR"} {
		c.send(`{"action":"create_conversation_session","requestId":"c","agentId":%q}`, id)
		if code != "" {
			c.refused("SMO-053 "+id, code, "c")
			continue
		}
		if f := c.expect("immediate_response"); f.text("data.agentName") != "helper" || (id == known && f.text("data.agentId") != id) {
			t.Errorf("SMO-053 %s: %s", id, f)
		}
	}
}

func TestSeveralSessionsOnAConnection(t *testing.T) {
	s := serve(t, nil)
	c := s.dial("ann")
	one, two := c.session("").text("data.sessionId"), c.session("").text("data.sessionId")
	s.agent.gate = make(chan struct{})
	c.say(one, "q", "hi")
	c.send(`{"action":"send_message","requestId":"r","sessionId":%q,"message":"x"}`, two)
	c.refused("SMO-008 SMO-055 SMO-099 one turn for each connection", "TURN_IN_PROGRESS", "r")
	c.send(`{"action":"send_message","requestId":"r","sessionId":"nobody","message":"x"}`)
	c.refused("SMO-099 busy comes first", "TURN_IN_PROGRESS", "r")
	c.send(`{"action":"get_conversation_messages","requestId":"m","sessionId":%q}`, one)
	if f := c.expect("immediate_response"); f.text("data.messages.0.content.text") != "hi" || f.at("status") != 200.0 {
		t.Errorf("SMO-080 SMO-103 while a turn runs: %s", f)
	}
	c.silent("SMO-008 SMO-033 a ping while a turn runs")
	close(s.agent.gate)
	c.until("eventual_response")
}

func TestPagesHaveNoGap(t *testing.T) {
	s := serve(t, nil)
	c := s.dial("ann")
	session := c.session("").text("data.sessionId")
	last := ""
	for range 60 { // more than one stored page
		s.agent.says(text("answer"))
		c.say(session, "q", "hi")
		list := c.until("eventual_response")
		last = list[len(list)-1].text("data.data.messageId")
	}
	seen, cursor := map[string]bool{}, ""
	for page := 0; ; page++ {
		c.send(`{"action":"get_conversation_messages","requestId":"m","sessionId":%q,"limit":7%s}`, session, cursor)
		f := c.expect("immediate_response")
		list, _ := f.at("data.messages").([]any)
		for i, m := range list {
			id := frame(m.(map[string]any)).text("id")
			if page == 0 && i == 0 && id != last {
				t.Errorf("SMO-114 SMO-115 the answer is in the history under its id: %s, not %s", id, last)
			}
			if seen[id] {
				t.Errorf("SMO-075 %s came twice", id)
			}
			seen[id] = true
		}
		if f.at("data.hasMore") == false {
			break
		}
		cursor = `,"cursor":"` + f.text("data.nextCursor") + `"`
	}
	if len(seen) != 120 {
		t.Errorf("SMO-075 %d messages of 120", len(seen))
	}
}
