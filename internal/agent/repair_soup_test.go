package agent

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// order is what any reader of entries may rely on (PIL-114 to PIL-116, PIL-127).
type order struct {
	t       *rapid.T
	kind    map[string]chat.PartType
	open    map[string]bool
	done    map[string]bool
	sub     map[string]bool // true while it runs
	steps   map[string]bool
	texts   int
	reasons int
}

func newOrder(t *rapid.T) *order {
	return &order{
		t: t, kind: make(map[string]chat.PartType), open: make(map[string]bool), done: make(map[string]bool),
		sub: make(map[string]bool), steps: make(map[string]bool),
	}
}

func (o *order) must(ok bool, e chat.Entry) {
	if !ok {
		o.t.Fatalf("not allowed here: %s", line(e))
	}
}

func (o *order) begin(id string, k chat.PartType, e chat.Entry) {
	_, known := o.kind[id]
	o.must(!known && chat.ValidID(id), e)
	o.kind[id], o.open[id] = k, true
}

func (o *order) entry(e chat.Entry) {
	o.must(e.Kind.Streams() && e.Run == "run" && e.N == chat.Envelopes(e.Kind), e)
	switch b := e.Body.(type) {
	case *chat.BlockBody:
		count := &o.texts
		k := chat.PartText
		if e.Kind == chat.KindReasoningStart || e.Kind == chat.KindReasoningEnd {
			count, k = &o.reasons, chat.PartReasoning
		}
		if e.Kind == chat.KindTextStart || e.Kind == chat.KindReasoningStart {
			o.begin(b.Part, k, e)
			*count++
			o.must(*count == 1, e)
			return
		}
		o.must(o.open[b.Part] && o.kind[b.Part] == k, e)
		o.open[b.Part] = false
		*count--
	case *chat.DeltaBody:
		k := map[chat.Kind]chat.PartType{chat.KindTextDelta: chat.PartText, chat.KindReasoningDelta: chat.PartReasoning, chat.KindToolArgs: chat.PartTool}[e.Kind]
		o.must(o.open[b.Part] && o.kind[b.Part] == k, e)
		o.must(b.Text != "" && len(b.Text) <= MaxDelta && utf8.ValidString(b.Text), e)
		o.must(!strings.Contains(b.Text, "§"), e)
	case *chat.EncryptedBody:
		_, known := o.kind[b.Part]
		o.must(known, e)
	case *chat.ToolStartBody:
		o.begin(b.Call, chat.PartTool, e)
		o.must(b.Name != "" && (b.Parent == "" || o.kind[b.Parent] == chat.PartText), e)
	case *chat.ToolEndBody:
		o.must(o.open[b.Call] && o.kind[b.Call] == chat.PartTool, e)
		o.open[b.Call] = false
	case *chat.ToolResultBody:
		o.must(o.kind[b.Call] == chat.PartTool && !o.open[b.Call] && !o.done[b.Call] && chat.ValidID(b.Message), e)
		o.done[b.Call] = true
	case *chat.SubagentStartBody:
		_, known := o.sub[b.Subagent.ID]
		o.must(!known && (b.Subagent.Call == "" || o.kind[b.Subagent.Call] == chat.PartTool), e)
		o.sub[b.Subagent.ID] = true
	case *chat.SubagentEndBody:
		o.must(o.sub[b.ID], e)
		o.sub[b.ID] = false
	case *chat.StepBody:
		o.must(o.steps[b.Name] == b.Done, e)
		o.steps[b.Name] = !b.Done
	}
	if _, err := (&chat.Record{Entry: e}).Marshal(); err != nil {
		o.t.Fatalf("%s cannot be stored: %v", line(e), err)
	}
}

// pause says that nothing is open: what a segment's end must find.
func (o *order) pause() {
	for id, open := range o.open {
		if open {
			o.t.Fatalf("part %s is open at the end", id)
		}
	}
	for id, runs := range o.sub {
		if runs {
			o.t.Fatalf("subagent %s runs at the end", id)
		}
	}
	for name, open := range o.steps {
		if open {
			o.t.Fatalf("step %s is open at the end", name)
		}
	}
}

var soupKinds = []chat.Kind{
	chat.KindTextStart, chat.KindTextDelta, chat.KindTextEnd, chat.KindReasoningStart, chat.KindReasoningDelta, chat.KindReasoningEnd,
	chat.KindReasoningEncrypted, chat.KindToolStart, chat.KindToolArgs, chat.KindToolEnd, chat.KindToolResult, chat.KindInterrupt,
	chat.KindTodos, chat.KindState, chat.KindActivity, chat.KindStep, chat.KindCustom, chat.KindSubagentStart, chat.KindSubagentEnd,
	chat.KindUsage, chat.KindRunEnd, chat.KindMessage, chat.KindNone,
}

