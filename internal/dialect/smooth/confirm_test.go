package smooth_test

import (
	"testing"
)

// parkConfirm opens a session, and a turn of the request that waits for an
// approval.
func (c *client) parkConfirm(s *site, request string) (session string) {
	c.t.Helper()
	s.agent.load(setup{Confirm: []string{"wipe"}}, []scriptItem{call("wipe", "{}")})
	session = c.session("").text("data.sessionId")
	c.say(session, request, "wipe it")
	if f := c.expect("write_confirmation_required"); f.text("requestId") != request {
		c.t.Fatalf("the card of another turn: %s", f)
	}
	c.expect("stream_chunk")
	return session
}

func TestAConfirmNamesItsTurn(t *testing.T) {
	s := serve(t, nil)
	one, two := s.dial("ann"), s.dial("ann")
	a, b := one.parkConfirm(s, "turn-a"), two.parkConfirm(s, "turn-b")
	confirm := func(c *client, session, request string) {
		c.send(`{"action":"confirm_tool_action","requestId":%q,"sessionId":%q,"approved":true}`, request, session)
	}
	confirm(two, a, "turn-b")
	two.refused("SMO-153 the id of another turn's park, on that turn's connection", "NO_PENDING_CONFIRMATION", "turn-b")
	confirm(one, a, "turn-b")
	one.refused("SMO-153 the id of another turn's park, on another connection", "NO_PENDING_CONFIRMATION", "turn-b")
	one.silent("SMO-153 the turn stays parked")
	s.agent.says(text("done"))
	confirm(one, a, "free")
	if f := one.expect("immediate_response"); f.text("requestId") != "free" || f.at("data.approved") != true {
		t.Errorf("SMO-153 an id that is no turn's: %s", f)
	}
	one.until("eventual_response")
	s.agent.says(text("done"))
	confirm(two, b, "turn-b")
	two.expect("immediate_response")
	two.until("eventual_response")
}

func TestAConfirmAmongSessionsOfAConversation(t *testing.T) {
	s := serve(t, nil)
	one, two, bob := s.dial("ann"), s.dial("ann"), s.dial("bob")
	a := one.parkConfirm(s, "turn")
	bobs := bob.parkConfirm(s, "bobs")
	one.send(`{"action":"confirm_tool_action","requestId":"bobs","sessionId":%q,"approved":false}`, a)
	if f := one.expect("immediate_response"); f.at("data.approved") != false {
		t.Errorf("SMO-153 what others call their turns does not matter: %s", f)
	}
	one.until("eventual_response")
	two.send(`{"action":"confirm_tool_action","requestId":"x","sessionId":%q,"approved":true}`, bobs)
	two.refused("SMO-157 another's session", "NO_PENDING_CONFIRMATION", "x")
}
