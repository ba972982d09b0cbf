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
	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
	"github.com/parlance-gateway/parlance/internal/edge/page"
	"github.com/parlance-gateway/parlance/internal/edge/tracing"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/room"
)

// Options are what a hub needs beside its journal, which it closes in the end.
type Options struct {
	Logger *slog.Logger
	// Name is the edge's, for people: operators and members of a thread see it.
	// By default it is made of the start's id.
	Name string
	// Version is the program's, for operators.
	Version string
	// Shared says that other processes serve the same journal: then polling
	// sessions get a cookie by which a load balancer finds their edge again.
	Shared bool
	// Archives is where archives are kept; nil is where the journal keeps its blobs.
	Archives journal.Blobs
	// Now is the clock (default Wall).
	Now func() time.Time
	// Meter is told what the hub does; nil is nobody.
	Meter Meter
	// Tracer draws spans; nil draws none.
	Tracer *tracing.Tracer
	// Counts are told what its sockets and rooms do; nil is nobody.
	Counts *Counts
	// MaxConnections bounds the sockets of the process (default 100,000).
	MaxConnections int
}

// Hub is one journal with the rooms, runs and sockets of this process on it.
type Hub struct {
	journal   journal.Journal
	clock     *steady
	rooms     *room.Rooms
	conductor *conductor.Conductor
	logger    *slog.Logger
	keys      *identity.Secrets
	meter     Meter
	tracer    *tracing.Tracer // or nil
	pulse     *pulse          // what meter is, or nil
	whole     atomic.Bool     // set once all of it is there: the conductor asks before

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
	closed   atomic.Bool
	drain    *drain

	boot, name, version string
	started             int64

	pilotoo     *pilotooFace
	pingerchips *pingerchipsFace
	smooth      *smooth.Server
}

// NewHub starts a hub on a journal.
func NewHub(j journal.Journal, o Options) *Hub {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Counts == nil {
		o.Counts = new(Counts)
	}
	if o.Now == nil {
		o.Now = Wall
	}
	h := &Hub{clock: &steady{wall: o.Now}, logger: o.Logger, browsers: make(map[string]*identity.Browser), pages: make(map[page.Options]http.Handler), names: make(map[string]*siteNow), keys: identity.NewSecrets(keyShelf{j.Shelf()}, o.Now)}
	h.current.Store(&generation{})
	h.boot, h.name, h.version, h.started = uuid.NewString(), o.Name, o.Version, h.now()
	if h.name == "" {
		h.name = "edge-" + opaque(h.boot)[:6]
	}
	if o.Meter != nil {
		h.pulse = newPulse(o.Meter, h.now)
		o.Meter = h.pulse
		j = meteredJournal{j, o.Meter, h.name}
	}
	h.journal, h.meter, h.tracer = j, o.Meter, o.Tracer
	h.rooms = room.New(j, room.Options{Boot: h.boot, Now: h.now, Random: random, Logger: o.Logger, Counts: &o.Counts.Rooms, Ended: h.delivered()})
	h.pilotoo = newPilotooFace(h, o) // before the conductor, which asks for its sockets
	h.pingerchips = newPingerchipsFace(h, o)
	h.smooth = newSmoothServer(h, o)
	h.conductor = conductor.New(j, h.rooms, conductor.Options{
		Boot: h.boot, Name: h.name, Edge: h.edge, Realm: h.realm, Open: h.openFor, Archives: o.Archives, Now: h.now, Random: random, Logger: o.Logger, Meter: o.Meter,
		Tracer:  h.traces(),
		Unasked: h.unasked,
	})
	h.whole.Store(true)
	return h
}

func (h *Hub) now() int64 { return h.clock.now() }

func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint64(b[:])
}

func (h *Hub) realm(name string) *conductor.Realm { return h.current.Load().realms[name] }

// Desk is what this hub does for dialects.
func (h *Hub) Desk() dialect.Desk {
	if h.meter != nil {
		return meteredDesk{desk{h}, h.meter}
	}
	return desk{h}
}

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
	h.conductor.Announce()
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
		h.conductor.Announce()
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

// drain is the one drain of a hub.
type drain struct {
	since int64
	done  chan struct{}
	hurry context.CancelFunc
}

// startDrain begins the drain; h.mu is held, and it was not begun before.
func (h *Hub) startDrain(limit, spread time.Duration) {
	ctx, hurry := context.WithTimeout(context.Background(), limit)
	d := &drain{since: h.now(), done: make(chan struct{}), hurry: hurry}
	h.drain = d
	h.draining.Store(true)
	h.conductor.BeginDrain() // the other edges learn of it before the sockets come
	go func() {
		defer close(d.done)
		defer hurry()
		var wg sync.WaitGroup
		wg.Go(func() { h.conductor.Drain(ctx) })
		wg.Go(func() { h.pilotoo.drain(ctx, spread) })
		wg.Go(func() { h.pingerchips.drain(ctx, spread) })
		wg.Go(func() { h.smooth.Drain(ctx, spread) })
		wg.Wait()
	}()
}

// maxDrain bounds a drain whose context has no deadline.
const maxDrain = 24 * time.Hour

// Drain ends the hub's work in order and returns when that is done: no new
// sockets, sockets told to come back over the spread, runs finished until ctx
// ends, and the rest handed over or ended. A drain that had begun before goes on
// as it was, and hurries when ctx ends.
func (h *Hub) Drain(ctx context.Context, spread time.Duration) {
	h.mu.Lock()
	if h.drain == nil {
		limit := maxDrain
		if deadline, ok := ctx.Deadline(); ok {
			limit = max(0, time.Until(deadline))
		}
		h.startDrain(limit, spread)
	}
	d := h.drain
	h.mu.Unlock()
	select {
	case <-d.done:
		return
	case <-ctx.Done():
	}
	d.hurry()
	<-d.done
}

// Close lets go of everything and closes the journal.
func (h *Hub) Close() error {
	h.draining.Store(true)
	h.closed.Store(true)
	h.mu.Lock()
	d := h.drain
	h.mu.Unlock()
	if d != nil {
		d.hurry() // it ends what is left, which needs the journal
		<-d.done
	}
	h.pilotoo.close()
	h.pingerchips.close()
	h.smooth.Close()
	h.conductor.Close()
	h.rooms.Close()
	if err := h.journal.Close(); err != nil {
		return fmt.Errorf("closing the journal: %w", err)
	}
	return nil
}

// sockets are those of all dialects.
func (h *Hub) sockets() int {
	return h.pilotoo.sockets() + h.pingerchips.sockets() + h.smooth.Connections()
}

// Stats are counts of what lives on this hub right now.
type Stats struct{ Sockets, Rooms, Runs int }

// Stats returns the present counts.
func (h *Hub) Stats() Stats {
	return Stats{Sockets: h.sockets(), Rooms: h.rooms.Len(), Runs: h.conductor.Runs()}
}
