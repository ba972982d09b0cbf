package filejournal

import (
	"context"

	"github.com/parlance-gateway/parlance/internal/chat"
	bolt "go.etcd.io/bbolt"
)

// acquire returns the thread, loaded and held.
func (s *store) acquire(ctx context.Context, key chat.Key) (*thread, error) {
	s.mu.Lock()
	t := s.threads[key]
	if t == nil {
		t = newThread(key)
		s.threads[key] = t
	}
	s.take(t)
	s.mu.Unlock()
	select {
	case t.hold <- struct{}{}:
	case <-ctx.Done():
		s.put(t)
		return nil, ctx.Err()
	}
	err := s.failure()
	if err == nil && !t.loaded {
		err = s.db.View(t.load)
	}
	if err != nil {
		s.release(t)
		return nil, err
	}
	s.refresh(t)
	return t, nil
}

// release ends what acquire began.
func (s *store) release(t *thread) {
	weight := t.weigh()
	<-t.hold
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(t, weight)
}

// put undoes take for a thread that was not held.
func (s *store) put(t *thread) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(t, t.weight)
}

// take counts a user of the thread; s.mu is held.
func (s *store) take(t *thread) {
	t.refs++
	if t.elem != nil {
		s.used.Remove(t.elem)
		t.elem = nil
	}
}

// drop ends what take began and makes room; s.mu is held. A thread whose
// records only the log has stays, whatever it weighs: the log's size bounds
// those.
func (s *store) drop(t *thread, weight int) {
	s.weight += weight - t.weight
	t.weight = weight
	if t.refs--; t.refs == 0 {
		t.elem = s.used.PushBack(t)
	}
	for e := s.used.Front(); e != nil && s.weight > s.opts.Cache; {
		next := e.Next()
		old := e.Value.(*thread)
		if _, dirty := s.dirty[old]; !dirty {
			s.used.Remove(e)
			old.elem = nil
			s.weight -= old.weight
			delete(s.threads, old.key)
		}
		e = next
	}
}

// view reads the bbolt file as it is between two transactions.
func (s *store) view(f func(*bolt.Tx) error) error {
	if err := s.failure(); err != nil {
		return err
	}
	return s.db.View(f)
}
