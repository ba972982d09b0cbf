package room

import (
	"cmp"
	"maps"
	"slices"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Open is an open room as it is right now.
type Open struct {
	Key   chat.Key
	Epoch uint64
	// State is shared and must not be changed.
	State   *chat.State
	Members int
}

// Open lists the rooms of this edge that know their thread, in the order of
// their keys.
func (rs *Rooms) Open() []Open {
	rs.mu.Lock()
	rooms := slices.Collect(maps.Values(rs.rooms))
	rs.mu.Unlock()
	list := make([]Open, 0, len(rooms))
	for _, r := range rooms {
		r.mu.Lock()
		if r.seq.Ready {
			list = append(list, Open{Key: r.key, Epoch: r.seq.Epoch, State: r.seq.State, Members: r.attended})
		}
		r.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b Open) int {
		return cmp.Or(cmp.Compare(a.Key.Realm, b.Key.Realm), cmp.Compare(a.Key.Tenant, b.Key.Tenant), cmp.Compare(a.Key.Thread, b.Key.Thread))
	})
	return list
}

// Present is one member of an open room.
type Present struct {
	Key chat.Key
	journal.Attending
}

// Present names at most limit members of this edge's rooms, room by room.
func (rs *Rooms) Present(limit int) []Present {
	rs.mu.Lock()
	rooms := slices.Collect(maps.Values(rs.rooms))
	rs.mu.Unlock()
	slices.SortFunc(rooms, func(a, b *Room) int {
		return cmp.Or(cmp.Compare(a.key.Realm, b.key.Realm), cmp.Compare(a.key.Tenant, b.key.Tenant), cmp.Compare(a.key.Thread, b.key.Thread))
	})
	list := []Present{}
	for _, r := range rooms {
		there, _ := r.attending()
		for _, a := range there {
			if len(list) == limit {
				return list
			}
			list = append(list, Present{r.key, a})
		}
	}
	return list
}

// Dismiss closes the connection of a member of this edge for an operator, and
// says whether there was such a member. Its client may come back.
func (rs *Rooms) Dismiss(key chat.Key, member string) bool {
	rs.mu.Lock()
	r := rs.rooms[key]
	rs.mu.Unlock()
	if r == nil || member == "" {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.seats {
		if s.who != nil && s.who.ID == member {
			r.drop(s, CloseOperator)
			return true
		}
	}
	return false
}
