package agent

import (
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		patterns string
		yes, no  []string
	}{
		{"wipe", []string{"wipe"}, []string{"wipes", "a wipe", "Wipe", ""}},
		{"*", []string{"", "wipe", "fs/wipe", "löschen", "删除"}, nil},
		{"delete_*", []string{"delete_", "delete_all"}, []string{"delete", "undelete_all"}},
		{"*_mail", []string{"_mail", "send_mail", "a_mail_mail"}, []string{"send_mails"}},
		{"a*b*c", []string{"abc", "a-b-b-c", "abcbc"}, []string{"acb", "ab", "abcd"}},
		{"*lösch* 删*", []string{"löschen", "alles löschen", "删除"}, []string{"loeschen", "除"}},
		{"**", []string{"", "x"}, nil},
	} {
		p := Patterns(strings.Fields(c.patterns))
		for _, name := range c.yes {
			if !p.Match(name) {
				t.Errorf("%q does not match %q", c.patterns, name)
			}
		}
		for _, name := range c.no {
			if p.Match(name) {
				t.Errorf("%q matches %q", c.patterns, name)
			}
		}
	}
	if !(Patterns{"*x"}).Match(strings.Repeat("a", 1<<20)+"x") || (Patterns{strings.Repeat("a*", 128)}).Match(strings.Repeat("a", 1<<20)+"b") == false {
		t.Error("long names")
	}
	for _, p := range []string{"", "a?", "[a", "{a}", `a\`, "a\n", "\xff", strings.Repeat("a", 257)} {
		if CheckPattern(p) == nil {
			t.Errorf("%q is taken", p)
		}
	}
	for _, p := range []string{"*", "a b", "fs/rm", "löschen_*", strings.Repeat("a", 256)} {
		if err := CheckPattern(p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
}

func gated(run *chat.Run, patterns ...string) *Repair {
	r := NewRepair(run)
	r.Gate(Patterns(patterns).Match)
	return r
}

// questions tells what a gated segment ends with.
func questions(out Outcome) string {
	var b strings.Builder
	b.WriteString(string(out.Status))
	for _, i := range out.Interrupts {
		b.WriteString("; " + strings.Join([]string{i.ID, string(i.Kind), string(i.Gate), i.Upstream, i.Call, i.Tool, string(i.Payload)}, " "))
	}
	return b.String()
}

func TestGate(t *testing.T) {
	stopped := Outcome{Status: chat.RunCancelled}
	for _, c := range []struct {
		name   string
		events []Event
		out    Outcome
		halted bool
		want   string
		ends   string // what End adds
	}{
		{
			"SMO-150 a call that is complete ends the segment, whatever follows",
			[]Event{tool("c", "wipe"), args("c", `{"all":`), args("c", "true}"), toolEnd("c"), toolDone("c", "wiped"), delta("t", "Done.")},
			stopped, true,
			`suspended; A-i0 approval agent c c wipe {"reason":"tool_call","toolCallId":"c","toolName":"wipe","args":{"all":true}}`, "",
		},
		{
			"the agent's own outcome counts for nothing then",
			[]Event{tool("c", "wipe"), toolEnd("c")},
			Outcome{Status: chat.RunError, Interrupts: []*chat.Interrupt{{Upstream: "x"}}},
			true,
			`suspended; A-i0 approval agent c c wipe {"reason":"tool_call","toolCallId":"c","toolName":"wipe"}`, "",
		},
		{
			"a call that has its result already is not asked about",
			[]Event{tool("c", "wipe"), toolDone("c", "wiped"), toolEnd("c")},
			Outcome{Status: chat.RunComplete},
			false, "complete", "",
		},
		{
			"another tool goes on",
			[]Event{tool("c", "list"), toolEnd("c"), toolDone("c", "[]")},
			Outcome{Status: chat.RunComplete},
			false, "complete", "",
		},
		{
			"one call is asked about at a time, and one that was cut off about nothing",
			[]Event{tool("c", "wipe"), tool("d", "wipe"), args("d", `{"half`), tool("e", "where"), toolEnd("c"), toolEnd("d")},
			stopped, true,
			`suspended; A-i0 approval agent c c wipe {"reason":"tool_call","toolCallId":"c","toolName":"wipe"}`,
			"tool.end d\ntool.end e\n",
		},
		{
			"what a client was to answer before is asked along",
			[]Event{tool("e", "where"), toolEnd("e"), tool("c", "wipe"), toolEnd("c")},
			stopped, true,
			`suspended; A-i0 approval agent c c wipe {"reason":"tool_call","toolCallId":"c","toolName":"wipe"}; A-i1 client_tool   e where {"clientTool":"where","arguments":{}}`,
			"",
		},
		{
			"a call that the agent left open when it finished",
			[]Event{tool("c", "wipe"), args("c", "{}")},
			Outcome{Status: chat.RunComplete},
			false,
			`suspended; A-i0 approval agent c c wipe {"reason":"tool_call","toolCallId":"c","toolName":"wipe","args":{}}`,
			"tool.end c\n",
		},
		{
			"a call that broke off is not asked about",
			[]Event{tool("c", "wipe"), args("c", `{"all`)},
			Outcome{Status: chat.RunError, Code: "X", Text: "x"},
			false, "error", "tool.end c\n",
		},
		{
			"a name that no id may have",
			[]Event{tool("c\x00", "wi\x00pe"), toolEnd("c\x00")},
			stopped, true,
			"suspended; A-i0 approval agent c\x00 A-c0 wipe " + `{"reason":"tool_call","toolCallId":"A-c0","toolName":"wipe"}`, "",
		},
		{
			"a subagent's call, which no window is shown",
			[]Event{sub(tool("s", "wipe"), "S"), sub(args("s", `{"all":true}`), "S"), sub(toolEnd("s"), "S")},
			stopped, true,
			`suspended; A-i0 approval agent s  wipe {"reason":"tool_call","toolCallId":"s","toolName":"wipe","args":{"all":true}}`, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := gated(newRun(), "wipe")
			for _, ev := range c.events {
				r.Event(ev)
			}
			if r.Halted() != c.halted {
				t.Errorf("halted: %v", r.Halted())
			}
			entries, out := r.End(c.out)
			if got := questions(out); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if got := lines(entries); got != c.ends {
				t.Errorf("the end adds %q, not %q", got, c.ends)
			}
		})
	}
}

