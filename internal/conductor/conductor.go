package conductor

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/room"
)

// Realm is what a realm's current configuration says of runs. It is immutable;
// a segment keeps the one that it began with.
type Realm struct {
	Agents map[string]agent.Agent
	// Default is the agent of threads that name none.
	Default string
	// Pace is how long further deltas of a block are gathered; 0 is not at all.
	Pace time.Duration
	// RunTimeout bounds a segment, PauseTimeout a question; 0 is no bound.
	RunTimeout, PauseTimeout time.Duration
	// MaxRuns bounds a thread's live runs, MaxClientRuns those at work on this
	// edge that one subject began; 0 is no bound.
	MaxRuns, MaxClientRuns int
	// SameUpstream gives an agent our thread id instead of one per branch.
	SameUpstream bool
	// ArchiveAfter is how long after its newest message a thread's older ones are
	// archived, if it has more than ArchiveOver in the journal; 0 is never, and
	// DefaultArchiveOver.
	ArchiveAfter time.Duration
	ArchiveOver  int
}

// Options are what a conductor needs beside its journal and rooms.
type Options struct {
	// Boot names this start of this edge; it is unique and unguessable.
	Boot string
	// Realm returns the current configuration of a realm, or nil.
	Realm func(name string) *Realm
	// Open returns an attachment's bytes.
	Open func(ctx context.Context, key chat.Key, id string) (io.ReadCloser, error)
	// Archives is where archives are kept; nil is where the journal keeps its blobs.
	Archives journal.Blobs
	// Now is the clock in Unix milliseconds, Random draws 64 bits.
	Now    func() int64
	Random func() uint64
	Logger *slog.Logger
	// Name is what people call this edge, for the log.
	Name string
	// Unasked is how a question is settled at once that its run's dialect asks nobody,
	// and with which answer; "" is one that waits. Nil asks all.
	Unasked func(realm string, run *chat.Run, i *chat.Interrupt) (chat.InterruptStatus, jsontext.Value)
	// Edge is what this edge tells the others of itself; Boot, Runs and Draining
	// are filled in. Nil tells nothing.
	Edge func() journal.Edge
	// BeatEvery, SweepEvery and TidyEvery default to 2 s, 1 s and 10 min.
	BeatEvery, SweepEvery, TidyEvery time.Duration
	// Meter is told of runs; nil is nobody.
	Meter Meter
	// Tracer draws what is done as spans; nil draws nothing.
	Tracer Tracer
	// CommandTimeout bounds how long a command tries (default 15 s).
	CommandTimeout time.Duration
}

// Conductor runs the runs of one edge.
type Conductor struct {
	j     journal.Journal
	rooms *room.Rooms
	o     Options

	ctx context.Context
	end context.CancelFunc
	wg  sync.WaitGroup

	mu       sync.Mutex
	runners  map[attempt]*runner
	took     map[runKey]int64 // when runs were taken from other edges, for takeEvery
	draining bool
	sweep    Sweep
	// queued are runs that wait for agents that dial in; queuedSwept is when old
	// ones were taken out.
	queued      map[runKey]queued
	queuedSwept int64

	// fleet is what the other edges said last; announced is when this one was
	// heard last, for the goroutine of the heartbeat alone.
	fleet     atomic.Pointer[Fleet]
	accord    accord // of announce
	announced int64
	kick      chan struct{}
	// lease is when the last heartbeat that was heard was sent; unheard is the
	// same for the runs that it was not heard for.
	lease   atomic.Int64
	unheard atomic.Pointer[map[attempt]int64]
	// beats and looks belong to the goroutines that do so.
	beats, looks outage
	// since is when the conductor began, in Unix milliseconds.
	since int64
	// archiving is true while this edge archives a thread, which is one at a time;
	// archives belongs to who has set it.
	archiving        atomic.Bool
	archives, tidies outage
}

// attempt is one owner's hold of a run.
type attempt struct {
	key   chat.Key
	run   string
	fence uint64
}

