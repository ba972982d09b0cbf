package edge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// What an operator may see and do, through every wall: whoever calls these must
// have made sure that an operator asks. Nothing here shows content: no text, no
// title, no question.

// ThreadView is what an operator sees of a thread.
type ThreadView struct {
	Realm  string `json:"realm"`
	Tenant string `json:"tenant,omitempty"`
	Thread string `json:"thread"`
	Epoch  uint64 `json:"epoch"`
	// Pos is the position of the newest record, Floor that of the base: what
	// lies between is kept, and takes Bytes.
	Pos     uint64           `json:"pos"`
	Floor   uint64           `json:"floor"`
	Bytes   int64            `json:"bytes"`
	Created int64            `json:"created,omitempty"` // Unix milliseconds
	Runs    []RunView        `json:"runs"`
	Members []AttendanceView `json:"members"`
}

// RunView is what an operator sees of a live run.
type RunView struct {
	Realm  string         `json:"realm"`
	Tenant string         `json:"tenant,omitempty"`
	Thread string         `json:"thread"`
	Run    string         `json:"run"`
	Status chat.RunStatus `json:"status"`
	Agent  string         `json:"agent"`
	// Segments are the ids that Pilotoo and AG-UI show; the last is current.
	Segments []string `json:"segments"`
	// Edge is the name of the edge that owns the run; "" if nobody does, and
	// "?" if its owner is no living edge.
	Edge  string `json:"edge,omitempty"`
	Fence uint64 `json:"fence"`
	// Stopped says that the run is sealed and about to end.
	Stopped bool `json:"stopped,omitempty"`
	// Since is when the run began, in Unix milliseconds; 0 before its agent was
	// called. Suspended is when it was paused last.
	Since     int64 `json:"since,omitempty"`
	Suspended int64 `json:"suspended,omitempty"`
	// Interrupts are the questions that it waits on.
	Interrupts []InterruptView `json:"interrupts,omitempty"`
}

// InterruptView is an open question, without what it asks.
type InterruptView struct {
	ID       string             `json:"id"`
	Kind     chat.InterruptKind `json:"kind"`
	Deadline int64              `json:"deadline,omitempty"` // Unix milliseconds; 0 is none
}

// AttendanceView is who watches a thread on one edge. Members are at most
// journal.MaxAttending, Count counts all.
type AttendanceView struct {
	Edge    string              `json:"edge"`
	Count   int                 `json:"count"`
	Members []journal.Attending `json:"members"`
}

// unknownEdge stands for an owner that is no living edge.
const unknownEdge = "?"

// Edges returns the living edges of the hub's journal, this one included.
func (h *Hub) Edges(ctx context.Context) ([]journal.Edge, error) {
	return h.journal.Roster().Edges(ctx)
}

// Thread returns what is known of a thread, or chat.ErrNoThread.
func (h *Hub) Thread(ctx context.Context, realm, tenant, id string) (ThreadView, error) {
	key := chat.Key{Realm: realm, Tenant: tenant, Thread: id}
	if !chat.ValidID(id) {
		return ThreadView{}, chat.ErrNoThread
	}
	snap, err := h.journal.Load(ctx, journal.Load{Key: key})
	if err != nil {
		return ThreadView{}, fmt.Errorf("%w: %w", conductor.ErrUnavailable, err)
	}
	if !snap.Exists {
		return ThreadView{}, chat.ErrNoThread
	}
	names, err := h.edgeNames(ctx)
	if err != nil {
		return ThreadView{}, err
	}
	there, err := h.journal.Roster().Present(ctx, key)
	if err != nil {
		return ThreadView{}, fmt.Errorf("%w: %w", conductor.ErrUnavailable, err)
	}
	st, m := snap.State(nil), snap.Meta
	v := ThreadView{
		Realm: realm, Tenant: tenant, Thread: id,
		Epoch: m.Epoch, Pos: m.Pos, Floor: m.Floor, Bytes: m.Bytes, Created: st.Info.Created,
		Runs: make([]RunView, 0, len(st.Runs)), Members: make([]AttendanceView, 0, len(there)),
	}
	for _, r := range st.Runs {
		v.Runs = append(v.Runs, viewOf(key, r, m.Runs[r.ID], names))
	}
	for _, a := range there {
		v.Members = append(v.Members, AttendanceView{Edge: names.of(a.Boot), Count: a.Count, Members: a.Members})
	}
	slices.SortFunc(v.Members, func(a, b AttendanceView) int { return cmp.Compare(a.Edge, b.Edge) })
	return v, nil
}

