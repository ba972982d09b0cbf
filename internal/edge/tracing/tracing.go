// Package tracing draws what an edge does as OpenTelemetry spans: the handshake
// of each connection, its commands, commits, runs with their segments and calls
// of agents, and what reaches the windows in the end. Names and attributes follow
// the conventions for messaging and for generative AI.
//
// The provider is the one that made the span of a connection's request, where the
// server around traces, else the one that was configured; without either nothing
// is drawn. No attribute holds what people or agents say, unless that was asked
// for (Content).
package tracing

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/parlance-gateway/parlance/internal/conductor"
)

// scope names what makes the spans.
const scope = "github.com/parlance-gateway/parlance"

// system is how the conventions for messaging call what is behind the spans.
const system = "parlance"

// Tracer draws the spans of one edge. It is of use before Use was called: then
// with providers that requests bring.
type Tracer struct {
	edge    string
	own     atomic.Pointer[provider]
	brought atomic.Pointer[provider]
	content atomic.Bool
}

// provider is a trace.TracerProvider in a form that can be swapped.
type provider struct{ trace.TracerProvider }

// New makes the tracer of an edge with the name that people give it.
func New(edge string) *Tracer { return &Tracer{edge: edge} }

// Use sets the provider for where no request brings one, nil for none, and
// whether spans may hold what is said.
func (t *Tracer) Use(own trace.TracerProvider, content bool) {
	t.content.Store(content)
	if own == nil {
		t.own.Store(nil)
		return
	}
	t.own.Store(&provider{own})
}

// Content implements conductor.Tracer.
func (t *Tracer) Content() bool { return t.content.Load() }

// bring takes the provider of a request's span.
func (t *Tracer) bring(p trace.TracerProvider) {
	if had := t.brought.Load(); had == nil || had.TracerProvider != p {
		t.brought.Store(&provider{p})
	}
}

// tracer is what spans are made with now, or nil. A provider that was shut down
// makes none any more, and is let go.
func (t *Tracer) tracer() trace.Tracer {
	if p := t.brought.Load(); p != nil {
		if tr := p.Tracer(scope); !idle(tr) {
			return tr
		}
		t.brought.CompareAndSwap(p, nil)
	}
	if p := t.own.Load(); p != nil {
		return p.Tracer(scope)
	}
	return nil
}

// Draws says that spans are made now.
func (t *Tracer) Draws() bool { return t.tracer() != nil }

func idle(tr trace.Tracer) bool {
	_, none := tr.(noop.Tracer)
	return none
}

// Stamp implements conductor.Tracer.
func (t *Tracer) Stamp(ctx context.Context) string { return stampOf(trace.SpanContextFromContext(ctx)) }

// Begin implements conductor.Tracer.
func (t *Tracer) Begin(ctx context.Context, w conductor.Work) (context.Context, conductor.Span) {
	tr := t.tracer()
	if tr == nil {
		return ctx, none{}
	}
	name, options := t.describe(w)
	if above := parse(w.Above); above.IsValid() && (w.Kind == conductor.WorkRun || !trace.SpanContextFromContext(ctx).IsValid()) {
		ctx = trace.ContextWithRemoteSpanContext(ctx, above)
	}
	if w.Run != nil {
		first := parse(w.Run.Trace)
		if first.IsValid() && first.TraceID() != trace.SpanContextFromContext(ctx).TraceID() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: first}))
		}
	}
	ctx, s := tr.Start(ctx, name, options...)
	return ctx, &span{Span: s, tracer: t, began: time.Now()}
}

// common are the attributes of every span.
func (t *Tracer) common(realm, thread string) []attribute.KeyValue {
	list := []attribute.KeyValue{
		semconv.MessagingSystemKey.String(system), attribute.String("parlance.edge", t.edge), attribute.String("parlance.realm", realm),
	}
	if thread != "" {
		list = append(list, semconv.MessagingDestinationName(thread), semconv.MessagingDestinationTemplate("thread"), semconv.GenAIConversationID(thread))
	}
	return list
}

// Interface guard
var _ conductor.Tracer = (*Tracer)(nil)
