package redisjournal

import (
	"strconv"

	"github.com/parlance-gateway/parlance/internal/journal"
)

// A thread's meta is one flat hash. Its fields, as the scripts write them:
//
//	h       what changes with each record: pos log at (6 each) tag (8) sum (6)
//	c       what changes with commits: epoch rev.n rev.tag (8 each) floor (6)
//	        its tag (8) its sum (6) pages (4) schema (2) live runs (4)
//	d       only of a deleted thread: until when that is remembered, in decimal
//	o       only while there is no base: log and at of the floor (6 each)
//	r<run>  a live run: fence (8) until due (6 each) sealed (1) owner's length
//	        (2) owner, agent
//	w<run>  what changes with its appends: w (6) tag (8) seq (6)

// threadHead is a meta without its runs.
type threadHead struct {
	meta    journal.Meta
	deleted int64
	schema  uint16
	origin  *origin
}

// origin is what a thread began with.
type origin struct {
	log uint64
	at  int64
}

// decodeHead reads a meta that is there.
func decodeHead(m map[string]string) (h threadHead, err error) {
	hot, cold := parser{b: m["h"]}, parser{b: m["c"]}
	h.meta.Pos, h.meta.Log, h.meta.At, h.meta.Tag = hot.u48(), hot.u48(), int64(hot.u48()), hot.u64()
	sum := hot.u48()
	h.meta.Epoch, h.meta.Rev = cold.u64(), cold.rev()
	h.meta.Floor, h.meta.FloorTag = cold.u48(), cold.u64()
	h.meta.Bytes = int64(sum - cold.u48())
	cold.u32() // pages
	h.schema = cold.u16()
	cold.u32() // live runs
	if hot.bad || cold.bad || hot.b != "" || cold.b != "" || h.meta.Bytes < 0 {
		return h, errDamaged
	}
	if text, ok := m["d"]; ok {
		if h.deleted, err = strconv.ParseInt(text, 10, 64); err != nil || h.deleted <= 0 {
			return h, errDamaged
		}
	}
	if text, ok := m["o"]; ok {
		p := parser{b: text}
		h.origin = &origin{log: p.u48(), at: int64(p.u48())}
		if p.bad {
			return h, errDamaged
		}
	}
	return h, nil
}

// decodeRun reads the two fields of a live run.
func decodeRun(r, w string) (journal.RunMeta, error) {
	p, q := parser{b: r}, parser{b: w}
	m := journal.RunMeta{Fence: p.u64(), Until: int64(p.u48()), Due: int64(p.u48()), Sealed: p.u8() == 1}
	m.Owner = p.take(int(p.u16()))
	m.Agent = p.b
	m.W, m.WTag, m.Seq = q.u48(), q.u64(), q.u48()
	if p.bad || q.bad || q.b != "" {
		return journal.RunMeta{}, errDamaged
	}
	return m, nil
}
