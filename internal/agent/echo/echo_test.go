package echo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ask(text string) *agent.Call {
	return &agent.Call{
		Key: chat.Key{Thread: "t"}, Run: "run", Segment: "s",
		Messages: []*chat.Message{
			{ID: "m0", Role: chat.User, Parts: []*chat.Part{{Type: chat.PartText, Text: chat.Text("older")}}},
			{ID: "m1", Role: chat.User, Parts: []*chat.Part{{Type: chat.PartText, Text: chat.Text(text)}}},
		},
		Tools: []chat.ClientTool{{Name: "where", Kind: chat.ToolBlocking}, {Name: "draw", Kind: chat.ToolOneWay}},
	}
}

// seen writes what a thread would hold of the run, a line for each part.
func seen(run *chat.Run, out agent.Outcome) string {
	var b strings.Builder
	for _, p := range run.Parts {
		switch p.Type {
		case chat.PartTool:
			fmt.Fprintf(&b, "tool %s %s = %q %v\n", p.Name, p.Text, p.Result, p.Done)
		default:
			fmt.Fprintf(&b, "%s %q\n", p.Type, p.Text)
		}
		if p.Open {
			b.WriteString("OPEN\n")
		}
	}
	for _, s := range run.Subagents {
		fmt.Fprintf(&b, "subagent %s of a call %v running %v\n", s.Name, s.Call != "", s.Running)
	}
	fmt.Fprintf(&b, "%s", out.Status)
	for _, i := range out.Interrupts {
		fmt.Fprintf(&b, " %s %s", i.Kind, i.Payload)
	}
	return b.String()
}

// play runs the agent through a repair and a fold, as a conductor does.
func play(ctx context.Context, a agent.Agent, call *agent.Call, run *chat.Run) (*chat.State, agent.Outcome) {
	s := &chat.State{Exists: true, Runs: []*chat.Run{run}}
	r := agent.NewRepair(run)
	apply := func(entries []chat.Entry) {
		for _, e := range entries {
			s = s.Apply(&chat.Record{Entry: e})
		}
	}
	apply(r.Begin())
	out := a.Run(ctx, call, func(ev agent.Event) error {
		apply(r.Event(ev))
		return nil
	})
	entries, out := r.End(out)
	apply(entries)
	return s, out
}

func newRun(call *agent.Call) *chat.Run {
	return &chat.Run{ID: "run", Status: chat.RunActive, Answer: "A", Segments: []string{"s"}, Tools: call.Tools}
}

