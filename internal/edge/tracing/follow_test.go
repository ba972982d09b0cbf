package tracing_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// forest is what spans hang together by: parents and links.
type forest struct {
	t    *testing.T
	list tracetest.SpanStubs
	up   map[trace.SpanID]trace.SpanID
}

func (w *world) forest() *forest {
	f := &forest{t: w.t, list: w.spans.GetSpans(), up: make(map[trace.SpanID]trace.SpanID)}
	for _, s := range f.list {
		if s.Parent.IsValid() {
			f.join(s.SpanContext.SpanID(), s.Parent.SpanID())
		}
		for _, l := range s.Links {
			f.join(s.SpanContext.SpanID(), l.SpanContext.SpanID())
		}
	}
	return f
}

func (f *forest) root(id trace.SpanID) trace.SpanID {
	for f.up[id].IsValid() {
		id = f.up[id]
	}
	return id
}

func (f *forest) join(a, b trace.SpanID) {
	if a, b = f.root(a), f.root(b); a != b {
		f.up[a] = b
	}
}

// named are the spans of that name, on the edge if one is named.
func (f *forest) named(name, edge string) tracetest.SpanStubs {
	var list tracetest.SpanStubs
	for _, s := range f.list {
		if s.Name == name && (edge == "" || attribute(s, "parlance.edge") == edge) {
			list = append(list, s)
		}
	}
	return list
}

// claims are the spans of claims that were stored on the edge.
func (f *forest) claims(edge string) tracetest.SpanStubs {
	return slices.DeleteFunc(f.named("claim thread", edge), func(s tracetest.SpanStub) bool { return !event(s, "claim") })
}

// one is the only one of named.
func (f *forest) one(name, edge string) tracetest.SpanStub {
	f.t.Helper()
	list := f.named(name, edge)
	if len(list) != 1 {
		f.t.Fatalf("%d spans %q on edge %q; there are %v", len(list), name, edge, f.names())
	}
	return list[0]
}

func (f *forest) names() []string {
	var list []string
	for _, s := range f.list {
		list = append(list, s.Name+"@"+attribute(s, "parlance.edge"))
	}
	return list
}

