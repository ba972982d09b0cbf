package smooth_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/edge"
)

// gates is a site whose agent does not ask, and whose gateway does.
func gates(t *testing.T, change func(*edge.Site), patterns ...string) (s *site, c *client, session, thread string) {
	t.Helper()
	s = serve(t, change)
	s.agent.confirm = patterns
	c = s.dial("ann")
	f := c.session(`,"supports":["identity_form"]`)
	return s, c, f.text("data.sessionId"), f.text("data.conversationId")
}

// asked expects the card of a tool, and then its call.
func (c *client) asked(tool string) {
	c.t.Helper()
	f := c.expect("write_confirmation_required")
	if f.text("data.data.toolId") != tool {
		c.t.Fatalf("SMO-150 the card of another tool: %s", f)
	}
	if f := c.expect("stream_chunk"); f.text("data.state.rawResponse.toolCall.name") != tool {
		c.t.Fatalf("SMO-155 the call follows its card: %s", f)
	}
}

func (c *client) decide(session, approved string) {
	c.t.Helper()
	c.send(`{"action":"confirm_tool_action","requestId":"decide","sessionId":%q,"approved":%s}`, session, approved)
	if f := c.expect("immediate_response"); f.text("requestId") != "decide" || f.at("status") != 200.0 {
		c.t.Fatalf("SMO-154 not taken: %s", f)
	}
}

func (c *client) result(tool string, failed bool, result string) {
	c.t.Helper()
	f := c.expect("stream_chunk")
	if r := "data.state.rawResponse.toolResult."; f.text(r+"name") != tool || f.at(r+"isError") != failed || f.text(r+"result") != result {
		c.t.Fatalf("SMO-155 SMO-156 the result of %s: %s", tool, f)
	}
}

const refusalText = "Denied by human: user rejected the action"

func TestToolsAreConfirmed(t *testing.T) {
	for _, c := range []struct{ name, tool, pattern, approved string }{
		{"SMO-152 SMO-155 approved", "delete_all", "delete_*", "true"},
		{"SMO-152 SMO-156 denied", "delete_all", "delete_*", "false"},
		{"a name that is not of letters of English, approved", "alles löschen 删除", "*lösch*", "true"},
		{"a name with a slash, denied", "fs/rm", "*", "false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, ann, session, _ := gates(t, nil, c.pattern)
			set := setup{}
			set.Tools = append(set.Tools, struct {
				Name   string `json:"name"`
				Result string `json:"result"`
			}{c.tool, "done it"})
			s.agent.load(set, []scriptItem{call(c.tool, `{"all":true}`), text("well")})
			ann.say(session, "turn", "go")
			ann.asked(c.tool)
			ann.silent("SMO-150 the turn is parked")
			ann.decide(session, c.approved)
			if c.approved == "true" {
				ann.result(c.tool, false, "done it")
			} else {
				ann.result(c.tool, true, refusalText)
			}
			ann.until("eventual_response")
			a := s.agent.last().Answers
			if len(a) != 1 || a[0].Gate != chat.GateAgent || a[0].Approved() != (c.approved == "true") {
				t.Errorf("the agent goes on with %+v", a)
			}
		})
	}
}

func TestSeveralCallsOfATurnAreConfirmed(t *testing.T) {
	s, c, session, _ := gates(t, nil, "delete_*")
	s.agent.says(call("delete_a", "{}"), call("list", "{}"), call("delete_b", "{}"), call("delete_c", "{}"), text("well"))
	c.say(session, "turn", "go")
	c.asked("delete_a")
	c.decide(session, "true")
	c.result("delete_a", true, "Error: no tool DELETE_A")
	for _, f := range []frame{c.expect("stream_chunk"), c.expect("stream_chunk")} { // of list
		if f.text("node") != "list" {
			t.Errorf("a tool that no pattern names goes on: %s", f)
		}
	}
	c.asked("delete_b")
	c.decide(session, "false")
	c.result("delete_b", true, refusalText)
	c.asked("delete_c")
	c.decide(session, "true")
	list := c.until("eventual_response")
	if f := list[len(list)-1]; f.text("data.data.response.responseParts.0") != "well" {
		t.Errorf("SMO-152 the turn goes on to its end: %s", f)
	}
}

