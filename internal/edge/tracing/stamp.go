package tracing

import (
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// stampOf is a span as records and agents are told of it: W3C traceparent, of
// version 00, or "".
func stampOf(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" + sc.TraceFlags().String()
}

// parse reads a traceparent; what is none gives a context that is not valid. What
// versions to come put behind the flags is left alone, as the standard asks.
func parse(s string) trace.SpanContext {
	if len(s) < 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' || s[:2] == "ff" || strings.ToLower(s) != s ||
		len(s) > 55 && (s[:2] == "00" || s[55] != '-') {
		return trace.SpanContext{}
	}
	id, err := trace.TraceIDFromHex(s[3:35])
	if err != nil {
		return trace.SpanContext{}
	}
	sp, err := trace.SpanIDFromHex(s[36:52])
	if err != nil {
		return trace.SpanContext{}
	}
	flags := trace.TraceFlags(0)
	switch s[54] { // of which only the last bit means anything to us
	case '1', '3', '5', '7', '9', 'b', 'd', 'f':
		flags = trace.FlagsSampled
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: sp, TraceFlags: flags, Remote: true})
}
