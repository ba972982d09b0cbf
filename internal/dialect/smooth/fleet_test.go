package smooth_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// clock is a clock that a test may put forward.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) forward(d time.Duration) { c.ahead.Add(int64(d)) }

// pair starts two edges of one site on one Redis, whose clock the test has.
func pair(t *testing.T, change func(*edge.Site)) (a, b *site, store *redistest.Server, watch *clock) {
	t.Helper()
	store, watch = redistest.Start(t), new(clock)
	open := func() (journal.Journal, error) {
		return redisjournal.Open(redisjournal.Options{Addresses: []string{store.Addr()}})
	}
	a = &site{t: t, agent: new(script), guests: &guests{revoked: map[string]bool{}}, open: open, now: watch.now}
	a.config = configured(a)
	if change != nil {
		change(a.config)
	}
	other := *a
	b = &other
	for _, s := range []*site{a, b} {
		s.start()
		t.Cleanup(func() { s.stop() })
	}
	return a, b, store, watch
}

func TestATurnIsTakenOverOnAnotherEdge(t *testing.T) {
	for _, how := range []struct {
		name string
		ask  func(s *site, session, conversation string) string
	}{
		{"SMO-159 get_session", getSession},
		{"SMO-159 create with the conversation", createAgain},
	} {
		t.Run(how.name, func(t *testing.T) {
			a, b, _, _ := pair(t, nil)
			gate := make(chan struct{})
			a.agent.gate = gate
			a.agent.says(text("whole"))
			first := a.dial("ann")
			f := first.session("")
			session, conversation := f.text("data.sessionId"), f.text("data.conversationId")
			first.say(session, "turn", "hi")
			second := b.dial("ann")
			second.send("%s", how.ask(b, session, conversation))
			f = second.expect("immediate_response")
			if f.text("data.conversationId") != conversation {
				t.Fatalf("SMO-051 SMO-062 the conversation is not found at another edge: %s", f)
			}
			second.send(`{"action":"send_message","requestId":"two","sessionId":%q,"message":"x"}`, f.text("data.sessionId"))
			second.refused("SMO-159 the turn taken over has the slot", "TURN_IN_PROGRESS", "two")
			first.freed(f.text("data.sessionId"))
			close(gate)
			said := ""
			for _, f := range second.until("eventual_response") {
				if f.text("requestId") != "turn" {
					t.Errorf("SMO-023 a frame of the turn: %s", f)
				}
				said += f.text("token")
			}
			if said != "whole" {
				t.Errorf("SMO-159 the live frames come here: %q", said)
			}
			first.silent("SMO-159 the former connection gets nothing more")
			a.agent.says(text("again"))
			first.say(session, "three", "and now?") // the slot is free again
			first.until("eventual_response")
		})
	}
}

// freed waits until the connection's turn was taken from it: another session of
// an agent that is not called is refused for that alone.
func (c *client) freed(session string) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for n := 0; ; n++ {
		c.send(`{"action":"send_message","requestId":"free%d","sessionId":%q,"message":"x","skill":"none"}`, n, session)
		if f := c.expect("error"); f.text("error.code") == "SKILL_NOT_FOUND" {
			return
		} else if f.text("error.code") != "TURN_IN_PROGRESS" || time.Now().After(deadline) {
			c.t.Fatalf("SMO-159 the slot of a turn that was taken over: %s", f)
		}
	}
}

func TestAParkWithoutAnEndOnAnotherEdge(t *testing.T) {
	a, b, store, watch := pair(t, func(e *edge.Site) { e.Smooth.Park = -1 })
	first := a.dial("ann")
	session, _, interaction := first.parkCard(a, "thanks")
	first.close()
	a.stop()
	store.Shutdown()
	store.Run()
	watch.forward(timeAway)
	second := b.reach("ann")
	second.send("%s", getSession(b, session, ""))
	second.expect("immediate_response")
	f := second.expect("interaction_required")
	if f.text("requestId") != "turn" || f.text("data.data.interactionId") != interaction {
		t.Fatalf("SMO-158 SMO-159 the card is not the one that was open: %s", f)
	}
	second.submitEmail(session, interaction)
	for _, f := range second.until("eventual_response") {
		if f.text("requestId") != "turn" {
			t.Errorf("SMO-023 a frame of the turn: %s", f)
		}
	}
}

// timeAway is how long a person leaves a question with `park none` alone.
const timeAway = time.Hour

// reach dials until the edge has its journal again.
func (s *site) reach(token string) *client {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for s.hub.Ready(s.t.Context()) != nil && time.Now().Before(deadline) {
		<-time.After(10 * time.Millisecond)
	}
	return s.dial(token)
}

func TestAParkEndsOnAnotherEdge(t *testing.T) {
	a, b, _, _ := pair(t, func(e *edge.Site) { e.Smooth.Park = 2 * time.Second })
	first := a.dial("ann")
	session, _, interaction := first.parkCard(a, "never mind")
	second := b.dial("ann")
	second.send("%s", getSession(b, session, ""))
	second.expect("immediate_response")
	if f := second.expect("interaction_required"); f.text("data.data.interactionId") != interaction {
		t.Fatal(f)
	}
	first.close()
	a.stop() // the edge where it parked
	f := second.expect("stream_chunk")
	if f.text("data.state.rawResponse.toolResult.result") != `{"status":"no_response","message":"The user did not respond."}` {
		t.Errorf("SMO-187 SMO-158 whichever edge it parked on: %s", f)
	}
	second.until("eventual_response")
}

func TestAConfirmNamesATurnOfAnotherEdge(t *testing.T) {
	a, b, store, _ := pair(t, nil)
	one, two := a.dial("ann"), b.dial("ann")
	at, bt := one.parkConfirm(a, "turn-a"), two.parkConfirm(b, "turn-b")
	confirm := func(c *client, session, request string) {
		c.send(`{"action":"confirm_tool_action","requestId":%q,"sessionId":%q,"approved":true}`, request, session)
	}
	// The other edge says so beside showing its card.
	for deadline := time.Now().Add(patience); len(store.Do("KEYS", "*smooth.park*").([]any)) < 2; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the cards are not noted")
		}
	}
	confirm(one, at, "turn-b")
	one.refused("SMO-153 the id of a park that another edge shows", "NO_PENDING_CONFIRMATION", "turn-b")
	one.silent("SMO-153 the turn stays parked")
	a.agent.says(text("done"))
	confirm(two, bt, "turn-b")
	two.expect("immediate_response")
	two.until("eventual_response")
	a.agent.says(text("done"))
	confirm(one, at, "turn-b")
	if f := one.expect("immediate_response"); f.at("data.approved") != true {
		t.Errorf("SMO-153 an id that is no live turn's any more: %s", f)
	}
	one.until("eventual_response")
}
