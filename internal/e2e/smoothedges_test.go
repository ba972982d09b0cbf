package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// hasty is an AG-UI agent that announces the call of a tool and never asks. It
// says when its request was closed, and what it was given when it was called
// again.
type hasty struct {
	closed chan struct{}
	gate   chan struct{} // a turn that is to stream waits for it

	mu    sync.Mutex
	again []runInput
}

func (a *hasty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in runInput
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, "bad input", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(format string, args ...any) {
		fmt.Fprintf(w, "data: "+format+"\n\n", args...)
		_ = http.NewResponseController(w).Flush()
	}
	say(`{"type":"RUN_STARTED","threadId":%q,"runId":%q}`, in.Thread, in.Run)
	last := in.Messages[len(in.Messages)-1]
	text := "kept"
	switch {
	case last.Role == "user" && strings.Contains(string(last.Content), "stream"):
		say(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"assistant","delta":"one "}`)
		select {
		case <-a.gate:
		case <-r.Context().Done():
			return
		}
		text = "two"
	case last.Role == "user":
		say(`{"type":"TOOL_CALL_START","toolCallId":"call-1","toolCallName":"wipe_disk"}`)
		say(`{"type":"TOOL_CALL_ARGS","toolCallId":"call-1","delta":"{\"disk\":\"sda\"}"}`)
		say(`{"type":"TOOL_CALL_END","toolCallId":"call-1"}`)
		<-r.Context().Done()
		a.closed <- struct{}{}
		return
	default:
		a.mu.Lock()
		a.again = append(a.again, in)
		a.mu.Unlock()
		if len(in.Resume) > 0 {
			say(`{"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"call-1","content":"wiped"}`)
			text = "done"
		}
	}
	say(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"assistant","delta":%q}`, text)
	say(`{"type":"RUN_FINISHED","threadId":%q,"runId":%q}`, in.Thread, in.Run)
}

// hastyFleet is two edges on a Redis, whose gateway asks before a disk is wiped.
func hastyFleet(t *testing.T) (*fleet, *hasty) {
	t.Helper()
	a := &hasty{closed: make(chan struct{}, 8), gate: make(chan struct{})}
	srv := httptest.NewServer(a)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	block := "name chat\n\t\tagent bot agui " + srv.URL + " {\n\t\t\tconfirm_tools wipe_*\n\t\t}\n\t\tsmooth {\n\t\t\tanonymous\n\t\t\tpark none\n\t\t}"
	return fleetOn(t, 2, "redis "+redistest.Start(t).URL(), "agent bot agui AGENT", block), a
}

func (o *operator) takeUp(session string) {
	o.t.Helper()
	o.send(map[string]any{"action": "get_session", "requestId": "g", "sessionId": session})
	if f := o.expect("immediate_response"); f.text("data.sessionId") != session {
		o.t.Fatalf("SMO-062 the session is not found on another edge: %s", f)
	}
}

func TestToolsAreConfirmedOverEdges(t *testing.T) {
	t.Parallel()
	f, a := hastyFleet(t)
	first, second := operate(t, f.edges[0].base, nil), operate(t, f.edges[1].base, nil)
	session := first.session(nil).text("data.sessionId")
	first.say(session, "one", "wipe it")
	if c := first.expect("write_confirmation_required"); c.text("data.data.toolId") != "wipe_disk" {
		t.Fatalf("SMO-150 %s", c)
	}
	<-a.closed // the agent's request ended, and nobody has answered
	first.hangUp()
	f.edges[0].kill()
	second.takeUp(session)
	card := second.expect("write_confirmation_required")
	if card.text("requestId") != "one" || card.text("data.data.toolId") != "wipe_disk" {
		t.Fatalf("SMO-159 %s", card)
	}
	confirm := func(request string, yes bool) {
		second.send(map[string]any{"action": "confirm_tool_action", "requestId": request, "sessionId": session, "approved": yes})
		second.expect("immediate_response")
	}
	confirm("one", true)
	if _, said := second.until("eventual_response"); said != "done" {
		t.Errorf("SMO-152 approved: %q", said)
	}
	in := a.again[0]
	if len(in.Resume) != 1 || in.Resume[0].Interrupt != "call-1" || in.Resume[0].Status != "resolved" || string(in.Resume[0].Payload) != `{"approved":true}` {
		t.Errorf("SMO-152 the agent goes on with %+v", in.Resume)
	}
	if m := in.Messages[len(in.Messages)-1]; m.Role != "assistant" {
		t.Errorf("SMO-152 an approved call is open: %+v", m)
	}
	second.say(session, "two", "wipe it again")
	second.expect("write_confirmation_required")
	second.expect("stream_chunk")
	confirm("two", false)
	if _, said := second.until("eventual_response"); said != "kept" {
		t.Errorf("SMO-152 denied: %q", said)
	}
	in = a.again[1]
	if m := in.Messages[len(in.Messages)-1]; m.Role != "tool" || !strings.Contains(string(m.Content), "Denied by human") || len(in.Resume) != 0 {
		t.Errorf("SMO-152 a refusal is the call's result: %+v %+v", m, in.Resume)
	}
}

// The edge that runs a turn need not be the one that shows it.
func TestTurnGoesOnWithoutTheEdgeThatShowsIt(t *testing.T) {
	t.Parallel()
	f, a := hastyFleet(t)
	first, second := operate(t, f.edges[0].base, nil), operate(t, f.edges[1].base, nil)
	session := first.session(nil).text("data.sessionId")
	first.say(session, "turn", "stream")
	first.expect("stream_token")
	second.takeUp(session)
	second.send(map[string]any{"action": "send_message", "requestId": "x", "sessionId": session, "message": "x"})
	if e := second.expect("error"); e.text("error.code") != "TURN_IN_PROGRESS" {
		t.Errorf("SMO-159 the turn taken over has the slot: %s", e)
	}
	f.edges[1].kill()
	third := operate(t, f.edges[0].base, nil)
	third.takeUp(session)
	close(a.gate)
	end, said := third.until("eventual_response")
	if end.text("requestId") != "turn" || said != "two" || end.text("data.data.response.responseParts.0") != "one two" {
		t.Errorf("SMO-159 it goes on under its requestId: %q %s", said, end)
	}
	if err := first.silent(); err != nil {
		t.Errorf("SMO-159 who showed it first gets nothing more: %v", err)
	}
}
