//go:build unix

package caddymodule

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/parlance-gateway/parlance/internal/agent/echo"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/pilotoo"
	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/edge/tracing"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
	"github.com/parlance-gateway/parlance/internal/room"
)

// reader is a window that counts what it is delivered.
type reader struct {
	got  *atomic.Int64
	over chan struct{} // closed at a run's end
}

func (r *reader) Deliver(any)            { r.got.Add(1) }
func (r *reader) Close(room.CloseReason) {}

// ending closes over when the thread's run has ended.
type ending struct {
	*reader
	once sync.Once
}

func (e *ending) Deliver(v any) {
	if c, ok := v.(*room.Change); ok && c.Record.Kind == chat.KindRunEnd {
		e.once.Do(func() { close(e.over) })
	}
}

// raw shows changes as they are.
type raw struct{}

func (raw) Encode(c *room.Change) any { return c }

// spent is the time that this process has had of its processors.
func spent() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTelemetry is what it costs to be looked into: processor time for each
// delivered piece of text with everything off, and the ratios to that with
// metrics, and with traces of one message in a hundred and of each. All take
// turns in one run, so that what else the machine does falls on each.
func BenchmarkTelemetry(b *testing.B) {
	const rounds = 5
	sampled := func(ratio float64) *tracing.Tracer {
		p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(tracetest.NewNoopExporter()), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))))
		b.Cleanup(func() { _ = p.Shutdown(context.Background()) })
		t := tracing.New("bench")
		t.Use(p, false)
		return t
	}
	modes := []struct {
		name string
		o    edge.Options
	}{
		{"off", edge.Options{}},
		{"metrics", edge.Options{Meter: newMeter("bench"), Counts: traffic.of("bench")}},
		{"traces1%", edge.Options{Tracer: sampled(.01)}},
		{"traces100%", edge.Options{Tracer: sampled(1)}},
	}
	for b.Loop() {
		cost, pieces := make([]time.Duration, len(modes)), make([]int64, len(modes))
		for range rounds {
			for i, m := range modes {
				c, n := talk(b, m.o)
				cost[i] += c
				pieces[i] += n
			}
		}
		off := float64(cost[0]) / float64(pieces[0])
		b.ReportMetric(off, "off-cpu-ns/piece")
		for i, m := range modes[1:] {
			b.ReportMetric(float64(cost[i+1])/float64(pieces[i+1])/off, m.name+"/off")
		}
	}
	b.ReportMetric(0, "ns/op") // it is the ratios that count
}

// talk lets an edge answer in some threads at once, each watched by some windows,
// and says what that took of the processors and how much was delivered.
func talk(b *testing.B, o edge.Options) (time.Duration, int64) {
	b.Helper()
	const threads, windows, words = 20, 4, 300
	j, err := filejournal.Open(b.Context(), filejournal.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	h := edge.NewHub(j, o)
	defer h.Close()
	off, err := h.Activate([]*edge.Site{{
		Name: "bench", Realm: "default", Agents: []edge.NamedAgent{{Name: "echo", Agent: echo.New(echo.Config{Delay: time.Millisecond})}},
		Limits: edge.Limits{Pace: -1},
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer off()
	ann := identity.Principal{Realm: "default", Subject: identity.Subject{Issuer: "bench", ID: "ann"}, Caps: identity.OwnThreads(identity.UserVerbs)}
	var text chat.Text
	for i := range words {
		text = fmt.Appendf(text, "w%d ", i)
	}
	began := spent()
	var got atomic.Int64
	ends := make([]*ending, threads)
	for i := range threads {
		t, err := h.Desk().Create(b.Context(), ann, dialect.NewThread{})
		if err != nil {
			b.Fatal(err)
		}
		ends[i] = &ending{reader: &reader{got: &got, over: make(chan struct{})}}
		watch := func(v room.Variant, m room.Member) {
			s, err := h.Desk().Join(b.Context(), ann, t.ID, v, m)
			if err != nil {
				b.Fatal(err)
			}
			s.Release()
		}
		watch(raw{}, ends[i])
		for range windows {
			watch(pilotoo.Variant{}, ends[i].reader)
		}
		if _, err := h.Desk().Start(b.Context(), ann, dialect.Start{
			Thread: t.ID, Dialect: "pilotoo",
			Message: &chat.Message{ID: fmt.Sprintf("m%d", i), Role: chat.User, Parts: []*chat.Part{{ID: fmt.Sprintf("m%d", i), Type: chat.PartText, Text: text}}},
		}); err != nil {
			b.Fatal(err)
		}
	}
	for _, e := range ends {
		<-e.over
	}
	return spent() - began, got.Load()
}
