package filejournal

import (
	"bytes"
	"container/list"
	"encoding/binary"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	bolt "go.etcd.io/bbolt"
)

// thread is a thread in memory. Whoever has put a value into hold owns it: the
// ledger, and all else but refs, elem and segment, which belong to the store's
// lock.
type thread struct {
	key  chat.Key
	name []byte // the encoded key
	hold chan struct{}

	loaded bool
	ledger *journal.Ledger
	id     uint64 // 0 before the first commit
	idle   int64  // when somebody must look at it, as the file has it
	order  uint64 // of the newest command
	sizes  []int  // of the ledger's records, in bytes
	baseSz int
	tail   []encoded // records that only the log has

	refs    int
	elem    *list.Element
	weight  int
	segment uint64 // the oldest segment of the log that has records of tail; 0 is none
}

// encoded is a record as it is stored.
type encoded struct {
	pos  uint64
	data []byte
}

// head is what the file has of a thread beside what stands in other buckets.
type head struct {
	ID        uint64       `json:"id"`
	Exists    bool         `json:"exists,omitempty"`
	Tombstone int64        `json:"tombstone,omitempty"`
	Meta      journal.Meta `json:"meta"`
	Pages     int          `json:"pages,omitempty"`
	Idle      int64        `json:"idle,omitempty"`
}

// command is a journal.Command as it is stored.
type command struct {
	ID     []byte `json:"id"`
	Step   uint8  `json:"step,omitempty"`
	At     int64  `json:"at"`
	Result []byte `json:"result,omitempty"`
}

func newThread(key chat.Key) *thread {
	return &thread{key: key, name: encodeKey(key), hold: make(chan struct{}, 1)}
}

// load reads the thread from the file.
func (t *thread) load(tx *bolt.Tx) error {
	if t.loaded {
		return nil
	}
	l := journal.NewLedger()
	raw := tx.Bucket(bucketThreads).Get(t.name)
	if raw != nil {
		var h head
		if err := json.Unmarshal(raw, &h); err != nil {
			return fmt.Errorf("filejournal: a thread's head: %w", err)
		}
		l.Meta, l.Exists, l.Tombstone = h.Meta, h.Exists, h.Tombstone
		// The pages themselves stay on disk; the ledger only counts them.
		l.Pages = make([][]*chat.Message, h.Pages)
		t.id, t.idle = h.ID, h.Idle
		if err := t.loadRest(tx, l); err != nil {
			return err
		}
		if err := t.loadCommands(tx, l); err != nil {
			return err
		}
	}
	if len(l.Records) == 0 {
		l.Rest = t.idle
	}
	if l.Meta.Runs == nil {
		l.Meta.Runs = map[string]journal.RunMeta{}
	}
	t.ledger, t.loaded = l, true
	return nil
}

func (t *thread) loadRest(tx *bolt.Tx, l *journal.Ledger) error {
	prefix := number(t.id)
	if !l.Exists {
		return nil
	}
	base := tx.Bucket(bucketBase).Get(prefix)
	state, err := chat.ParseState(base)
	if err != nil {
		return err
	}
	l.Base, t.baseSz = state, len(base)
	scan(tx, bucketRecords, prefix, func(k, v []byte) bool {
		if !bytes.HasPrefix(k, prefix) {
			return false
		}
		var r *chat.Record
		if r, err = chat.ParseRecord(v); err != nil {
			return false
		}
		l.Records = append(l.Records, r)
		t.sizes = append(t.sizes, len(v))
		return true
	})
	if err != nil {
		return err
	}
	if want := l.Meta.Pos - l.Meta.Floor; uint64(len(l.Records)) != want {
		return fmt.Errorf("filejournal: thread %q is damaged: it has %d records of %d", t.key.Thread, len(l.Records), want)
	}
	return nil
}

func (t *thread) loadCommands(tx *bolt.Tx, l *journal.Ledger) (err error) {
	prefix := number(t.id)
	scan(tx, bucketCommands, prefix, func(k, v []byte) bool {
		if !bytes.HasPrefix(k, prefix) {
			return false
		}
		var c command
		if err = json.Unmarshal(v, &c); err != nil {
			return false
		}
		id := journal.CommandID{Step: c.Step}
		copy(id.ID[:], c.ID)
		l.Commands = append(l.Commands, journal.Command{ID: id, At: c.At, Result: c.Result})
		t.order = binary.BigEndian.Uint64(k[8:])
		return true
	})
	return err
}

// image is what a decision may change, for the case that it cannot be written.
type image struct {
	ledger journal.Ledger
	sizes  []int
}

func (t *thread) image() image {
	i := image{*t.ledger, t.sizes}
	runs := make(map[string]journal.RunMeta, len(i.ledger.Meta.Runs))
	for id, r := range i.ledger.Meta.Runs {
		runs[id] = r
	}
	i.ledger.Meta.Runs = runs
	return i
}

func (t *thread) restore(i image) {
	*t.ledger, t.sizes = i.ledger, i.sizes
	clear(t.ledger.Nodes)
}

// encodeRecords writes the records of one write and adds up their sizes.
func (t *thread) encodeRecords(records []*chat.Record) ([]encoded, error) {
	out := make([]encoded, len(records))
	total := 0
	for i, r := range records {
		b, err := r.Marshal()
		if err != nil {
			return nil, err
		}
		if len(b) > journal.MaxRecord {
			return nil, fmt.Errorf("%w: a %s record of %d bytes", journal.ErrTooLarge, r.Kind, len(b))
		}
		if total += len(b); total > maxWriteBytes {
			return nil, fmt.Errorf("%w: a write of more than %d bytes", journal.ErrTooLarge, maxWriteBytes)
		}
		out[i] = encoded{r.Pos, b}
	}
	for _, e := range out {
		t.sizes = append(t.sizes, len(e.data))
	}
	t.ledger.Meta.Bytes += int64(total)
	return out, nil
}

// fitSizes makes sizes those of the records that a trim or reset has left.
func (t *thread) fitSizes() {
	if n := len(t.sizes) - len(t.ledger.Records); n > 0 {
		t.sizes = append([]int(nil), t.sizes[n:]...)
	}
	total := 0
	for _, n := range t.sizes {
		total += n
	}
	t.ledger.Meta.Bytes = int64(total)
}

// weigh says what the thread costs in memory, roughly.
func (t *thread) weigh() int {
	const fixed = 4 << 10
	if !t.loaded {
		return fixed
	}
	return fixed + 3*(int(t.ledger.Meta.Bytes)+t.baseSz)
}
