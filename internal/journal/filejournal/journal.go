package filejournal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Options say where and how threads are kept. Only Dir is required.
type Options struct {
	// Dir is the folder; it is made if it is not there, readable for its
	// owner only. One process at a time can have it.
	Dir string
	// Clock gives the time; nil is time.Now.
	Clock func() time.Time
	// Logger is told what an operator should know; nil is silence.
	Logger *slog.Logger
	// IdleTrim is how long after its last record a thread without live runs
	// is due for a trim; 0 is 10 minutes.
	IdleTrim time.Duration
	// KeepIdle is asked for the same with each write; 0, or nil, is IdleTrim.
	KeepIdle func() time.Duration
	// Cache is how much memory the threads may take that nobody uses just
	// now, in bytes; 0 is 64 MiB.
	Cache int

	segment int64   // bytes of the log before it turns over
	machine string  // this boot of the machine
	noSync  bool    // for tests that lose no power
	faults  *faults // for tests of a disk that fails
}

// faults let a test stand between the store and its disk.
type faults struct {
	onWrite  func(b []byte) (cut []byte, err error)
	onCommit func() error
}

func (f *faults) write(l *log, b []byte) error {
	var err error
	if f != nil && f.onWrite != nil {
		b, err = f.onWrite(b)
	}
	if werr := l.write(b); err == nil {
		err = werr
	}
	return err
}

func (f *faults) commit() error {
	if f == nil || f.onCommit == nil {
		return nil
	}
	return f.onCommit()
}

// Journal is a folder as a journal.Journal. Several edges of one process may
// share one.
type Journal struct {
	opts      Options
	followers followers
	shelf     shelf
	blobs     blobs
	roster    roster

	mu      sync.Mutex
	store   *store
	closed  bool
	healed  time.Time // when it was last tried to open the folder again
	pending sync.WaitGroup
	closing chan struct{} // closed when Close has ended
	result  error         // of Close
}

var _ journal.Journal = (*Journal)(nil)

// Open opens or makes the folder and recovers what an unclean stop has left.
// The error says so in words if another process has the folder. ctx is not
// kept.
func Open(ctx context.Context, opts Options) (*Journal, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if opts.Dir == "" {
		return nil, errors.New("filejournal: no folder given")
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.IdleTrim <= 0 {
		opts.IdleTrim = 10 * time.Minute
	}
	if opts.Cache <= 0 {
		opts.Cache = 64 << 20
	}
	if opts.segment <= 0 {
		opts.segment = segmentSize
	}
	if opts.machine == "" {
		opts.machine = machine()
	}
	s, err := openStore(opts)
	if err != nil {
		return nil, err
	}
	// Whoever owned a run was of a process that is gone.
	s.extend(0)
	j := &Journal{opts: opts, store: s, closing: make(chan struct{})}
	j.shelf.j, j.blobs.j = j, j
	j.roster.clock = opts.Clock
	if err := j.blobs.open(); err != nil {
		s.close(false)
		return nil, err
	}
	return j, nil
}

// idleTrim is how long after its last record a thread is due for a trim.
func (o *Options) idleTrim() time.Duration {
	if o.KeepIdle != nil {
		if d := o.KeepIdle(); d > 0 {
			return d
		}
	}
	return o.IdleTrim
}

func (j *Journal) now() int64 { return j.opts.Clock().UnixMilli() }

// enter begins an operation on the store; leave ends it.
func (j *Journal) enter() (*store, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return nil, err
	}
	j.pending.Add(1)
	return j.store, nil
}

func (j *Journal) leave() { j.pending.Done() }

// hold begins an operation on a thread, appends says which kind; letGo ends it.
func (j *Journal) hold(ctx context.Context, key chat.Key, appends bool) (*store, *thread, error) {
	if err := checkNames(key.Realm, key.Tenant, key.Thread); err != nil {
		return nil, nil, err
	}
	s, err := j.enter()
	if err != nil {
		return nil, nil, err
	}
	if appends {
		if err := s.room(ctx); err != nil {
			j.leave()
			return nil, nil, err
		}
	}
	t, err := s.acquire(ctx, key)
	if err != nil {
		j.leave()
		return nil, nil, err
	}
	return s, t, nil
}

func (j *Journal) letGo(s *store, t *thread) {
	s.release(t)
	j.leave()
}

// finish gives a write to its lane and waits until it is on disk or ctx ends.
// The write itself goes on in any case: then shown is called, with the thread
// still held, and the thread is let go.
func (j *Journal) finish(ctx context.Context, s *store, t *thread, l *lane, o op, shown func()) error {
	result := make(chan error, 1)
	o.done = func(err error) {
		if err == nil {
			s.index(t)
			shown()
		}
		j.letGo(s, t)
		result <- err
	}
	l.add(o)
	return wait(ctx, result)
}

func wait(ctx context.Context, result <-chan error) error {
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("filejournal: the outcome is not known: %w", ctx.Err())
	}
}

// retryOpen is how long a folder that failed is left alone.
const retryOpen = time.Second

// Ready says why the journal cannot serve, or nil.
func (j *Journal) Ready(context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.usable()
}

// usable opens the folder again if a write has failed, at most once a second.
// The lock is held, so no operation begins meanwhile; those under way end
// soon, because the store refuses them.
func (j *Journal) usable() error {
	if j.closed {
		return journal.ErrClosed
	}
	err := j.store.failure()
	now := j.opts.Clock()
	if err == nil || now.Sub(j.healed) < retryOpen && !now.Before(j.healed) {
		return err
	}
	j.healed = now
	j.pending.Wait()
	_ = j.store.close(false)
	s, err := openStore(j.opts)
	if err != nil {
		j.store = &store{opts: j.opts, err: err}
		return err
	}
	// The edges of this process live, and could not beat.
	s.extend(now.Add(journal.OwnerDeadline).UnixMilli())
	j.store = s
	j.opts.Logger.Info("the journal can write again", "dir", j.opts.Dir)
	j.followers.resync()
	return nil
}

// Close waits for all that is under way, brings everything into the bbolt file
// and marks the folder clean. Further calls wait for the first.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		<-j.closing
		return j.result
	}
	j.closed = true
	j.mu.Unlock()
	j.shut(true)
	return j.result
}

func (j *Journal) shut(clean bool) {
	j.pending.Wait()
	j.result = j.store.close(clean)
	j.followers.close()
	close(j.closing)
}

// Shelf returns the shelf, which lives as long as the journal.
func (j *Journal) Shelf() journal.Shelf { return &j.shelf }

// Roster implements journal.Journal.
func (j *Journal) Roster() journal.Roster { return &j.roster }

// Blobs returns the blobs, which live as long as the journal.
func (j *Journal) Blobs() journal.Blobs { return &j.blobs }
