package smooth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// What went wrong with servers of the protocol, where no other test holds it.

func TestATenantIsAWall(t *testing.T) {
	s := serve(t, nil)
	s.agent.says(text("secret"))
	ann := s.dial("ann@acme")
	f := ann.session("")
	session, conversation := f.text("data.sessionId"), f.text("data.conversationId")
	ann.say(session, "q", "hi")
	ann.until("eventual_response")
	for _, who := range []string{"ann@evil", "ann", "bob@acme"} {
		c := s.dial(who)
		for _, a := range []string{"get_session", "get_conversation_messages"} {
			c.send(`{"action":%q,"requestId":"f","sessionId":%q}`, a, session)
			c.refused("SMO-063 "+who, "SESSION_NOT_FOUND", "f")
		}
		if got := c.session(`,"conversationId":"` + conversation + `"`).text("data.conversationId"); got == conversation {
			t.Errorf("SMO-051 %s reads the conversation of another tenant", who)
		}
	}
	again := s.dial("ann@acme")
	if got := again.session(`,"conversationId":"` + conversation + `"`).text("data.conversationId"); got != conversation {
		t.Error("SMO-051 nobody is locked out of what is his")
	}
}

func TestAnAnswerThatEndsWithACallIsNotEmpty(t *testing.T) {
	s := serve(t, nil)
	c := s.dial("ann")
	session := c.session("").text("data.sessionId")
	s.agent.says(scriptItem{Kind: "part", Text: "I looked."}, call("look", "{}"), scriptItem{Kind: "end"})
	c.say(session, "q", "hi")
	list := c.until("eventual_response")
	end := list[len(list)-1]
	if end.text("data.data.response.responseParts.0") != "I looked." || end.at("data.data.response.responseParts.1") != nil {
		t.Errorf("SMO-118 %s", end)
	}
	if end.at("data.data.usage") != nil {
		t.Errorf("SMO-120 the agent reported none: %s", end)
	}
	s.agent.says(scriptItem{Kind: "reasoning", Text: "hm"}, scriptItem{Kind: "end"})
	c.say(session, "r", "hi")
	list = c.until("eventual_response")
	if end := list[len(list)-1]; end.at("data.data.response.responseParts.0") != nil || end.at("data.data.messageId") == nil {
		t.Errorf("SMO-136 thinking is no answer: %s", end)
	}
}

func TestValuesOfNull(t *testing.T) {
	s := serve(t, nil)
	c := s.dial("ann")
	session := c.session(`,"supports":["choice_chips"]`).text("data.sessionId")
	s.agent.says(call("request_choices", `{"questions":[{"question":"Which?","header":"Which","options":[{"label":"a"},{"label":"b"}]}]}`), text("well"))
	c.say(session, "q", "hi")
	id := c.expect("interaction_required").text("data.data.interactionId")
	c.expect("stream_chunk")
	for _, values := range []string{`{"answers":null}`, `{"answers":[null]}`, `{"answers":{}}`, `{"answers":[{"header":"Which","options":null}]}`, `{}`} {
		c.send(`{"action":"submit_interaction","requestId":"s","sessionId":%q,"interactionId":%q,"values":%s}`, session, id, values)
		if f := c.expect("interaction_invalid"); f.at("data.data.errors.0") == nil {
			t.Errorf("SMO-182 %s: %s", values, f)
		}
	}
	c.send(`{"action":"submit_interaction","requestId":"s","sessionId":%q,"interactionId":%q,"values":{"answers":[{"header":"Which","options":["a"]}]}}`, session, id)
	c.expect("immediate_response")
	c.until("eventual_response")
}

// broken is a desk on which everything panics, and a site that admits everybody.
type broken struct {
	dialect.Desk
	dialect.Site
}

func (broken) Name() string         { return "broken" }
func (broken) Rules() dialect.Rules { return dialect.Rules{} }
func (broken) Admit(context.Context, identity.Credentials) (identity.Principal, error) {
	return person("ann"), nil
}
func (broken) Recheck(identity.Principal, time.Time) error { return nil }

func TestAPanicHurtsNobodyElse(t *testing.T) {
	server := smooth.NewServer(smooth.Options{
		Desk:   broken{},
		Config: func(string) (*smooth.Config, string) { return &smooth.Config{}, "default" },
		Secret: func(context.Context, string) ([]byte, error) { return []byte("secret"), nil },
	})
	defer server.Close()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.Accept(w, r, &dialect.Visit{Site: broken{}}, nil)
	}))
	defer h.Close()
	s := &site{t: t, url: strings.Replace(h.URL, "http", "ws", 1)}
	one, two := s.dial(""), s.dial("")
	one.send(`{"action":"get_session","requestId":"g","sessionId":%q}`, anyAgent)
	one.refused("SMO-127 SMO-128 a panic", "INTERNAL_ERROR", "g")
	for _, c := range []*client{one, two} {
		c.silent("SMO-128 the connections stay")
	}
	_ = one.ws.Close(websocket.StatusNormalClosure, "")
}
