package edge

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// edge is what this edge tells the others of itself; what the conductor knows
// better it fills in.
func (h *Hub) edge() journal.Edge {
	realms := h.current.Load().realms
	e := journal.Edge{
		Name: h.name, Version: h.version, Schema: chat.SchemaVersion, Started: h.started,
		Agents: make(map[string][]string, len(realms)), Rooms: h.rooms.Len(), Sockets: h.sockets(),
	}
	if h.pulse != nil {
		if h.whole.Load() {
			h.pulse.seen(h.Stats())
		}
		e.Pulse = h.pulse.told()
	}
	for name, r := range realms {
		e.Agents[name] = slices.Sorted(maps.Keys(r.Agents))
	}
	return e
}

// opaque names this start of the edge to clients, without telling its boot id:
// who knew that could pass for the edge in the journal's eyes.
func opaque(boot string) string {
	sum := sha256.Sum256([]byte("parlance edge " + boot))
	return hex.EncodeToString(sum[:9])
}
