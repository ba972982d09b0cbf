package room

import "github.com/parlance-gateway/parlance/internal/chat"

// Bounds of a ring: what a room remembers of live runs' segments, for members
// that join in the middle (PIL-177) and for seats that hold their feed.
const (
	ringRecords = 10_000
	ringBytes   = 4 << 20
	// ringAlways is how many records are kept although no live run needs them.
	ringAlways = 256
)

// item is a record with what each variant made of it. Encodings are made once,
// at the latest when somebody joins who needs them.
type item struct {
	rec  *chat.Record
	size int
	enc  []encoded
}

type encoded struct {
	variant Variant
	data    any
}

// as returns the variant's encoding of the item, made with st if it has none.
func (i *item) as(v Variant, c *Change) any {
	for _, e := range i.enc {
		if e.variant == v {
			return e.data
		}
	}
	data := v.Encode(c)
	i.enc = append(i.enc, encoded{v, data})
	return data
}

// ring holds the newest records of a thread, contiguous, oldest first.
type ring struct {
	items []item
	bytes int
}

func (r *ring) push(rec *chat.Record) *item {
	size := sizeOf(rec)
	r.items = append(r.items, item{rec: rec, size: size})
	r.bytes += size
	return &r.items[len(r.items)-1]
}

// trim drops what nobody needs: records before the oldest live segment, and
// the oldest beyond the bounds.
func (r *ring) trim(st *chat.State) {
	need := st.Pos + 1
	for _, run := range st.Runs {
		if run.SegmentPos < need {
			need = run.SegmentPos
		}
	}
	drop := 0
	for left := len(r.items); drop < len(r.items); left-- {
		old := r.items[drop].rec.Pos < need && left > ringAlways
		if !old && left <= ringRecords && r.bytes <= ringBytes {
			break
		}
		r.bytes -= r.items[drop].size
		drop++
	}
	if drop == 0 {
		return
	}
	// The dropped head is cut off now and freed when the slice next grows; to
	// bound that, a head as long as the rest is copied away at once.
	clear(r.items[:drop])
	r.items = r.items[drop:]
	if cap(r.items) < len(r.items)+ringAlways/4 {
		r.items = append(make([]item, 0, 2*len(r.items)+ringAlways), r.items...)
	}
}

// after returns the items behind pos; ok is false if some were dropped.
func (r *ring) after(pos, newest uint64) (items []item, ok bool) {
	n := newest - pos
	if n > uint64(len(r.items)) {
		return nil, false
	}
	return r.items[uint64(len(r.items))-n:], true
}

func sizeOf(r *chat.Record) int {
	const overhead = 256
	switch b := r.Body.(type) {
	case *chat.DeltaBody:
		return overhead + len(b.Text)
	case *chat.ToolResultBody:
		return overhead + len(b.Content)
	case *chat.StateBody:
		return overhead + len(b.State)
	case *chat.ActivityBody:
		return overhead + len(b.Content)
	case *chat.CustomBody:
		return overhead + len(b.Value)
	}
	return 2 * overhead
}