func TestGateOfAClientsTool(t *testing.T) {
	r := gated(newRun(), "*")
	r.Event(tool("c", "where"))
	r.Event(toolEnd("c"))
	if _, out := r.End(Outcome{Status: chat.RunComplete}); questions(out) != `suspended; A-i0 approval client c c where {"reason":"tool_call","toolCallId":"c","toolName":"where"}` {
		t.Errorf("got %s", questions(out))
	}
	run := settled(chat.GateClient, "where", `true`, chat.InterruptAnswered)
	r = gated(run, "*")
	out, ok := r.Unasked()
	if !ok {
		t.Fatal("the client is not asked for what it may do now")
	}
	if _, out := r.End(out); questions(out) != `suspended; A-i1 client_tool   c where {"clientTool":"where","arguments":{"a":1}}` {
		t.Errorf("got %s", questions(out))
	}
	for _, run := range []*chat.Run{
		settled(chat.GateClient, "where", `false`, chat.InterruptAnswered),
		settled(chat.GateAgent, "wipe", `true`, chat.InterruptAnswered),
	} {
		if _, ok := gated(run, "*").Unasked(); ok {
			t.Errorf("nobody but the agent goes on with %+v", run.Interrupts[0])
		}
	}
}

// settled is a run that goes on after a question about its call c.
func settled(gate chat.Gate, name, answer string, status chat.InterruptStatus) *chat.Run {
	run := newRun()
	run.Segments = []string{"seg", "seg2"}
	run.Parts = []*chat.Part{{ID: "c", Type: chat.PartTool, Name: name, Text: chat.Text(`{"a":1}`)}}
	run.Interrupts = []*chat.Interrupt{{
		ID: "A-i0", Kind: chat.InterruptApproval, Gate: gate, Upstream: "c", Call: "c", Tool: name, Status: status, Answer: jsontext.Value(answer),
	}}
	return run
}

func TestGateSettled(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		status       chat.InterruptStatus
		want         string
	}{
		{"approved", `true`, chat.InterruptAnswered, ""},
		{"approved by an object", `{"approved":true}`, chat.InterruptAnswered, ""},
		{"SMO-152 SMO-156 denied", `false`, chat.InterruptAnswered, `"Denied by human: user rejected the action"`},
		{"denied for a reason", `{"approved":false,"reason":"too risky"}`, chat.InterruptAnswered, `"Denied by human: too risky"`},
		{"declined", ``, chat.InterruptDeclined, `"Denied by human: user rejected the action"`},
		{"SMO-158 nobody answered", ``, chat.InterruptExpired, `"Denied by human: nobody approved the action in time"`},
		{"nothing that is not yes is a yes", `{"approved":"true"}`, chat.InterruptAnswered, `"Denied by human: user rejected the action"`},
		{"a string", `"true"`, chat.InterruptAnswered, `"Denied by human: user rejected the action"`},
	} {
		want := c.want
		if want != "" {
			want = "tool.result c A-t0 " + want + "\n"
		}
		if got := lines(gated(settled(chat.GateAgent, "wipe", c.answer, c.status), "wipe").Begin()); got != want {
			t.Errorf("%s: got %s", c.name, got)
		}
	}
}

