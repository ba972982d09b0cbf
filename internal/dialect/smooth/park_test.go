package smooth_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/edge"
)

const intakeRaise = `{"fields":[{"key":"email","required":true}],"reason":"to reach you"}`

// parkCard opens a session that shows forms, and a turn that waits for one.
func (c *client) parkCard(s *site, answer string) (session, conversation, interaction string) {
	c.t.Helper()
	s.agent.says(call("request_identity_intake", intakeRaise), text(answer))
	f := c.session(`,"supports":["identity_form"]`)
	session, conversation = f.text("data.sessionId"), f.text("data.conversationId")
	c.say(session, "turn", "a quote, please")
	f = c.expect("interaction_required")
	c.expect("stream_chunk")
	return session, conversation, f.text("data.data.interactionId")
}

func (c *client) submitEmail(session, interaction string) {
	c.t.Helper()
	c.send(`{"action":"submit_interaction","requestId":"submit","sessionId":%q,"interactionId":%q,"values":{"email":"ann@example.com"}}`, session, interaction)
	if f := c.expect("immediate_response"); f.text("requestId") != "submit" || f.at("status") != 200.0 {
		c.t.Fatalf("not taken: %s", f)
	}
}

func TestAParkSurvives(t *testing.T) {
	for _, c := range []struct {
		name  string
		ask   func(s *site, session, conversation string) string
		again bool // the edge is started again
	}{
		{"SMO-159 get_session on another connection", getSession, false},
		{"SMO-159 create with the conversation", createAgain, false},
		{"SMO-158 SMO-159 park none: the edge is started again", getSession, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, func(e *edge.Site) { e.Smooth.Park = -1 })
			first := s.dial("ann")
			session, conversation, interaction := first.parkCard(s, "thanks")
			if c.again {
				first.close()
				s.stop()
				s.start()
			}
			second := s.dial("ann")
			second.send("%s", c.ask(s, session, conversation))
			f := second.expect("immediate_response")
			if id := f.text("data.sessionId"); id != "" {
				session = id
			}
			f = second.expect("interaction_required")
			if f.text("requestId") != "turn" || f.text("data.data.interactionId") != interaction {
				t.Fatalf("the card is not the one that was open: %s", f)
			}
			second.send(`{"action":"send_message","requestId":"two","sessionId":%q,"message":"x"}`, session)
			second.refused("SMO-159 the turn taken up has the slot", "TURN_IN_PROGRESS", "two")
			second.submitEmail(session, interaction)
			list := second.until("eventual_response")
			for _, f := range list {
				if f.text("requestId") != "turn" {
					t.Errorf("SMO-023 a frame of the turn: %s", f)
				}
			}
			if list[0].text("data.state.rawResponse.toolResult.name") != "request_identity_intake" {
				t.Errorf("SMO-186 the result comes first: %s", list[0])
			}
			if !c.again {
				first.silent("SMO-159 the former connection gets nothing more")
			}
		})
	}
}

func getSession(_ *site, session, _ string) string {
	return fmt.Sprintf(`{"action":"get_session","requestId":"g","sessionId":%q}`, session)
}

func createAgain(_ *site, _, conversation string) string {
	return fmt.Sprintf(`{"action":"create_conversation_session","requestId":"g","agentId":%q,"conversationId":%q}`, anyAgent, conversation)
}

func TestAParkEnds(t *testing.T) {
	s := serve(t, func(e *edge.Site) { e.Smooth.Park = 20 * time.Millisecond })
	c := s.dial("ann")
	session, _, _ := c.parkCard(s, "never mind")
	f := c.expect("stream_chunk")
	if f.text("data.state.rawResponse.toolResult.result") != `{"status":"no_response","message":"The user did not respond."}` {
		t.Errorf("SMO-187 a raise that nobody answers: %s", f)
	}
	c.until("eventual_response")
	s.agent.load(setup{Confirm: []string{"wipe"}}, []scriptItem{call("wipe", "{}"), text("as you wish")})
	c.say(session, "two", "wipe it")
	c.expect("write_confirmation_required")
	c.expect("stream_chunk")
	f = c.expect("stream_chunk")
	if f.at("data.state.rawResponse.toolResult.isError") != true {
		t.Errorf("SMO-158 a confirmation that nobody gives is a denial: %s", f)
	}
	c.until("eventual_response")
	c.send(`{"action":"confirm_tool_action","requestId":"late","sessionId":%q,"approved":true}`, session)
	c.refused("SMO-157 too late", "NO_PENDING_CONFIRMATION", "late")
}

