package agent

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

func TestRepairInterrupts(t *testing.T) {
	t.Run("PIL-072 PIL-073 PIL-076 a blocking client tool becomes a question with its arguments parsed", func(t *testing.T) {
		r := NewRepair(newRun())
		r.Event(tool("c", "where"))
		r.Event(args("c", `{"city": `))
		r.Event(args("c", `"Oslo"}`))
		entries, out := r.End(Outcome{Status: chat.RunComplete})
		if lines(entries) != "tool.end c\n" {
			t.Errorf("before the question came %s", lines(entries))
		}
		if out.Status != chat.RunSuspended || len(out.Interrupts) != 1 {
			t.Fatalf("got %+v", out)
		}
		i := out.Interrupts[0]
		if i.ID != "A-i0" || i.Kind != chat.InterruptClientTool || i.Call != "c" || i.Tool != "where" || i.Status != chat.InterruptOpen ||
			string(i.Payload) != `{"clientTool":"where","arguments":{"city":"Oslo"}}` || string(i.Schema) != `{"type":"string"}` {
			t.Errorf("got %+v", i)
		}
	})
	t.Run("PIL-073 arguments that are no object count as none", func(t *testing.T) {
		for _, a := range []string{"", "{", "[1]", `"x"`, "null"} {
			r := NewRepair(newRun())
			r.Event(tool("c", "where"))
			r.Event(args("c", a))
			_, out := r.End(Outcome{Status: chat.RunComplete})
			if p := string(out.Interrupts[0].Payload); p != `{"clientTool":"where","arguments":{}}` {
				t.Errorf("%q: got %s", a, p)
			}
		}
	})
	t.Run("PIL-119 all questions of an outcome, each with an id of its own", func(t *testing.T) {
		run := newRun()
		run.Interrupts = []*chat.Interrupt{{ID: "A-i0", Status: chat.InterruptAnswered}}
		run.Segments = append(run.Segments, "seg2")
		r := NewRepair(run)
		r.Event(tool("c\x00", "f"))
		r.Event(tool("d", "where"))
		_, out := r.End(Outcome{Status: chat.RunSuspended, Interrupts: []*chat.Interrupt{
			{Upstream: "q1", Call: "c\x00", Payload: jsontext.Value(`{"reason":"tool_call"}`)},
			{Upstream: "q1"},
			{Upstream: "q2", Kind: chat.InterruptQuestion, Deadline: 5},
			{Upstream: "q3", Call: "d", Payload: jsontext.Value(`"ignored"`)},
		}})
		var got []string
		for _, i := range out.Interrupts {
			got = append(got, strings.Join([]string{i.ID, i.Upstream, string(i.Kind), i.Call, string(i.Payload)}, " "))
			if i.Segment != 1 {
				t.Errorf("%s is of segment %d", i.ID, i.Segment)
			}
		}
		want := `A-i1 q1 approval A-c0 {"reason":"tool_call"}
A-i2 q2 question  
A-i3 q3 client_tool d {"clientTool":"where","arguments":{}}`
		if strings.Join(got, "\n") != want {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
		}
		if r.AgentCall("A-c0") != "c\x00" {
			t.Error("the agent's own id of the call is lost")
		}
	})
	t.Run("PIL-118 a question that came as an event counts, unless the outcome brings its own", func(t *testing.T) {
		r := NewRepair(newRun())
		r.Event(Event{Kind: chat.KindInterrupt, ID: "q", Value: jsontext.Value(`{"m":1}`)})
		if _, out := r.End(Outcome{Status: chat.RunComplete}); out.Status != chat.RunSuspended || out.Interrupts[0].Upstream != "q" {
			t.Errorf("got %+v", out)
		}
		r = NewRepair(newRun())
		r.Event(Event{Kind: chat.KindInterrupt, ID: "q"})
		if _, out := r.End(Outcome{Status: chat.RunSuspended, Interrupts: []*chat.Interrupt{{Upstream: "p"}}}); len(out.Interrupts) != 1 || out.Interrupts[0].Upstream != "p" {
			t.Errorf("got %+v", out)
		}
	})
	t.Run("a pause without a question is an end", func(t *testing.T) {
		if _, out := NewRepair(newRun()).End(Outcome{Status: chat.RunSuspended}); out.Status != chat.RunComplete {
			t.Errorf("got %+v", out)
		}
	})
	t.Run("PIL-097 a run that was stopped or failed asks nothing", func(t *testing.T) {
		for _, s := range []chat.RunStatus{chat.RunCancelled, chat.RunError, ""} {
			r := NewRepair(newRun())
			r.Event(tool("c", "where"))
			_, out := r.End(Outcome{Status: s, Interrupts: []*chat.Interrupt{{}}})
			if out.Interrupts != nil || (s == chat.RunCancelled) != (out.Status == chat.RunCancelled) {
				t.Errorf("%q: got %+v", s, out)
			}
		}
	})
}

