package pilotoo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// told lists what changes since from were shown as, briefly: the run's place
// among the segments seen, the number and the type.
func (w *world) told(from int) (list []string) {
	var runs []string
	for _, b := range w.envelopes(0) {
		if e := readEnvelope(w.t, b); !slices.Contains(runs, e.RunID) {
			runs = append(runs, e.RunID)
		}
	}
	for _, b := range w.envelopes(from) {
		e := readEnvelope(w.t, b)
		word := fmt.Sprintf("%d/%d %s", slices.Index(runs, e.RunID), e.Sequence, e.Event.Type)
		switch {
		case e.Event.Code != "":
			word += " " + e.Event.Code
		case e.Event.Status != "":
			word += " " + e.Event.Status
		case len(e.Event.Message) > 0:
			word += " with its question"
		}
		list = append(list, word)
	}
	return list
}

// tells holds what was shown since from against what is wanted.
func (w *world) tells(t *testing.T, name string, from int, want ...string) {
	t.Helper()
	if got := w.told(from); !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// working is a thread with a run that has much open.
func working(t *testing.T) (*world, string) {
	w := newWorld(t)
	run := w.open()
	w.write(chat.KindReasoningStart, run, &chat.BlockBody{Part: "r1"})
	w.write(chat.KindTextStart, run, &chat.BlockBody{Part: "a1"})
	w.write(chat.KindTextDelta, run, &chat.DeltaBody{Part: "a1", Text: "Half of"})
	w.write(chat.KindToolStart, run, &chat.ToolStartBody{Call: "c1", Name: "search", Parent: "a1"})
	w.write(chat.KindSubagentStart, run, &chat.SubagentStartBody{Subagent: chat.Subagent{ID: "g1", Call: "c2", Name: "scout", TaskID: "k1", Child: "t9"}})
	return w, run
}

var closers = []string{"0/7 REASONING_END", "0/8 TEXT_MESSAGE_END", "0/9 TOOL_CALL_END"}

func TestEnds(t *testing.T) {
	cases := []struct {
		name string
		end  func(w *world, run string)
		want []string
	}{
		{"PIL-097 PIL-099 a user's stop", func(w *world, run string) { w.stop(run, chat.CauseUser) }, []string{"0/10 SUBAGENT_FINISHED error", "0/11 RUN_CANCELLED"}},
		{"PIL-097 a deleted thread", func(w *world, run string) { w.stop(run, chat.CauseDeleted) }, []string{"0/10 SUBAGENT_FINISHED error", "0/11 RUN_CANCELLED"}},
		{"PIL-130 a run that took too long", func(w *world, run string) { w.stop(run, chat.CauseTimeout) }, []string{"0/10 SUBAGENT_FINISHED error", "0/11 RUN_ERROR RUN_TIMEOUT"}},
		{"PIL-130 a lost edge", func(w *world, run string) { w.stop(run, chat.CauseEdgeLost) }, []string{"0/10 SUBAGENT_FINISHED error", "0/11 RUN_ERROR EDGE_LOST"}},
		{"PIL-128 PIL-129 an agent's failure, in its own code", func(w *world, run string) {
			w.end(run, chat.End{Status: chat.RunError, Code: "model_overloaded", Text: "later"})
		}, []string{"0/10 SUBAGENT_FINISHED error", "0/11 RUN_ERROR model_overloaded"}},
		{"PIL-130 a failure without words", func(w *world, run string) { w.end(run, chat.End{Status: chat.RunError}) }, []string{"0/10 SUBAGENT_FINISHED error", "0/11 RUN_ERROR AGENT_ERROR"}},
		{"PIL-130 a silent agent", func(w *world, run string) {
			w.end(run, chat.End{Status: chat.RunError, Code: chat.CodeAgentTimeout, Text: "the agent did not answer in time"})
		}, []string{"0/10 SUBAGENT_FINISHED error", "0/11 RUN_ERROR AGENT_TIMEOUT"}},
		{"PIL-127 a run that completes", func(w *world, run string) { w.end(run, chat.End{Status: chat.RunComplete}) }, []string{"0/10 SUBAGENT_FINISHED finished", "0/11 RUN_FINISHED"}},
		{"PIL-097 an agent that stopped by itself", func(w *world, run string) { w.end(run, chat.End{Status: chat.RunCancelled, Cause: chat.CauseAgent}) }, []string{"0/10 SUBAGENT_FINISHED error", "0/11 RUN_CANCELLED"}},
	}
	for _, c := range cases {
		w, run := working(t)
		from := len(w.changes)
		c.end(w, run)
		w.tells(t, c.name, from, append(slices.Clone(closers), c.want...)...)
		h := readHistory(t, w.history(len(w.changes)))
		if n := len(h.Messages); n != 2 || h.Messages[1].Content != "Half of" || h.Messages[1].ID != "a1" {
			t.Errorf("PIL-098 %s: what had streamed is %+v", c.name, h.Messages)
		}
		if h.Replay != nil {
			t.Errorf("PIL-163 %s: a replay of a run that has ended", c.name)
		}
	}
}

// PIL-222: an agent that rewrites what it said. Windows see the text end and
// another begin; the history has only the last.
func TestTextIsTakenBack(t *testing.T) {
	w := newWorld(t)
	run := w.open()
	from := len(w.changes)
	w.text(run, "p1", "helo")
	w.write(chat.KindTextStart, run, &chat.BlockBody{Part: "p2", Replaces: "p1"})
	w.write(chat.KindTextDelta, run, &chat.DeltaBody{Part: "p2", Text: "hello"})
	w.write(chat.KindTextEnd, run, &chat.BlockBody{Part: "p2"})
	w.end(run, chat.End{Status: chat.RunComplete})
	var kinds []string
	for _, e := range w.envelopes(from) {
		var v struct {
			Event struct{ Type, MessageID, Delta string }
		}
		if err := json.Unmarshal(e, &v); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, strings.TrimPrefix(v.Event.Type, "TEXT_MESSAGE_")+" "+v.Event.MessageID+v.Event.Delta)
	}
	want := []string{"START p1", "CONTENT p1helo", "END p1", "START p2", "CONTENT p2hello", "END p2", "RUN_FINISHED "}
	if !slices.Equal(kinds, want) {
		t.Errorf("PIL-222 windows saw %q", kinds)
	}
	h := readHistory(t, w.history(len(w.changes)))
	if n := len(h.Messages); n != 2 || h.Messages[1].Content != "hello" || h.Messages[1].ID != "p2" {
		t.Errorf("PIL-222 the history has %+v", h.Messages)
	}
}