func TestAnIntakeIntroducesThePerson(t *testing.T) {
	s := serve(t, nil)
	c := s.dial("ann")
	session, _, interaction := c.parkCard(s, "thanks")
	c.submitEmail(session, interaction)
	c.until("eventual_response")
	s.agent.says(text("hello"))
	c.say(session, "two", "who am I?")
	c.until("eventual_response")
	if p := string(s.agent.last().Origin.Props); p != `{"user":{"email":"ann@example.com"}}` {
		t.Errorf("SMO-190 the agent is not told who the person is: %s", p)
	}
}

func TestOthersMayAnswer(t *testing.T) {
	s := serve(t, nil)
	c := s.dial("ann")
	s.agent.load(setup{Confirm: []string{"wipe"}}, []scriptItem{call("wipe", "{}"), text("wiped")})
	f := c.session("")
	session, thread := f.text("data.sessionId"), f.text("data.conversationId")
	c.say(session, "turn", "wipe it")
	c.expect("write_confirmation_required")
	c.expect("stream_chunk")
	d, st := s.hub.Desk(), chat.Run{}
	seat, err := d.Join(t.Context(), person("ann"), thread, none{}, none{})
	if err != nil {
		t.Fatal(err)
	}
	st = *seat.State().Runs[0]
	seat.Leave()
	if _, err := d.Answer(t.Context(), person("ann"), dialect.Answer{Thread: thread, Interrupt: st.Open().ID, Value: []byte("true")}); err != nil {
		t.Fatal(err)
	}
	if f := c.until("eventual_response"); f[0].text("data.state.rawResponse.toolResult.name") != "wipe" {
		t.Errorf("C19 an approval from another dialect goes on here: %v", f)
	}
}

func TestAWatcherAnswersARunOfAnotherDialect(t *testing.T) {
	s := serve(t, nil)
	c, plain := s.dial("ann"), s.dial("ann")
	f := c.session(`,"supports":["thread_watch","identity_form"]`)
	session, thread := f.text("data.sessionId"), f.text("data.conversationId")
	other := plain.session("").text("data.sessionId")
	c.send(`{"action":"get_session","requestId":"g","sessionId":%q}`, session)
	c.expect("immediate_response")
	s.agent.says(scriptItem{Kind: "ask", Value: []byte(`{"kind":"identity_intake","spec":{"fields":[{"key":"email","required":true}]}}`)}, text("thanks"))
	m := &chat.Message{ID: conductor.NewID(), Role: chat.User, Parts: []*chat.Part{{ID: "p", Type: chat.PartText, Text: chat.Text("hi")}}}
	started, err := s.hub.Desk().Start(t.Context(), person("ann"), dialect.Start{Thread: thread, Dialect: "pilotoo", Message: m})
	if err != nil {
		t.Fatal(err)
	}
	f = c.expect("interaction_required")
	if f.text("requestId") != "run:"+started.Run {
		t.Errorf("SMO-227 a run of another dialect: %s", f)
	}
	c.send(`{"action":"submit_interaction","requestId":%q,"sessionId":%q,"interactionId":%q,"values":{"email":"ann@example.com"}}`,
		"run:"+started.Run, session, f.text("data.data.interactionId"))
	c.expect("immediate_response")
	c.until("eventual_response")
	if a := string(s.agent.last().Answers[0].Answer); a != `{"email":"ann@example.com"}` {
		t.Errorf("the answer of a question is its values: %s", a)
	}
	plain.send(`{"action":"get_session","requestId":"g","sessionId":%q}`, other)
	plain.expect("immediate_response")
	plain.silent("SMO-227 runs of others are not shown to a plain client")
}
