package edge

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/edge/page"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/room"
)

// Options are what a hub needs beside its journal, which it closes in the end.
type Options struct {
	Logger *slog.Logger
	// MaxConnections bounds the sockets of the process (default 100,000).
	MaxConnections int
}

// Hub is one journal with the rooms, runs and sockets of this process on it.
type Hub struct {
	journal   journal.Journal
	rooms     *room.Rooms
	conductor *conductor.Conductor
	logger    *slog.Logger
	keys      *identity.Secrets

	// current is the generation in force. A run keeps what it began with.
	current atomic.Pointer[generation]
	// mu guards what follows. active are the generations that were taken on and not given back, oldest
	// first: a reload has two for a moment.
	mu       sync.Mutex
	active   []*generation
	browsers map[string]*identity.Browser
	pages    map[page.Options]http.Handler
	names    map[string]*siteNow
	draining atomic.Bool

	pilotoo     *pilotooFace
	pingerchips *pingerchipsFace
}

// NewHub starts a hub on a journal.
func NewHub(j journal.Journal, o Options) *Hub {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Hub{journal: j, logger: o.Logger, browsers: make(map[string]*identity.Browser), pages: make(map[page.Options]http.Handler), names: make(map[string]*siteNow), keys: identity.NewSecrets(keyShelf{j.Shelf()}, time.Now)}
	h.current.Store(&generation{})
	h.rooms = room.New(j, room.Options{Now: h.now, Random: random, Logger: o.Logger})
	h.conductor = conductor.New(j, h.rooms, conductor.Options{
		Boot: uuid.NewString(), Realm: h.realm, Open: h.openFor, Now: h.now, Random: random, Logger: o.Logger,
	})
	h.pilotoo = newPilotooFace(h, o)
	h.pingerchips = newPingerchipsFace(h, o)
	return h
}

func (h *Hub) now() int64 { return time.Now().UnixMilli() }

func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint64(b[:])
}

func (h *Hub) realm(name string) *conductor.Realm { return h.current.Load().realms[name] }

// Desk is what this hub does for dialects.
func (h *Hub) Desk() dialect.Desk { return desk{h} }

// Activate makes the sites the current configuration. Deactivate gives them
// back; until both have happened for the one before, a failed reload can fall
// back on it.
func (h *Hub) Activate(sites []*Site) (deactivate func(), err error) {
	g, err := newGeneration(sites)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active = append(h.active, g)
	h.current.Store(g)
	return sync.OnceFunc(func() { h.deactivate(g) }), nil
}

// Check says whether the sites could be activated together.
func Check(sites []*Site) error {
	_, err := newGeneration(sites)
	return err
}

func (h *Hub) deactivate(g *generation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, a := range h.active {
		if a == g {
			h.active = append(h.active[:i], h.active[i+1:]...)
			break
		}
	}
	if n := len(h.active); n > 0 && h.current.Load() == g {
		h.current.Store(h.active[n-1])
	}
}

// Ready says why this hub cannot serve new sockets, or nil.
func (h *Hub) Ready(ctx context.Context) error {
	if h.draining.Load() {
		return errDraining
	}
	return h.journal.Ready(ctx)
}

var errDraining = fmt.Errorf("shutting down")

// Drain ends the hub's work in order: no new sockets, sockets told to come
// back over the spread, runs finished until ctx ends and the rest ended.
func (h *Hub) Drain(ctx context.Context, spread time.Duration) {
	h.draining.Store(true)
	var wg sync.WaitGroup
	wg.Go(func() { h.conductor.Drain(ctx) })
	wg.Go(func() { h.pilotoo.drain(ctx, spread) })
	wg.Go(func() { h.pingerchips.drain(ctx, spread) })
	wg.Wait()
}

// Close lets go of everything and closes the journal.
func (h *Hub) Close() error {
	h.draining.Store(true)
	h.pilotoo.close()
	h.pingerchips.close()
	h.conductor.Close()
	h.rooms.Close()
	if err := h.journal.Close(); err != nil {
		return fmt.Errorf("closing the journal: %w", err)
	}
	return nil
}

// Stats are counts of what lives on this hub right now.
type Stats struct{ Sockets, Rooms, Runs int }

// Stats returns the present counts.
func (h *Hub) Stats() Stats {
	return Stats{Sockets: h.pilotoo.sockets() + h.pingerchips.sockets(), Rooms: h.rooms.Len(), Runs: h.conductor.Runs()}
}
