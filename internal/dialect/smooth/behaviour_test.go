package smooth_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/room"
)

// none is a member that is shown nothing.
type none struct{}

func (none) Encode(*room.Change) any { return nil }
func (none) Deliver(any)             {}
func (none) Close(room.CloseReason)  {}

func TestEnvelope(t *testing.T) {
	s := serve(t, nil)
	c := s.dial("")
	for _, b := range []string{`{`, `[]`, `"x"`, `7`, `null`, `{"action":"ping"} x`, `{"action":"ping","action":"ping"}`, strings.Repeat("[", 500)} {
		c.send("%s", b)
		c.refused("SMO-009 "+b[:min(len(b), 20)], "VALIDATION_ERROR", "")
	}
	if err := c.ws.Write(t.Context(), websocket.MessageBinary, []byte(`{"action":"ping"}`)); err != nil {
		t.Fatal(err)
	}
	c.refused("SMO-013 a binary frame", "VALIDATION_ERROR", "")
	c.send(`{"requestId":"r"}`)
	c.refused("SMO-010 no action", "VALIDATION_ERROR", "r")
	c.send(`{"ACTION":"ping","requestId":"r"}`)
	c.refused("SMO-010 a key of another case", "VALIDATION_ERROR", "r")
	c.send(`{"action":"list_conversations","requestId":"r"}`)
	c.refused("SMO-011 SMO-229 an action that is none", "UNSUPPORTED_ACTION", "r")
	c.send(`{"action":"ping"}`)
	if f := c.expect("pong"); f.at("requestId") != nil || f.at("timestamp") != f.at("data.timestamp") {
		t.Errorf("SMO-031 SMO-032 %s", f)
	}
	c.send(`{"action":"ping","requestId":"p"}`)
	if f := c.expect("pong"); f.text("requestId") != "p" {
		t.Errorf("SMO-005 SMO-031 %s", f)
	}
	session := c.session("").text("data.sessionId")
	s.agent.says(text("hi"))
	c.send(`{"action":"send_message","sessionId":%q,"message":"x"}`, session)
	f := c.expect("immediate_response")
	id := f.text("requestId")
	if !strings.HasPrefix(id, "srv-") || f.text("message") == "" {
		t.Errorf("SMO-089 SMO-101 %s", f)
	}
	for _, f := range c.until("eventual_response") {
		if f.text("requestId") != id || f.text("data.requestId") != id || f.at("timestamp") == nil || f.at("token") != f.at("data.token") {
			t.Errorf("SMO-015 SMO-023 SMO-135 %s", f)
		}
	}
	if f := c.tail(); f[len(f)-1].at("data.data.response.requestSummary") != "" || f[len(f)-1].at("data.data.response.customerHappinessScore") != 0.5 {
		t.Errorf("SMO-116 SMO-117 the default shape: %v", f)
	}
	if f := c.tail(); f[len(f)-1].at("data.data.needsEscalation") != false || f[len(f)-1].at("data.data.response.responseParts.0") != "hi" || f[len(f)-1].at("data.data.citations") != nil || f[len(f)-1].at("data.data.directive") != nil {
		t.Errorf("SMO-118 SMO-119 SMO-121 SMO-122 what an agent did not say: %v", f)
	}
	c.send(`{"action":"cancel","requestId":%q}`, id)
	c.silent("SMO-166 a cancel without a turn")
}

func TestTooLargeAFrame(t *testing.T) {
	c := serve(t, nil).dial("")
	_ = c.ws.Write(t.Context(), websocket.MessageText, make([]byte, 16<<20+1))
	<-c.done
	if websocket.CloseStatus(c.closed) != websocket.StatusMessageTooBig {
		t.Errorf("SMO-013 a frame of more than 16 MiB: %v", c.closed)
	}
}

func TestStrict(t *testing.T) {
	c := serve(t, func(e *edge.Site) { e.Smooth.Strict = true }).dial("")
	c.send(`{"action":"ping","requestId":"p","more":1}`)
	c.refused("SMO-012 strict", "VALIDATION_ERROR", "p")
}

