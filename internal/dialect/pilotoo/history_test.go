package pilotoo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// reads makes a history of a state and what a room holds of its live runs.
func reads(t *testing.T, h *history) historyJSON {
	t.Helper()
	b := h.append(nil)
	if err := validate(t, "thread.messages.ack", b); err != nil {
		t.Fatalf("PIL-157 %.300s: %v", b, err)
	}
	return readHistory(t, b)
}

func TestReplayIsBounded(t *testing.T) {
	run := &chat.Run{ID: "r", Status: chat.RunActive, Segments: []string{"s1"}}
	envelopes := func(n, size int) (live []any) {
		for i := 1; i <= n; i++ {
			b := fmt.Appendf(nil, `{"v":1,"threadId":"t1","runId":"s1","sequence":%d,"event":{"type":"X","x":"%s"}}`, i, strings.Repeat("x", size))
			live = append(live, &Encoded{run: "r", segment: "s1", envelopes: [][]byte{b}})
		}
		return live
	}
	cases := []struct {
		name      string
		n, size   int
		cut       bool // by the room
		first     uint64
		truncated bool
	}{
		{"PIL-164 a short run", 3, 10, false, 1, false},
		{"PIL-177 10,000 envelopes", 10_000, 10, false, 1, false},
		{"PIL-165 PIL-177 one more", 10_001, 10, false, 2, true},
		{"PIL-165 PIL-177 5 MiB", 5, 1 << 20, false, 3, true},
		{"PIL-165 a room that dropped the beginning", 3, 10, true, 1, true},
	}
	for _, c := range cases {
		h := &history{state: &chat.State{Runs: []*chat.Run{run}}, live: envelopes(c.n, c.size), truncated: c.cut, limit: DefaultHistory}
		r := readHistory(t, h.append(nil)).Replay
		if r == nil || r.Truncated != c.truncated {
			t.Errorf("%s: %+v", c.name, r)
			continue
		}
		next := c.first
		for _, b := range r.Envelopes {
			if e := readEnvelope(t, b); e.Sequence != next {
				t.Fatalf("%s: number %d, want %d", c.name, e.Sequence, next)
			}
			next++
		}
		if next != uint64(c.n)+1 {
			t.Errorf("PIL-167 %s: the last number is %d, want %d", c.name, next-1, c.n)
		}
	}
}

// PIL-164: what several runs have in flight comes in the thread's order; what
// has settled, or is an earlier segment's, does not come.
func TestReplayOfSeveralRuns(t *testing.T) {
	w := newWorld(t)
	a := w.open()
	b := w.open()
	for i := range 6 {
		run := []string{a, b, b}[i%3]
		w.write(chat.KindTodos, run, &chat.TodosBody{})
	}
	c := w.say(chat.Start{})
	h := readHistory(t, w.history(len(w.changes)))
	if h.Replay == nil || len(h.Replay.Envelopes) != 8 {
		t.Fatalf("PIL-164 %+v", h.Replay)
	}
	last := map[string]uint64{}
	var order []string
	for _, v := range h.Replay.Envelopes {
		e := readEnvelope(t, v)
		if e.Sequence != last[e.RunID]+1 {
			t.Errorf("PIL-164 PIL-167 %s after number %d", v, last[e.RunID])
		}
		last[e.RunID] = e.Sequence
		order = append(order, e.RunID)
	}
	sa, sb := w.state.Run(a).Segment(), w.state.Run(b).Segment()
	if want := []string{sa, sb, sa, sb, sb, sa, sb, sb}; !slices.Equal(order, want) {
		t.Errorf("PIL-164 the order is %v, want %v", order, want)
	}
	w.end(a, chat.End{Status: chat.RunComplete})
	w.pause(b, &chat.Interrupt{ID: "i1", Kind: chat.InterruptQuestion})
	if h = readHistory(t, w.history(len(w.changes))); h.Replay == nil || len(h.Replay.Envelopes) != 0 || h.Replay.Truncated {
		t.Errorf("PIL-163 a run that has not begun is in flight, without envelopes: %+v", h.Replay)
	}
	stale := &history{state: w.state, live: []any{&Encoded{run: c, segment: "another", envelopes: [][]byte{[]byte(`{}`)}}}, limit: 1}
	if h = readHistory(t, stale.append(nil)); len(h.Replay.Envelopes) != 0 {
		t.Errorf("PIL-164 an envelope of another segment: %+v", h.Replay)
	}
	w.stop(c, chat.CauseUser)
	if h = readHistory(t, w.history(len(w.changes))); h.Replay != nil {
		t.Errorf("PIL-163 nothing is in flight: %+v", h.Replay)
	}
}

func TestHistoryKeepsTheNewest(t *testing.T) {
	h := &history{state: &chat.State{}, limit: 2}
	for i := range 3 {
		id := fmt.Sprint("m", i)
		h.messages = append(h.messages, &chat.Message{ID: id, Role: chat.User, Parts: []*chat.Part{{ID: id, Type: chat.PartText, Text: chat.Text(strings.Repeat("x", i+1))}}})
	}
	if got := reads(t, h).Messages; len(got) != 2 || got[0].ID != "m1" {
		t.Errorf("PIL-162 %+v", got)
	}
	h.limit = 10
	h.messages[0].Parts[0].Text = chat.Text(strings.Repeat("x", maxHistoryBytes))
	if got := readHistory(t, h.append(nil)).Messages; len(got) != 2 || got[0].ID != "m1" {
		t.Errorf("PIL-162 %d messages, of the size of a whole answer", len(got))
	}
}

