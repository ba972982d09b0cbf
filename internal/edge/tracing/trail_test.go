package tracing_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/edge/tracing"
)

func provider(t *testing.T) (*sdktrace.TracerProvider, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p, spans
}

// Only a trusted peer's traceparent is believed, whoever made the span around.
func TestWhoseTraceACommandBelongsTo(t *testing.T) {
	caller := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3}, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	const header = "00-01020000000000000000000000000000-0300000000000000-01"
	for _, c := range []struct {
		name    string
		header  string
		trusted bool
		around  bool // the server around traces, and took the header's word
		theirs  bool
	}{
		{"a stranger", header, false, false, false},
		{"a trusted peer", header, true, false, true},
		{"a trusted peer that says nothing", "", true, false, false},
		{"a trusted peer that says nonsense", "00-zz-03-01", true, false, false},
		{"a stranger, and the server around traces", header, false, true, false},
		{"a trusted peer, and the server around traces", header, true, true, true},
		{"a trusted peer that says nothing, and the server around traces", "", true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, spans := provider(t)
			tr := tracing.New("one")
			r := httptest.NewRequest(http.MethodGet, "/socket.io/", nil)
			if c.header != "" {
				r.Header.Set("Traceparent", c.header)
			}
			ctx := r.Context()
			if c.trusted {
				ctx = tracing.WithCaller(ctx)
			}
			if c.around {
				if c.header != "" {
					ctx = trace.ContextWithRemoteSpanContext(ctx, caller)
				}
				var s trace.Span
				ctx, s = p.Tracer("around").Start(ctx, "handler")
				defer s.End()
			} else {
				tr.Use(p, false)
			}
			trail, end := tr.Handshake(r.WithContext(ctx), "pilotoo", "default")
			end()
			_, stamp, done := trail.Command(context.Background(), "run:start")
			done("", "", "")
			if got := strings.Contains(stamp, caller.TraceID().String()); got != c.theirs {
				t.Errorf("the command's span is %s; is it the caller's: %v, want %v", stamp, got, c.theirs)
			}
			for _, s := range spans.GetSpans() {
				if s.Name == "run:start thread" && !c.theirs && (len(s.Links) != 1 || s.Parent.IsValid()) {
					t.Errorf("the command is not linked with its handshake alone: %v %v", s.Parent, s.Links)
				}
			}
		})
	}
}

// The provider of the server around comes first; when that is shut down, spans go
// to the configured one again.
func TestAProviderThatIsShutDownIsLetGo(t *testing.T) {
	own, mine := provider(t)
	theirs, around := provider(t)
	tr := tracing.New("one")
	tr.Use(own, false)
	ctx, s := theirs.Tracer("around").Start(t.Context(), "handler")
	_, end := tr.Handshake(httptest.NewRequest(http.MethodGet, "/ws", nil).WithContext(ctx), "smooth", "default")
	end()
	s.End()
	work := conductor.Work{Kind: conductor.WorkCommit, Key: chat.Key{Realm: "default", Thread: "t"}}
	begin := func() {
		_, s := tr.Begin(context.Background(), work)
		s.End("done", nil)
	}
	begin()
	if n, m := len(around.GetSpans()), len(mine.GetSpans()); n != 3 || m != 0 {
		t.Errorf("%d spans went to the server around and %d to ours, want 3 and none", n, m)
	}
	if err := theirs.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	begin()
	if m := len(mine.GetSpans()); m != 1 {
		t.Errorf("%d spans went to the configured provider, want 1", m)
	}
}

// What is said is in spans only where that was asked for.
func TestContentIsAskedFor(t *testing.T) {
	for _, content := range []bool{false, true} {
		p, spans := provider(t)
		tr := tracing.New("one")
		tr.Use(p, content)
		run := &chat.Run{ID: "r", Agent: "helper", Segments: []string{"s"}}
		said := []*chat.Part{
			{Type: chat.PartText, Text: chat.Text(answer + strings.Repeat("x", 100_000))},
			{Type: chat.PartTool, ID: "c", Name: "search", Text: chat.Text(secret)},
		}
		_, s := tr.Begin(t.Context(), conductor.Work{Kind: conductor.WorkCall, Run: run, Call: call(question)})
		s.Said(said)
		s.End("complete", nil)
		got := ""
		for _, s := range spans.GetSpans() {
			got += attribute(s, "gen_ai.input.messages") + attribute(s, "gen_ai.output.messages")
		}
		if strings.Contains(got, question) != content || strings.Contains(got, answer) != content {
			t.Errorf("content %v: %.200s", content, got)
		}
		if len(got) > 40_000 {
			t.Errorf("content has %d bytes", len(got))
		}
	}
}

// Where nothing traces, nothing is made.
func TestNothingIsMadeForNothing(t *testing.T) {
	tr := tracing.New("one")
	run := &chat.Run{ID: "r", Agent: "helper", Segments: []string{"s"}}
	if n := testing.AllocsPerRun(100, func() {
		ctx, s := tr.Begin(context.Background(), conductor.Work{Kind: conductor.WorkSegment, Run: run})
		s.First()
		s.End(tr.Stamp(ctx), nil)
	}); n != 0 {
		t.Errorf("%v allocations without a provider", n)
	}
	if trail, _ := tr.Handshake(httptest.NewRequest(http.MethodGet, "/ws", nil), "smooth", "default"); trail != nil {
		t.Error("a handshake is followed that nobody traces")
	}
}
