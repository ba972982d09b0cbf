package pingerchips

import (
	"sync"
	"weak"

	"github.com/parlance-gateway/parlance/internal/room"
)

// Variant is the protocol's one version as rooms see it.
type Variant struct{}

// Encode implements room.Variant. It returns an *Encoded, or nil for a record
// that is not in the log.
func (Variant) Encode(c *room.Change) any {
	e := entryOf(c)
	if e == nil {
		return nil
	}
	return &Encoded{entry: e}
}

// keepBytes is how large an entry may be to be kept encoded. A change holds the
// whole text twice: those of a long answer together would be a multiple of it,
// so a larger one lives only as long as somebody has yet to be sent it.
const keepBytes = 1 << 10

// Encoded is an entry of the log on the wire, encoded once for all members and
// at the latest when the first is sent it. It is shared.
type Encoded struct {
	entry *entry

	mu     sync.Mutex
	signal *Push // or nil
	kept   *Push
	lent   weak.Pointer[Push]
}

// Push is an event with its payload, as every member of a thread is sent it: what
// differs between them, the topic's join, is the wire's to add.
type Push struct {
	Event   string
	Payload []byte
}

// pushes are the signal, if there is one, and the entry right behind it.
func (e *Encoded) pushes() (signal, entry *Push) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.signal == nil && e.entry.signal != "" {
		e.signal = &Push{e.entry.signal, e.entry.about}
	}
	if e.kept != nil {
		return e.signal, e.kept
	}
	if p := e.lent.Value(); p != nil {
		return e.signal, p
	}
	p := new(Push)
	p.Event, p.Payload = e.entry.batch()
	if len(p.Payload) <= keepBytes {
		e.kept = p
	} else {
		e.lent = weak.Make(p)
	}
	return e.signal, p
}

// replayed is the entry as a join is sent it again: without its signal (PIN-063),
// and slot by slot if asked so (PIN-062).
func (e *Encoded) replayed(apart bool) []*Push {
	if !apart {
		_, p := e.pushes()
		return []*Push{p}
	}
	all := make([]*Push, len(e.entry.slots))
	for i := range all {
		all[i] = &Push{eventChange, e.entry.change(i)}
	}
	return all
}
