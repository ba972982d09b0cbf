package filejournal

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/parlance-gateway/parlance/internal/chat"
	bolt "go.etcd.io/bbolt"
)

// change is all that one decision writes to the bbolt file: made by whoever
// holds the thread, carried out by write within the group's transaction.
type change struct {
	t       *thread
	before  image
	base    []byte // the new base, or nil
	records []encoded
	// adds is how many commands the ledger got.
	adds  int
	page  int
	pages [][]byte
	// archived says which pages go, because archives have them.
	archived [2]int
	nodes    map[string][]byte
	segments []string
	// idle is when somebody must look at the thread; 0 is never.
	idle int64
}

// prepare encodes what the ledger has now and had not before. fresh are the
// records of this very decision.
func (t *thread) prepare(before image, fresh []encoded, idleTrim int64) (*change, error) {
	l := t.ledger
	c := &change{t: t, before: before, records: append(t.tail[:len(t.tail):len(t.tail)], fresh...)}
	if l.Base != before.ledger.Base && l.Exists {
		b, err := l.Base.Marshal()
		if err != nil {
			return nil, err
		}
		c.base, t.baseSz = b, len(b)
		c.archived = [2]int{before.ledger.Base.Archived(), l.Base.Archived()}
	}
	for i := len(before.ledger.Pages); i < len(l.Pages); i++ {
		b, err := json.Marshal(l.Pages[i])
		if err != nil {
			return nil, err
		}
		c.pages = append(c.pages, b)
	}
	c.page = len(before.ledger.Pages)
	switch {
	case !l.Exists || len(l.Meta.Runs) > 0:
	case len(l.Records) > 0:
		c.idle = l.Meta.At + idleTrim
	default:
		c.idle = l.Rest
	}
	return c, nil
}

func encodeNodes(nodes map[string]chat.Node) (map[string][]byte, error) {
	out := make(map[string][]byte, len(nodes))
	for id, n := range nodes {
		b, err := json.Marshal(n)
		if err != nil {
			return nil, err
		}
		out[id] = b
	}
	return out, nil
}

// write carries the change out. It runs in the store's own goroutine while the
// thread is held.
func (c *change) write(tx *bolt.Tx) error {
	t, l := c.t, c.t.ledger
	if t.id == 0 {
		id, err := tx.Bucket(bucketThreads).NextSequence()
		if err != nil {
			return err
		}
		t.id = id
	}
	steps := []func(*bolt.Tx) error{c.writeIndexes, c.writeHead}
	if !l.Exists {
		steps = append(steps, c.clear)
	}
	if l.Exists {
		steps = append(steps, c.writeRecords, c.writeCommands, c.writeNodes)
	}
	for _, step := range steps {
		if err := step(tx); err != nil {
			return err
		}
	}
	return nil
}

func (c *change) writeHead(tx *bolt.Tx) error {
	t, l := c.t, c.t.ledger
	b, err := json.Marshal(head{ID: t.id, Exists: l.Exists, Tombstone: l.Tombstone, Meta: l.Meta, Pages: len(l.Pages), Idle: c.idle})
	if err != nil {
		return err
	}
	return put(tx, bucketThreads, t.name, b)
}

// writeIndexes keeps what is found by time or by being live.
func (c *change) writeIndexes(tx *bolt.Tx) error {
	t, l, was := c.t, c.t.ledger, &c.before.ledger
	if c.idle != t.idle {
		if t.idle != 0 {
			if err := del(tx, bucketIdle, at(uint64(t.idle), t.name)); err != nil {
				return err
			}
		}
		if c.idle != 0 {
			if err := put(tx, bucketIdle, at(uint64(c.idle), t.name), nil); err != nil {
				return err
			}
		}
	}
	if l.Tombstone != was.Tombstone {
		if was.Tombstone != 0 {
			if err := del(tx, bucketTombs, at(uint64(was.Tombstone), t.name)); err != nil {
				return err
			}
		}
		if l.Tombstone != 0 {
			if err := put(tx, bucketTombs, at(uint64(l.Tombstone), t.name), nil); err != nil {
				return err
			}
		}
	}
	if len(l.Meta.Runs) == 0 {
		return del(tx, bucketLive, t.name)
	}
	return put(tx, bucketLive, t.name, nil)
}

