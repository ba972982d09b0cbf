package pingerchips

import (
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/room"
)

// The names of slots.
const (
	slotMessages = "messages"
	slotLast     = "last_message_id"
	slotRun      = "run:"
	slotStream   = "stream:"
)

// slot is one slot's change. The values are appended when the entry is encoded;
// nil is null.
type slot struct {
	key             string
	value, previous value
	// size is about how long it is on the wire.
	size int
}

type value func([]byte) []byte

func (v value) append(b []byte) []byte {
	if v == nil {
		return append(b, "null"...)
	}
	return v(b)
}

func (s *slot) append(b []byte) []byte {
	b = quoted(append(b, `{"key":`...), s.key)
	b = s.value.append(key(b, "value"))
	return s.previous.append(key(b, "previous"))
}

// entry is one entry of the log: the slots that it changes, and the lifecycle
// signal that goes right before it (PIN-105, PIN-106).
type entry struct {
	log    uint64 // 0 of what is not in the log
	signal string
	about  []byte // the signal's payload
	slots  []slot
	// full says that the slot messages shows all of them: shows is what it had
	// before, if it is changed, and past has those that are older, while the entry
	// is being encoded.
	full  bool
	shows *span
	past  *past
}

// entryOf says what a record is in the log, or nil if it is not in it.
func entryOf(c *room.Change, full bool) *entry {
	if c.Record.Log == 0 {
		return nil
	}
	e := &entry{log: c.Record.Log, full: full}
	before, after := c.Before.Run(c.Record.Run), c.After.Run(c.Record.Run)
	switch b := c.Record.Body.(type) {
	case *chat.RunPendingBody:
		e.pending(c, after)
	case *chat.RunEndBody:
		if before == nil {
			return nil
		}
		e.ended(c, b, before)
	default:
		if before == nil || after == nil {
			return nil
		}
		e.run(c.Record, before, after)
	}
	return e
}

// pending accepts a run: with its message (PIN-094), or alone for an answer that
// is made anew.
func (e *entry) pending(c *room.Change, run *chat.Run) {
	tail := c.Before.Tail
	last := len(tail) - 1
	if run.Regen != "" || last < 0 || tail[last].ID != run.Message {
		e.slots = []slot{infoSlot(run.ID, nil, infoOf(run))}
		return
	}
	was := *c.Before
	was.Tail = tail[:last]
	e.slots = []slot{
		e.messages(&was, c.After),
		infoSlot(run.ID, nil, infoOf(run)),
		lastSlot(was.Last(), c.After.Last()),
	}
}

// ended is the compaction: exactly four slots (PIN-089).
func (e *entry) ended(c *room.Change, b *chat.RunEndBody, run *chat.Run) {
	was := infoOf(run)
	is := was.end(b.Status, c.Record.At)
	e.signal = eventRunEnd
	e.about = quoted([]byte(`{"runId":`), run.ID)
	e.about = field(e.about, "reason", string(b.Status))
	e.about = append(number(e.about, "endedAt", is.ended), '}')
	e.slots = []slot{
		e.messages(c.Before, c.After),
		infoSlot(run.ID, &was, is),
		streamSlot(run.ID, streamOf(run), nil),
		lastSlot(c.Before.Last(), c.After.Last()),
	}
}

// run is what happens to a run while it lives.
func (e *entry) run(r *chat.Record, before, after *chat.Run) {
	was, is := infoOf(before), infoOf(after)
	change := infoSlot(after.ID, &was, is)
	if unseen(before) {
		change = infoSlot(after.ID, nil, is)
	}
	switch r.Kind {
	case chat.KindTextDelta:
		e.slots = []slot{streamSlot(after.ID, streamOf(before), streamOf(after))}
		return
	case chat.KindRunActive:
		e.signal = eventRunStart
		e.about = quoted([]byte(`{"runId":`), is.id)
		e.about = append(number(field(e.about, "ownerClientId", is.owner), "startedAt", is.started), '}')
		e.slots = []slot{change, streamSlot(after.ID, nil, streamOf(after))}
		return
	case chat.KindRunResumed:
		e.signal = eventRunResume
		e.about = append(quoted([]byte(`{"runId":`), is.id), '}')
	case chat.KindRunSuspended, chat.KindAnswer:
		// An answer that is logged brings the next question (PIN-252).
		if q := is.question(); q != nil {
			e.signal = eventRunSuspend
			e.about = append(quoted([]byte(`{"runId":`), is.id), ',')
			e.about = append(tool(e.about, q, after), '}')
		}
	}
	e.slots = []slot{change}
}

// stream is a stream slot's value; nil is that of a run that has none (PIN-180).
type stream []chat.Text

func streamOf(r *chat.Run) *stream {
	if r.Status != chat.RunActive && r.Status != chat.RunSuspended {
		return nil
	}
	s := stream(r.Shown)
	return &s
}

func streamSlot(run string, was, is *stream) slot {
	s := slot{key: slotStream + run}
	if was != nil {
		s.previous = func(b []byte) []byte { return text(b, *was) }
		s.size += textSize(*was)
	}
	if is != nil {
		s.value = func(b []byte) []byte { return text(b, *is) }
		s.size += textSize(*is)
	}
	return s
}

func infoSlot(run string, was *runInfo, is runInfo) slot {
	s := slot{key: slotRun + run, value: is.append, size: 512}
	if was != nil {
		s.previous = was.append
	}
	return s
}

func (e *entry) messages(before, after *chat.State) slot {
	was, is := spanOf(before), spanOf(after)
	if e.full {
		e.shows = &was
	} else {
		was.tail, is.tail = newest(was.tail, Window), newest(is.tail, Window)
	}
	shown := func(s span) value {
		return func(b []byte) []byte {
			if e.full {
				return messages(b, e.past.whole(s))
			}
			return messages(b, s.tail)
		}
	}
	return slot{key: slotMessages, value: shown(is), previous: shown(was), size: windowSize(was.tail) + windowSize(is.tail)}
}

func lastSlot(was, is string) slot {
	s := slot{key: slotLast}
	name := func(id string) value {
		if id == "" {
			return nil
		}
		return func(b []byte) []byte { return quoted(b, id) }
	}
	s.value, s.previous = name(is), name(was)
	return s
}

// size is about how long the entry is on the wire.
func (e *entry) size() int {
	n := 256 + len(e.about)
	for _, s := range e.slots {
		n += 128 + s.size
	}
	return n
}

// event and payload are the entry itself: a change of one slot or a batch
// (PIN-085, PIN-086). With changes, each slot is a change of its own under the
// same number, which is the letter of PIN-061 for a replay.
func (e *entry) batch() (event string, payload []byte) {
	if e.log == 0 {
		return eventExt, append(e.slots[0].value.append(key(quoted([]byte(`{"key":`), e.slots[0].key), "value")), '}')
	}
	if len(e.slots) == 1 {
		return eventChange, e.change(0)
	}
	b := make([]byte, 0, e.size())
	b = append(b, `{"changes":`...)
	b = list(b, e.slots, func(b []byte, s slot) []byte { return append(s.append(b), '}') })
	return eventBatch, append(logID(b, e.log), '}')
}

func (e *entry) change(i int) []byte {
	b := e.slots[i].append(make([]byte, 0, 256+e.slots[i].size))
	return append(logID(b, e.log), '}')
}