func TestACardIsConfirmedToo(t *testing.T) {
	s, c, session, _ := gates(t, nil, "request_*")
	s.agent.says(call("request_identity_intake", intakeRaise), text("thanks"))
	c.say(session, "turn", "go")
	c.asked("request_identity_intake")
	calls := s.agent.calls
	c.decide(session, "true")
	f := c.expect("interaction_required")
	if s.agent.calls != calls {
		t.Error("the agent was called, and it is the client that goes on")
	}
	c.submitEmail(session, f.text("data.data.interactionId"))
	if f := c.expect("stream_chunk"); f.at("data.state.rawResponse.toolResult.isError") != false {
		t.Errorf("SMO-186 %s", f)
	}
	c.until("eventual_response")
	s.agent.says(call("request_identity_intake", intakeRaise), text("never mind"))
	c.say(session, "two", "again")
	c.asked("request_identity_intake")
	c.decide(session, "false")
	c.result("request_identity_intake", true, refusalText)
	c.until("eventual_response")
}

func TestNobodyConfirms(t *testing.T) {
	s, c, session, _ := gates(t, func(e *edge.Site) { e.Smooth.Park = 20 * time.Millisecond }, "wipe")
	s.agent.says(call("wipe", "{}"), text("well"))
	c.say(session, "turn", "go")
	c.asked("wipe")
	c.result("wipe", true, "Denied by human: nobody approved the action in time")
	c.until("eventual_response")
	c.send(`{"action":"confirm_tool_action","requestId":"late","sessionId":%q,"approved":true}`, session)
	c.refused("SMO-157 too late", "NO_PENDING_CONFIRMATION", "late")
}

