package edge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// OpenMember is a member of a thread that is open on this edge, as an operator
// sees him.
type OpenMember struct {
	Realm  string `json:"realm"`
	Tenant string `json:"tenant,omitempty"`
	Thread string `json:"thread"`
	journal.Attending
}

// MaxOpenMembers bounds what OpenMembers lists.
const MaxOpenMembers = 1000

// OpenMembers lists members of the threads that are open on this edge, thread by
// thread.
func (h *Hub) OpenMembers() []OpenMember {
	list := []OpenMember{}
	for _, p := range h.rooms.Present(MaxOpenMembers) {
		list = append(list, OpenMember{p.Key.Realm, p.Key.Tenant, p.Key.Thread, p.Attending})
	}
	return list
}

// ErrNoMember: nobody of that id watches the thread, on any edge.
var ErrNoMember = errors.New("no such member")

// ElsewhereError says on which edge a member is, if not on this one.
type ElsewhereError struct{ Edge string }

// Error implements error.
func (e *ElsewhereError) Error() string { return fmt.Sprintf("it is on edge %q", e.Edge) }

// CloseMember closes the connection by which a member of this edge watches a
// thread; what else that connection watches is closed with it where the dialect
// has one way to close. Its client may come back. For a member of another edge it
// is an *ElsewhereError, for none ErrNoMember.
func (h *Hub) CloseMember(ctx context.Context, key chat.Key, member string) error {
	if h.rooms.Dismiss(key, member) {
		return nil
	}
	there, err := h.journal.Roster().Present(ctx, key)
	if err != nil {
		return fmt.Errorf("%w: %w", conductor.ErrUnavailable, err)
	}
	for _, a := range there {
		if a.Boot == h.boot || !slices.ContainsFunc(a.Members, func(m journal.Attending) bool { return m.ID != "" && m.ID == member }) {
			continue // of this edge it is known better than the roster says
		}
		names, err := h.edgeNames(ctx)
		if err != nil {
			return err
		}
		return &ElsewhereError{names.of(a.Boot)}
	}
	return ErrNoMember
}

// DeleteThread deletes a thread as an operator: its runs end, then it is gone with
// what was attached to it. It returns chat.ErrNoThread if there is none.
func (h *Hub) DeleteThread(ctx context.Context, key chat.Key) error {
	if !chat.ValidID(key.Thread) {
		return chat.ErrNoThread
	}
	return h.Desk().Delete(ctx, identity.Principal{
		Realm: key.Realm, Tenant: key.Tenant, Subject: operator,
		Caps: identity.Capabilities{}.WithAll(identity.VerbsOf(identity.Subscribe, identity.Delete)),
	}, key.Thread)
}

// operator is by whom records say that something was done; no authenticator makes
// such a subject.
var operator = identity.Subject{Issuer: "operator", ID: "operator"}

// Found is where something is that an operator looked for.
type Found struct {
	Realm  string `json:"realm"`
	Tenant string `json:"tenant,omitempty"`
	Thread string `json:"thread"`
	// Run or Segment is set if that was looked for.
	Run     string `json:"run,omitempty"`
	Segment string `json:"segment,omitempty"`
}

// maxFound bounds what Find returns.
const maxFound = 50

// Find looks for a thread, a run or a segment by its id: among the threads that
// are open on this edge, by a segment's id everywhere, and among threads without
// a tenant in the realms that are configured here.
func (h *Hub) Find(ctx context.Context, id string) ([]Found, error) {
	list := []Found{}
	if !chat.ValidID(id) {
		return list, nil
	}
	for _, r := range h.rooms.Open() {
		if r.Key.Thread == id && r.State.Exists && len(list) < maxFound {
			list = append(list, Found{Realm: r.Key.Realm, Tenant: r.Key.Tenant, Thread: id})
		}
	}
	if key, ok := h.rooms.Having(id); ok {
		list = append(list, Found{Realm: key.Realm, Tenant: key.Tenant, Thread: key.Thread, Run: id})
	}
	switch key, err := h.journal.Segment(ctx, id); {
	case err == nil:
		list = append(list, Found{Realm: key.Realm, Tenant: key.Tenant, Thread: key.Thread, Segment: id})
	case !errors.Is(err, journal.ErrNotFound):
		return list, fmt.Errorf("%w: %w", conductor.ErrUnavailable, err)
	}
	for _, realm := range slices.Sorted(maps.Keys(h.current.Load().realms)) {
		f := Found{Realm: realm, Thread: id}
		if len(list) >= maxFound || slices.Contains(list, f) {
			continue
		}
		snap, err := h.journal.Load(ctx, journal.Load{Key: chat.Key{Realm: realm, Thread: id}})
		if err != nil {
			return list, fmt.Errorf("%w: %w", conductor.ErrUnavailable, err)
		}
		if snap.Exists {
			list = append(list, f)
		}
	}
	return list, nil
}