// New starts a conductor; Close ends it.
func New(j journal.Journal, rooms *room.Rooms, o Options) *Conductor {
	if o.BeatEvery == 0 {
		o.BeatEvery = 2 * time.Second
	}
	if o.SweepEvery == 0 {
		o.SweepEvery = time.Second
	}
	if o.TidyEvery == 0 {
		o.TidyEvery = 10 * time.Minute
	}
	if o.CommandTimeout == 0 {
		o.CommandTimeout = 15 * time.Second
	}
	if o.Archives == nil {
		o.Archives = j.Blobs()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, end := context.WithCancel(context.Background())
	c := &Conductor{j: j, rooms: rooms, o: o, ctx: ctx, end: end, runners: make(map[attempt]*runner), took: make(map[runKey]int64), queued: make(map[runKey]queued), kick: make(chan struct{}, 1)}
	c.beats.what = "the journal did not take this edge's heartbeat"
	c.looks.what = "the journal did not say what is due"
	c.archives.what = "a thread could not be archived"
	c.tidies.what = "archives that nobody needs could not be looked for"
	c.fleet.Store(&Fleet{})
	c.since = o.Now()
	c.lease.Store(c.since)
	c.unheard.Store(new(map[attempt]int64))
	c.sweep.Reach = c.reach
	c.wg.Add(3)
	go c.every(o.BeatEvery, c.kick, c.beat)
	go c.every(o.SweepEvery, nil, c.look)
	go c.every(o.TidyEvery, nil, c.tidy)
	return c
}

func (c *Conductor) every(d time.Duration, kick <-chan struct{}, f func(context.Context)) {
	defer c.wg.Done()
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		f(c.ctx)
		select {
		case <-t.C:
		case <-kick:
		case <-c.ctx.Done():
			return
		}
	}
}

// Runs is how many runs this edge owns right now.
func (c *Conductor) Runs() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.runners)
}

// BeginDrain claims no run from now on, and says so to the other edges. It
// cannot be undone.
func (c *Conductor) BeginDrain() {
	c.mu.Lock()
	c.draining = true
	c.mu.Unlock()
	c.Announce()
}

// Drain waits until the edge owns no run, or ctx ends; then those that are left
// go to another edge that has their agent, where nothing was streamed and the
// agent bears it, and the others are ended with a reason, their text kept. No
// new run is claimed meanwhile.
func (c *Conductor) Drain(ctx context.Context) {
	c.BeginDrain()
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	for c.Runs() > 0 {
		select {
		case <-t.C:
			continue
		case <-ctx.Done():
		case <-c.ctx.Done():
		}
		break
	}
	c.mu.Lock()
	left := make([]*runner, 0, len(c.runners))
	for _, r := range c.runners {
		left = append(left, r)
	}
	c.mu.Unlock()
	var wg sync.WaitGroup
	for _, r := range left {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(c.ctx, c.o.CommandTimeout)
			defer cancel()
			if c.handOver(ctx, r) {
				return
			}
			err := c.stopRun(ctx, r.key, r.own.ID, chat.Stop{Cause: chat.CauseShutdown})
			if err != nil {
				c.o.Logger.Warn("a run could not be ended at shutdown", "realm", r.key.Realm, "error", err)
			}
		})
	}
	wg.Wait()
}

// Close lets go of everything at once and waits for it. Runs that are still
// owned are ended by whoever sweeps next: this edge after a restart, or another.
func (c *Conductor) Close() {
	c.mu.Lock()
	c.end() // under the lock, so that nothing begins after the wait has
	c.mu.Unlock()
	c.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := c.j.Leave(ctx, c.o.Boot); err != nil {
		c.o.Logger.Warn("could not leave the journal", "error", err)
	}
}

// beat renews this edge's deadline and learns which runs it has lost.
func (c *Conductor) beat(ctx context.Context) {
	c.mu.Lock()
	owned := make([]journal.Owned, 0, len(c.runners))
	for a := range c.runners {
		owned = append(owned, journal.Owned{Key: a.key, Run: a.run, Fence: a.fence})
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	sent := c.o.Now()
	lost, err := c.j.Beat(ctx, c.o.Boot, owned)
	var part *journal.Unheard
	if c.ctx.Err() == nil {
		c.beats.note(c.o.Logger, err)
	}
	switch {
	case err == nil:
		c.renewed(sent, nil)
	case errors.As(err, &part):
		c.renewed(sent, part.Runs)
	default:
		c.ring()
		return
	}
	for _, l := range lost {
		c.mu.Lock()
		r := c.runners[attempt{l.Key, l.Run, l.Fence}]
		c.mu.Unlock()
		if r != nil {
			r.post(mail{shut: true})
		}
	}
	if len(owned) > 0 {
		c.ring()
	}
	c.announce(ctx)
}
