package smooth_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/edge"
)

func TestExtras(t *testing.T) {
	s := serve(t, func(e *edge.Site) { e.Smooth.Extras = true })
	c := s.dial("ann")
	var threads []string
	for _, words := range []string{"the first one", strings.Repeat("é", 70), "third"} {
		f := c.session("")
		threads = append(threads, f.text("data.conversationId"))
		s.agent.says(text("ok"))
		c.say(f.text("data.sessionId"), "q", words)
		c.until("eventual_response")
	}
	c.session("") // has no message
	list := func(c *client, more string) frame {
		c.send(`{"action":"list_conversations","requestId":"l"%s}`, more)
		f := c.expect("immediate_response")
		if f.text("requestId") != "l" || f.at("status") != 200.0 {
			t.Errorf("SMO-229 %s", f)
		}
		return f
	}
	f := list(c, "")
	for n, want := range []struct{ id, title string }{{threads[2], "third"}, {threads[1], strings.Repeat("é", 60)}, {threads[0], "the first one"}} {
		at := "data.conversations." + string(rune('0'+n))
		if f.text(at+".conversationId") != want.id || f.text(at+".title") != want.title || f.at(at+".messageCount") != 2.0 {
			t.Errorf("SMO-229 %d: %s", n, f)
		}
		if _, err := time.Parse(time.RFC3339, f.text(at+".updatedAt")); err != nil {
			t.Errorf("SMO-229 %v", err)
		}
	}
	if f.at("data.conversations.3") != nil {
		t.Errorf("SMO-229 a conversation without a message: %s", f)
	}
	if f := list(c, `,"limit":1`); f.at("data.conversations.1") != nil || f.at("data.conversations.0") == nil {
		t.Errorf("SMO-229 a limit: %s", f)
	}
	c.send(`{"action":"list_conversations","requestId":"l","limit":0}`)
	c.refused("SMO-229 a limit of none", "VALIDATION_ERROR", "l")
	c.send(`{"action":"rename_conversation","requestId":"r","conversationId":%q,"title":" My \n bills "}`, threads[0])
	if f := c.expect("immediate_response"); f.text("data.title") != "My bills" {
		t.Errorf("SMO-229 %s", f)
	}
	if f := list(c, ""); f.text("data.conversations.0.title") != "My bills" || f.text("data.conversations.0.conversationId") != threads[0] {
		t.Errorf("SMO-229 a new title: %s", f)
	}
	// It is the thread's, and so is what Pilotoo's routes show.
	if all, _, err := s.hub.Desk().List(t.Context(), person("ann"), "", 10); err != nil || len(all) != 4 || all[3].Title != "My bills" || all[3].ID != threads[0] {
		t.Errorf("SMO-229 PIL-198 the owner's list: %+v %v", all, err)
	}
	if th, err := s.hub.Desk().Get(t.Context(), person("ann"), threads[0]); err != nil || th.Title != "My bills" {
		t.Errorf("SMO-229 PIL-198 the thread: %+v %v", th, err)
	}
	bob, nobody := s.dial("bob"), s.dial("")
	for _, id := range []string{threads[0], "99999999-9999-4999-8999-999999999999"} {
		bob.send(`{"action":"rename_conversation","requestId":"r","conversationId":%q,"title":"mine"}`, id)
		bob.refused("SMO-229 a foreign and an unknown conversation", "CONVERSATION_NOT_FOUND", "r")
	}
	nobody.session("")
	for _, c := range []*client{bob, nobody} {
		if f := list(c, ""); f.at("data.conversations.0") != nil {
			t.Errorf("SMO-229 others' conversations: %s", f)
		}
	}
}

func TestAgentsThatArePages(t *testing.T) {
	s := serve(t, func(e *edge.Site) {
		e.Agents = append(e.Agents, edge.NamedAgent{Name: "widget", Agent: e.Agents[0].Agent}, edge.NamedAgent{Name: "inner", Agent: e.Agents[0].Agent})
		e.Origins = func(string, *http.Request) bool { return true }
		e.Smooth.Allowed = []string{"helper", "widget"}
		e.Smooth.Origins = map[string]func(string) bool{"widget": func(o string) bool { return o == "https://shop.example" }}
	})
	for _, c := range []struct{ agent, origin, code string }{
		{"helper", "", ""},
		{"helper", "https://evil.example", ""},
		{"widget", "https://shop.example", ""},
		{"widget", "https://evil.example", "ORIGIN_NOT_ALLOWED"},
		{"widget", "", "ORIGIN_NOT_ALLOWED"},
		{"inner", "https://shop.example", "AGENT_NOT_AUTHORIZED"},
		{"nobody", "", "VALIDATION_ERROR"},
	} {
		ws, _, err := websocket.Dial(t.Context(), s.url+"?token=ann", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {c.origin}}})
		if err != nil {
			t.Fatal(err)
		}
		d := &client{t: t, ws: ws, done: make(chan struct{}), bell: make(chan struct{}, 1)}
		go d.listen()
		d.send(`{"action":"create_conversation_session","requestId":"c","agentId":%q}`, c.agent)
		if f := d.next(); f.text("error.code") != c.code || (f.text("data.sessionId") == "") != (c.code != "") {
			t.Errorf("SMO-052 %+v: %s", c, f)
		}
		d.close()
	}
	// A conversation has its agent already, whatever agent is named with it.
	d := s.dial("ann")
	for _, c := range []struct{ agent, code string }{{"helper", ""}, {"inner", "AGENT_NOT_AUTHORIZED"}, {"widget", "ORIGIN_NOT_ALLOWED"}} {
		th, err := s.hub.Desk().Create(t.Context(), person("ann"), dialect.NewThread{Agent: c.agent})
		if err != nil {
			t.Fatal(err)
		}
		d.send(`{"action":"create_conversation_session","requestId":"c","agentId":"helper","conversationId":%q}`, th.ID)
		if f := d.next(); f.text("error.code") != c.code {
			t.Errorf("SMO-052 a conversation of %s: %s", c.agent, f)
		}
	}
}

// TestWhatWasStoppedIsForgotten: the agent's history is the one that is shown.
func TestWhatWasStoppedIsForgotten(t *testing.T) {
	s := serve(t, nil)
	c := s.dial("ann")
	session := c.session("").text("data.sessionId")
	s.agent.says(scriptItem{Kind: "part", Text: "half of it"}, scriptItem{Kind: "wait"})
	c.say(session, "one", "first")
	for said := ""; said != "half of it"; {
		said += c.expect("stream_token").text("token")
	}
	c.send(`{"action":"cancel"}`)
	c.expect("cancelled")
	s.still()
	s.agent.says(scriptItem{Kind: "part", Text: "broken"}, scriptItem{Kind: "fail", Name: "BOOM", Text: "it broke"})
	c.say(session, "two", "second")
	if list := c.until("error"); list[len(list)-1].text("error.code") != "AGENT_ERROR" {
		t.Errorf("SMO-129 %v", list)
	}
	s.agent.says(text("whole"))
	c.say(session, "three", "third")
	c.until("eventual_response")
	s.agent.says(text("whole too"))
	c.say(session, "four", "fourth")
	c.until("eventual_response")
	told := ""
	for _, m := range s.agent.last().Messages {
		told += string(m.Role) + ":" + m.Content() + " "
	}
	if told != "user:first user:second user:third assistant:whole user:fourth " {
		t.Errorf("SMO-129 SMO-165 the agent is told %s", told)
	}
}