func TestWhoIsWho(t *testing.T) {
	s := serve(t, nil)
	s.agent.says(text("secret"))
	ann := s.dial("ann")
	f := ann.session("")
	session, conversation := f.text("data.sessionId"), f.text("data.conversationId")
	ann.say(session, "q", "hi")
	ann.until("eventual_response")
	for _, who := range []string{"bob", "", "bad"} {
		c := s.dial(who)
		for _, a := range []string{"get_session", "get_conversation_messages"} {
			c.send(`{"action":%q,"requestId":"f","sessionId":%q}`, a, session)
			f := c.next()
			c.send(`{"action":%q,"requestId":"f","sessionId":"99999999-9999-4999-8999-999999999999"}`, a)
			u := c.next()
			delete(f, "timestamp")
			delete(u, "timestamp")
			if f.String() != u.String() || f.text("error.code") != "SESSION_NOT_FOUND" {
				t.Errorf("SMO-063 SMO-016 %q %s: foreign %s, unknown %s", who, a, f, u)
			}
		}
		c.send(`{"action":"send_message","requestId":"f","sessionId":%q,"message":"x"}`, session)
		c.refused("SMO-098 a foreign session", "SESSION_NOT_FOUND", "f")
		c.send(`{"action":"confirm_tool_action","requestId":"f","sessionId":%q,"approved":true}`, session)
		c.refused("SMO-157 a foreign session", "NO_PENDING_CONFIRMATION", "f")
		if got := c.session(`,"conversationId":"` + conversation + `"`).text("data.conversationId"); got == conversation {
			t.Errorf("SMO-051 %q reads another's conversation", who)
		}
	}
	nobody, same := s.dial(""), s.dial("")
	mine := nobody.session("").text("data.sessionId")
	same.send(`{"action":"get_session","requestId":"g","sessionId":%q}`, mine)
	if f := same.expect("immediate_response"); f.text("data.sessionId") != mine {
		t.Errorf("SMO-062 a session of nobody in particular comes back by its id: %s", f)
	}
	s.guests.revoke("ann")
	ann.send(`{"action":"ping"}`)
	<-ann.done
	if websocket.CloseStatus(ann.closed) != websocket.StatusPolicyViolation {
		t.Errorf("who is revoked is closed: %v", ann.closed)
	}
}

