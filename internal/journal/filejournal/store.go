package filejournal

import (
	"bytes"
	"container/list"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	bolt "go.etcd.io/bbolt"
)

// store is the folder, opened. After a failed write it serves nothing more and
// a new one is opened in its place.
type store struct {
	opts    Options
	db      *bolt.DB
	log     log
	appends *lane
	commits *lane
	// checkpoints wakes the goroutine that moves streamed records into bbolt.
	checkpoints chan uint64
	checking    sync.WaitGroup // the goroutine that makes checkpoints, which needs the lanes
	running     sync.WaitGroup // the lanes
	stop        chan struct{}
	swept       time.Time // by the committing goroutine only

	mu      sync.Mutex
	err     error // the write that failed
	threads map[chat.Key]*thread
	used    *list.List // of threads without a user, least recently used first
	weight  int
	dirty   map[*thread]struct{} // those with a tail
	live    map[chat.Key]map[string]journal.RunMeta
	rotated bool          // a checkpoint is under way
	relief  chan struct{} // closed when it has ended, if the log is far too long
}

// lockWait is how long Open waits for another process to let go of the folder.
const lockWait = 500 * time.Millisecond

func openStore(opts Options) (*store, error) {
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("filejournal: %w", err)
	}
	db, err := bolt.Open(filepath.Join(opts.Dir, "threads.db"), 0o600, &bolt.Options{
		Timeout: lockWait, FreelistType: bolt.FreelistMapType, NoSync: opts.noSync,
	})
	if err != nil {
		if isLocked(err) {
			return nil, fmt.Errorf("filejournal: another process uses the folder %s: stop it, give this one a folder of its own, or use a journal that processes can share", opts.Dir)
		}
		return nil, fmt.Errorf("filejournal: opening %s: %w", opts.Dir, err)
	}
	s := &store{
		opts: opts, db: db, log: log{dir: opts.Dir},
		appends: newLane(), commits: newLane(), checkpoints: make(chan uint64, 1), stop: make(chan struct{}),
		threads: map[chat.Key]*thread{}, used: list.New(), dirty: map[*thread]struct{}{},
		live: map[chat.Key]map[string]journal.RunMeta{},
	}
	if err := s.recover(); err != nil {
		db.Close()
		return nil, err
	}
	s.running.Go(func() { s.appends.run(s.stop, s.append) })
	s.running.Go(func() { s.commits.run(s.stop, s.commit) })
	s.checking.Go(s.checkpointer)
	return s, nil
}

// close ends the store; no operation may be under way. With clean, all is in
// the bbolt file afterwards and it says so.
func (s *store) close(clean bool) error {
	if s.db == nil {
		return s.err // it could not be opened again
	}
	var err error
	if clean && s.failure() == nil {
		err = s.checkpoint()
	}
	close(s.checkpoints)
	s.checking.Wait()
	close(s.stop)
	s.running.Wait()
	if err == nil {
		err = s.failure()
	}
	if s.log.file != nil {
		s.log.file.Close()
	}
	if clean && err == nil {
		err = s.markClean()
	}
	if cerr := s.db.Close(); err == nil {
		err = cerr
	}
	return err
}

func (s *store) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// fail makes the first failed write the end of the store.
func (s *store) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = fmt.Errorf("filejournal: a write failed: %w", err)
		s.opts.Logger.Error("the journal cannot write", "dir", s.opts.Dir, "error", err)
	}
	return s.err
}

// append is the log's lane: one write for all that waits.
func (s *store) append(ops []op) {
	err := s.failure()
	if err == nil {
		if err = s.turn(); err == nil {
			var b []byte
			if len(ops) == 1 {
				b = ops[0].frame
			} else {
				for _, o := range ops {
					b = append(b, o.frame...)
				}
			}
			err = s.opts.faults.write(&s.log, b)
		}
		if err != nil {
			err = s.fail(err)
		}
	}
	for _, o := range ops {
		o.done(err)
	}
}

// turn begins a new file of the log when the present one is long, and removes
// those that nobody needs.
func (s *store) turn() error {
	s.mu.Lock()
	idle, busy := len(s.dirty) == 0, s.rotated
	if busy && s.relief == nil && s.log.size >= tooLong*s.opts.segment {
		s.relief = make(chan struct{})
	}
	s.mu.Unlock()
	full := s.log.size >= s.opts.segment
	if s.log.file != nil && !(full && !busy) && !(idle && s.log.size >= idleSize) {
		return nil
	}
	if err := s.log.next(); err != nil {
		return err
	}
	if full && !idle {
		s.mu.Lock()
		s.rotated = true
		s.mu.Unlock()
		s.checkpoints <- s.log.segment
		return nil
	}
	return s.reclaim(s.log.segment)
}

// tooLong is how many segments the log may be while a checkpoint is under way.
const tooLong = 4

