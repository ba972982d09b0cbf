package edge

import (
	"time"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/room"
	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// Counts are what the hubs of one journal have done, beside what a Meter is told.
// They belong to whoever reads them and outlive a hub.
type Counts struct {
	Rooms                        room.Counts
	Pilotoo, Pingerchips, Smooth ws.Counts
}

// Wires are the counts of all dialects, by their names.
func (c *Counts) Wires() map[string]*ws.Counts {
	return map[string]*ws.Counts{"pilotoo": &c.Pilotoo, "pingerchips": &c.Pingerchips, "smooth": &c.Smooth}
}

// Wire is what lives on a dialect's wire right now: sockets, and the bytes that
// wait for their clients.
type Wire struct{ Sockets, Queued int }

// Wires are those of all dialects. It looks at each socket.
func (h *Hub) Wires() map[string]Wire {
	return map[string]Wire{
		"pilotoo":     {h.pilotoo.sockets(), h.pilotoo.wire.Queued()},
		"pingerchips": {h.pingerchips.sockets(), h.pingerchips.wire.Queued()},
		"smooth":      {h.smooth.Connections(), h.smooth.Queued()},
	}
}

// Silence is how long nothing that the journal published has come back to this
// edge; false where it publishes nothing, or nobody listens.
func (h *Hub) Silence() (time.Duration, bool) {
	if p, ok := h.journal.(journal.Hearing); ok {
		return p.Silence()
	}
	return 0, false
}

// Silence implements journal.Hearing, for a store that has one.
func (j meteredJournal) Silence() (time.Duration, bool) {
	if p, ok := j.Journal.(journal.Hearing); ok {
		return p.Silence()
	}
	return 0, false
}

// Interface guard
var _ journal.Hearing = meteredJournal{}
