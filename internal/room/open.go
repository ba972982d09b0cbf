package room

import (
	"cmp"
	"maps"
	"slices"

	"github.com/parlance-gateway/parlance/internal/chat"
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