// room waits while the log grows faster than it is brought into the bbolt
// file. Whoever waits holds no thread.
func (s *store) room(ctx context.Context) error {
	s.mu.Lock()
	relief := s.relief
	s.mu.Unlock()
	if relief == nil {
		return nil
	}
	select {
	case <-relief:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reclaim removes the files of the log before segment that no thread needs.
func (s *store) reclaim(segment uint64) error {
	s.mu.Lock()
	for t := range s.dirty {
		segment = min(segment, t.segment)
	}
	s.mu.Unlock()
	segments, err := logSegments(s.opts.Dir)
	if err != nil {
		return err
	}
	for _, n := range segments {
		if n < segment {
			if err := os.Remove(logName(s.opts.Dir, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// commit is the bbolt file's lane: one synced transaction for all that waits.
func (s *store) commit(ops []op) {
	err := s.failure()
	if err == nil {
		if err = s.transact(ops); err != nil {
			err = s.fail(err)
		}
	}
	for _, o := range ops {
		if err == nil && o.write != nil {
			o.write.done()
			s.clean(o.write.t)
		}
		o.done(err)
	}
}

func (s *store) transact(ops []op) error {
	now := s.opts.Clock()
	return s.db.Update(func(tx *bolt.Tx) error {
		if err := s.opts.faults.commit(); err != nil {
			return err
		}
		if now.Sub(s.swept) >= sweepEvery || now.Before(s.swept) {
			s.swept = now
			if err := sweep(tx, uint64(now.UnixMilli())); err != nil {
				return err
			}
		}
		for _, o := range ops {
			var err error
			if o.write != nil {
				err = o.write.write(tx)
			} else {
				err = o.put.write(tx)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// clean says that the file has all of the thread.
func (s *store) clean(t *thread) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.segment = 0
	delete(s.dirty, t)
}

// stained says that only the log has the newest of the thread's records.
func (s *store) stained(t *thread) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.segment == 0 {
		t.segment = s.log.segment
	}
	s.dirty[t] = struct{}{}
}

// checkpointer moves what streams into the bbolt file each time the log has
// begun a new file, so that the old one can go.
func (s *store) checkpointer() {
	for segment := range s.checkpoints {
		err := s.checkpoint()
		if err == nil {
			err = s.reclaim(segment)
		}
		if err != nil {
			_ = s.fail(err)
		}
		s.mu.Lock()
		s.rotated = false
		if s.relief != nil {
			close(s.relief)
			s.relief = nil
		}
		s.mu.Unlock()
	}
}

// checkpoint moves the tails that there are now into the bbolt file.
func (s *store) checkpoint() error {
	s.mu.Lock()
	todo := make([]*thread, 0, len(s.dirty))
	for t := range s.dirty {
		s.take(t)
		todo = append(todo, t)
	}
	s.mu.Unlock()
	results := make(chan error, len(todo))
	for _, t := range todo {
		// A thread is held until its write is on disk, which needs nobody else.
		t.hold <- struct{}{}
		done := func(err error) {
			s.release(t)
			results <- err
		}
		if len(t.tail) == 0 {
			done(nil)
			continue
		}
		c, err := t.prepare(t.image(), nil, s.opts.idleTrim().Milliseconds())
		if err != nil {
			done(err)
			continue
		}
		s.commits.add(op{write: c, done: done})
	}
	var err error
	for range todo {
		if e := <-results; err == nil {
			err = e
		}
	}
	return err
}

// sweepEvery is how often what has expired is removed, and sweepMost how much
// of each at a time.
const (
	sweepEvery = time.Minute
	sweepMost  = 1024
)

// removeTombstone removes the last of a deleted thread.
func removeTombstone(tx *bolt.Tx, name []byte) error {
	var h head
	if raw := tx.Bucket(bucketThreads).Get(name); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return fmt.Errorf("filejournal: a thread's head: %w", err)
		}
	}
	prefix := number(h.ID)
	if err := drop(tx, bucketCommands, prefix, func(k []byte) bool { return bytes.HasPrefix(k, prefix) }); err != nil {
		return err
	}
	return del(tx, bucketThreads, name)
}

// sweep removes expired values of the shelf and old tombstones.
func sweep(tx *bolt.Tx, now uint64) error {
	for bucket, forget := range map[*[]byte]func(*bolt.Tx, []byte) error{
		&bucketExpiring: func(tx *bolt.Tx, key []byte) error { return removeValue(tx, key) },
		&bucketTombs:    removeTombstone,
	} {
		var due [][]byte
		scan(tx, *bucket, nil, func(k, _ []byte) bool {
			if bytes.Compare(k[:8], number(now)) > 0 || len(due) == sweepMost {
				return false
			}
			due = append(due, append([]byte(nil), k...))
			return true
		})
		for _, k := range due {
			if err := forget(tx, k[8:]); err != nil {
				return err
			}
			if err := del(tx, *bucket, k); err != nil {
				return err
			}
		}
	}
	return nil
}
