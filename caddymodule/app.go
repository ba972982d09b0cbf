package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.opentelemetry.io/otel/trace"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/edge"
)

func init() {
	caddy.RegisterModule(new(App))
}

// defaultDrain is how long an exit lets runs finish.
const defaultDrain = 30 * time.Second

// App holds what the handlers of a configuration share: the journal, and through
// it their threads. It is there, with its defaults, wherever a parlance handler
// is; it needs to be configured only to change one.
type App struct {
	// Where threads are kept. The default is a folder of this machine.
	Journal *Journal `json:"journal,omitempty"`

	// How long runs may go on when the process exits or the journal is
	// configured away; what then still runs is ended with a reason. Default: 30s.
	Drain caddy.Duration `json:"drain,omitempty"`

	// What operators call this process among those on the same journal. It holds
	// from the start of the process. Default: the host's name.
	Edge string `json:"edge,omitempty"`

	// Sends spans of what is done to a collector. Default: spans are sent only
	// where Caddy's own `tracing` directive makes them.
	Tracing *Tracing `json:"tracing,omitempty"`

	logger *slog.Logger
	place  place
	// current is closed when the hub serves this configuration, ended when
	// the configuration is no longer wanted.
	current, ended chan struct{}
	end            sync.Once

	mu       sync.Mutex
	handlers []*Handler

	// hub is set before current is closed, and stays: requests may outlive the
	// configuration. held says that it must be given back.
	hub        *pooled
	held       bool
	provider   trace.TracerProvider // or nil; it must be given back too
	deactivate func()
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "parlance", New: func() caddy.Module { return new(App) }}
}

// Provision checks the app's options; it opens nothing.
func (a *App) Provision(ctx caddy.Context) error {
	a.logger = ctx.Slogger()
	a.current, a.ended = make(chan struct{}), make(chan struct{})
	switch {
	case a.Drain == 0:
		a.Drain = caddy.Duration(defaultDrain)
	case a.Drain < 0:
		return errors.New("drain must not be negative")
	}
	var err error
	if a.Edge, err = edgeName(a.Edge); err != nil {
		return fmt.Errorf("edge: %w", err)
	}
	if a.place, err = a.Journal.place(ctx); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := registerMetrics(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	events, err := ctx.App("events")
	if err != nil {
		return err
	}
	bus := events.(*caddyevents.App)
	return errors.Join(bus.On("started", listener(a.activate)), bus.On("stopping", listener(a.exit)))
}

// edgeName fills in what an edge is called.
func edgeName(name string) (string, error) {
	name, err := replaced(name)
	if err != nil {
		return "", err
	}
	if name == "" {
		if name, err = os.Hostname(); err != nil || !chat.ValidID(name) {
			name = "edge"
		}
	}
	if !chat.ValidID(name) {
		return "", errors.New("not a name of 1 to 128 characters")
	}
	return name, nil
}

// Start opens the hub, or takes the one that an earlier configuration has. No
// hub is wanted without handlers. A Redis that is away is no reason to fail:
// readiness says so, and the hub heals by itself.
func (a *App) Start() error {
	if len(a.handlers) == 0 {
		return nil
	}
	if a.Tracing != nil {
		var err error
		if a.provider, err = acquireProvider(a.Edge); err != nil {
			return err
		}
	}
	hub, err := acquire(a.place, a.Edge, a.logger)
	if err != nil {
		return err
	}
	a.hub, a.held = hub, true
	return nil
}

// activate makes this configuration the current one. Caddy says when every app
// has started, so one that fails half-way never was it.
func (a *App) activate() {
	if !a.held || a.deactivate != nil {
		return
	}
	deactivate, err := a.hub.hub.Activate(a.sites())
	if err != nil {
		a.logger.Error("activating the configuration", "error", err) // each handler was checked by add
		return
	}
	a.deactivate = deactivate
	a.hub.follow(a.place, a.logger, time.Duration(a.Drain))
	a.hub.keep(a.sites())
	a.trace()
	agentLog.to(a.logger.Handler())
	for _, h := range a.handlers {
		for _, warm := range h.warmers {
			warm()
		}
	}
	close(a.current)
	a.warn()
}

// wait returns when the hub serves this configuration: servers may start a
// moment before.
func (a *App) wait(ctx context.Context) error {
	select {
	case <-a.current:
		return nil
	default:
	}
	select {
	case <-a.current:
		return nil
	case <-a.ended:
		return errNotCurrent
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errNotCurrent = errors.New("the configuration did not start")

// warn tells once what an operator should know of a configuration.
func (a *App) warn() {
	var open []string
	for _, h := range a.handlers {
		if h.site.Auth == nil && !slices.Contains(open, h.site.Realm) {
			open = append(open, h.site.Realm)
		}
	}
	if len(open) > 0 {
		a.logger.Warn("no auth is configured: each browser is its own subject, told by a signed cookie", "realms", open)
	}
}

// Stop implements caddy.App. What Start took is given back by Cleanup, which
// Caddy calls in every case, also when another app could not start.
func (a *App) Stop() error { return nil }

// exit begins to drain as soon as the process is about to end, so that requests
// that wait for events end, and the servers that wait for those requests too.
func (a *App) exit() {
	if a.held && caddy.Exiting() {
		a.hub.begin()
	}
}

// Cleanup gives the hub back. At exit it waits until the hub has drained.
func (a *App) Cleanup() error {
	if a.ended == nil {
		return nil // it was not provisioned
	}
	a.end.Do(func() { close(a.ended) })
	if a.deactivate != nil {
		a.deactivate()
	}
	var err error
	if a.held {
		a.held = false
		_, err = hubs.Delete(a.place.key)
	}
	if a.provider != nil { // after the hub, whose last spans it has yet to send
		a.provider = nil
		_, flush := providers.Delete(providerKey)
		err = errors.Join(err, flush)
	}
	return err
}

// listener is told of one of Caddy's events.
type listener func()

func (f listener) Handle(context.Context, caddy.Event) error {
	f()
	return nil
}

// add takes a handler's site into the configuration, or says with what it does
// not go together.
func (a *App) add(h *Handler) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, other := range a.handlers {
		if err := h.together(other); err != nil {
			return err
		}
	}
	h.site.Name = h.Name
	for n := 1; h.site.Name == "" || a.named(h.site.Name) && h.Name == ""; n++ {
		h.site.Name = fmt.Sprintf("%s %s %s #%d", h.site.Realm, h.server, h.site.Pilotoo.Path, n)
	}
	if err := edge.Check(append(a.sitesLocked(), h.site)); err != nil {
		return err
	}
	a.handlers = append(a.handlers, h)
	return nil
}

func (a *App) named(name string) bool {
	return slices.ContainsFunc(a.handlers, func(h *Handler) bool { return h.site.Name == name })
}

func (a *App) sites() []*edge.Site {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sitesLocked()
}

func (a *App) sitesLocked() []*edge.Site {
	sites := make([]*edge.Site, len(a.handlers))
	for i, h := range a.handlers {
		sites[i] = h.site
	}
	return sites
}

// Interface guards
var (
	_ caddy.App           = (*App)(nil)
	_ caddy.Provisioner   = (*App)(nil)
	_ caddy.CleanerUpper  = (*App)(nil)
	_ caddyevents.Handler = listener(nil)
)
