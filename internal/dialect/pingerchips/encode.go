package pingerchips

import (
	"sync"
	"weak"

	"github.com/parlance-gateway/parlance/internal/room"
	"github.com/parlance-gateway/parlance/internal/wire/phoenix"
)

// Variant is the protocol's one version as rooms see it, with the options that
// make what members are sent differ.
type Variant struct {
	// Full shows all messages in their slot, not only the newest (PIN-093).
	Full bool
	// Extensions shows what the protocol has no form for (PIN-251).
	Extensions bool
}

// Dialect names the protocol where members of a room are listed.
func (Variant) Dialect() string { return name }

// Encode implements room.Variant. It returns an *Encoded, or nil for a record
// that is not in the log.
func (v Variant) Encode(c *room.Change) any {
	e := entryOf(c, v.Full)
	if e == nil && v.Extensions {
		e = extension(c)
	}
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
	signal *phoenix.Frame // or nil
	kept   *phoenix.Frame
	lent   weak.Pointer[phoenix.Frame]
}

// frames are the signal, if there is one, and the entry right behind it. All
// members of a thread have one topic, unless its app was just given another key.
// old has what the slot messages shows of older ones, the same for all.
func (e *Encoded) frames(topic string, old *past) (signal, entry *phoenix.Frame) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.entry.signal != "" && (e.signal == nil || e.signal.Topic() != topic) {
		e.signal = phoenix.NewFrame(topic, e.entry.signal, e.entry.about)
	}
	f := e.kept
	if f == nil {
		f = e.lent.Value()
	}
	if f != nil && f.Topic() == topic {
		return e.signal, f
	}
	e.entry.past = old
	event, payload := e.entry.batch()
	e.entry.past = nil
	f = phoenix.NewFrame(topic, event, payload)
	if f.Size() <= keepBytes {
		e.kept = f
	} else {
		e.lent = weak.Make(f)
	}
	return e.signal, f
}

// replayed is the entry as a join is sent it again: without its signal (PIN-063),
// and slot by slot if asked so (PIN-062).
func (e *Encoded) replayed(topic string, old *past, apart bool) []*phoenix.Frame {
	if !apart {
		_, f := e.frames(topic, old)
		return []*phoenix.Frame{f}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.entry.past = old
	defer func() { e.entry.past = nil }()
	all := make([]*phoenix.Frame, len(e.entry.slots))
	for i := range all {
		all[i] = phoenix.NewFrame(topic, eventChange, e.entry.change(i))
	}
	return all
}