// An answer is a message for each text, with the calls that follow it.
func TestAnswersAreSplit(t *testing.T) {
	part := func(kind chat.PartType, id, text string) *chat.Part {
		return &chat.Part{ID: id, Type: kind, Text: chat.Text(text), Name: "f"}
	}
	say := func(id, s string) *chat.Part { return part(chat.PartText, id, s) }
	think := func(id, s string) *chat.Part { return part(chat.PartReasoning, id, s) }
	call := func(id string) *chat.Part { return part(chat.PartTool, id, "{}") }
	cases := []struct {
		name  string
		parts []*chat.Part
		want  string
	}{
		{"one text", []*chat.Part{say("a", "x")}, "a"},
		{"a text and its calls", []*chat.Part{say("a", "x"), call("c1"), call("c2")}, "a[c1 c2]"},
		{"texts and calls", []*chat.Part{say("a", "x"), call("c1"), say("a-2", "y")}, "a[c1] a-2"},
		{"calls before a text", []*chat.Part{call("c1"), call("c2"), say("a", "x")}, "c1[c1 c2] a"},
		{"reasoning before a text", []*chat.Part{think("r1", "h"), think("r2", "m"), say("a", "x")}, "a(h\n\nm)"},
		{"reasoning before a call", []*chat.Part{say("a", "x"), think("r1", "h"), call("c1")}, "a(h)[c1]"},
		{"reasoning before a call before any text", []*chat.Part{think("r1", "h"), call("c1"), say("a", "x")}, "c1(h)[c1] a"},
		{"reasoning before a call between texts", []*chat.Part{say("a", "x"), think("r1", "h"), call("c1"), say("b", "y")}, "a(h)[c1] b"},
		{"reasoning alone", []*chat.Part{think("r1", "h")}, "a(h)"},
		{"nothing", nil, ""},
		{"empty blocks", []*chat.Part{say("a", ""), think("r1", "")}, ""},
		{"an empty text with a call", []*chat.Part{say("a", ""), call("c1")}, "a[c1]"},
	}
	for _, c := range cases {
		var got []string
		for _, m := range split("a", 0, c.parts, nil) {
			s := m.id
			if m.reasoning != "" {
				s += "(" + m.reasoning + ")"
			}
			for i, k := range m.calls {
				s += map[bool]string{true: "[", false: " "}[i == 0] + k.ID
			}
			if len(m.calls) > 0 {
				s += "]"
			}
			got = append(got, s)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("PIL-160 PIL-161 %s: %s, want %s", c.name, s, c.want)
		}
	}
}

func TestMessagesHaveTheirShape(t *testing.T) {
	tasks := []chat.Task{{ID: "k1", Status: "odd", Parent: "t1", Child: "t2", Call: "c1", Created: 1_767_323_045_678}}
	m := &chat.Message{
		ID: "a", Role: chat.Assistant, Created: 1_767_323_045_678,
		Parts: []*chat.Part{
			{ID: "a", Type: chat.PartText, Text: chat.Text("x")},
			{ID: "c1", Type: chat.PartTool, Name: "f", Text: chat.Text("not JSON"), Done: true, Result: "1"},
			{ID: "r1", Type: chat.PartReasoning, Text: chat.Text("hm"), Encrypted: "secret"},
		},
	}
	want := `{"id":"a","role":"assistant","content":"x","createdAt":"2026-01-02T03:04:05.678Z",` +
		`"toolCalls":[{"id":"c1","name":"f","arguments":"not JSON","result":"1"}],"reasoning":"hm",` +
		`"task":{"taskId":"k1","status":"running","parentThreadId":"t1","childThreadId":"t2","toolCallId":"c1","createdAt":"2026-01-02T03:04:05.678Z","updatedAt":"1970-01-01T00:00:00.000Z"}}`
	list := shown(m, tasks)
	if len(list) != 1 || string(list[0].append(nil)) != want {
		t.Errorf("PIL-108 PIL-160 PIL-161 %s\nwant %s", list[0].append(nil), want)
	}
	h := &history{state: &chat.State{Tasks: tasks, Info: chat.Info{Task: &tasks[0]}}, messages: []*chat.Message{m}, limit: 10}
	if got := reads(t, h); !strings.Contains(string(got.Task), `"taskId":"k1"`) {
		t.Errorf("PIL-173 %s", got.Task)
	}
	if b := taskStatus("t1", tasks[0]); validate(t, "task.status", b) != nil {
		t.Errorf("PIL-023 PIL-108 %s", b)
	}
}

// PIL-170, PIL-171: of several waiting runs the one that has waited longest
// comes first, whichever began first.
func TestEarliestDecisionIsPending(t *testing.T) {
	w := newWorld(t)
	a, b := w.open(), w.open()
	w.pause(b, &chat.Interrupt{ID: "ib", Kind: chat.InterruptQuestion})
	w.pause(a, &chat.Interrupt{ID: "ia", Kind: chat.InterruptQuestion})
	for _, want := range []string{"ib", "ia"} {
		h := readHistory(t, w.history(len(w.changes)))
		if h.PendingInterrupt == nil || h.PendingInterrupt.InterruptID != want {
			t.Fatalf("PIL-171 pending is %+v, want %s", h.PendingInterrupt, want)
		}
		w.answer(want, "1")
	}
}