// clear removes all that hangs on the thread's number, but for its commands: one
// that is tried again after the delete must be known.
func (c *change) clear(tx *bolt.Tx) error {
	if err := c.clearSegments(tx); err != nil {
		return err
	}
	prefix := number(c.t.id)
	for _, b := range perThread {
		if bytes.Equal(b, bucketCommands) {
			continue
		}
		if err := drop(tx, b, prefix, func(k []byte) bool { return bytes.HasPrefix(k, prefix) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *change) writeRecords(tx *bolt.Tx) error {
	t, l := c.t, c.t.ledger
	floor := l.Meta.Floor
	if c.base != nil {
		if err := put(tx, bucketBase, number(t.id), c.base); err != nil {
			return err
		}
	}
	if floor != c.before.ledger.Meta.Floor {
		prefix, end := number(t.id), at(t.id, number(floor))
		below := func(k []byte) bool { return bytes.HasPrefix(k, prefix) && bytes.Compare(k, end) <= 0 }
		if err := drop(tx, bucketRecords, prefix, below); err != nil {
			return err
		}
		if len(l.Meta.Runs) == 0 {
			if err := c.clearSegments(tx); err != nil {
				return err
			}
		}
	}
	for _, r := range c.records {
		if r.pos <= floor {
			continue
		}
		if err := put(tx, bucketRecords, at(t.id, number(r.pos)), r.data); err != nil {
			return err
		}
	}
	for i, p := range c.pages {
		if err := put(tx, bucketPages, at(t.id, number(uint64(c.page+i))), p); err != nil {
			return err
		}
	}
	return c.dropArchived(tx)
}

// dropArchived removes the pages that archives have from now on, in the very
// transaction that says so.
func (c *change) dropArchived(tx *bolt.Tx) error {
	from, to := c.archived[0], c.archived[1]
	if from >= to {
		return nil
	}
	prefix, end := number(c.t.id), at(c.t.id, number(uint64(to)))
	return drop(tx, bucketPages, at(c.t.id, number(uint64(from))), func(k []byte) bool {
		return bytes.HasPrefix(k, prefix) && bytes.Compare(k, end) < 0
	})
}

// clearSegments forgets the thread's segments.
func (c *change) clearSegments(tx *bolt.Tx) error {
	prefix := number(c.t.id)
	var segments [][]byte
	scan(tx, bucketOwnSegs, prefix, func(k, _ []byte) bool {
		if !bytes.HasPrefix(k, prefix) {
			return false
		}
		segments = append(segments, append([]byte(nil), k[8:]...))
		return true
	})
	for _, s := range segments {
		if err := del(tx, bucketSegments, s); err != nil {
			return err
		}
		if err := del(tx, bucketOwnSegs, at(c.t.id, s)); err != nil {
			return err
		}
	}
	return nil
}

// writeCommands adds the newest commands and removes those that the ledger
// has forgotten, which are always the oldest.
func (c *change) writeCommands(tx *bolt.Tx) error {
	t, l := c.t, c.t.ledger
	for i := range c.adds {
		k := l.Commands[len(l.Commands)-c.adds+i]
		b, err := json.Marshal(command{ID: k.ID.ID[:], Step: k.ID.Step, At: k.At, Result: k.Result})
		if err != nil {
			return err
		}
		t.order++
		if err := put(tx, bucketCommands, at(t.id, number(t.order)), b); err != nil {
			return err
		}
	}
	prefix, end := number(t.id), at(t.id, number(t.order-uint64(len(l.Commands))))
	return drop(tx, bucketCommands, prefix, func(k []byte) bool {
		return bytes.HasPrefix(k, prefix) && bytes.Compare(k, end) <= 0
	})
}

func (c *change) writeNodes(tx *bolt.Tx) error {
	for id, b := range c.nodes {
		if err := put(tx, bucketNodes, at(c.t.id, []byte(id)), b); err != nil {
			return err
		}
	}
	for _, segment := range c.segments {
		if err := put(tx, bucketSegments, []byte(segment), c.t.name); err != nil {
			return err
		}
		if err := put(tx, bucketOwnSegs, at(c.t.id, []byte(segment)), nil); err != nil {
			return err
		}
	}
	return nil
}

// done takes over what the file now has.
func (c *change) done() {
	t := c.t
	t.tail, t.idle = nil, c.idle
	clear(t.ledger.Nodes)
	for i := range t.ledger.Pages {
		t.ledger.Pages[i] = nil
	}
}
