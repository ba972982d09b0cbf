package pingerchips_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/agent/echo"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/pingerchips"
	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// falling is a desk on which loading messages panics, while told to.
type falling struct {
	dialect.Desk
	mu    sync.Mutex
	falls bool
}

func (d *falling) Messages(ctx context.Context, p identity.Principal, thread string, st *chat.State, from, to int) ([]*chat.Message, error) {
	d.mu.Lock()
	falls := d.falls
	d.mu.Unlock()
	if falls {
		panic("on request")
	}
	return d.Desk.Messages(ctx, p, thread, st, from, to)
}

// PIN-009: a command that panics ends its channel alone, in the way that its
// client joins again from.
func TestACommandThatPanics(t *testing.T) {
	d := &falling{}
	s := apart(t, func(o *pingerchips.Options) { d.Desk = o.Desk; o.Desk = d })
	k := s.dial()
	auth := `{"auth":` + quote(s.token("ann")) + `}`
	one, _, _ := k.attempt(topicOf("t1"), auth)
	two, _, _ := k.attempt(topicOf("t2"), auth)
	one.send("m1", "/slow")
	d.mu.Lock()
	d.falls = true
	d.mu.Unlock()
	one.ask("load_older", `{}`)
	one.wait("PIN-009 phx_error", func() bool { return one.closed == "phx_error" })
	d.mu.Lock()
	d.falls = false
	d.mu.Unlock()
	two.talk("m2", "hi") // on the same socket
	back, _, reason := k.attempt(topicOf("t1"), auth)
	if reason != "" {
		t.Fatalf("PIN-009 it cannot join again: %s", reason)
	}
	back.ok("cancel", `{"runId":"r-m1"}`)
	back.over(0, "r-m1")
}

