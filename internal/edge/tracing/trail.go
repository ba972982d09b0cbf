package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/dialect"
)

// Trail is a connection's place in traces: the span of its handshake.
type Trail struct {
	tracer *Tracer
	shake  trace.SpanContext
	realm  string
	// goes on says that commands belong to the caller's own trace; otherwise each
	// begins one that is linked with the handshake, so that a connection of days is
	// not one trace and a stranger does not choose what his spans are found by.
	goesOn bool
}

type callerKey struct{}

// WithCaller says that the request's own traceparent is to be believed, since it
// comes from a peer that is trusted.
func WithCaller(ctx context.Context) context.Context {
	return context.WithValue(ctx, callerKey{}, true)
}

// Handshake begins the span of a request that may open a connection; end is
// called when the request was answered. Nothing of the request is kept.
func (t *Tracer) Handshake(r *http.Request, name, realm string) (trail *Trail, end func()) {
	ctx := r.Context()
	trusted, _ := ctx.Value(callerKey{}).(bool)
	around := trace.SpanFromContext(ctx)
	kind, goesOn := trace.SpanKindServer, false
	if around.SpanContext().IsValid() {
		t.bring(around.TracerProvider())
		kind = trace.SpanKindInternal
		// The server around takes anybody's word for the trace; we do not.
		ro, ok := around.(interface{ Parent() trace.SpanContext })
		goesOn = trusted && ok && ro.Parent().IsRemote() && ro.Parent().IsValid()
	} else if caller := parse(r.Header.Get("Traceparent")); trusted && caller.IsValid() {
		ctx, goesOn = trace.ContextWithRemoteSpanContext(ctx, caller), true
	}
	tr := t.tracer()
	if tr == nil {
		return nil, func() {}
	}
	_, s := tr.Start(ctx, "handshake "+name, trace.WithSpanKind(kind),
		trace.WithAttributes(append(t.common(realm, ""), attribute.String("parlance.dialect", name))...))
	return &Trail{tracer: t, shake: s.SpanContext(), realm: realm, goesOn: goesOn}, func() { s.End() }
}

// Stamp is the handshake's span, as W3C traceparent.
func (l *Trail) Stamp() string { return stampOf(l.shake) }

// Command implements dialect.Trail.
func (l *Trail) Command(ctx context.Context, name string) (context.Context, string, func(thread, run, code string)) {
	tr := l.tracer.tracer()
	if tr == nil {
		return ctx, "", func(string, string, string) {}
	}
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(append(l.tracer.common(l.realm, ""),
			semconv.MessagingOperationName(name), semconv.MessagingOperationTypeProcess)...),
	}
	if l.goesOn {
		ctx = trace.ContextWithSpanContext(ctx, l.shake)
	} else {
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: l.shake}))
	}
	ctx, s := tr.Start(ctx, name+" thread", options...)
	return ctx, stampOf(s.SpanContext()), func(thread, run, code string) {
		if thread != "" {
			s.SetAttributes(l.tracer.common(l.realm, thread)...)
		}
		if run != "" {
			s.SetAttributes(attribute.String("parlance.run.id", run))
		}
		if code != "" {
			s.SetAttributes(semconv.ErrorTypeKey.String(code), attribute.String("parlance.outcome", code))
		}
		s.End()
	}
}

// MaxLinks bounds the windows that one span is linked with.
const MaxLinks = 32

// Delivered draws that the end of a run reached the windows of this edge: below
// the span that the run began with, and linked with their handshakes.
func (t *Tracer) Delivered(key chat.Key, run *chat.Run, windows int, stamps []string) {
	tr := t.tracer()
	if tr == nil {
		return
	}
	var links []trace.Link
	for _, s := range stamps[:min(len(stamps), MaxLinks)] {
		if sc := parse(s); sc.IsValid() {
			links = append(links, trace.Link{SpanContext: sc})
		}
	}
	_, s := tr.Start(trace.ContextWithRemoteSpanContext(context.Background(), parse(run.Trace)), "deliver thread",
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links...),
		trace.WithAttributes(append(t.common(key.Realm, key.Thread), semconv.MessagingOperationName("deliver"), semconv.MessagingOperationTypeProcess,
			attribute.String("parlance.run.id", run.ID), attribute.Int("parlance.windows", windows))...))
	s.End()
}

// Interface guard
var (
	_ dialect.Trail    = (*Trail)(nil)
	_ conductor.Tracer = (*Tracer)(nil)
)
