package smooth_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
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
	var log logged
	server := smooth.NewServer(smooth.Options{
		Desk:   broken{},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
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
	if l := log.String(); !strings.Contains(l, "action=get_session") || strings.Contains(l, anyAgent) {
		t.Errorf("SMO-128 what a client is not told is logged, and of it no more than what failed: %s", l)
	}
	_ = one.ws.Close(websocket.StatusNormalClosure, "")
}

// logged is a log that several write.
type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A turn runs as its own tenant's: no other, and no default, stands in for it.
func TestATurnIsItsTenants(t *testing.T) {
	s := serve(t, nil)
	for _, who := range []string{"ann@acme", "ann@evil", "ann", "bob@acme"} {
		name, tenant, _ := strings.Cut(who, "@")
		c := s.dial(who)
		session := c.session(`,"userName":"` + who + `"`).text("data.sessionId")
		s.agent.says(text("hello"))
		c.say(session, "turn", "I am "+who)
		c.until("eventual_response")
		call := s.agent.last()
		if call.Key.Realm != "default" || call.Key.Tenant != tenant || call.Origin.By.ID != name {
			t.Errorf("SMO-063 the turn of %s runs as %+v of %+v", who, call.Origin.By, call.Key)
		}
		if p := string(call.Origin.Props); p != `{"user":{"name":"`+who+`"}}` || len(call.Messages) != 1 || call.Messages[0].Content() != "I am "+who {
			t.Errorf("SMO-063 the agent of %s is given %s %v", who, p, call.Messages)
		}
	}
}

// stuck is a journal whose writes to one thread do not come back until it is freed.
type stuck struct {
	journal.Journal
	thread atomic.Value
	waits  chan struct{}
	free   chan struct{}
}

func (j *stuck) hold(ctx context.Context, key chat.Key) error {
	if key.Thread != j.thread.Load() {
		return nil
	}
	select {
	case j.waits <- struct{}{}:
	default:
	}
	select {
	case <-j.free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (j *stuck) Commit(ctx context.Context, c journal.Commit) (journal.Committed, error) {
	if err := j.hold(ctx, c.Key); err != nil {
		return journal.Committed{}, err
	}
	return j.Journal.Commit(ctx, c)
}

func (j *stuck) Append(ctx context.Context, a journal.Append) (journal.Appended, error) {
	if err := j.hold(ctx, a.Key); err != nil {
		return journal.Appended{}, err
	}
	return j.Journal.Append(ctx, a)
}

// A store that does not answer for one conversation holds up that one: neither
// other turns, nor readiness, nor what else its connection's edge is asked.
func TestAStuckStoreHoldsUpItsOwnTurn(t *testing.T) {
	j := &stuck{waits: make(chan struct{}, 1), free: make(chan struct{})}
	j.thread.Store("")
	s := &site{t: t, agent: new(script), guests: &guests{revoked: map[string]bool{}}}
	s.open = func() (journal.Journal, error) {
		below, err := filejournal.Open(t.Context(), filejournal.Options{Dir: t.TempDir()})
		j.Journal = below
		return j, err
	}
	s.config = configured(s)
	s.start()
	t.Cleanup(func() { s.stop() })
	one, two := s.dial("ann"), s.dial("ann")
	f := one.session("")
	session := f.text("data.sessionId")
	j.thread.Store(f.text("data.conversationId"))
	one.send(`{"action":"send_message","requestId":"stuck","sessionId":%q,"message":"hi"}`, session)
	<-j.waits
	other := two.session("").text("data.sessionId")
	s.agent.says(text("at once"))
	two.say(other, "free", "hi")
	two.until("eventual_response")
	two.send(`{"action":"get_conversation_messages","requestId":"m","sessionId":%q}`, session)
	if f := two.expect("immediate_response"); f.at("data.messages.0") != nil {
		t.Errorf("SMO-103 what the store has not taken is shown: %s", f)
	}
	if err := s.hub.Ready(t.Context()); err != nil {
		t.Errorf("SMO-128 readiness: %v", err)
	}
	s.agent.says(text("in the end"))
	close(j.free)
	if f := one.expect("immediate_response"); f.at("status") != 202.0 || f.text("requestId") != "stuck" {
		t.Errorf("SMO-089 %s", f)
	}
	one.until("eventual_response")
}

// What several connections are shown of one run is each one's own, whole and under
// its own name; and nothing may be published past that.
func TestEachMemberHasFramesOfItsOwn(t *testing.T) {
	s := serve(t, nil)
	owner := s.dial("ann")
	f := owner.session("")
	session, conversation := f.text("data.sessionId"), f.text("data.conversationId")
	watchers := make([]*client, 3)
	for i := range watchers {
		watchers[i] = s.dial("ann")
		watchers[i].session(`,"supports":["thread_watch"],"conversationId":"` + conversation + `"`)
	}
	const answer = "one – two – three 😀, and so on to the end of a longer answer"
	s.agent.says(scriptItem{Kind: "custom", Name: "directive", Value: []byte(`{"type":"go"}`)}, call("look", `{"at":1}`), text(answer))
	owner.say(session, "turn", "hi")
	for i, c := range append(watchers, owner) {
		said, name, calls := "", "", 0
		for _, f := range c.until("eventual_response") {
			if name = f.text("requestId"); (name == "turn") != (c == owner) || f.text("data.requestId") != name {
				t.Errorf("SMO-023 SMO-227 member %d is shown %s", i, f)
			}
			if said += f.text("token"); f.text("node") == "look" {
				calls++
			}
		}
		if list := c.tail(); said != answer || calls != 2 || list[len(list)-1].text("data.data.directive.type") != "go" {
			t.Errorf("SMO-027 member %d is shown %q, %d chunks of the call and %v", i, said, calls, list[len(list)-1])
		}
		c.silent("SMO-022 after the end")
	}
	for _, path := range []string{"/admin/publish", "/publish", "/ws"} {
		resp, err := http.Post(strings.Replace(strings.TrimSuffix(s.url, "/ws"), "ws", "http", 1)+path, "application/json", strings.NewReader(`{"type":"keepalive","data":{"requestId":"x"}}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusUpgradeRequired {
			t.Errorf("there is a way to publish at %s: %s", path, resp.Status)
		}
	}
}

// Two turns at once in one conversation, of two connections: both are answered, and
// the history has all of both.
func TestTwoTurnsAtOnce(t *testing.T) {
	s := serve(t, nil)
	gate := make(chan struct{})
	s.agent.gate = gate
	s.agent.says(text("an answer"), text("an answer"))
	one, two := s.dial("ann"), s.dial("ann")
	f := one.session("")
	session, conversation := f.text("data.sessionId"), f.text("data.conversationId")
	other := two.session(`,"conversationId":"` + conversation + `"`).text("data.sessionId")
	one.say(session, "one", "first")
	two.say(other, "two", "second")
	close(gate)
	for c, request := range map[*client]string{one: "one", two: "two"} {
		for _, f := range c.until("eventual_response") {
			if f.text("requestId") != request {
				t.Errorf("SMO-023 SMO-055 %s", f)
			}
		}
	}
	third := s.dial("ann") // whose view of the conversation is new
	third.send(`{"action":"get_conversation_messages","requestId":"m","sessionId":%q}`, session)
	f = third.expect("immediate_response")
	told := ""
	for i := range 4 {
		told += f.text("data.messages."+strconv.Itoa(3-i)+".content.text") + ";"
	}
	if told != "first;second;an answer;an answer;" || f.at("data.messages.4") != nil {
		t.Errorf("SMO-072 SMO-081 the history is %s", told)
	}
}