func TestTheDoor(t *testing.T) {
	s := serve(t, func(e *edge.Site) { e.Smooth.Anonymous = false })
	for _, c := range []struct {
		name, query string
		header      http.Header
		status      int
	}{
		{"SMO-016 token in the query", "?token=ann", nil, 101},
		{"SMO-016 token in the header", "", http.Header{"Authorization": {"Bearer ann"}}, 101},
		{"two tokens", "?token=bob", http.Header{"Authorization": {"Bearer ann"}}, 401},
		{"a bad token where nobody in particular is not admitted", "?token=bad", nil, 401},
		{"the page's own origin", "?token=ann", http.Header{"Origin": {strings.Replace(strings.TrimSuffix(s.url, "/ws"), "ws", "http", 1)}}, 101},
		{"SMO-052 a foreign origin", "?token=ann", http.Header{"Origin": {"https://evil.example"}}, 403},
	} {
		ws, resp, err := websocket.Dial(t.Context(), s.url+c.query, &websocket.DialOptions{HTTPHeader: c.header})
		if resp == nil || resp.StatusCode != c.status {
			t.Errorf("%s: %v %v", c.name, resp, err)
		}
		if ws != nil {
			_ = ws.CloseNow()
		}
	}
	resp, err := http.Get(strings.Replace(s.url, "ws", "http", 1) + "?token=ann")
	if err != nil || resp.StatusCode != http.StatusUpgradeRequired {
		t.Fatalf("a plain request: %v %v", resp, err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}

func TestDisconnect(t *testing.T) {
	for _, stop := range []bool{false, true} {
		s := serve(t, func(e *edge.Site) { e.Smooth.CancelOnDisconnect = stop })
		gate := make(chan struct{})
		s.agent.gate = gate
		s.agent.says(text("the answer"))
		c := s.dial("ann")
		session := c.session("").text("data.sessionId")
		c.say(session, "q", "hi")
		c.close()
		if !stop {
			close(gate)
		}
		again := s.dial("ann")
		deadline := time.Now().Add(patience)
		for {
			again.send(`{"action":"get_session","requestId":"g","sessionId":%q}`, session)
			again.until("immediate_response")
			if s.hub.Stats().Runs == 0 || time.Now().After(deadline) {
				break
			}
		}
		again.send(`{"action":"get_conversation_messages","requestId":"m","sessionId":%q}`, session)
		list := again.until("immediate_response")
		for list[len(list)-1].text("requestId") != "m" {
			list = again.until("immediate_response")
		}
		newest := list[len(list)-1].text("data.messages.0.content.text")
		if want := map[bool]string{false: "the answer", true: "hi"}[stop]; newest != want {
			t.Errorf("SMO-169 stop %v: the newest message is %q", stop, newest)
		}
	}
}

func TestKeepalive(t *testing.T) {
	s := serve(t, func(e *edge.Site) { e.Smooth.Keepalive = 5 * time.Millisecond })
	gate := make(chan struct{})
	s.agent.gate = gate
	s.agent.says(text("whole"))
	c := s.dial("ann")
	session := c.session("").text("data.sessionId")
	c.say(session, "turn", "hi")
	for range 3 {
		if f := c.expect("keepalive"); f.text("requestId") != "turn" || f.text("data.requestId") != "turn" {
			t.Errorf("SMO-034 SMO-036 %s", f)
		}
	}
	close(gate)
	c.until("eventual_response")
	if f := c.within(50 * time.Millisecond); f != nil {
		t.Errorf("SMO-022 after the turn: %s", f)
	}
}

func TestCancelRaces(t *testing.T) {
	s := serve(t, nil)
	c := s.dial("ann")
	session := c.session("").text("data.sessionId")
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's own dice
	ended := map[string]int{}
	for n := range 150 {
		id := "turn" + strconv.Itoa(n)
		s.agent.says(text(strings.Repeat("word ", 40)))
		c.say(session, id, "go") // SMO-167: never TURN_IN_PROGRESS after a terminal
		for range rnd.IntN(20) {
			if f := c.next(); f.kind() != "stream_token" {
				ended[f.kind()]++
				goto over
			}
		}
		c.send(`{"action":"cancel","requestId":"x"}`)
		for {
			f := c.next()
			if f.text("requestId") != id {
				t.Fatalf("SMO-163 a frame of another turn: %s", f)
			}
			if f.kind() != "stream_token" {
				ended[f.kind()]++
				break
			}
		}
	over:
	}
	if ended["cancelled"] == 0 || ended["cancelled"]+ended["eventual_response"] != 150 {
		t.Errorf("SMO-020 SMO-168 each turn has one end: %v", ended)
	}
	c.silent("SMO-022 SMO-164 nothing follows the end")
	c.send(`{"action":"get_conversation_messages","requestId":"m","sessionId":%q,"limit":100}`, session)
	f := c.expect("immediate_response")
	list, _ := f.at("data.messages").([]any)
	inbound, outbound := 0, 0
	for _, m := range list {
		if frame(m.(map[string]any)).text("direction") == "inbound" {
			inbound++
		} else {
			outbound++
		}
	}
	if inbound == 0 || (ended["eventual_response"] == 0 && outbound > 0) {
		t.Errorf("SMO-103 SMO-165 the questions stay, what was stopped does not: %d and %d", inbound, outbound)
	}
}

func TestCancelStopsTheAgent(t *testing.T) {
	s := serve(t, nil)
	s.agent.gate = make(chan struct{})
	c := s.dial("ann")
	session := c.session("").text("data.sessionId")
	c.say(session, "q", "hi")
	c.send(`{"action":"cancel","requestId":"q"}`)
	c.expect("cancelled")
	deadline := time.After(patience)
	for s.hub.Stats().Runs > 0 {
		select {
		case <-deadline:
			t.Fatal("SMO-167 the agent's call goes on")
		case <-time.After(time.Millisecond):
		}
	}
	if calls := s.agent.calls; calls != 0 {
		t.Errorf("SMO-167 the agent went on: %d", calls)
	}
}

func TestDrain(t *testing.T) {
	s := serve(t, nil)
	gate := make(chan struct{})
	s.agent.gate = gate
	s.agent.says(text("whole"))
	busy, idle := s.dial("ann"), s.dial("ann")
	session := busy.session("").text("data.sessionId")
	idle.session("")
	busy.say(session, "q", "hi")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	drained := make(chan struct{})
	go func() { defer close(drained); s.hub.Drain(ctx, 0) }()
	<-idle.done
	if websocket.CloseStatus(idle.closed) != websocket.StatusGoingAway {
		t.Errorf("an idle connection at a drain: %v", idle.closed)
	}
	busy.silent("frames are answered while a turn is waited for")
	if _, _, err := websocket.Dial(ctx, s.url+"?token=ann", nil); err == nil {
		t.Error("a new connection at a drain")
	}
	close(gate)
	busy.until("eventual_response")
	<-busy.done
	<-drained
	if errors.Is(busy.closed, context.Canceled) {
		t.Error(busy.closed)
	}
}

func TestDrainLeavesWhatWaits(t *testing.T) {
	s := serve(t, nil)
	s.agent.says(call("request_identity_intake", `{"fields":[{"key":"email","required":true}]}`), text("x"))
	c := s.dial("ann")
	session := c.session(`,"supports":["identity_form"]`).text("data.sessionId")
	c.say(session, "q", "hi")
	c.until("interaction_required")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.hub.Drain(ctx, 0)
	<-c.done
	if ctx.Err() != nil || websocket.CloseStatus(c.closed) != websocket.StatusGoingAway {
		t.Errorf("SMO-159 a turn that waits holds no drain up: %v", c.closed)
	}
}

func TestRateLimit(t *testing.T) {
	for frame, request := range map[string]string{
		`{"action":"ping","requestId":"p"}`: "p",
		`{"action":"sing","requestId":"s"}`: "s",
		// Nor is nonsense looked at, and logged, as often as somebody likes.
		`nonsense`:                        "",
		`{"action":"ping","requestId":7}`: "",
		`{"requestId":"q"}`:               "q",
	} {
		c := serve(t, func(e *edge.Site) { e.Rules.CommandsPerSecond, e.Rules.CommandBurst = 0.001, 2 }).dial("")
		for range 2 {
			c.send(`{"action":"ping","requestId":"p"}`)
		}
		c.send("%s", frame)
		c.expect("pong")
		c.expect("pong")
		c.refused("SMO-127 too many frames", "RATE_LIMITED", request)
	}
}
