package caddymodule

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/edge/tracing"
)

// hubs are the process's hubs by hubKey. They outlive configurations: while one
// that is being loaded has the hub of the one before, its count is never 0.
var hubs = caddy.NewUsagePool()

// hubKey is what tells hubs apart: two configurations that are equal in it use
// one journal, and so one hub.
type hubKey struct {
	kind, address, prefix string
	// how is what must be right for the journal to be reached at all, and what a
	// hub cannot change: a configuration that mends it gets a hub of its own.
	how string
}

func (k hubKey) String() string { return strings.TrimSpace(k.kind + " " + k.address + " " + k.prefix) }

const (
	// endRuns is how long the rest of a drain may take after its time: what
	// still runs is ended, and the ends are stored.
	endRuns = 20 * time.Second
	// comeBack is how many sockets are told each second to come back, so that
	// the process that takes them over is not overrun.
	comeBack = 1000
)

// pooled is a hub in the pool.
type pooled struct {
	key  hubKey
	name string // of this edge
	hub  *edge.Hub
	log  *logSwitch
	// tracer draws the hub's spans.
	tracer *tracing.Tracer
	redis  redisNow     // what the journal asks of the current configuration
	drain  atomic.Int64 // a time.Duration
	// draining says that the hub takes no more sockets and runs.
	draining atomic.Bool
	once     sync.Once
	ctx      context.Context // of the drain
	hurry    context.CancelFunc
	closed   chan struct{}
}

// acquire takes the hub of a place from the pool, opening its journal if nobody
// has it. Each success is given back by hubs.Delete.
func acquire(at place, name string, logger *slog.Logger) (*pooled, error) {
	v, _, err := hubs.LoadOrNew(at.key, func() (caddy.Destructor, error) {
		if at.redis == nil { // two hubs on one Redis are two edges
			leaving.wait(at.key)
		}
		return open(at, name, logger)
	})
	if err != nil {
		return nil, err
	}
	return v.(*pooled), nil
}

func open(at place, name string, logger *slog.Logger) (*pooled, error) {
	p := &pooled{key: at.key, name: name, log: newLogSwitch(logger.Handler()), tracer: tracing.New(name), closed: make(chan struct{})}
	j, err := at.open(context.Background(), &p.redis, slog.New(p.log))
	if err != nil {
		return nil, err
	}
	p.ctx, p.hurry = context.WithCancel(context.Background())
	p.hub = edge.NewHub(j, edge.Options{
		Logger: slog.New(p.log), Name: name, Version: version(), Shared: at.redis != nil, Tracer: p.tracer, Meter: newMeter(p.key.String()), Counts: traffic.of(p.key.String()),
		Archives: at.archives(&p.redis, slog.New(p.log)),
	})
	p.drain.Store(int64(defaultDrain))
	return p, nil
}

// version is that of Parlance in this program, or "" if nobody gave it one.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == "github.com/parlance-gateway/parlance" {
			return m.Version
		}
	}
	return ""
}

// follow lets the hub log as the current configuration says, drain so long, reach
// Redis with its passwords, and keep files in its storage.
func (p *pooled) follow(at place, logger *slog.Logger, drain time.Duration) {
	p.log.to(logger.Handler())
	p.drain.Store(int64(drain))
	p.redis.to(at)
	if at.redis == nil {
		return
	}
	if names := p.redis.tuned(at.redis); len(names) > 0 {
		logger.Warn("changed options of the journal hold from the next start of the process", "journal", p.key.String(), "options", names)
	}
}

// begin starts to drain the hub, once, and then closes it.
func (p *pooled) begin() {
	p.once.Do(func() {
		p.draining.Store(true)
		leaving.add(p)
		go p.end()
	})
}

func (p *pooled) end() {
	defer close(p.closed)
	defer leaving.remove(p)
	drain := time.Duration(p.drain.Load())
	ctx, cancel := context.WithTimeout(p.ctx, drain)
	defer cancel()
	stats := p.hub.Stats()
	logger := slog.New(p.log)
	logger.Info("draining", "journal", p.key.String(), "sockets", stats.Sockets, "runs", stats.Runs, "limit", drain)
	p.hub.Drain(ctx, p.spread())
	if err := p.hub.Close(); err != nil {
		logger.Error("closing", "journal", p.key.String(), "error", err)
	}
}

// spread is the time over which sockets are told to come back.
func (p *pooled) spread() time.Duration {
	return min(time.Duration(p.drain.Load()), time.Duration(p.hub.Stats().Sockets)*time.Second/comeBack)
}

// Destruct is called when no configuration uses the hub any more. At exit it
// waits for the end, within bounds; a reload is not kept waiting.
func (p *pooled) Destruct() error {
	p.begin()
	if !caddy.Exiting() {
		return nil
	}
	return p.wait(time.Duration(p.drain.Load()) + endRuns)
}

func (p *pooled) wait(limit time.Duration) error {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-p.closed:
		return nil
	case <-t.C:
		return fmt.Errorf("the hub of %s did not end in %s", p.key, limit)
	}
}

// leaving are the hubs that are about to end and still hold their journal.
var leaving departures

func init() {
	// One that a reload configured away just before the exit ends in time too.
	caddy.OnExit(func(context.Context) { leaving.all() })
}

type departures struct {
	mu   sync.Mutex
	hubs map[*pooled]struct{}
}

func (d *departures) add(p *pooled) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hubs == nil {
		d.hubs = make(map[*pooled]struct{})
	}
	d.hubs[p] = struct{}{}
}

func (d *departures) remove(p *pooled) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.hubs, p)
}

// wait lets the hubs of a key that are leaving end soon, and waits for them: a
// configuration that comes back to a journal must not find it locked.
func (d *departures) wait(key hubKey) {
	for _, p := range d.list() {
		if p.key == key {
			p.leave()
		}
	}
}

// all waits for every hub that is leaving.
func (d *departures) all() {
	list := d.list()
	for _, p := range list {
		p.hurry()
	}
	for _, p := range list {
		p.leave()
	}
}

func (d *departures) list() []*pooled {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.hubs))
}

func (p *pooled) leave() {
	p.hurry()
	_ = p.wait(endRuns)
}

// Interface guard
var _ caddy.Destructor = (*pooled)(nil)
