package caddymodule

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spans is a collector.
type spans struct {
	mu   sync.Mutex
	list []sent
}

// sent is a span with who sent it.
type sent struct {
	*otlp.Span
	service, scope string
}

func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	var in collector.ExportTraceServiceRequest
	if r.URL.Path != "/v1/traces" || proto.Unmarshal(b, &in) != nil {
		http.Error(w, "no spans", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range in.ResourceSpans {
		service := ""
		for _, a := range rs.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, ss := range rs.ScopeSpans {
			for _, sp := range ss.Spans {
				s.list = append(s.list, sent{sp, service, ss.Scope.Name})
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// named are the spans of that name.
func (s *spans) named(name string) []sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []sent
	for _, sp := range s.list {
		if sp.Name == name {
			list = append(list, sp)
		}
	}
	return list
}

// Spans go to where the standard variables say: by the option, through a reload,
// and below those of Caddy's own directive where that is there.
func TestSpansAreSent(t *testing.T) {
	all := new(spans)
	srv := httptest.NewServer(all)
	defer srv.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
	p := newProcess(t)
	app := journalIn(filepath.Join(p.home, "threads"))
	p.start(p.config(app+"\n\t\ttracing {\n\t\t\tcontent on\n\t\t}", "parlance echo"))
	p.poll()
	if status, body := p.load(p.config(app, "tracing {\n\t\tspan chat\n\t}\n\tparlance echo")); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	p.poll()
	p.stop(syscall.SIGTERM)
	shakes := all.named("handshake pilotoo")
	if len(shakes) != 2 {
		t.Fatalf("%d handshakes were sent, want one of each configuration", len(shakes))
	}
	if shakes[0].service != "parlance" || len(shakes[0].ParentSpanId) != 0 {
		t.Errorf("of the option: service %q, parent %x", shakes[0].service, shakes[0].ParentSpanId)
	}
	below := false
	for _, s := range all.named("chat") {
		below = below || bytes.Equal(s.SpanId, shakes[1].ParentSpanId)
	}
	if !below {
		t.Errorf("of Caddy's directive: the parent %x is no span of the request", shakes[1].ParentSpanId)
	}
	if n := strings.Count(p.logged(), "tracing has content on"); n != 1 {
		t.Errorf("the warning about content is there %d times", n)
	}
}

// A request's own traceparent counts only if it comes by a trusted proxy.
func TestTraceparentOfTrustedPeers(t *testing.T) {
	for _, c := range []struct {
		trusted bool
		header  string
		marked  bool
	}{
		{true, "00-01020000000000000000000000000000-0300000000000000-01", true},
		{false, "00-01020000000000000000000000000000-0300000000000000-01", false},
		{true, "", false},
	} {
		r := prepared(http.MethodGet, "/ws")
		caddyhttp.SetVar(r.Context(), caddyhttp.TrustedProxyVarKey, c.trusted)
		if c.header != "" {
			r.Header.Set("Traceparent", c.header)
		}
		if got := believed(r) != r; got != c.marked {
			t.Errorf("trusted %v, %q: believed %v", c.trusted, c.header, got)
		}
	}
}

// failing is an exporter whose collector is away for some calls.
type failing struct {
	sdktrace.SpanExporter
	errs []error
}

func (f *failing) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	err := f.errs[0]
	f.errs = f.errs[1:]
	return err
}

// A collector that is away is said once, and once that it is back.
func TestACollectorThatIsAwayIsSaidOnce(t *testing.T) {
	var out bytes.Buffer
	away := errors.New("away")
	q := &quietExporter{SpanExporter: &failing{errs: []error{away, away, away, nil, nil}}, logger: slog.New(slog.NewTextHandler(&out, nil))}
	for range 5 {
		if err := q.ExportSpans(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), "failures=3") {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}

// What the exporter has to say goes to the log of the configuration that is there
// by then, not to that of the one which made it.
func TestTheExporterLogsWhereTheConfigurationDoes(t *testing.T) {
	var status atomic.Int32
	status.Store(http.StatusBadRequest) // nothing that is tried again
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.WriteHeader(int(status.Load()))
	}))
	defer srv.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
	provider, err := acquireProvider("here")
	if err != nil {
		t.Fatal(err)
	}
	hub := hubIn(t, t.TempDir())
	var logs [2]bytes.Buffer
	for i := range logs {
		a := &App{hub: hub, provider: provider, logger: slog.New(slog.NewTextHandler(&logs[i], nil))}
		a.trace()
		_, s := provider.Tracer("test").Start(t.Context(), "a span")
		s.End()
		if err := provider.(*sdktrace.TracerProvider).ForceFlush(t.Context()); err != nil {
			t.Error(err)
		}
		status.Store(http.StatusOK)
	}
	for i, want := range []string{"are lost", "again"} {
		if got := logs[i].String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
			t.Errorf("configuration %d: %q", i, got)
		}
	}
	hub.tracer.Use(nil, false)
	if _, err := providers.Delete(providerKey); err != nil {
		t.Error(err)
	}
}