// A run that has no segment on the wire is shown as one that began and ended.
func TestEndsWithoutASegment(t *testing.T) {
	w := newWorld(t)
	run := w.say(chat.Start{})
	from := len(w.changes)
	w.stop(run, chat.CauseUser)
	w.tells(t, "PIL-139 stopped before it began", from, "0/1 RUN_STARTED with its question", "0/2 RUN_CANCELLED")
	if h := readHistory(t, w.history(len(w.changes))); len(h.Messages) != 1 {
		t.Errorf("PIL-161 an empty answer is shown: %+v", h.Messages)
	}

	w = newWorld(t)
	run = w.open()
	w.pause(run, &chat.Interrupt{ID: "i1", Kind: chat.InterruptApproval})
	from = len(w.changes)
	w.stop(run, chat.CauseUser)
	w.tells(t, "PIL-221 stopped while it waited", from, "1/1 RUN_STARTED", "1/2 RUN_CANCELLED")
	if h := readHistory(t, w.history(len(w.changes))); h.PendingInterrupt != nil {
		t.Error("PIL-221 the decision is still shown")
	}
}

func TestPauseAndResume(t *testing.T) {
	w := newWorld(t)
	run := w.open()
	w.text(run, "a1", "Let me ask.")
	w.call(run, "c1", "pick_date", ` {"month": "May"}`, "a1")
	from := len(w.changes)
	w.pause(run,
		&chat.Interrupt{ID: "i1", Kind: chat.InterruptClientTool, Tool: "pick_date", Call: "c1"},
		&chat.Interrupt{ID: "i2", Kind: chat.InterruptQuestion, Payload: jsontext.Value(`["why"]`)},
		&chat.Interrupt{ID: "i3", Kind: chat.InterruptApproval, Tool: "pay", Call: "c7"})
	w.tells(t, "PIL-118 PIL-119 PIL-120 three questions, one pause", from,
		"0/8 INTERRUPT", "0/9 INTERRUPT", "0/10 INTERRUPT", "0/11 RUN_PAUSED", "0/12 RUN_FINISHED")
	payloads := map[string]string{
		"i1": `{"clientTool":"pick_date","arguments":{"month": "May"}}`,
		"i2": `["why"]`,
		"i3": `{"kind":"approval","toolName":"pay","toolCallId":"c7"}`,
	}
	for _, b := range w.envelopes(from)[:3] {
		e := readEnvelope(t, b).Event
		if string(e.Payload) != payloads[e.InterruptID] {
			t.Errorf("PIL-072 PIL-073 PIL-117 %s asks %s, want %s", e.InterruptID, e.Payload, payloads[e.InterruptID])
		}
		delete(payloads, e.InterruptID)
	}
	if len(payloads) > 0 {
		t.Errorf("PIL-119 not asked: %v", payloads)
	}
	first := w.state.Run(run).Segment()
	for _, id := range []string{"i1", "i2", "i3"} {
		h := readHistory(t, w.history(len(w.changes)))
		p := h.PendingInterrupt
		if p == nil || p.InterruptID != id || p.RunID != first {
			t.Errorf("PIL-087 PIL-170 PIL-171 pending is %+v, want %s", p, id)
		}
		if h.Replay != nil {
			t.Error("PIL-163 a paused run is not in flight")
		}
		if len(h.Messages) != 2 || h.Messages[1].Content != "Let me ask." || len(h.Messages[1].ToolCalls) != 1 {
			t.Errorf("PIL-162 the draft is %+v", h.Messages)
		}
		from = len(w.changes)
		w.answer(id, `"2026-05-01"`)
		if id != "i3" {
			w.tells(t, "PIL-086 PIL-087 an answer that is not the last", from)
		}
	}
	w.tells(t, "PIL-088 PIL-113 the next segment", from, "1/1 RUN_STARTED")
	if second := w.state.Run(run).Segment(); second == first {
		t.Error("PIL-088 the segments have one id")
	}
	if _, _, _, err := w.state.Answer(chat.Answer{Interrupt: "i1"}); refusal(err).Code != CodeUnknownRun {
		t.Errorf("PIL-089 a second answer: %v", err)
	}
	from = len(w.changes)
	w.write(chat.KindToolResult, run, &chat.ToolResultBody{Call: "c1", Message: "x1", Content: `"2026-05-01"`})
	w.text(run, "a2", "Booked.")
	w.tells(t, "PIL-076 the result comes in the resumed segment", from,
		"1/2 TOOL_CALL_RESULT", "1/3 TEXT_MESSAGE_START", "1/4 TEXT_MESSAGE_CONTENT", "1/5 TEXT_MESSAGE_END")
	h := readHistory(t, w.history(len(w.changes)))
	if h.PendingInterrupt != nil || h.Replay == nil || len(h.Replay.Envelopes) != 5 || h.Replay.Truncated {
		t.Errorf("PIL-163 PIL-164 the replay of the second segment is %+v", h.Replay)
	}
	if len(h.Messages) != 2 || h.Messages[1].ID != "a1" || *h.Messages[1].ToolCalls[0].Result != `"2026-05-01"` {
		t.Errorf("PIL-162 what the first segment wrote is %+v", h.Messages)
	}
	w.end(run, chat.End{Status: chat.RunComplete})
	if h = readHistory(t, w.history(len(w.changes))); len(h.Messages) != 3 || h.Messages[2].ID != "a2" {
		t.Errorf("PIL-160 the answer is %+v", h.Messages)
	}
}