func TestEcho(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"words come back", "Héllo  wörld 👩‍👩‍👧 end", `text "Héllo  wörld 👩\u200d👩\u200d👧 end"` + "\ncomplete"},
		{
			"a tool is used between two texts", "before /tool after",
			"text \"before\"\ntool lookup {\"word\": \"echo\"} = \"a sound that comes back\" true\n" +
				"text \"The tool says: an echo is a sound that comes back. after\"\ncomplete",
		},
		{
			"an approval is asked for", "/ask and more",
			"tool ring_bell {\"times\": 1} = \"\" false\nsuspended approval {\"reason\":\"tool_call\",\"message\":\"May I ring the bell?\",\"toolCallId\":\"s-c1\"}",
		},
		{
			"PIL-119 two questions are asked", "/ask2",
			`suspended question {"reason":"input_required","message":"What is your name?"} question {"reason":"input_required","message":"What is your favourite colour?"}`,
		},
		{
			"PIL-072 a blocking client tool pauses", `/client where {"a": "} x"} rest`,
			"tool where {\"a\": \"} x\"} = \"\" false\nsuspended client_tool {\"clientTool\":\"where\",\"arguments\":{\"a\":\"} x\"}}",
		},
		{
			"PIL-069 a one-way client tool does not", "/client draw then",
			"tool draw {} = \"\" true\ntext \"The client was told. then\"\ncomplete",
		},
		{"PIL-070 a tool that was not declared is not called", "/client other {}", "text \"There is no client tool other.\"\ncomplete"},
		{"reasons", "/think so", "reasoning \"The words were heard. Now they are to be said again.\"\ntext \"so\"\ncomplete"},
		{"fails", "a /fail b", "text \"a\"\nerror"},
		{"says many words", "/long 3 end", "text \"word1 word2 word3 end\"\ncomplete"},
		{
			"a subagent works and finishes", "/sub x",
			"tool task {\"title\": \"count to 50\"} = \"counted to 50\" true\ntext \"The subagent has finished. x\"\nsubagent counter of a call true running false\ncomplete",
		},
		{"nothing to say", " ", "text \"I heard nothing.\"\ncomplete"},
		{
			"several in their order", "/think /tool /fail",
			"reasoning \"The words were heard. Now they are to be said again.\"\ntool lookup {\"word\": \"echo\"} = \"a sound that comes back\" true\n" +
				"text \"The tool says: an echo is a sound that comes back.\"\nerror",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := ask(c.text)
			s, out := play(t.Context(), New(Config{Delay: -1}), call, newRun(call))
			if got := seen(s.Runs[0], out); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestEchoKeepsTodos(t *testing.T) {
	call := ask("/plan")
	s, _ := play(t.Context(), New(Config{Delay: -1}), call, newRun(call))
	if len(s.Todos) != 3 || s.Todos[2].Status != "completed" {
		t.Errorf("got %v", s.Todos)
	}
}

func TestEchoResumes(t *testing.T) {
	for _, c := range []struct{ name, text, answer, want string }{
		{"PIL-090 approved by true", "/ask more", `true`, "tool ring_bell {\"times\": 1} = \"the bell rang\" true\ntext \"You approved it: the bell rang. more\"\ncomplete"},
		{"PIL-090 denied by false", "/ask more", `false`, "tool ring_bell {\"times\": 1} = \"denied\" true\ntext \"You denied it. more\"\ncomplete"},
		{
			"PIL-090 denied with a reason", "/ask", `{"approved":false,"reason":"too loud"}`,
			"tool ring_bell {\"times\": 1} = \"denied\" true\ntext \"You denied it. Your reason: too loud\"\ncomplete",
		},
		{"PIL-090 approved by an object", "/ask", `{"approved":true}`, "tool ring_bell {\"times\": 1} = \"the bell rang\" true\ntext \"You approved it: the bell rang.\"\ncomplete"},
		{
			"PIL-068 the answer of a client tool", "first /client where last", `{"city":"Oslo"}`,
			"text \"first\"\ntool where {} = \"{\\\"city\\\":\\\"Oslo\\\"}\" true\ntext \"where answered: {\\\"city\\\":\\\"Oslo\\\"} last\"\ncomplete",
		},
		{"PIL-086 two answers", "/ask2", `"blue"`, "text \"Answer 1: blue Answer 2: blue\"\ncomplete"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := New(Config{Delay: -1})
			call := ask(c.text)
			s, out := play(t.Context(), a, call, newRun(call))
			if out.Status != chat.RunSuspended {
				t.Fatalf("got %+v", out)
			}
			run := *s.Runs[0]
			run.Segments = []string{"s", "s2"}
			for _, i := range out.Interrupts {
				i.Status, i.Answer = chat.InterruptAnswered, jsontext.Value(c.answer)
			}
			run.Interrupts = out.Interrupts
			again := ask(c.text)
			again.Segment, again.Answers, again.Draft, again.State = "s2", out.Interrupts, run.Parts, out.State
			s, out = play(t.Context(), a, again, &run)
			if got := seen(s.Runs[0], out); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestEchoTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		call := ask("one two three")
		play(t.Context(), New(Config{}), call, newRun(call))
		if d := time.Since(began); d != 3*DefaultDelay {
			t.Errorf("took %v", d)
		}
		began = time.Now()
		call = ask("/sub")
		play(t.Context(), New(Config{Delay: time.Second}), call, newRun(call))
		if d := time.Since(began); d != maxSub+4*time.Second {
			t.Errorf("the subagent took %v", d)
		}
	})
}

func TestEchoStops(t *testing.T) {
	t.Run("PIL-097 hangs until it is cancelled, after a word", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		call := ask("/slow")
		out := New(Config{Delay: -1}).Run(ctx, call, func(ev agent.Event) error {
			if ev.Kind == chat.KindTextDelta {
				cancel()
			}
			return nil
		})
		if out.Status != chat.RunCancelled {
			t.Errorf("got %+v", out)
		}
	})
	t.Run("a long answer stops with its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		out := New(Config{Delay: -1}).Run(ctx, ask("/long 100000"), func(agent.Event) error {
			n++
			cancel()
			return nil
		})
		if out.Status != chat.RunCancelled || n > 3 {
			t.Errorf("got %+v after %d", out, n)
		}
	})
	t.Run("stops when nobody takes its words", func(t *testing.T) {
		for _, text := range []string{"/slow", "/long 100000", "a b", "/sub", "/think", "/plan", "/tool", "/ask", "/client where"} {
			n := 0
			out := New(Config{Delay: -1}).Run(t.Context(), ask(text), func(agent.Event) error {
				n++
				return errors.New("sealed")
			})
			if out.Status != chat.RunCancelled || n != 1 {
				t.Errorf("%s: got %+v after %d", text, out, n)
			}
		}
	})
}