// soup draws any event: of few ids, so that they meet.
func soup(t *rapid.T) Event {
	id := rapid.SampledFrom([]string{"m", "n", "A", "A-1", "", "\x00", "\xff", strings.Repeat("x", 600)})
	text := rapid.SampledFrom([]string{"", "a", "é", "\xed\xa0\xbd", "\xed\xb8\x80", "\xf0\x9f", "\x98\x80", "\xff", `{"a":1}`, "{", strings.Repeat("é", MaxDelta)})
	value := rapid.SampledFrom([]string{"", "{}", `{"a":1}`, `{"a":1,"a":2}`, `"\ud800"`, "[", "null"})
	ev := Event{
		Kind: rapid.SampledFrom(soupKinds).Draw(t, "kind"), ID: id.Draw(t, "id"), Parent: id.Draw(t, "parent"),
		Name: rapid.SampledFrom([]string{"", "f", "where", "draw", "tool-call", "\n"}).Draw(t, "name"),
		Text: text.Draw(t, "text"), Subagent: rapid.SampledFrom([]string{"", "", "", "m", "s"}).Draw(t, "subagent"),
		Value: jsontext.Value(value.Draw(t, "value")), Done: rapid.Bool().Draw(t, "done"),
	}
	if ev.Kind == chat.KindTodos {
		ev.Todos = []chat.Todo{{Content: ev.Text, Status: ev.Name}}
	}
	if ev.Subagent != "" {
		ev.Text += "§"
	}
	return ev
}

func TestAnySoupBecomesAnAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &chat.State{Exists: true, Runs: []*chat.Run{newRun()}}
		o := newOrder(t)
		apply := func(entries []chat.Entry) {
			for _, e := range entries {
				o.entry(e)
				s = s.Apply(&chat.Record{Entry: e})
			}
		}
		for range rapid.IntRange(1, 3).Draw(t, "segments") {
			run := s.Runs[0]
			r := NewRepair(run)
			for range rapid.IntRange(0, 60).Draw(t, "events") {
				apply(r.Event(soup(t)))
			}
			ask := &chat.Interrupt{Upstream: "q", Call: "m", Payload: jsontext.Value(`{"toolCallId":"m"}`)}
			entries, out := r.End(Outcome{
				Status:     rapid.SampledFrom([]chat.RunStatus{chat.RunComplete, chat.RunSuspended, chat.RunCancelled, chat.RunError, ""}).Draw(t, "status"),
				Interrupts: []*chat.Interrupt{ask}[:rapid.IntRange(0, 1).Draw(t, "asks")],
				State:      jsontext.Value(rapid.SampledFrom([]string{"", "{}", "{"}).Draw(t, "state")),
			})
			apply(entries)
			o.pause()
			if c := s.Runs[0].Closers(); len(c.Parts)+len(c.Subagents) != 0 {
				t.Fatalf("the fold has open %v", c)
			}
			if (out.Status == chat.RunSuspended) != (len(out.Interrupts) > 0) {
				t.Fatalf("%s with %d questions", out.Status, len(out.Interrupts))
			}
			if late := r.Event(soup(t)); late != nil {
				t.Fatalf("after the end came %s", lines(late))
			}
			// Go on as a conductor does, with everything answered.
			next := *s.Runs[0]
			ids := make(map[string]bool)
			for _, i := range next.Interrupts {
				ids[i.ID] = true
			}
			for _, i := range out.Interrupts {
				if ids[i.ID] || i.Kind == "" || i.Status != chat.InterruptOpen || (i.Call != "" && next.Part(i.Call) == nil) {
					t.Fatalf("the question %+v", i)
				}
				if i.Kind == chat.InterruptClientTool && !i.Payload.IsValid() {
					t.Fatalf("the payload %s", i.Payload)
				}
				ids[i.ID] = true
				c := *i
				c.Status, c.Answer = chat.InterruptAnswered, jsontext.Value(`"yes"`)
				next.Interrupts = append(next.Interrupts, &c)
			}
			next.Segments = append(next.Segments, fmt.Sprint("seg", len(next.Segments)+1))
			s.Runs = []*chat.Run{&next}
		}
	})
}

func TestAnyCutGivesTheSameText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("aé漢😀👩\u200d�\n"))).Draw(t, "text")
		kind := rapid.SampledFrom([]chat.Kind{chat.KindTextDelta, chat.KindReasoningDelta, chat.KindToolArgs}).Draw(t, "kind")
		r := NewRepair(newRun())
		var got strings.Builder
		say := func(piece string) {
			for _, e := range r.Event(Event{Kind: kind, ID: "m", Name: "f", Text: piece}) {
				if b, ok := e.Body.(*chat.DeltaBody); ok {
					got.WriteString(b.Text)
				}
			}
		}
		if rapid.Bool().Draw(t, "by bytes") {
			for rest := text; rest != ""; {
				n := rapid.IntRange(1, min(5, len(rest))).Draw(t, "n")
				say(rest[:n])
				rest = rest[n:]
			}
		} else {
			// As JSON of an agent that counts in UTF-16.
			for rest := utf16.Encode([]rune(text)); len(rest) > 0; {
				n := rapid.IntRange(1, min(5, len(rest))).Draw(t, "n")
				quoted := `"`
				for _, u := range rest[:n] {
					quoted += fmt.Sprintf(`\u%04x`, u)
				}
				piece, ok := Unquote(jsontext.Value(quoted + `"`))
				if !ok {
					t.Fatal("not unquoted")
				}
				say(piece)
				rest = rest[n:]
			}
		}
		if got.String() != text {
			t.Fatalf("got %q, want %q", got.String(), text)
		}
	})
}
