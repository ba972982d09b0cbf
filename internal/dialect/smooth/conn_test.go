package smooth_test

import (
	"testing"

	"github.com/parlance-gateway/parlance/internal/edge"
)

func TestManyConversationsOnAConnection(t *testing.T) {
	s := serve(t, func(e *edge.Site) { e.Rules.RoomsPerConnection = 2 })
	c := s.dial("ann")
	var sessions []string
	for range 5 {
		sessions = append(sessions, c.session("").text("data.sessionId"))
	}
	for n := range 15 {
		s.agent.says(text("ok"))
		c.say(sessions[n%5], "q", "hi")
		c.until("eventual_response")
	}
	if s.hub.Stats().Rooms > 2 {
		t.Errorf("%d rooms are open", s.hub.Stats().Rooms)
	}
}