func TestSubagentEndsBeforeItsResult(t *testing.T) {
	var kinds []chat.Kind
	New(Config{Delay: -1}).Run(t.Context(), ask("/sub"), func(ev agent.Event) error {
		if ev.Kind == chat.KindSubagentStart || ev.Kind == chat.KindSubagentEnd || ev.Kind == chat.KindToolResult {
			kinds = append(kinds, ev.Kind)
		}
		return nil
	})
	if want := []chat.Kind{chat.KindSubagentStart, chat.KindSubagentEnd, chat.KindToolResult}; !slices.Equal(kinds, want) {
		t.Errorf("PIL-127 got %v", kinds)
	}
}

func TestEchoDetaches(t *testing.T) {
	a := New(Config{Sub: time.Hour, Delay: -1})
	call := ask("/sub next")
	run := newRun(call)
	var rest agent.Agent
	ctx := t.Context()
	s := &chat.State{Exists: true, Runs: []*chat.Run{run}}
	r := agent.NewRepair(run)
	ready := make(chan string, 1)
	done := make(chan agent.Outcome, 1)
	go func() {
		done <- a.Run(ctx, call, func(ev agent.Event) error {
			for _, e := range r.Event(ev) {
				s = s.Apply(&chat.Record{Entry: e})
			}
			if ev.Kind == chat.KindTextDelta && ev.Subagent != "" {
				ready <- s.Runs[0].Subagents[0].Call
			}
			return nil
		})
	}()
	toolCall := <-ready
	if _, _, err := a.Detach(ctx, call, "other"); !errors.Is(err, chat.ErrNoSubagent) {
		t.Errorf("an unknown call: %v", err)
	}
	rest, title, err := a.Detach(ctx, call, toolCall)
	if err != nil || title == "" {
		t.Fatal(title, err)
	}
	if _, _, err := a.Detach(ctx, call, toolCall); !errors.Is(err, chat.ErrNoSubagent) {
		t.Errorf("a second time: %v", err)
	}
	entries, out := r.End(<-done)
	if len(entries) != 0 {
		t.Errorf("left open: %v", entries)
	}
	want := "tool task {\"title\": \"count to 50\"} = \"The task goes on in the background.\" true\n" +
		"text \"The subagent goes on in the background. next\"\nsubagent counter of a call true running false\ncomplete"
	if got := seen(s.Runs[0], out); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	child := &agent.Call{Key: chat.Key{Thread: "child"}, Segment: "cs"}
	rest.(*counter).agent.tick = 0
	cs, out := play(ctx, rest, child, newRun(child))
	if got := string(cs.Runs[0].Parts[0].Text); !strings.HasPrefix(got, "2 3 ") || !strings.HasSuffix(got, "50 and done.") || out.Status != chat.RunComplete {
		t.Errorf("the rest: %q %+v", got, out)
	}
}

func TestEchoIsDeterministic(t *testing.T) {
	text := "a /think b /tool /plan /sub c /ask"
	var first string
	for range 3 {
		call := ask(text)
		var got strings.Builder
		New(Config{Delay: -1}).Run(t.Context(), call, func(ev agent.Event) error {
			fmt.Fprintf(&got, "%+v\n", ev)
			return nil
		})
		if first == "" {
			first = got.String()
		}
		if got.String() != first {
			t.Error("the same call was answered in another way")
		}
	}
}