func TestRepairResumes(t *testing.T) {
	run := newRun()
	run.Segments = append(run.Segments, "seg2")
	run.Parts = []*chat.Part{
		{ID: "A", Type: chat.PartText, Text: chat.Text("one")},
		{ID: "A-1", Type: chat.PartText, Text: chat.Text("two")},
		{ID: "A-r0", Type: chat.PartReasoning},
		{ID: "c", Type: chat.PartTool, Name: "where"},
		{ID: "d", Type: chat.PartTool, Name: "mail"},
	}
	run.Usage = jsontext.Value(`[{"inputTokens":1}]`)
	run.Interrupts = []*chat.Interrupt{
		{ID: "A-i0", Kind: chat.InterruptClientTool, Call: "c", Status: chat.InterruptAnswered, Answer: jsontext.Value(`"here"`)},
		{ID: "A-i1", Kind: chat.InterruptApproval, Call: "d", Status: chat.InterruptAnswered, Answer: jsontext.Value(`true`)},
	}
	t.Run("PIL-076 a client tool's answer is its call's result, first of all", func(t *testing.T) {
		r := NewRepair(run)
		if got := lines(r.Begin()); got != "tool.result c A-t0 \"here\"\n" {
			t.Errorf("got %s", got)
		}
		if got := lines(r.Event(toolDone("c", "again"))); got != "" {
			t.Errorf("a second result: %s", got)
		}
		if got := lines(NewRepair(run).Event(start("m"))); got != "tool.result c A-t0 \"here\"\ntext.start A-2\n" {
			t.Errorf("without Begin: %s", got)
		}
	})
	t.Run("ids go on where the segment before ended", func(t *testing.T) {
		r := NewRepair(run)
		r.Begin()
		got := lines(r.Event(delta("m", "x"))) + lines(r.Event(think("m", "x"))) + lines(r.Event(tool("A", "f")))
		want := "text.start A-2\ntext.delta A-2 \"x\"\nreasoning.start A-r1\nreasoning.delta A-r1 \"x\"\ntool.start A-c2 f<A-2\n"
		if got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
	t.Run("a call told anew is no new call, its result counts", func(t *testing.T) {
		r := NewRepair(run)
		r.Begin()
		var got string
		for _, ev := range []Event{tool("d", "mail"), args("d", "{}"), toolEnd("d"), toolDone("d", "sent")} {
			got += lines(r.Event(ev))
		}
		if got != "tool.result d A-t1 \"sent\"\n" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("usage adds up over segments", func(t *testing.T) {
		r := NewRepair(run)
		r.Begin()
		_, out := r.End(Outcome{Status: chat.RunComplete, Usage: jsontext.Value(`[{"inputTokens":2}]`)})
		if string(out.Usage) != `[{"inputTokens":1},{"inputTokens":2}]` {
			t.Errorf("got %s", out.Usage)
		}
	})
}

func TestUnquote(t *testing.T) {
	for _, c := range []struct {
		in, want string
		ok       bool
	}{
		{`"a"`, "a", true},
		{` "a\n\u00e9\\" `, "a\né\\", true},
		{`"\ud83d\ude00"`, "\U0001f600", true},
		{`"x\ud83d"`, "x\xed\xa0\xbd", true},
		{`"\uDE00y"`, "\xed\xb8\x80y", true},
		{`"\\ud83d"`, `\ud83d`, true},
		{`1`, "", false},
		{``, "", false},
	} {
		got, ok := Unquote(jsontext.Value(c.in))
		if got != c.want || ok != c.ok {
			t.Errorf("%s: got %q %v, want %q %v", c.in, got, ok, c.want, c.ok)
		}
	}
}