func attribute(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

func event(s tracetest.SpanStub, name string) bool {
	for _, e := range s.Events {
		if e.Name == name {
			return true
		}
	}
	return false
}

func stamp(s tracetest.SpanStub) string {
	return fmt.Sprintf("00-%s-%s-01", s.SpanContext.TraceID(), s.SpanContext.SpanID())
}

func (w *world) start(v *window, thread string) {
	w.t.Helper()
	got := v.ask("run:start", map[string]any{"threadId": thread, "messageId": uuid.NewString(), "input": question})
	if !strings.Contains(got, `"ok":true`) {
		w.t.Fatal(got)
	}
}

// One message is followed through two edges: from the socket that it came by to
// the agent, and to the window of the other edge.
func TestAMessageIsFollowedThroughTwoEdges(t *testing.T) {
	w := newWorld(t)
	thread := w.thread()
	here, there := w.open(w.edges[0]), w.open(w.edges[1])
	for _, v := range []*window{here, there} {
		if got := v.ask("thread:messages", map[string]any{"threadId": thread}); !strings.Contains(got, `"ok":true`) {
			t.Fatal(got)
		}
	}
	w.start(here, thread)
	here.until("RUN_FINISHED")
	there.until("RUN_FINISHED")
	for _, c := range []map[string]any{
		{"threadId": "nowhere", "messageId": uuid.NewString(), "input": question},
		{"threadId": thread, "input": question, question: question},
	} {
		if got := here.ask("run:start", c); strings.Contains(got, `"ok":true`) {
			t.Fatal(got)
		}
	}
	_ = here.ws.CloseNow()
	_ = there.ws.CloseNow()
	eventually(t, "the end of both connections", func() bool { return len(w.logs.called("connection ended")) == 2 })
	// A run's owner ends its spans behind the commit that windows see.
	eventually(t, "the segment's span", func() bool { return len(w.forest().named("segment helper", "")) == 1 })

	f := w.forest()
	var command tracetest.SpanStub
	for _, s := range f.named("run:start thread", "one") {
		if attribute(s, "error.type") == "" {
			command = s
		}
	}
	shake, far := f.one("handshake pilotoo", "one"), f.one("handshake pilotoo", "two")
	if command.Parent.IsValid() || len(command.Links) != 1 || command.Links[0].SpanContext.SpanID() != shake.SpanContext.SpanID() {
		t.Errorf("the command is no trace of its own that is linked with its handshake: %v %v", command.Parent, command.Links)
	}
	segment, call, run := f.one("segment helper", ""), f.one("invoke_agent helper", ""), f.one("run helper", "")
	for _, c := range []struct{ below, above tracetest.SpanStub }{{segment, command}, {call, segment}, {run, command}} {
		if c.below.Parent.SpanID() != c.above.SpanContext.SpanID() || c.below.SpanContext.TraceID() != command.SpanContext.TraceID() {
			t.Errorf("%s is not below %s", c.below.Name, c.above.Name)
		}
	}
	commits := 0
	for _, s := range f.named("commit thread", "one") {
		if p := s.Parent.SpanID(); p == command.SpanContext.SpanID() || p == segment.SpanContext.SpanID() {
			commits++
		}
	}
	if commits < 3 {
		t.Errorf("%d commits below the command and the segment, want those of the message, of its run's beginning and of its end", commits)
	}
	if got := w.agent.calls(); len(got) != 1 || got[0] != stamp(call) {
		t.Errorf("the agent saw %v, want %s", got, stamp(call))
	}
	if !event(call, "first token") || attribute(call, "gen_ai.response.time_to_first_chunk") == "" ||
		attribute(call, "gen_ai.operation.name") != "invoke_agent" || attribute(call, "gen_ai.conversation.id") != thread {
		t.Errorf("the agent's call: %v %v", call.Events, call.Attributes)
	}
	arrival := f.one("deliver thread", "two")
	if arrival.SpanContext.TraceID() != command.SpanContext.TraceID() || len(arrival.Links) != 1 || arrival.Links[0].SpanContext.SpanID() != far.SpanContext.SpanID() {
		t.Errorf("what reached the second window is not of the trace, or not linked with that window: %v", arrival.Links)
	}
	for _, s := range []tracetest.SpanStub{shake, far, segment, call, run, arrival} {
		if f.root(s.SpanContext.SpanID()) != f.root(command.SpanContext.SpanID()) {
			t.Errorf("%s hangs apart", s.Name)
		}
		if s.SpanContext.TraceID().String() == forged[3:35] {
			t.Errorf("%s is of the trace that a stranger named", s.Name)
		}
	}

	ended := w.logs.called("run ended")
	if len(ended) != 1 || ended[0]["thread"] != thread || ended[0]["outcome"] != "complete" || ended[0]["dialect"] != "pilotoo" || ended[0]["realm"] != "support" ||
		ended[0]["trace_id"] != command.SpanContext.TraceID().String() || ended[0]["edge"] != "one" || ended[0]["text_bytes"] != float64(len(answer)) {
		t.Errorf("the run's line: %v", ended)
	}
	refused := w.logs.called("command refused")
	if len(refused) != 2 || refused[0]["outcome"] != "CONVERSATION_NOT_FOUND" || refused[1]["outcome"] != "INVALID_COMMAND" {
		t.Errorf("the refused commands' lines: %v", refused)
	}
	for _, l := range refused {
		if l["command"] != "run:start" || l["principal"] != ended[0]["principal"] || len(fmt.Sprint(l["trace_id"])) != 32 || l["edge"] != "one" {
			t.Errorf("a refused command's line: %v", l)
		}
	}
	for _, l := range w.logs.called("connection ended") {
		if l["dialect"] != "pilotoo" || l["outcome"] != "served" || l["principal"] != ended[0]["principal"] || l["trace_id"] == "" {
			t.Errorf("a connection's line: %v", l)
		}
	}
	w.clean()
}

// clean looks for what nobody may read in logs and spans: texts and tokens.
func (w *world) clean() {
	w.t.Helper()
	logs, spans := w.logs.String(), ""
	for _, s := range w.spans.GetSpans() {
		spans += fmt.Sprintf("%s %v %v %v %v\n", s.Name, s.Attributes, s.Events, s.Links, s.Status)
	}
	for _, planted := range []string{question, answer, secret, w.cookie.Value} {
		if strings.Contains(logs, planted) {
			w.t.Errorf("a log holds %q", planted)
		}
		if strings.Contains(spans, planted) {
			w.t.Errorf("a span holds %q", planted)
		}
	}
}

// A run that goes to another edge before its agent said anything is taken up
// there, linked with where it began.
func TestARunTakenOverIsLinkedWithItsBeginning(t *testing.T) {
	w := newWorld(t)
	w.agent.hangs = 1
	thread := w.thread()
	here, there := w.open(w.edges[0]), w.open(w.edges[1])
	there.ask("thread:messages", map[string]any{"threadId": thread})
	w.start(here, thread)
	eventually(t, "the agent's call", func() bool { return len(w.agent.calls()) == 1 })
	// By a heartbeat that knows of the run, the edge has long heard of the other.
	eventually(t, "the first edge's heartbeat", func() bool {
		e := w.edges[0].announced("one")
		return e != nil && e.Runs == 1
	})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	w.edges[0].hub.Drain(over, 0)
	there.until("RUN_FINISHED")
	// A claim may have found nothing before, and one that did ends beside what it
	// began.
	eventually(t, "both segments' spans and the claim's", func() bool {
		f := w.forest()
		return len(f.named("segment helper", "")) == 2 && len(f.claims("two")) > 0
	})

	f := w.forest()
	first, second := f.one("segment helper", "one"), f.one("segment helper", "two")
	linked := false
	for _, l := range second.Links {
		linked = linked || l.SpanContext.TraceID() == first.SpanContext.TraceID()
	}
	if !linked || second.SpanContext.TraceID() == first.SpanContext.TraceID() {
		t.Errorf("the second attempt is not linked with the run's beginning: %v", second.Links)
	}
	if claims := f.claims("two"); len(claims) != 1 || second.Parent.SpanID() != claims[0].SpanContext.SpanID() {
		t.Errorf("the second attempt is not below its claim: %v", claims)
	}
	if calls := w.agent.calls(); len(calls) != 2 || calls[1] != stamp(f.one("invoke_agent helper", "two")) {
		t.Errorf("the agent saw %v", calls)
	}
	w.clean()
}

// call is what an agent is given that is asked something.
func call(text string) *agent.Call {
	return &agent.Call{Messages: []*chat.Message{{Role: chat.User, Parts: []*chat.Part{{Type: chat.PartText, Text: chat.Text(text)}}}}}
}