func TestSubagentsAndTasks(t *testing.T) {
	w, run := working(t)
	var start eventJSON
	for _, b := range w.envelopes(0) {
		if e := readEnvelope(t, b).Event; e.Type == subagentStarted {
			start = e
		}
	}
	if start.ToolCallID != "c2" || start.Name != "scout" || start.TaskID != "k1" || start.ChildThreadID != "t9" {
		t.Errorf("PIL-124 PIL-127 %+v", start)
	}
	if _, err := w.state.Detach(run, "c1"); refusal(err).Code != CodeInvalid {
		t.Errorf("PIL-105 a call that is no subagent: %v", err)
	}
	if _, err := w.state.Detach("nobody", ""); refusal(err).Code != CodeUnknownRun {
		t.Errorf("PIL-104 a run that is not active: %v", err)
	}
	from := len(w.changes)
	entries, err := w.state.Detach(run, "")
	if err != nil {
		t.Fatal("PIL-103", err)
	}
	w.commit(entries)
	w.tells(t, "PIL-103 asking is not shown", from)
	w.write(chat.KindSubagentEnd, run, &chat.SubagentEndBody{ID: "g1", Detached: true})
	b := w.envelopes(from)[0]
	if e := readEnvelope(t, b).Event; e.Type != subagentEnded || e.Status != "finished" || !e.Detached || e.ToolCallID != "c2" {
		t.Errorf("PIL-106 PIL-126 %s", b)
	}
	if e, _ := w.state.Detach(run, ""); e != nil {
		t.Error("PIL-105 a subagent was detached twice")
	}
	w.write(chat.KindSubagentStart, run, &chat.SubagentStartBody{Subagent: chat.Subagent{ID: "g2", Call: "c3", Name: "scout"}})
	w.write(chat.KindSubagentEnd, run, &chat.SubagentEndBody{ID: "g2", Failed: true})
	b = w.envelopes(len(w.changes) - 1)[0]
	if e := readEnvelope(t, b).Event; e.Status != "error" || strings.Contains(string(b), "detached") {
		t.Errorf("PIL-125 PIL-126 %s", b)
	}
}

