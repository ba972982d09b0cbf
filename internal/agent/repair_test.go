package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"github.com/parlance-gateway/parlance/internal/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRun() *chat.Run {
	return &chat.Run{
		ID: "run", Status: chat.RunActive, Answer: "A", Segments: []string{"seg"},
		Tools: []chat.ClientTool{
			{Name: "where", Kind: chat.ToolBlocking, Result: jsontext.Value(`{"type":"string"}`)},
			{Name: "draw", Kind: chat.ToolOneWay},
		},
	}
}

// line writes an entry as a test reads it.
func line(e chat.Entry) string {
	switch b := e.Body.(type) {
	case *chat.BlockBody:
		if b.Replaces != "" {
			return fmt.Sprintf("%s %s for %s", e.Kind, b.Part, b.Replaces)
		}
		return fmt.Sprintf("%s %s", e.Kind, b.Part)
	case *chat.DeltaBody:
		return fmt.Sprintf("%s %s %q", e.Kind, b.Part, b.Text)
	case *chat.EncryptedBody:
		return fmt.Sprintf("%s %s %s", e.Kind, b.Part, b.Value)
	case *chat.ToolStartBody:
		return fmt.Sprintf("%s %s %s<%s", e.Kind, b.Call, b.Name, b.Parent)
	case *chat.ToolEndBody:
		return fmt.Sprintf("%s %s", e.Kind, b.Call)
	case *chat.ToolResultBody:
		return fmt.Sprintf("%s %s %s %q", e.Kind, b.Call, b.Message, b.Content)
	case *chat.SubagentStartBody:
		return fmt.Sprintf("%s %s %s<%s", e.Kind, b.Subagent.ID, b.Subagent.Name, b.Subagent.Call)
	case *chat.SubagentEndBody:
		return fmt.Sprintf("%s %s failed=%v detached=%v", e.Kind, b.ID, b.Failed, b.Detached)
	case *chat.TodosBody:
		return fmt.Sprintf("%s %v", e.Kind, b.Todos)
	case *chat.StateBody:
		return fmt.Sprintf("%s %s", e.Kind, b.State)
	case *chat.StepBody:
		return fmt.Sprintf("%s %s done=%v", e.Kind, b.Name, b.Done)
	case *chat.CustomBody:
		return fmt.Sprintf("%s %s %s", e.Kind, b.Name, b.Value)
	case *chat.UsageBody:
		return fmt.Sprintf("%s %s", e.Kind, b.Usage)
	}
	return e.Kind.String()
}

func lines(entries []chat.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(line(e) + "\n")
	}
	return b.String()
}

func start(id string) Event          { return Event{Kind: chat.KindTextStart, ID: id} }
func delta(id, text string) Event    { return Event{Kind: chat.KindTextDelta, ID: id, Text: text} }
func end(id string) Event            { return Event{Kind: chat.KindTextEnd, ID: id} }
func tool(id, name string) Event     { return Event{Kind: chat.KindToolStart, ID: id, Name: name} }
func args(id, text string) Event     { return Event{Kind: chat.KindToolArgs, ID: id, Text: text} }
func toolEnd(id string) Event        { return Event{Kind: chat.KindToolEnd, ID: id} }
func toolDone(id, text string) Event { return Event{Kind: chat.KindToolResult, ID: id, Text: text} }
func think(id, text string) Event {
	return Event{Kind: chat.KindReasoningDelta, ID: id, Text: text}
}

func sub(ev Event, id string) Event {
	ev.Subagent = id
	return ev
}

