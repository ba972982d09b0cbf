package caddymodule

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/parlance-gateway/parlance/internal/edge"
)

// Tracing sends spans to where the standard OTEL_* variables say, for all that
// no span of Caddy's own `tracing` directive is around.
type Tracing struct {
	// Puts what people and agents say, and the arguments of tools, into the spans
	// of agents' calls. Who may read traces may then read conversations.
	Content bool `json:"content,omitempty"`
}

// readTracing reads:
//
//	tracing {
//		content on|off
//	}
func (a *App) readTracing(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	a.Tracing = new(Tracing)
	return readBlock(d, "tracing", map[string]option{
		"content": once(func() error {
			if !d.NextArg() {
				return d.ArgErr()
			}
			switch d.Val() {
			case "on", "off":
				a.Tracing.Content = d.Val() == "on"
				return nil
			}
			return d.Errf("content must be on or off, not %q", d.Val())
		}),
	}, nil)
}

// providers has the one provider of the process, while a configuration wants it:
// spans that wait survive a reload.
var providers = caddy.NewUsagePool()

const (
	providerKey = "tracing"
	// flushTime bounds how long an end waits for the spans that are left.
	flushTime = 5 * time.Second
)

// exportLog is where the exporter logs to: it outlives the configuration that it
// was made by.
var exportLog = newLogSwitch(slog.DiscardHandler)

// exporting is a provider in the pool.
type exporting struct{ *sdktrace.TracerProvider }

// acquireProvider makes the process's provider, or takes the one that is there.
// Each success is given back by providers.Delete.
func acquireProvider(edgeName string) (trace.TracerProvider, error) {
	v, _, err := providers.LoadOrNew(providerKey, func() (caddy.Destructor, error) {
		ctx := context.Background()
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, fmt.Errorf("tracing: %w", err)
		}
		// What the variables say comes last, and so wins.
		res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
			semconv.ServiceName("parlance"), semconv.ServiceVersion(version()), semconv.ServiceInstanceID(edgeName)), resource.WithFromEnv())
		if err != nil {
			return nil, fmt.Errorf("tracing: OTEL_RESOURCE_ATTRIBUTES: %w", err)
		}
		return &exporting{sdktrace.NewTracerProvider(
			sdktrace.WithBatcher(&quietExporter{SpanExporter: exporter, logger: slog.New(exportLog)}), sdktrace.WithResource(res),
		)}, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*exporting).TracerProvider, nil
}

// Destruct implements caddy.Destructor. What waits is sent, within bounds.
func (e *exporting) Destruct() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	return e.Shutdown(ctx)
}

// quietExporter says once that a collector is away, and once that it is back.
type quietExporter struct {
	sdktrace.SpanExporter
	logger *slog.Logger

	mu       sync.Mutex
	failures int
}

// ExportSpans implements sdktrace.SpanExporter. Spans that cannot be sent are
// lost: nothing of a conversation waits for them.
func (q *quietExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := q.SpanExporter.ExportSpans(ctx, spans)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case err != nil:
		if q.failures++; q.failures == 1 {
			q.logger.Warn("spans cannot be exported and are lost", "error", err)
		}
	case q.failures > 0:
		q.logger.Info("spans are exported again", "failures", q.failures)
		q.failures = 0
	}
	return nil
}

// trace lets the hub draw spans as the configuration says, with the provider
// that Start took.
func (a *App) trace() {
	content := a.Tracing != nil && a.Tracing.Content
	a.hub.tracer.Use(a.provider, content)
	exportLog.to(a.logger.Handler())
	if content {
		a.logger.Warn("tracing has content on: what people and agents say is in the spans, for all who may read those")
	}
}

// believed marks a request whose traceparent is to be believed, because it comes
// by a proxy that Caddy trusts.
func believed(r *http.Request) *http.Request {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	if !trusted || r.Header.Get("Traceparent") == "" {
		return r
	}
	return edge.FromTrustedPeer(r)
}

// Interface guards
var (
	_ caddy.Destructor      = (*exporting)(nil)
	_ sdktrace.SpanExporter = (*quietExporter)(nil)
)
