package caddymodule

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
)

// hubs are the process's hubs by hubKey. They outlive configurations: while one
// that is being loaded has the hub of the one before, its count is never 0.
var hubs = caddy.NewUsagePool()

// hubKey is what tells hubs apart: two configurations that are equal in it use
// one journal, and so one hub.
type hubKey struct{ kind, address, prefix string }

func (k hubKey) String() string { return k.kind + " " + k.address + k.prefix }

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
	key    hubKey
	hub    *edge.Hub
	log    *logSwitch
	drain  atomic.Int64 // a time.Duration
	once   sync.Once
	ctx    context.Context // of the drain
	hurry  context.CancelFunc
	closed chan struct{}
}

// acquire takes the hub of key from the pool, opening its journal if nobody has
// it. Each success is given back by hubs.Delete.
func acquire(key hubKey, logger *slog.Logger) (*pooled, error) {
	v, _, err := hubs.LoadOrNew(key, func() (caddy.Destructor, error) {
		leaving.wait(key)
		return open(key, logger)
	})
	if err != nil {
		return nil, err
	}
	return v.(*pooled), nil
}

func open(key hubKey, logger *slog.Logger) (*pooled, error) {
	log := newLogSwitch(logger.Handler())
	j, err := filejournal.Open(context.Background(), filejournal.Options{Dir: key.address, Logger: slog.New(log)})
	if err != nil {
		return nil, err
	}
	p := &pooled{key: key, log: log, closed: make(chan struct{})}
	p.ctx, p.hurry = context.WithCancel(context.Background())
	p.hub = edge.NewHub(j, edge.Options{Logger: slog.New(log)})
	p.drain.Store(int64(defaultDrain))
	return p, nil
}

// follow lets the hub log as the current configuration says, and drain so long.
func (p *pooled) follow(logger *slog.Logger, drain time.Duration) {
	p.log.to(logger.Handler())
	p.drain.Store(int64(drain))
}

// begin starts to drain the hub, once, and then closes it.
func (p *pooled) begin() {
	p.once.Do(func() {
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
	spread := min(drain, time.Duration(stats.Sockets)*time.Second/comeBack)
	logger := slog.New(p.log)
	logger.Info("draining", "journal", p.key.String(), "sockets", stats.Sockets, "runs", stats.Runs, "limit", drain)
	p.hub.Drain(ctx, spread)
	if err := p.hub.Close(); err != nil {
		logger.Error("closing", "journal", p.key.String(), "error", err)
	}
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
	hubs map[hubKey]*pooled
}

func (d *departures) add(p *pooled) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hubs == nil {
		d.hubs = make(map[hubKey]*pooled)
	}
	d.hubs[p.key] = p
}

func (d *departures) remove(p *pooled) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.hubs, p.key)
}

// wait lets the hub of a key, if one is leaving, end soon, and waits for it: a
// configuration that comes back to a journal must not find it locked.
func (d *departures) wait(key hubKey) {
	d.mu.Lock()
	p := d.hubs[key]
	d.mu.Unlock()
	if p != nil {
		p.hurry()
		_ = p.wait(endRuns)
	}
}

func (d *departures) all() {
	d.mu.Lock()
	left := make([]hubKey, 0, len(d.hubs))
	for key := range d.hubs {
		left = append(left, key)
	}
	d.mu.Unlock()
	for _, key := range left {
		d.wait(key)
	}
}

// Interface guard
var _ caddy.Destructor = (*pooled)(nil)
