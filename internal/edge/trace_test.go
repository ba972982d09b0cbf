package edge

import (
	"context"
	"fmt"
	"slices"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/edge/tracing"
	"github.com/parlance-gateway/parlance/internal/room"
)

// stamped is a member whose handshake was drawn.
type stamped struct {
	room.Member
	stamp string
}

func (s stamped) Stamp() string { return s.stamp }

// Nobody goes through a run's windows where no spans are made; where they are,
// all are counted and some are linked.
func TestWhoIsSaidToHaveSeenAnEnd(t *testing.T) {
	h := &Hub{tracer: tracing.New("one")}
	c := &room.Change{
		Key: chat.Key{Realm: "default", Thread: "t"}, Record: &chat.Record{Entry: chat.Entry{Run: "r", Kind: chat.KindRunEnd}},
		Before: &chat.State{Runs: []*chat.Run{{ID: "r"}}},
	}
	tell := h.delivered()
	tell(c, func(func(room.Member) bool) { t.Error("windows are looked at for nobody") })

	spans := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	h.tracer.Use(p, false)
	tell(c, slices.Values([]room.Member(nil)))
	if n := len(spans.GetSpans()); n != 0 {
		t.Errorf("%d spans of an end that nobody was shown", n)
	}
	const windows = tracing.MaxLinks + 8
	var members []room.Member
	for i := range windows {
		members = append(members, stamped{stamp: fmt.Sprintf("00-%032x-%016x-01", i+1, i+1)})
	}
	tell(c, slices.Values(members))
	got := spans.GetSpans()
	if len(got) != 1 || len(got[0].Links) != tracing.MaxLinks {
		t.Fatalf("%d spans, want one with %d links", len(got), tracing.MaxLinks)
	}
	told := int64(0)
	for _, a := range got[0].Attributes {
		if a.Key == "parlance.windows" {
			told = a.Value.AsInt64()
		}
	}
	if told != windows {
		t.Errorf("%d windows are told of, want %d", told, windows)
	}
}
