package filejournal

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	bolt "go.etcd.io/bbolt"
)

// Load implements journal.Journal.
func (j *Journal) Load(ctx context.Context, q journal.Load) (journal.Snapshot, error) {
	s, t, err := j.hold(ctx, q.Key, false)
	if err != nil {
		return journal.Snapshot{}, err
	}
	defer j.letGo(s, t)
	snap := t.ledger.Load(q, j.now())
	if len(q.IDs) == 0 || t.id == 0 || !snap.Exists {
		return snap, nil
	}
	err = s.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketNodes)
		for _, id := range q.IDs {
			raw := b.Get(at(t.id, []byte(id)))
			if raw == nil {
				continue
			}
			var n chat.Node
			if err := json.Unmarshal(raw, &n); err != nil {
				return fmt.Errorf("filejournal: a node of the index: %w", err)
			}
			snap.Nodes[id] = n
		}
		return nil
	})
	return snap, err
}

// Pages implements journal.Journal. Pages that are not there are left out.
func (j *Journal) Pages(ctx context.Context, key chat.Key, from, to int) ([]*chat.Message, error) {
	s, t, err := j.hold(ctx, key, false)
	if err != nil {
		return nil, err
	}
	id, n := t.id, len(t.ledger.Pages)
	s.release(t)
	defer j.leave()
	var out []*chat.Message
	err = s.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketPages)
		for i := max(from, 0); i < min(to, n); i++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			raw := b.Get(at(id, number(uint64(i))))
			if raw == nil {
				return nil // deleted since
			}
			var page []*chat.Message
			if err := json.Unmarshal(raw, &page); err != nil {
				return fmt.Errorf("filejournal: page %d of a thread: %w", i, err)
			}
			out = append(out, page...)
		}
		return nil
	})
	return out, err
}

// Segment implements journal.Journal.
func (j *Journal) Segment(_ context.Context, segment string) (chat.Key, error) {
	s, err := j.enter()
	if err != nil {
		return chat.Key{}, err
	}
	defer j.leave()
	var key chat.Key
	err = s.view(func(tx *bolt.Tx) error {
		raw := tx.Bucket(bucketSegments).Get([]byte(segment))
		if raw == nil {
			return journal.ErrNotFound
		}
		var ok bool
		if key, ok = decodeKey(raw); !ok {
			return fmt.Errorf("filejournal: a segment's key is damaged")
		}
		return nil
	})
	return key, err
}
