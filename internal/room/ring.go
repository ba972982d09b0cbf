package room

import "github.com/parlance-gateway/parlance/internal/chat"

// Bounds of a ring: what a room remembers of live runs' segments, for members
// that join in the middle (PIL-177) and for seats that hold their feed.
const (
	ringRecords = 10_000
	ringBytes   = 4 << 20
	// ringAlways is how many records are kept although no live run needs them.
	ringAlways = 256
	// A mark is set after this many records or bytes: how far encoding an item
	// late must fold at most, and how coarsely a ring is trimmed.
	markRecords = 64
	markBytes   = 256 << 10
)

// item is a record with what each variant made of it. Encodings are made once,
// at the latest when somebody needs them who was not there or held his feed.
type item struct {
	rec  *chat.Record
	size int
	enc  []encoded
	// before is the state that the record was applied to; only marks have it.
	before *chat.State
}

type encoded struct {
	variant Variant
	data    any
}

// has returns the variant's encoding of the item, if it was made.
func (i *item) has(v Variant) (data any, ok bool) {
	for _, e := range i.enc {
		if e.variant == v {
			return e.data, true
		}
	}
	return nil, false
}

// as returns the variant's encoding of the item, made from c if it has none.
func (i *item) as(v Variant, c *Change) any {
	data, ok := i.has(v)
	if !ok {
		data = v.Encode(c)
		i.enc = append(i.enc, encoded{v, data})
	}
	return data
}

// ring holds the newest records of a thread, contiguous, oldest first. The
// first item is always a mark.
type ring struct {
	items []item
	bytes int
	// sinceRecords and sinceBytes are how much came since the newest mark.
	sinceRecords, sinceBytes int
}

func (r *ring) push(rec *chat.Record, before *chat.State) *item {
	size := sizeOf(rec)
	it := item{rec: rec, size: size}
	if len(r.items) == 0 || r.sinceRecords >= markRecords || r.sinceBytes >= markBytes {
		it.before, r.sinceRecords, r.sinceBytes = before, 0, 0
	}
	r.sinceRecords++
	r.sinceBytes += size
	r.items = append(r.items, it)
	r.bytes += size
	return &r.items[len(r.items)-1]
}

// each calls f with v's encoding of the items [from, to). What nobody encoded
// yet is encoded now, with the very states that the record stood between: they
// are folded again from the last mark. c has all that the items don't know.
func (r *ring) each(from, to int, v Variant, c Change, f func(*chat.Record, any)) {
	var st *chat.State // before items[at], once it is needed
	at := 0
	for i := from; i < to; i++ {
		it := &r.items[i]
		data, ok := it.has(v)
		if !ok {
			if st == nil {
				for at = i; r.items[at].before == nil; at-- {
				}
				st = r.items[at].before.Clip()
			}
			for ; at < i; at++ {
				st = st.Apply(r.items[at].rec)
			}
			c.Record, c.Before, c.After = it.rec, st, st.Apply(it.rec)
			data = it.as(v, &c)
			st, at = c.After, i+1
		}
		f(it.rec, data)
	}
}

// trim drops what nobody needs: records before the oldest live segment, and
// the oldest beyond the bounds. It drops whole marks, so a ring may exceed its
// bounds by what one mark covers.
func (r *ring) trim(st *chat.State) {
	need := st.Pos + 1
	for _, run := range st.Runs {
		if run.SegmentPos < need {
			need = run.SegmentPos
		}
	}
	drop, bytes := 0, r.bytes
	for i := range r.items {
		left := len(r.items) - i
		old := r.items[i].rec.Pos < need && left > ringAlways
		if r.items[i].before != nil {
			drop, r.bytes = i, bytes
		}
		if !old && left <= ringRecords && bytes <= ringBytes {
			break
		}
		bytes -= r.items[i].size
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

// after is the index of the first item behind pos; ok is false if some of them
// were dropped.
func (r *ring) after(pos, newest uint64) (from int, ok bool) {
	n := newest - pos
	if n > uint64(len(r.items)) {
		return 0, false
	}
	return len(r.items) - int(n), true
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
