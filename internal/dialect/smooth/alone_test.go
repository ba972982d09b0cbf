package smooth_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/edge"
)

// leave closes the connection, and waits until the edge knows that nobody is there.
func (c *client) leave(s *site) {
	c.t.Helper()
	c.close()
	s.wait("the socket is gone", func() bool { return s.hub.Stats().Sockets == 0 })
}

// wait waits until something holds.
func (s *site) wait(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: it does not come", what)
		}
	}
}

// TestATurnGoesOnWhereNobodyIs: what a client cannot be asked, or need not be, is
// settled though it is gone; nobody has to come back for it.
func TestATurnGoesOnWhereNobodyIs(t *testing.T) {
	key := []byte("a key that only the back end has")
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	m := hmac.New(sha256.New, key)
	m.Write([]byte("ann" + stamp))
	vouched := `,"authContext":{"userId":"ann","signature":"` + hex.EncodeToString(m.Sum(nil)) + `","timestamp":` + stamp + `}`
	ask := scriptItem{Kind: "ask", Value: []byte(`{"message":"How many?"}`), Arguments: `{"type":"object"}`}
	for _, c := range []struct {
		name, session string
		codes         bool
		asks          scriptItem
		status        chat.InterruptStatus
		answer        string
	}{
		{"SMO-176 a card", "", true, call("request_identity_intake", intakeRaise), chat.InterruptAnswered, `{"mode":"conversational","kind":"identity_intake"`},
		{"SMO-176 a raise that makes no sense", "", true, call("request_choices", `{}`), chat.InterruptAnswered, `"Error: `},
		{"SMO-176 a question with a schema", "", true, ask, chat.InterruptDeclined, ""},
		{"SMO-042 SMO-209 a code of whom the back end vouches for", vouched, true, askForCode, chat.InterruptAnswered, `{"verified":true,"by":"auth_context"}`},
		{"SMO-204 a code without a service", `,"userEmail":"ann@example.com"`, false, askForCode, chat.InterruptDeclined, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, func(e *edge.Site) {
				e.Smooth.AuthKey, e.Smooth.Park = key, -1
				if c.codes {
					e.Smooth.Codes = &host{left: 1}
				}
			})
			one := s.dial("ann")
			session := one.session(c.session).text("data.sessionId")
			gate := make(chan struct{})
			s.agent.gate = gate
			s.agent.says(c.asks, text("as you like"))
			one.say(session, "turn", "hi")
			one.leave(s)
			close(gate)
			s.wait("the turn's end", func() bool { return len(s.agent.calledWith()) == 2 && s.hub.Stats().Runs == 0 })
			if a := s.agent.last().Answers; len(a) != 1 || a[0].Status != c.status || !strings.HasPrefix(string(a[0].Answer), c.answer) || (c.answer == "") != (len(a[0].Answer) == 0) {
				t.Errorf("the agent hears %+v", a)
			}
			two := s.dial("ann")
			two.send(`{"action":"get_conversation_messages","requestId":"h","sessionId":%q}`, session)
			if f := two.expect("immediate_response"); f.text("data.messages.0.content.text") != "as you like" {
				t.Errorf("SMO-169 the turn has not ended: %s", f)
			}
		})
	}
}

// TestWhoTookTheTurnUpIsAsked: what can be shown is what the connection can show
// that shows the turn now.
func TestWhoTookTheTurnUpIsAsked(t *testing.T) {
	for _, c := range []struct {
		name, first, second string
		card                bool
	}{
		{"SMO-049 a form, by who can show it", `,"supports":[]`, `,"supports":["identity_form"]`, true},
		{"SMO-049 SMO-176 a form, by who cannot", `,"supports":["identity_form"]`, `,"supports":[]`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, nil)
			gate := make(chan struct{})
			s.agent.gate = gate
			s.agent.says(call("request_identity_intake", intakeRaise), text("thanks"))
			first, second := s.dial("ann"), s.dial("ann")
			f := first.session(c.first)
			session, conversation := f.text("data.sessionId"), f.text("data.conversationId")
			first.say(session, "turn", "a quote")
			second.session(`,"conversationId":"` + conversation + `"` + c.second)
			close(gate)
			f = second.next()
			if (f.kind() == "interaction_required") != c.card {
				t.Fatalf("%s", f)
			}
			if c.card {
				second.expect("stream_chunk")
				second.submitEmail(session, f.text("data.data.interactionId"))
			}
			second.until("eventual_response")
			first.silent("SMO-159 the former connection gets nothing more")
		})
	}
}

// TestWhatWasSaidBeforeAParkIsKept: the answer's last frame has it, also where
// another edge's process shows that.
func TestWhatWasSaidBeforeAParkIsKept(t *testing.T) {
	s := serve(t, func(e *edge.Site) { e.Smooth.Park = -1 })
	first := s.dial("ann")
	session := first.session("").text("data.sessionId")
	custom := func(name, value string) scriptItem {
		return scriptItem{Kind: "custom", Name: name, Value: []byte(value)}
	}
	s.agent.load(setup{Confirm: []string{"wipe"}}, []scriptItem{
		custom("citations", `[{"id":"a","title":"A","snippet":"s","score":1}]`),
		custom("directive", `{"type":"old"}`), custom("directive", `{"type":"go"}`),
		custom("escalation", `{"needsEscalation":true,"escalationReason":"angry"}`),
		custom("response", `{"requestSummary":"all of it"}`),
		call("wipe", "{}"),
		custom("citations", `[{"id":"a","title":"A","snippet":"s","score":1},{"id":"b","title":"B","snippet":"s","score":1}]`),
		text("wiped"),
	})
	first.say(session, "turn", "wipe it")
	first.until("write_confirmation_required")
	first.close()
	s.stop()
	s.start()
	second := s.dial("ann")
	second.send("%s", getSession(s, session, ""))
	second.expect("immediate_response")
	second.expect("write_confirmation_required")
	second.send(`{"action":"confirm_tool_action","requestId":"turn","sessionId":%q,"approved":true}`, session)
	list := second.until("eventual_response")
	f := list[len(list)-1]
	if f.text("data.data.citations.0.id") != "a" || f.text("data.data.citations.1.id") != "b" || f.at("data.data.citations.2") != nil {
		t.Errorf("SMO-121 %s", f)
	}
	if f.text("data.data.directive.type") != "go" {
		t.Errorf("SMO-122 the last one wins: %s", f)
	}
	if f.at("data.data.needsEscalation") != true || f.text("data.data.escalationReason") != "angry" || f.text("data.data.response.requestSummary") != "all of it" {
		t.Errorf("SMO-116 SMO-119 %s", f)
	}
}