func TestTodosAreWhole(t *testing.T) {
	w := newWorld(t)
	run := w.open()
	from := len(w.changes)
	w.write(chat.KindTodos, run, &chat.TodosBody{Todos: []chat.Todo{{ID: "1", Content: "look", Status: "completed"}, {Content: "book", Status: "someday"}}})
	want := `[{"content":"look","status":"completed","id":"1"},{"content":"book","status":"pending"}]`
	if e := readEnvelope(t, w.envelopes(from)[0]).Event; string(e.Todos) != want {
		t.Errorf("PIL-122 PIL-123 %s", e.Todos)
	}
	if h := readHistory(t, w.history(len(w.changes))); string(h.Todos) != want {
		t.Errorf("PIL-172 %s", h.Todos)
	}
	w.write(chat.KindTodos, run, &chat.TodosBody{})
	if e := readEnvelope(t, w.envelopes(from)[1]).Event; string(e.Todos) != `[]` {
		t.Errorf("PIL-123 an empty list: %s", e.Todos)
	}
	if h := readHistory(t, w.history(len(w.changes))); len(h.Todos) > 0 {
		t.Errorf("PIL-172 no list, but %s", h.Todos)
	}
}

func TestAnnouncement(t *testing.T) {
	if got := string(announcement()); got != `{"protocol":{"major":1,"minor":17},"minClientMajor":1}` {
		t.Errorf("PIL-010 PIL-013 PIL-200 PIL-205 %s", got)
	}
	if err := validate(t, "protocol.hello", announcement()); err != nil {
		t.Error("PIL-010", err)
	}
}

// PIL-047: another's question is left alone; one's own is withdrawn, unless
// the site says otherwise.
func TestWhoMayWithdraw(t *testing.T) {
	w := newWorld(t)
	run := w.open()
	w.pause(run, &chat.Interrupt{ID: "i1", Kind: chat.InterruptQuestion})
	try := func(by chat.Subject, refuse bool) error {
		_, err := w.state.Start(chat.Start{
			Message: &chat.Message{ID: "m9"}, Run: "r9", Answer: "a9", Segment: "s9", WithdrawSegment: "v9", Upstream: "u9",
			OneRun: true, RefuseWaiting: refuse, Origin: chat.Origin{By: by},
		}, w.lookup)
		return err
	}
	if err := try(bob, false); refusal(err).Code != CodeInvalid {
		t.Errorf("PIL-047 another's: %v", err)
	}
	if err := try(ann, true); refusal(err).Code != CodeInvalid {
		t.Errorf("PIL-047 one's own where that is refused: %v", err)
	}
	if err := try(ann, false); err != nil {
		t.Errorf("PIL-047 one's own: %v", err)
	}
}

// PIL-073: arguments that are no JSON object are shown as an empty one.
func TestOddArguments(t *testing.T) {
	for args, want := range map[string]string{`{"a":1}`: `{"a":1}`, ` {} `: `{}`, `[1]`: `{}`, `{"a":`: `{}`, ``: `{}`, `"x"`: `{}`} {
		run := &chat.Run{Parts: []*chat.Part{{ID: "c", Type: chat.PartTool, Text: chat.Text(args)}}}
		b := question([]byte("{"), &chat.Interrupt{ID: "i", Kind: chat.InterruptClientTool, Tool: "f", Call: "c"}, run)
		if got := string(append(b, '}')); got != `{"interruptId":"i","payload":{"clientTool":"f","arguments":`+want+`}}` {
			t.Errorf("PIL-073 %s: %s", args, got)
		}
	}
}