// PIN-038: a token that runs out under a member changes nothing for it; the next
// join needs a fresh one.
func TestTokenRunsOut(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	s := apart(t, func(o *pingerchips.Options) {
		o.RecheckEvery = time.Millisecond
		o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	token := s.mint(0, identity.AppClaims{ClientID: "ann", Cap: []string{"chat:subscribe:*", "chat:publish:user_message:*"}, Expires: now.Unix() + 60})
	w := s.joinAs("t1", token)
	mu.Lock()
	now = now.Add(2 * time.Hour)
	mu.Unlock()
	w.talk("m1", "hi")
	w.ok("load_older", `{}`)
	if _, _, reason := s.attempt(topicOf("t1"), `{"auth":`+quote(token)+`}`); reason != "invalid token" {
		t.Errorf("PIN-038 PIN-036 a join with a token that ran out: %q", reason)
	}
	w.ok("load_older", `{}`)
}

// PIN-073: a snapshot names the runs that live and those of its own messages, and
// no other.
func TestRunsOfASnapshot(t *testing.T) {
	s := serve(t, nil)
	w := s.join("t1", "ann")
	for i := range 30 {
		w.talk(fmt.Sprintf("m%02d", i), "hi")
	}
	w.send("live", "/slow")
	w.after(0, "its start", about("r-live", "run:start"))
	c := newClient(t, "PIN-073")
	c.frames(s.join("t1", "late").all())
	want := map[string]bool{"run:r-live": true}
	for _, m := range messagesOf(t, c) {
		want["run:"+m.RunID] = true
	}
	for k := range c.slots {
		if strings.HasPrefix(k, "run:") && !want[k] {
			t.Errorf("PIN-073 the snapshot has %s", k)
		}
		delete(want, k)
	}
	if len(want) != 0 || c.slots["run:r-m00"] != "" {
		t.Errorf("PIN-073 the snapshot lacks %v", want)
	}
	w.ok("cancel", `{"runId":"r-live"}`)
}

// PIN-114: what others do to the tree moves nobody's view, and nobody is sent one
// who did not ask.
func TestViewsAreNotPushed(t *testing.T) {
	s := serve(t, nil)
	w, v := s.join("t1", "ann"), s.join("t1", "bob")
	w.talk("m1", "one")
	w.ok("branch:select", `{"messageId":"m1","selectedId":"m1"}`)
	w.after(0, "its own", event("view:update"))
	n, m := w.count(), v.count()
	v.ok("edit", `{"messageId":"m1","newMessageId":"m1b","runId":"r-m1b","text":"two"}`)
	v.over(m, "r-m1b")
	w.over(n, "r-m1b")
	w.ok("tree:get", `{}`)
	v.ok("tree:get", `{}`)
	for _, f := range append(w.all()[n:], v.all()...) {
		if f.event == "view:update" {
			t.Errorf("PIN-111 PIN-114 somebody is sent %s", f.payload)
		}
	}
	if got := idsOf(w.ok("view:get", `{}`).Messages); !strings.HasPrefix(got, "m1 ") {
		t.Errorf("PIN-114 the view has moved to %s", got)
	}
}

// PIN-142 PIN-144: a run that no agent has taken up yet can be cancelled: there
// is no answer, and the entry has all four slots.
func TestCancelPending(t *testing.T) {
	s := serve(t, inboundSite(0))
	w := s.join("t1", "ann")
	w.send("m1", "hello")
	from := w.count()
	if f := w.call("cancel", `{"runId":"r-m1"}`); !f.ok {
		t.Fatalf("PIN-142 %s", f.payload)
	}
	list := w.over(from, "r-m1")
	if end := read(t, list[len(list)-2]); !strings.Contains(string(end.raw), `"reason":"cancelled"`) {
		t.Errorf("PIN-144 it ends as %s", end.raw)
	}
	c := newClient(t, "PIN-144")
	c.frames(w.all()) // which holds the four slots and the absent stream
	if n := len(messagesOf(t, c)); n != 1 || infoOf(t, c, "r-m1").Status != "cancelled" || c.slots["last_message_id"] != `"m1"` {
		t.Errorf("PIN-144 there are %d messages, the run is %s", n, c.slots["run:r-m1"])
	}
	w.refuses("PIN-139", "cancel", `{"runId":"r-m1"}`, "already_ended")
}

// PIN-185: the limit is for runs that are to work, also those that nobody takes
// up; one that waits for a person is left alone.
func TestRunTimeoutOfOthers(t *testing.T) {
	s := serve(t, func(c *edge.Site) { c.Limits.RunTimeout = 300 * time.Millisecond })
	w := s.join("t1", "ann")
	w.send("m1", "/ask")
	asked := w.after(0, "run:suspend", about("r-m1", "run:suspend"))
	w.talk("m2", "/slow") // begins later, and is cancelled by its time
	c := newClient(t, "PIN-185")
	c.frames(w.all())
	if i := infoOf(t, c, "r-m1"); i.Status != "suspended" {
		t.Errorf("PIN-185 a run that waits is %s", i.Status)
	}
	q := read(t, asked[len(asked)-1])
	w.ok("tool_approval", `{"runId":"r-m1","toolCallId":`+quote(q.ToolCallID)+`,"approved":true}`)
	w.over(0, "r-m1")

	s = serve(t, func(c *edge.Site) { inboundSite(0)(c); c.Limits.RunTimeout = 100 * time.Millisecond })
	w = s.join("t1", "ann")
	list := w.talk("m1", "nobody is there")
	if end := read(t, list[len(list)-2]); !strings.Contains(string(end.raw), `"reason":"cancelled"`) {
		t.Errorf("PIN-185 a run that nobody took up ends as %s", end.raw)
	}
}

// listener is an agent that remembers what it was given.
type listener struct {
	agent.Agent
	mu    sync.Mutex
	given map[string][]string
}

func (l *listener) Run(ctx context.Context, call *agent.Call, emit func(agent.Event) error) agent.Outcome {
	var ids []string
	for _, m := range call.Messages {
		ids = append(ids, m.ID)
	}
	l.mu.Lock()
	l.given[call.Run] = ids
	l.mu.Unlock()
	return l.Agent.Run(ctx, call, emit)
}

func (l *listener) of(run string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.given[run], " ")
}

// PIN-245: an agent is given the path that ends in the message that it answers,
// whatever anybody has chosen.
func TestAgentsView(t *testing.T) {
	l := &listener{Agent: echo.New(echo.Config{Delay: time.Millisecond}), given: map[string][]string{}}
	s := serve(t, func(c *edge.Site) { c.Agents = []edge.NamedAgent{{Name: "listener", Agent: l}} })
	w, v := s.join("t1", "ann"), s.join("t1", "bob")
	w.talk("m1", "one")
	a1 := w.answerOf("m1")
	n := w.count()
	w.ok("edit", `{"messageId":"m1","newMessageId":"m1b","runId":"r-m1b","text":"uno"}`)
	w.over(n, "r-m1b")
	b1 := w.answerOf("m1b")
	w.ok("branch:select", `{"messageId":"m1","selectedId":"m1b"}`)
	w.talk("m2", "two", `"parentId":`+quote(a1)) // beside what its sender looks at
	v.talk("m3", "three")
	n = w.count()
	w.ok("regenerate", `{"messageId":`+quote(a1)+`,"runId":"r-again"}`)
	w.over(n, "r-again")
	for run, want := range map[string]string{
		"r-m1": "m1", "r-m1b": "m1b", "r-m2": "m1 " + a1 + " m2", "r-m3": "m1b " + b1 + " m3", "r-again": "m1",
	} {
		if got := l.of(run); got != want {
			t.Errorf("PIN-245 the agent of %s is given %q, want %q", run, got, want)
		}
	}
}

// PIN-067: a cursor that is older than what is kept brings no replay at all; one
// that is not older brings all of it.
func TestReplayOfATrimmedThread(t *testing.T) {
	j := open(t)
	s := on(t, j, nil)
	w := s.join("t1", "ann")
	w.talk("m1", "hi")
	c := newClient(t, "before")
	c.frames(w.all())
	floor := c.log
	trim(t, j, "t1")
	w.talk("m2", "there")
	c = newClient(t, "all")
	c.frames(w.all())
	two := on(t, j, nil)
	for k := uint64(0); k <= c.log; k++ {
		v := two.join("t1", "bob", after(k))
		got, want := len(v.all())-2, int(c.log-k)
		if k < floor {
			want = 0
		}
		if got != want {
			t.Errorf("PIN-067 PIN-060 the log is kept from %d: after %d come %d entries, want %d", floor, k, got, want)
		}
	}
}

// PIN-232 PIN-234: groups, unlinked messages and circles.
func TestTreeOfAnyShape(t *testing.T) {
	m := func(id, parent, fork string) *chat.Message {
		return &chat.Message{ID: id, Parent: parent, ForkOf: fork}
	}
	for _, c := range []struct {
		name   string
		list   []*chat.Message
		chosen map[string]string
		view   string
		groups map[string]string // of a message: its siblings
	}{
		{
			"PIN-234 unlinked messages of one parent are all kept",
			[]*chat.Message{m("a", "", ""), m("b", "a", ""), m("c", "a", ""), m("d", "b", "")},
			nil, "a b c d",
			map[string]string{"b": "b", "c": "c"},
		},
		{
			"PIN-232 PIN-233 the newest of a group",
			[]*chat.Message{m("a", "", ""), m("b", "", "a"), m("c", "", "b"), m("x", "a", ""), m("y", "c", "")},
			nil, "c y",
			map[string]string{"a": "a b c", "b": "a b c", "c": "a b c"},
		},
		{
			"PIN-233 or the one that was chosen",
			[]*chat.Message{m("a", "", ""), m("b", "", "a"), m("c", "", "b"), m("x", "a", ""), m("y", "c", "")},
			map[string]string{"a": "a"},
			"a x", nil,
		},
		{
			"PIN-234 what hangs under another branch is not shown",
			[]*chat.Message{m("a", "", ""), m("x", "a", ""), m("b", "", "a"), m("y", "x", "")},
			nil, "b", nil,
		},
		{
			"PIN-232 a link under another parent makes no group",
			[]*chat.Message{m("a", "", ""), m("b", "a", ""), m("c", "a", "a")},
			nil, "a b c",
			map[string]string{"a": "a", "c": "c"},
		},
		{
			"PIN-234 circles are cut",
			[]*chat.Message{m("a", "", "b"), m("b", "", "a"), m("c", "b", ""), m("d", "", "d")},
			nil, "", nil,
		},
		{
			"PIN-234 a choice that is gone counts for nothing",
			[]*chat.Message{m("a", "", ""), m("b", "", "a")},
			map[string]string{"a": "zzz"},
			"b", nil,
		},
	} {
		view, groups := pingerchips.ViewOf(c.list, c.chosen)
		if c.name == "PIN-234 circles are cut" {
			if len(view) == 0 {
				t.Errorf("%s: nothing is shown", c.name)
			}
			continue // it ends, and shows something
		}
		if got := strings.Join(view, " "); got != c.view {
			t.Errorf("%s: the view is %q, want %q", c.name, got, c.view)
		}
		for id, want := range c.groups {
			if got := strings.Join(groups[id], " "); got != want {
				t.Errorf("%s: the group of %s is %q, want %q", c.name, id, got, want)
			}
		}
	}
}

// PIN-255: a refusal for being too fast is told, costs nothing else, and passes.
func TestRateIsTold(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	s := apart(t, func(o *pingerchips.Options) {
		o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	s.config.Rules = dialect.Rules{CommandsPerSecond: 1, CommandBurst: 2}
	w := s.join("t1", "ann") // takes one
	w.ok("load_older", `{}`)
	w.refuses("PIN-255", "send", `{"messageId":"m","runId":"r","text":"x"}`, "rate limited")
	mu.Lock()
	now = now.Add(5 * time.Second)
	mu.Unlock()
	if r := w.ok("view:get", `{}`); len(r.Messages) != 0 || *r.LogID != 0 {
		t.Errorf("PIN-034 PIN-255 a refused command had an effect: %s", r.raw)
	}
	w.ok("send", `{"messageId":"m","runId":"r","text":"x"}`)
}

// PIN-253: what is asked with a schema of its own is answered in its words.
func TestApprovalInItsOwnWords(t *testing.T) {
	for schema, want := range map[string]string{
		``:                   `true`,
		`{"type":"boolean"}`: `true`,
		`{"type":"object","properties":{"approved":{"type":"boolean"}},"required":["approved"]}`: `{"approved":true}`,
	} {
		status, v, err := pingerchips.Settle(&chat.Interrupt{Kind: chat.InterruptApproval, Schema: jsontext.Value(schema)}, true)
		if err != nil || status != chat.InterruptAnswered || string(v) != want {
			t.Errorf("PIN-170 an approval of %s is %s %s %v", schema, status, v, err)
		}
	}
	for _, kind := range []chat.InterruptKind{chat.InterruptQuestion, chat.InterruptClientTool} {
		if _, _, err := pingerchips.Settle(&chat.Interrupt{Kind: kind}, true); err == nil || err.Error() != "answer_required" {
			t.Errorf("PIN-253 yes to a %s: %v", kind, err)
		}
		if status, _, err := pingerchips.Settle(&chat.Interrupt{Kind: kind}, false); err != nil || status != chat.InterruptDeclined {
			t.Errorf("PIN-253 no to a %s: %s %v", kind, status, err)
		}
	}
	odd := &chat.Interrupt{Kind: chat.InterruptApproval, Schema: jsontext.Value(`{"type":"object","required":["amount"]}`)}
	if _, _, err := pingerchips.Settle(odd, true); err == nil {
		t.Error("PIN-253 an approval that needs more is given without it")
	}
}

// Every refusal that rules and conductor know has its word here, and none is told
// as a fault of ours.
func TestRefusalsHaveWords(t *testing.T) {
	for _, c := range []struct {
		err  error
		word string
	}{
		{chat.ErrNoThread, "not_found"},
		{chat.ErrUnknownRun, "not_found"},
		{chat.ErrNotWaiting, "not_found"},
		{chat.ErrNoMessage, "not_found"},
		{chat.ErrForkPoint, "not_found"},
		{chat.ErrForkRole, "invalid_target"},
		{chat.ErrParent, "invalid_parent"},
		{chat.ErrNoParent, "parent_not_found"},
		{chat.ErrDuplicateRun, "run_exists"},
		{chat.ErrTooManyRuns, "too many runs"},
		{chat.ErrReserved, "invalid payload"},
		{chat.ErrForeignRun, "forbidden"},
		{chat.ErrRunEnded, "already_ended"},
		{chat.ErrNotSuspended, "not_suspended"},
		{chat.ErrDecided, "already_decided"},
		{conductor.ErrBusy, "busy"},
		{conductor.ErrPages, "archive_unavailable"},
		{conductor.ErrUnavailable, "internal"},
	} {
		if got := pingerchips.Refusal(fmt.Errorf("detail: %w", c.err)); got != c.word {
			t.Errorf("%v is told as %q, want %q", c.err, got, c.word)
		}
		if err := pingerchips.Validate("error", []byte(`{"reason":`+quote(c.word)+`}`)); err != nil {
			t.Error(err)
		}
	}
	if !slices.Contains([]string{"internal"}, pingerchips.Refusal(context.Canceled)) {
		t.Error("a fault has another word")
	}
}