// TestGateGrantsOnce: an agent that makes an approved call anew need not ask
// again for the very same one, once.
func TestGateGrantsOnce(t *testing.T) {
	makes := func(r *Repair, id, name, arguments string) bool {
		r.Event(tool(id, name))
		r.Event(args(id, arguments))
		r.Event(toolEnd(id))
		return r.Halted()
	}
	for _, c := range []struct {
		what, id, name, args string
		halts                bool
	}{
		{"the call itself", "c", "wipe", `{"a":1}`, false},
		{"the same under another id", "d", "wipe", ` { "a" : 1 } `, false},
		{"other arguments", "d", "wipe", `{"a":2}`, true},
		{"another tool", "d", "erase", `{"a":1}`, true},
		{"the same id, another tool", "c", "erase", `{"a":1}`, true},
	} {
		r := gated(settled(chat.GateAgent, "wipe", "true", chat.InterruptAnswered), "*")
		if makes(r, c.id, c.name, c.args) != c.halts {
			t.Errorf("%s: halted is %v", c.what, !c.halts)
		}
	}
	r := gated(settled(chat.GateAgent, "wipe", "true", chat.InterruptAnswered), "*")
	if makes(r, "d", "wipe", `{"a":1}`) || !makes(r, "e", "wipe", `{"a":1}`) {
		t.Error("an approval holds for one call")
	}
	r = gated(settled(chat.GateAgent, "wipe", "false", chat.InterruptAnswered), "*")
	if !makes(r, "d", "wipe", `{"a":1}`) {
		t.Error("a refusal is no approval")
	}
	run := settled(chat.GateAgent, "wipe", "true", chat.InterruptAnswered)
	run.Parts[0].Done = true
	if !makes(gated(run, "*"), "d", "wipe", `{"a":1}`) {
		t.Error("a call that has its result grants nothing")
	}
	subs := newRun()
	subs.Segments = []string{"seg", "seg2"}
	subs.Interrupts = []*chat.Interrupt{{
		ID: "A-i0", Kind: chat.InterruptApproval, Gate: chat.GateAgent, Upstream: "s", Tool: "wipe", Status: chat.InterruptAnswered,
		Answer: jsontext.Value("true"), Payload: jsontext.Value(`{"args":{"a":1}}`),
	}}
	for _, c := range []struct {
		args  string
		halts bool
	}{{`{"a":1}`, false}, {`{"a":2}`, true}} {
		r := gated(subs, "wipe")
		r.Event(sub(tool("s", "wipe"), "S"))
		r.Event(sub(args("s", c.args), "S"))
		r.Event(sub(toolEnd("s"), "S"))
		if r.Halted() != c.halts {
			t.Errorf("a subagent's call with %s: halted is %v", c.args, r.Halted())
		}
	}
}

// What is shown for an approval is all of the call or nothing of it: a piece that
// is too large to keep must not drop out of the middle.
func TestGateShowsNoPartOfASubagentsCall(t *testing.T) {
	r := gated(newRun(), "wipe")
	for _, ev := range []Event{
		tool("s", "wipe"),
		args("s", `{"path":"/tmp",`),
		args("s", `"also":"/`+strings.Repeat("x", maxPayload)+`",`),
		args("s", `"dry":true}`),
		toolEnd("s"),
	} {
		r.Event(sub(ev, "S"))
	}
	_, out := r.End(Outcome{Status: chat.RunCancelled})
	if got, want := questions(out), `suspended; A-i0 approval agent s  wipe {"reason":"tool_call","toolCallId":"s","toolName":"wipe"}`; got != want {
		t.Errorf("SMO-150\ngot  %q\nwant %q", got, want)
	}
}

// A call that cannot be watched to its end is asked about when it begins.
func TestGateClosesWhenItIsFull(t *testing.T) {
	for _, c := range []struct{ what, tool, by string }{
		{"calls that wait for their end", "wipe", "S"},
		{"calls of other tools, whose ends do not say whose they are", "look", ""},
	} {
		r := gated(newRun(), "wipe")
		for n := range maxForeign {
			r.Event(sub(tool("s"+strconv.Itoa(n), c.tool), "S"))
		}
		if r.Halted() {
			t.Fatalf("%s: it halts before it must", c.what)
		}
		for _, ev := range []Event{tool("last", "wipe"), args("last", `{"a":1}`), toolEnd("last")} {
			if ev.Subagent = c.by; ev.Kind == chat.KindToolStart {
				ev.Subagent = "S"
			}
			r.Event(ev)
		}
		_, out := r.End(Outcome{Status: chat.RunComplete})
		if got, want := questions(out), `suspended; A-i0 approval agent last  wipe {"reason":"tool_call","toolCallId":"last","toolName":"wipe"}`; !r.Halted() || got != want {
			t.Errorf("SMO-150 %s: got %q", c.what, got)
		}
	}
}
