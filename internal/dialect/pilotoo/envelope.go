package pilotoo

import (
	"strconv"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/room"
	"github.com/parlance-gateway/parlance/internal/wire/socketio"
)

// Variant is the protocol's one version as rooms see it. Encode turns a record
// into frames, once for all sockets (PIL-142).
type Variant struct{}

// Dialect implements dialect.Named.
func (Variant) Dialect() string { return dialectName }

// Encoded is what a record is on the wire. It is shared and never changed.
type Encoded struct {
	// run is the run that the envelopes are of, envelopes their JSON, for
	// replays. A task's status has neither.
	run       string
	segment   string
	envelopes [][]byte
	frames    []*socketio.Frame
}

// Encode implements room.Variant. It returns an *Encoded, or nil for a record
// that this protocol does not show.
func (Variant) Encode(c *room.Change) any {
	if b, ok := c.Record.Body.(*chat.TaskBody); ok {
		f := socketio.NewEvent(eventTask, taskStatus(c.Key.Thread, b.Task))
		return &Encoded{frames: []*socketio.Frame{f}}
	}
	if c.Record.N == 0 {
		return nil
	}
	run := c.Run()
	if run == nil {
		return nil
	}
	w := newWriter(c, run)
	w.record(c.Record, run)
	if len(w.out) == 0 {
		return nil
	}
	e := &Encoded{run: run.ID, segment: w.segment, envelopes: w.out, frames: make([]*socketio.Frame, len(w.out))}
	for i, b := range w.out {
		e.frames[i] = socketio.NewEvent(eventEnvelope, b)
	}
	return e
}

// writer makes the envelopes of one record (PIL-135). An envelope's number is
// the record's seq plus its place in it.
type writer struct {
	thread  string
	segment string
	seq     uint64
	room    int // an envelope's size, as far as it can be told
	out     [][]byte
	one     [1][]byte // out's memory, where there is one
}

func newWriter(c *room.Change, run *chat.Run) *writer {
	w := &writer{thread: c.Key.Thread, segment: run.Segment(), seq: c.Record.Seq}
	w.out = w.one[:0]
	switch b := c.Record.Body.(type) {
	case *chat.RunEndBody:
		if b.Segment != "" {
			w.segment = b.Segment
		}
	case *chat.DeltaBody:
		w.room = len(b.Text) + len(b.Part)
	}
	w.room += len(w.thread) + len(w.segment) + 192
	return w
}

// begin starts an envelope and its event, up to the event's type.
func (w *writer) begin(event string) []byte {
	b := make([]byte, 0, w.room)
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, Major, 10)
	b = member(b, "threadId", w.thread)
	b = member(b, "runId", w.segment)
	b = append(b, `,"sequence":`...)
	b = strconv.AppendUint(b, w.seq, 10)
	b = append(b, `,"event":{"type":"`...)
	b = append(b, event...)
	return append(b, '"')
}

// end closes what begin opened and takes the next number.
func (w *writer) end(b []byte) {
	w.seq++
	w.out = append(w.out, append(b, '}', '}'))
}
