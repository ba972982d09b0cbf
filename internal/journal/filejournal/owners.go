package filejournal

import (
	"cmp"
	"context"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	bolt "go.etcd.io/bbolt"
)

// The deadlines of owners change with each beat, so they are in memory: what
// the store's index of live runs says of a run's Until is the truth, the
// ledger gets it when its thread is held, and the file has an old one.

// index remembers the thread's live runs; whoever holds the thread calls it.
func (s *store) index(t *thread) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(t.ledger.Meta.Runs) == 0 {
		delete(s.live, t.key)
		return
	}
	runs := maps.Clone(t.ledger.Meta.Runs)
	for id, run := range runs {
		if was, ok := s.live[t.key][id]; ok && was.Fence == run.Fence {
			run.Until = was.Until
			runs[id] = run
		}
	}
	s.live[t.key] = runs
}

// refresh tells the ledger of the deadlines; its thread is held.
func (s *store) refresh(t *thread) {
	runs := t.ledger.Meta.Runs
	if len(runs) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, run := range runs {
		if is, ok := s.live[t.key][id]; ok && is.Fence == run.Fence {
			run.Until = is.Until
			runs[id] = run
		}
	}
}

// extend gives every owner a new deadline, or with until 0 none.
func (s *store) extend(until int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, runs := range s.live {
		for id, run := range runs {
			run.Until = until
			runs[id] = run
		}
	}
}

// Beat implements journal.Journal.
func (j *Journal) Beat(_ context.Context, boot string, owned []journal.Owned) ([]journal.Owned, error) {
	s, err := j.enter()
	if err != nil {
		return nil, err
	}
	defer j.leave()
	until := j.now() + journal.OwnerDeadline.Milliseconds()
	var lost []journal.Owned
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	for _, o := range owned {
		runs := s.live[o.Key]
		run, live := runs[o.Run]
		if !live || run.Owner != boot || run.Fence != o.Fence || run.Sealed {
			lost = append(lost, o)
			continue
		}
		run.Until = until
		runs[o.Run] = run
	}
	return lost, nil
}

// Leave implements journal.Journal.
func (j *Journal) Leave(_ context.Context, boot string) error {
	s, err := j.enter()
	if err != nil {
		return err
	}
	defer j.leave()
	j.roster.leave(boot)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, runs := range s.live {
		for id, run := range runs {
			if run.Owner == boot {
				run.Until = 0
				runs[id] = run
			}
		}
	}
	return nil
}

// Due implements journal.Journal.
func (j *Journal) Due(_ context.Context, limit int) ([]journal.DueItem, error) {
	s, err := j.enter()
	if err != nil {
		return nil, err
	}
	defer j.leave()
	now := j.now()
	type overdue struct {
		journal.DueItem
		since int64
	}
	var all []overdue
	add := func(key chat.Key, id string, run journal.RunMeta) {
		item := overdue{journal.DueItem{Key: key, Run: id, Meta: run, Lapsed: run.Lapsed(now)}, now}
		if item.Lapsed {
			item.since = run.Until
		}
		if run.Due != 0 && run.Due <= now {
			item.since = min(item.since, run.Due)
		} else if !item.Lapsed {
			return
		}
		all = append(all, item)
	}
	s.mu.Lock()
	for key, runs := range s.live {
		for id, run := range runs {
			add(key, id, run)
		}
	}
	s.mu.Unlock()
	err = s.view(func(tx *bolt.Tx) error {
		n := 0
		scan(tx, bucketIdle, nil, func(k, _ []byte) bool {
			since := int64(binary.BigEndian.Uint64(k))
			if since > now || n == limit {
				return false
			}
			n++
			if key, ok := decodeKey(k[8:]); ok {
				all = append(all, overdue{journal.DueItem{Key: key}, since})
			}
			return true
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b overdue) int {
		return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.Key.Thread, b.Key.Thread), cmp.Compare(a.Run, b.Run))
	})
	out := make([]journal.DueItem, 0, min(limit, len(all)))
	for _, o := range all[:min(max(limit, 0), len(all))] {
		out = append(out, o.DueItem)
	}
	return out, nil
}