func TestRepair(t *testing.T) {
	long := strings.Repeat("é", MaxDelta/2)
	for _, c := range []struct {
		name   string
		events []Event
		out    Outcome
		want   string
	}{
		{
			"PIL-114 a text is START, CONTENT, END under the answer's id",
			[]Event{start("m"), delta("m", "a"), delta("m", "b"), end("m")},
			Outcome{Status: chat.RunComplete},
			"text.start A\ntext.delta A \"a\"\ntext.delta A \"b\"\ntext.end A\n",
		},
		{
			"PIL-114 an empty delta is dropped",
			[]Event{start("m"), delta("m", ""), end("m")},
			Outcome{Status: chat.RunComplete},
			"text.start A\ntext.end A\n",
		},
		{
			"PIL-114 content without a start opens the block, an empty one does not",
			[]Event{delta("x", ""), delta("m", "a")},
			Outcome{Status: chat.RunComplete},
			"text.start A\ntext.delta A \"a\"\ntext.end A\n",
		},
		{
			"PIL-114 a second start of an open block is ignored",
			[]Event{start("m"), start("m"), delta("m", "a"), end("m"), end("m")},
			Outcome{Status: chat.RunComplete},
			"text.start A\ntext.delta A \"a\"\ntext.end A\n",
		},
		{
			"PIL-114 an id that opens again is another part",
			[]Event{start("m"), end("m"), start("m"), delta("m", "a"), end("m"), delta("m", "b")},
			Outcome{Status: chat.RunComplete},
			"text.start A\ntext.end A\ntext.start A-1\ntext.delta A-1 \"a\"\ntext.end A-1\n" +
				"text.start A-2\ntext.delta A-2 \"b\"\ntext.end A-2\n",
		},
		{
			"PIL-114 a second text waits for the first to end",
			[]Event{start("m"), delta("m", "a"), start("n"), delta("n", "x"), delta("m", "b"), delta("n", "y"), end("m"), delta("n", "z"), end("n")},
			Outcome{Status: chat.RunComplete},
			"text.start A\ntext.delta A \"a\"\ntext.delta A \"b\"\ntext.end A\n" +
				"text.start A-1\ntext.delta A-1 \"xy\"\ntext.delta A-1 \"z\"\ntext.end A-1\n",
		},
		{
			"PIL-114 texts that wait and have ended follow one another",
			[]Event{start("m"), delta("n", "x"), end("n"), delta("o", "y"), end("m")},
			Outcome{Status: chat.RunComplete},
			"text.start A\ntext.end A\ntext.start A-1\ntext.delta A-1 \"x\"\ntext.end A-1\n" +
				"text.start A-2\ntext.delta A-2 \"y\"\ntext.end A-2\n",
		},
		{
			"PIL-222 text that is taken back ends, and another text has all of the new",
			[]Event{start("m"), delta("m", "helo"), {Kind: chat.KindTextDelta, ID: "m", Text: "hello", Rewrite: true}, delta("m", "!"), end("m")},
			Outcome{Status: chat.RunComplete},
			"text.start A\ntext.delta A \"helo\"\ntext.end A\ntext.start A-1 for A\ntext.delta A-1 \"hello\"\ntext.delta A-1 \"!\"\ntext.end A-1\n",
		},
		{
			"PIL-222 text that nobody was shown yet is just changed",
			[]Event{start("m"), delta("n", "helo"), {Kind: chat.KindTextDelta, ID: "n", Text: "hello", Rewrite: true}, end("n"), end("m")},
			Outcome{Status: chat.RunComplete},
			"text.start A\ntext.end A\ntext.start A-1\ntext.delta A-1 \"hello\"\ntext.end A-1\n",
		},
		{
			"PIL-116 reasoning has ids of its own, beside a text of the same id",
			[]Event{think("m", "h"), delta("m", "a"), {Kind: chat.KindReasoningEnd, ID: "m"}, think("m", "i")},
			Outcome{Status: chat.RunComplete},
			"reasoning.start A-r0\nreasoning.delta A-r0 \"h\"\ntext.start A\ntext.delta A \"a\"\nreasoning.end A-r0\n" +
				"reasoning.start A-r1\nreasoning.delta A-r1 \"i\"\ntext.end A\nreasoning.end A-r1\n",
		},
		{
			"PIL-115 a call keeps its id and follows its text",
			[]Event{start("m"), end("m"), tool("c", "f"), args("c", "{"), args("c", "}"), toolEnd("c"), toolDone("c", "ok")},
			Outcome{Status: chat.RunComplete},
			"text.start A\ntext.end A\ntool.start c f<A\ntool.args c \"{\"\ntool.args c \"}\"\ntool.end c\ntool.result c A-t0 \"ok\"\n",
		},
		{
			"PIL-115 a result closes its call, a second one is dropped",
			[]Event{tool("c", "f"), toolDone("c", "ok"), toolDone("c", "no")},
			Outcome{Status: chat.RunComplete},
			"tool.start c f<\ntool.end c\ntool.result c A-t0 \"ok\"\n",
		},
		{
			"PIL-115 a result of an unknown call needs a name",
			[]Event{toolDone("x", "lost"), {Kind: chat.KindToolResult, ID: "c", Name: "f", Text: "ok"}},
			Outcome{Status: chat.RunComplete},
			"tool.start c f<\ntool.end c\ntool.result c A-t0 \"ok\"\n",
		},
		{
			"PIL-115 a call's id that is used again, no id or the answer's is replaced",
			[]Event{tool("c", "f"), toolEnd("c"), tool("c", "g"), args("c", "1"), toolDone("c", "ok"), tool("A-1", "h"), tool("", "i"), tool("a\x01", "j")},
			Outcome{Status: chat.RunComplete},
			"tool.start c f<\ntool.end c\ntool.start A-c1 g<\ntool.args A-c1 \"1\"\ntool.end A-c1\ntool.result A-c1 A-t1 \"ok\"\n" +
				"tool.start A-c2 h<\ntool.start A-c3 i<\ntool.start A-c4 j<\ntool.end A-c2\ntool.end A-c3\ntool.end A-c4\n",
		},
		{
			"PIL-115 arguments without a call are dropped, with a name they open it",
			[]Event{args("x", "{"), toolEnd("x"), {Kind: chat.KindToolArgs, ID: "c", Name: "f", Text: "{"}},
			Outcome{Status: chat.RunComplete},
			"tool.start c f<\ntool.args c \"{\"\ntool.end c\n",
		},
		{
			"PIL-069 PIL-076 a one-way client tool has an empty result at once",
			[]Event{tool("c", "draw"), args("c", "{}"), toolEnd("c"), toolDone("c", "late")},
			Outcome{Status: chat.RunComplete},
			"tool.start c draw<\ntool.args c \"{}\"\ntool.end c\ntool.result c A-t0 \"\"\n",
		},
		{
			"a subagent's work never enters the answer",
			[]Event{
				sub(start("m"), "s"), sub(delta("m", "secret"), "s"), delta("m", "secret"), sub(think("r", "x"), "s"),
				sub(tool("c", "f"), "s"), args("c", "{}"), toolEnd("c"),
				{Kind: chat.KindToolResult, ID: "c", Name: "f", Text: "x"},
				end("m"), delta("m", "mine"),
			},
			Outcome{Status: chat.RunComplete},
			"text.start A\ntext.delta A \"mine\"\ntext.end A\n",
		},
		{
			"the result of the agent's own call may come from its subagent",
			[]Event{tool("c", "task"), toolEnd("c"), sub(toolDone("c", "ok"), "s")},
			Outcome{Status: chat.RunComplete},
			"tool.start c task<\ntool.end c\ntool.result c A-t0 \"ok\"\n",
		},
		{
			"PIL-127 a subagent that did not end ends with the run",
			[]Event{
				tool("c", "task"), toolEnd("c"),
				{Kind: chat.KindSubagentStart, ID: "s", Name: "n", Parent: "c"},
				{Kind: chat.KindSubagentStart, ID: "s"},
			},
			Outcome{Status: chat.RunError},
			"tool.start c task<\ntool.end c\nsubagent.start s n<c\nsubagent.end s failed=true detached=false\n",
		},
		{
			"PIL-127 each start has one end, also under an old id",
			[]Event{
				{Kind: chat.KindSubagentStart, ID: "s"},
				{Kind: chat.KindSubagentEnd, ID: "s", Detached: true},
				{Kind: chat.KindSubagentEnd, ID: "s"},
				{Kind: chat.KindSubagentStart, ID: "s"},
			},
			Outcome{Status: chat.RunComplete},
			"subagent.start s <\nsubagent.end s failed=false detached=true\nsubagent.start A-s1 <\nsubagent.end A-s1 failed=false detached=false\n",
		},
		{
			"a pair of surrogates in two deltas is one character",
			[]Event{delta("m", "a\xed\xa0\xbd"), delta("m", "\xed\xb8\x80b")},
			Outcome{Status: chat.RunComplete},
			"text.start A\ntext.delta A \"a\"\ntext.delta A \"\U0001f600b\"\ntext.end A\n",
		},
		{
			"half a pair that stays alone is replaced",
			[]Event{delta("m", "a\xed\xa0\xbd"), delta("m", "b\xed\xb8\x80"), delta("m", "\xed\xa0\xbd"), end("m")},
			Outcome{Status: chat.RunComplete},
			"text.start A\ntext.delta A \"a\"\ntext.delta A \"\ufffdb\ufffd\"\ntext.delta A \"\ufffd\"\ntext.end A\n",
		},
		{
			"a character cut into bytes is one character",
			[]Event{delta("m", "\xf0\x9f"), delta("m", "\x98"), delta("m", "\x80"), args("c", "")},
			Outcome{Status: chat.RunComplete},
			"text.start A\ntext.delta A \"\U0001f600\"\ntext.end A\n",
		},
		{
			"a long delta is split between characters",
			[]Event{delta("m", "x"+long)},
			Outcome{Status: chat.RunComplete},
			"text.start A\ntext.delta A \"x" + long[:MaxDelta-2] + "\"\ntext.delta A \"é\"\ntext.end A\n",
		},
		{
			"PIL-123 todos are of three states",
			[]Event{{Kind: chat.KindTodos, Todos: []chat.Todo{{Content: "a", Status: "done"}, {Content: ""}, {Content: "b", Status: "?"}}}},
			Outcome{Status: chat.RunComplete},
			"todos [{ a completed} { b pending}]\n",
		},
		{
			"steps come in pairs",
			[]Event{{Kind: chat.KindStep, Name: "a"}, {Kind: chat.KindStep, Name: "a"}, {Kind: chat.KindStep, Name: "b", Done: true}},
			Outcome{Status: chat.RunComplete},
			"step a done=false\nstep a done=true\n",
		},
		{
			"a value that is not strict JSON is mended or dropped",
			[]Event{
				{Kind: chat.KindCustom, Name: "a", Value: jsontext.Value(`{"a":1,"a":"\ud800"}`)},
				{Kind: chat.KindCustom, Name: "b", Value: jsontext.Value(`{`)},
				{Kind: chat.KindCustom, Name: "c"},
			},
			Outcome{Status: chat.RunComplete},
			"custom a {\"a\":\"\ufffd\"}\ncustom c null\n",
		},
		{
			"encrypted reasoning stays with its part, or gets one",
			[]Event{
				think("r", "h"),
				{Kind: chat.KindReasoningEncrypted, ID: "r", Text: "E1"},
				{Kind: chat.KindReasoningEnd, ID: "r"},
				{Kind: chat.KindReasoningEncrypted, ID: "q", Text: "E2"},
				tool("c", "f"),
				{Kind: chat.KindReasoningEncrypted, ID: "c", Name: EncryptedCall, Text: "E3"},
			},
			Outcome{Status: chat.RunComplete},
			"reasoning.start A-r0\nreasoning.delta A-r0 \"h\"\nreasoning.encrypted A-r0 E1\nreasoning.end A-r0\n" +
				"reasoning.start A-r1\nreasoning.encrypted A-r1 E2\nreasoning.end A-r1\ntool.start c f<\nreasoning.encrypted c E3\ntool.end c\n",
		},
		{
			"the state of the outcome is kept once",
			[]Event{{Kind: chat.KindState, Value: jsontext.Value(`{"a": 1}`)}},
			Outcome{Status: chat.RunComplete, State: jsontext.Value(`{"a":1}`)},
			"state {\"a\":1}\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewRepair(newRun())
			var got []chat.Entry
			for _, ev := range c.events {
				got = append(got, r.Event(ev)...)
			}
			entries, out := r.End(c.out)
			got = append(got, entries...)
			if lines(got) != c.want {
				t.Errorf("got\n%swant\n%s", lines(got), c.want)
			}
			if out.Status != c.out.Status {
				t.Errorf("status %s, want %s", out.Status, c.out.Status)
			}
			// PIL-130: nothing follows the end.
			if late := r.Event(delta("m", "late")); late != nil {
				t.Errorf("after the end came %s", lines(late))
			}
			if late, _ := r.End(Outcome{Status: chat.RunError}); late != nil {
				t.Errorf("a second end made %s", lines(late))
			}
		})
	}
}