// waits returns the run that waits, and its question, as any dialect has them.
func (s *site) waits(thread string) (run string, q *chat.Interrupt) {
	s.t.Helper()
	seat, err := s.hub.Desk().Join(s.t.Context(), person("ann"), thread, none{}, none{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer seat.Leave()
	r := seat.State().Runs[0]
	return r.ID, r.Open()
}

func TestOtherDialectsConfirm(t *testing.T) {
	s, c, session, thread := gates(t, nil, "wipe")
	for _, yes := range []string{"true", "false"} {
		s.agent.says(call("wipe", `{"all":true}`), text("well"))
		c.say(session, "turn", "go")
		c.asked("wipe")
		run, q := s.waits(thread)
		if q.Kind != chat.InterruptApproval || string(q.Payload) != `{"reason":"tool_call","toolCallId":"`+q.Call+`","toolName":"wipe","args":{"all":true}}` {
			t.Errorf("C19 what Pilotoo shows: %+v", q)
		}
		var err error
		if yes == "true" { // as Pingerchips does, and then as Pilotoo does
			err = s.hub.Desk().Decide(t.Context(), person("ann"), dialect.Decision{Thread: thread, Run: run, Name: q.Call, Settle: func(*chat.Interrupt) (chat.InterruptStatus, jsontext.Value, error) {
				return chat.InterruptAnswered, jsontext.Value(yes), nil
			}})
		} else {
			_, err = s.hub.Desk().Answer(t.Context(), person("ann"), dialect.Answer{Thread: thread, Interrupt: q.ID, Value: jsontext.Value(`{"approved":false,"reason":"not on a Friday"}`)})
		}
		if err != nil {
			t.Fatal(err)
		}
		f := c.expect("stream_chunk")
		if failed := f.at("data.state.rawResponse.toolResult.isError"); failed != true || strings.Contains(f.String(), "not on a Friday") != (yes == "false") {
			t.Errorf("SMO-156 %s: %s", yes, f)
		}
		c.until("eventual_response")
	}
}

func TestTwoAnswersToOneCall(t *testing.T) {
	s, c, session, thread := gates(t, nil, "wipe")
	for range 20 {
		s.agent.says(call("wipe", "{}"), text("well"))
		c.say(session, "turn", "go")
		c.asked("wipe")
		_, q := s.waits(thread)
		var wg sync.WaitGroup
		results := make([]error, 4)
		for n := range results {
			wg.Go(func() {
				value := map[bool]string{true: "true", false: "false"}[n%2 == 0]
				_, results[n] = s.hub.Desk().Answer(t.Context(), person("ann"), dialect.Answer{Thread: thread, Interrupt: q.ID, Value: jsontext.Value(value)})
			})
		}
		wg.Wait()
		won := 0
		for _, err := range results {
			if err == nil {
				won++
			} else if !errors.Is(err, chat.ErrNotWaiting) && !errors.Is(err, chat.ErrUnknownRun) {
				t.Error(err)
			}
		}
		chunks := 0
		for _, f := range c.until("eventual_response") {
			if f.at("data.state.rawResponse.toolResult") != nil {
				chunks++
			}
		}
		if won != 1 || chunks != 1 {
			t.Fatalf("%d answers won, and the call has %d results", won, chunks)
		}
	}
}

func TestCancelAgainstApprove(t *testing.T) {
	s, c, session, thread := gates(t, nil, "wipe")
	other := s.dial("ann")
	ended := map[string]int{}
	for range 40 {
		s.still()
		s.agent.says(call("wipe", "{}"), text("well"))
		c.say(session, "turn", "go")
		c.asked("wipe")
		_, q := s.waits(thread)
		before := len(s.agent.calledWith())
		approved := make(chan error, 1)
		go func() {
			_, err := s.hub.Desk().Answer(t.Context(), person("ann"), dialect.Answer{Thread: thread, Interrupt: q.ID, Value: jsontext.Value("true")})
			approved <- err
		}()
		c.send(`{"action":"cancel","requestId":"turn"}`)
		list := c.next()
		for list.kind() == "stream_chunk" || list.kind() == "stream_token" {
			list = c.next()
		}
		ended[list.kind()]++
		err := <-approved
		if calls := len(s.agent.calledWith()) - before; list.kind() == "cancelled" && err != nil && calls > 0 {
			t.Errorf("SMO-170 the call was not approved, and the agent went on: %d", calls)
		}
		c.send(`{"action":"confirm_tool_action","requestId":"late","sessionId":%q,"approved":true}`, session)
		c.refused("SMO-170 a late confirmation", "NO_PENDING_CONFIRMATION", "late")
	}
	if ended["cancelled"]+ended["eventual_response"] != 40 {
		t.Errorf("SMO-168 each turn has one end: %v", ended)
	}
	c.silent("SMO-022 nothing follows")
	other.silent("nobody else is told")
}

// still waits until no run is at work: the agent of one that was stopped reads the
// same script.
func (s *site) still() {
	s.t.Helper()
	for deadline := time.Now().Add(patience); s.hub.Stats().Runs > 0; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatal("a run goes on")
		}
	}
}

func TestAConfirmedTurnIsTakenUpAgain(t *testing.T) {
	s, c, session, _ := gates(t, func(e *edge.Site) { e.Smooth.Park = -1 }, "wipe")
	s.agent.says(call("wipe", "{}"), text("well"))
	c.say(session, "turn", "go")
	c.asked("wipe")
	c.close()
	s.stop()
	s.start()
	again := s.dial("ann")
	again.send("%s", getSession(s, session, ""))
	again.expect("immediate_response")
	if f := again.expect("write_confirmation_required"); f.text("requestId") != "turn" || f.text("data.data.toolId") != "wipe" {
		t.Errorf("SMO-159 %s", f)
	}
	again.decide(session, "false")
	again.result("wipe", true, refusalText)
	again.until("eventual_response")
}
