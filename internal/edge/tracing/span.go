package tracing

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// describe is how a span of some work begins.
func (t *Tracer) describe(w conductor.Work) (name string, options []trace.SpanStartOption) {
	attrs := t.common(w.Key.Realm, w.Key.Thread)
	if w.Run != nil {
		attrs = append(attrs, attribute.String("parlance.run.id", w.Run.ID), semconv.GenAIAgentName(w.Run.Agent))
	}
	if w.Fence != 0 {
		attrs = append(attrs, attribute.Int64("parlance.run.attempt", int64(w.Fence)), attribute.String("parlance.segment.id", w.Run.Segment()))
	}
	kind := trace.SpanKindInternal
	switch w.Kind {
	case conductor.WorkCommit:
		name, kind = "commit thread", trace.SpanKindProducer
		attrs = append(attrs, semconv.MessagingOperationName("commit"), semconv.MessagingOperationTypeSend)
	case conductor.WorkClaim:
		name, kind = "claim thread", trace.SpanKindConsumer
		attrs = append(attrs, semconv.MessagingOperationName("claim"), semconv.MessagingOperationTypeReceive)
	case conductor.WorkCall:
		name, kind = "invoke_agent "+w.Run.Agent, trace.SpanKindClient
		attrs = append(attrs, semconv.GenAIOperationNameInvokeAgent, semconv.GenAIProviderNameKey.String(system))
		if t.Content() && w.Call != nil {
			attrs = append(attrs, semconv.GenAIInputMessagesKey.String(question(w.Call.Messages)))
		}
	case conductor.WorkSegment:
		name = "segment " + w.Run.Agent
	case conductor.WorkRun:
		name = "run " + w.Run.Agent
		by := identity.Principal{Realm: w.Key.Realm, Tenant: w.Key.Tenant, Subject: identity.Subject(w.Run.Origin.By)}
		attrs = append(attrs, semconv.EnduserPseudoID(by.Hash()), attribute.String("parlance.dialect", w.Run.Origin.Dialect),
			attribute.Int("parlance.run.segments", len(w.Run.Segments)))
	}
	options = append(options, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
	if w.Since != 0 {
		options = append(options, trace.WithTimestamp(time.UnixMilli(w.Since)))
	}
	return name, options
}

// span is some work of a conductor that has begun.
type span struct {
	trace.Span
	tracer *Tracer
	began  time.Time
}

// Event implements conductor.Span.
func (s *span) Event(name, about string) {
	if about == "" {
		s.AddEvent(name)
		return
	}
	s.AddEvent(name, trace.WithAttributes(attribute.String("parlance.about", about)))
}

// Link implements conductor.Span.
func (s *span) Link(stamp string) {
	if sc := parse(stamp); sc.IsValid() {
		s.AddLink(trace.Link{SpanContext: sc})
	}
}

// First implements conductor.Span.
func (s *span) First() {
	s.AddEvent("first token")
	s.SetAttributes(semconv.GenAIResponseTimeToFirstChunk(time.Since(s.began).Seconds()))
}

// Said implements conductor.Span.
func (s *span) Said(parts []*chat.Part) {
	if s.tracer.Content() {
		s.SetAttributes(semconv.GenAIOutputMessagesKey.String(spoken("assistant", parts)))
	}
}

// Stamp implements conductor.Span.
func (s *span) Stamp() string { return stampOf(s.SpanContext()) }

// End implements conductor.Span.
func (s *span) End(outcome string, err error) {
	s.SetAttributes(attribute.String("parlance.outcome", outcome))
	switch {
	case err != nil:
		// Never the error's own text: it may hold what somebody wrote.
		s.SetStatus(codes.Error, "failed")
		s.SetAttributes(semconv.ErrorTypeKey.String("failed"))
	case outcome == string(chat.RunError):
		s.SetStatus(codes.Error, outcome)
		s.SetAttributes(semconv.ErrorTypeKey.String(outcome))
	}
	s.Span.End()
}

// none is a span where nothing is drawn.
type none struct{}

func (none) Event(string, string) {}
func (none) Link(string)          {}
func (none) First()               {}
func (none) Said([]*chat.Part)    {}
func (none) Stamp() string        { return "" }
func (none) End(string, error)    {}

// maxContent bounds what one attribute holds of what was said, in bytes.
const maxContent = 16 << 10

// question is the newest message that an agent is given.
func question(messages []*chat.Message) string {
	if len(messages) == 0 {
		return "[]"
	}
	m := messages[len(messages)-1]
	return spoken(string(m.Role), m.Parts)
}

// spoken is what was said in the form of the conventions, cut off where it is
// too long.
func spoken(role string, parts []*chat.Part) string {
	type part struct {
		Type      string `json:"type"`
		Content   string `json:"content,omitempty"`
		ID        string `json:"id,omitempty"`
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments,omitempty"`
	}
	left := maxContent
	cut := func(s string) string {
		s = strings.ToValidUTF8(s[:min(len(s), left)], "")
		left -= len(s)
		return s
	}
	list := []part{}
	for _, p := range parts {
		if left == 0 {
			break
		}
		switch p.Type {
		case chat.PartText:
			list = append(list, part{Type: "text", Content: cut(string(p.Text))})
		case chat.PartTool:
			list = append(list, part{Type: "tool_call", ID: p.ID, Name: p.Name, Arguments: cut(string(p.Text))})
		}
	}
	b, err := json.Marshal([]struct {
		Role  string `json:"role"`
		Parts []part `json:"parts"`
	}{{role, list}})
	if err != nil {
		return "[]"
	}
	return string(b)
}

// Interface guards
var (
	_ conductor.Span = (*span)(nil)
	_ conductor.Span = none{}
)