func viewOf(key chat.Key, r *chat.Run, m journal.RunMeta, names edgeNames) RunView {
	v := RunView{
		Realm: key.Realm, Tenant: key.Tenant, Thread: key.Thread, Run: r.ID, Status: r.Status, Agent: r.Agent,
		Segments: r.Segments, Edge: names.of(m.Owner), Fence: m.Fence, Stopped: r.Stop != nil,
		Since: r.Started, Suspended: r.Suspended,
	}
	for _, i := range r.Interrupts {
		if i.Status == chat.InterruptOpen {
			v.Interrupts = append(v.Interrupts, InterruptView{ID: i.ID, Kind: i.Kind, Deadline: i.Deadline})
		}
	}
	return v
}

// edgeNames are the names of living edges by boot id.
type edgeNames map[string]string

func (n edgeNames) of(boot string) string {
	if boot == "" {
		return ""
	}
	if name, ok := n[boot]; ok {
		return name
	}
	return unknownEdge
}

func (h *Hub) edgeNames(ctx context.Context) (edgeNames, error) {
	edges, err := h.Edges(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", conductor.ErrUnavailable, err)
	}
	names := make(edgeNames, len(edges))
	for _, e := range edges {
		names[e.Boot] = e.Name
	}
	return names, nil
}

// Run finds a live run, or says chat.ErrUnknownRun. A segment id, as Pilotoo
// and AG-UI show it, is found wherever the run is; the run's own id only if this
// edge has its thread open, which it has while it owns the run.
func (h *Hub) Run(ctx context.Context, id string) (RunView, error) {
	key, run, err := h.findRun(ctx, id)
	if err != nil {
		return RunView{}, err
	}
	snap, err := h.journal.Load(ctx, journal.Load{Key: key})
	if err != nil {
		return RunView{}, fmt.Errorf("%w: %w", conductor.ErrUnavailable, err)
	}
	r := run(snap.State(nil))
	if r == nil {
		return RunView{}, chat.ErrUnknownRun
	}
	names, err := h.edgeNames(ctx)
	if err != nil {
		return RunView{}, err
	}
	return viewOf(key, r, snap.Meta.Runs[r.ID], names), nil
}

// findRun returns the thread of a run or segment, and how to find the run in it.
func (h *Hub) findRun(ctx context.Context, id string) (chat.Key, func(*chat.State) *chat.Run, error) {
	if !chat.ValidID(id) {
		return chat.Key{}, nil, chat.ErrUnknownRun
	}
	if key, ok := h.rooms.Having(id); ok {
		return key, func(st *chat.State) *chat.Run { return st.Run(id) }, nil
	}
	key, err := h.journal.Segment(ctx, id)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return key, nil, chat.ErrUnknownRun
	case err != nil:
		return key, nil, fmt.Errorf("%w: %w", conductor.ErrUnavailable, err)
	}
	return key, func(st *chat.State) *chat.Run {
		if r := st.RunOfSegment(id); r != nil && r.Segment() == id {
			return r
		}
		return nil
	}, nil
}

// CancelRun stops a run as an operator and returns when it has ended: as
// cancelled, with the text that it had. The id is as for Run.
func (h *Hub) CancelRun(ctx context.Context, id string) error {
	key, run, err := h.findRun(ctx, id)
	if err != nil {
		return err
	}
	return h.conductor.CancelAny(ctx, key, run)
}

// Members counts the members of this edge's rooms by dialect.
func (h *Hub) Members() map[string]int { return h.rooms.Members() }

// Alive says why this process cannot go on serving, so that whoever watches it
// should start it anew, or nil. A journal that does not answer is no such reason.
func (h *Hub) Alive() error {
	if h.closed.Load() {
		return errClosed
	}
	return nil
}

var errClosed = errors.New("closed")

// DrainState is how far a drain has come.
type DrainState struct {
	// Draining is set once a drain began; nothing takes it back but a restart.
	Draining bool `json:"draining"`
	// Since is when it began, in Unix milliseconds; Done that all was let go.
	Since int64 `json:"since,omitempty"`
	Done  bool  `json:"done"`
	// Sockets and Runs are those that are left.
	Sockets int `json:"sockets"`
	Runs    int `json:"runs"`
}

// BeginDrain starts to drain the hub, as Drain does, and returns at once; false
// if a drain had begun before, which goes on as it was. limit is the time that
// runs have to finish. A drain cannot be undone: it outlives reloads, until the
// process ends.
func (h *Hub) BeginDrain(limit, spread time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining.Load() || h.closed.Load() {
		return false
	}
	h.startDrain(limit, spread)
	return true
}

// DrainState tells how far a drain has come.
func (h *Hub) DrainState() DrainState {
	stats := h.Stats()
	s := DrainState{Draining: h.draining.Load(), Sockets: stats.Sockets, Runs: stats.Runs}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.drain != nil {
		s.Since = h.drain.since
		select {
		case <-h.drain.done:
			s.Done = true
		default:
		}
	}
	return s
}