func TestRepairCountsWhatItDrops(t *testing.T) {
	r := NewRepair(newRun())
	r.Event(end("m"))
	r.Event(toolDone("x", "lost"))
	r.End(Outcome{Status: chat.RunComplete})
	r.Event(delta("m", "late"))
	if c := r.Counts(); c.Dropped != 3 || c.Mended != 0 {
		t.Errorf("got %+v, want 3 dropped", c)
	}
}

func TestRepairBounds(t *testing.T) {
	t.Run("a run of more than 4 MiB ends ANSWER_TOO_LONG with what fits", func(t *testing.T) {
		r := NewRepair(newRun())
		size := 0
		for range 5 {
			for _, e := range r.Event(delta("m", strings.Repeat("x", 1<<20))) {
				if b, ok := e.Body.(*chat.DeltaBody); ok {
					size += len(b.Text)
				}
			}
		}
		if !r.Full() || size != MaxAnswer {
			t.Errorf("full %v with %d bytes", r.Full(), size)
		}
		entries, out := r.End(Outcome{Status: chat.RunComplete})
		if lines(entries) != "text.end A\n" || out.Status != chat.RunError || out.Code != chat.CodeAnswerTooLong {
			t.Errorf("got %s%+v", lines(entries), out)
		}
	})
	t.Run("a run of more than 10,000 parts ends ANSWER_TOO_LONG", func(t *testing.T) {
		r := NewRepair(newRun())
		for i := range MaxParts + 1 {
			r.Event(tool(fmt.Sprint(i), "f"))
		}
		if _, out := r.End(Outcome{Status: chat.RunComplete}); out.Code != chat.CodeAnswerTooLong {
			t.Errorf("got %+v", out)
		}
	})
	t.Run("a text that never ends does not silence the next for ever", func(t *testing.T) {
		r := NewRepair(newRun())
		r.Event(delta("m", "a"))
		var got []chat.Entry
		for range maxWaiting/1024 + 1 {
			got = append(got, r.Event(delta("n", strings.Repeat("x", 1024)))...)
		}
		if s := lines(got); !strings.HasPrefix(s, "text.end A\ntext.start A-1\n") {
			t.Errorf("got %.80s", s)
		}
	})
	t.Run("names, ids, texts and todos are cut", func(t *testing.T) {
		r := NewRepair(newRun())
		huge := strings.Repeat("n", 1<<20)
		got := r.Event(tool(huge, huge))
		if b := got[0].Body.(*chat.ToolStartBody); b.Call != "A-c0" || len(b.Name) != maxName {
			t.Errorf("got a call of %d and %d bytes", len(b.Call), len(b.Name))
		}
		if got := r.Event(toolDone(huge, huge+huge)); len(got) != 2 || len(got[1].Body.(*chat.ToolResultBody).Content) != maxResult {
			t.Errorf("got %d entries", len(got))
		}
		todos := make([]chat.Todo, 501)
		for i := range todos {
			todos[i] = chat.Todo{Content: huge, Status: "pending"}
		}
		got = r.Event(Event{Kind: chat.KindTodos, Todos: todos})
		if b := got[0].Body.(*chat.TodosBody); len(b.Todos) != 500 || len(b.Todos[0].Content) != maxTodo {
			t.Errorf("got %d todos", len(b.Todos))
		}
		_, out := r.End(Failed("CODE\n"+huge, huge))
		if len(out.Code) != maxCode || len(out.Text) != maxErrorText {
			t.Errorf("got a code of %d and a text of %d", len(out.Code), len(out.Text))
		}
	})
}
