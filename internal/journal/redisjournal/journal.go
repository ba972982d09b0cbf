package redisjournal

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// defaultIdleTrim is Options.IdleTrim if it is not set.
const defaultIdleTrim = 10 * time.Minute

// laneCount is how many lanes write to a server. A cluster's are shared out by
// slot, so that a master that hangs holds up those of its own slots.
const (
	laneCount        = 2
	laneCountCluster = 12
)

// Journal is a Redis as a journal.Journal.
type Journal struct {
	opts   Options
	keys   keyspace
	log    *slog.Logger
	link   *link
	lanes  []*lane
	schema schema

	followers *followers
	shelf     *shelf
	blobs     *blobs
	roster    *roster
	health    health

	settled atomic.Bool // the number of partitions is known to be ours

	mu      sync.Mutex
	closed  bool
	pending sync.WaitGroup
	closing chan struct{} // closed when Close has ended
	result  error         // of Close
}

var (
	_ journal.Journal = (*Journal)(nil)
	_ journal.Hearing = (*Journal)(nil)
)

// Open makes a journal of what opts say. It fails for options that cannot be
// meant; a Redis that does not answer is for Ready to tell.
func Open(opts Options) (*Journal, error) {
	keys, err := newKeyspace(opts.Prefix, opts.Partitions)
	if err != nil {
		return nil, err
	}
	opts.Prefix, opts.Partitions = keys.prefix, keys.partitions()
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.IdleTrim <= 0 {
		opts.IdleTrim = defaultIdleTrim
	}
	l, err := dial(opts)
	if err != nil {
		return nil, err
	}
	j := &Journal{
		opts: opts, keys: keys, log: opts.Logger, link: l,
		closing: make(chan struct{}),
	}
	j.schema.knows = uint16(chat.SchemaVersion)
	j.schema.writes.Store(firstSchema)
	n := laneCount
	if opts.Cluster {
		n = laneCountCluster
	}
	for range n {
		j.lanes = append(j.lanes, newLane(l.write))
	}
	j.assemble()
	return j, nil
}

// laneOf is the lane of a partition. Partitions are in the order of their
// slots, and a master of a cluster has a range of these.
func (j *Journal) laneOf(partition int) int {
	if j.opts.Cluster {
		return partition * len(j.lanes) / j.keys.partitions()
	}
	return partition % len(j.lanes)
}

func (j *Journal) lane(k threadKeys) *lane { return j.lanes[j.laneOf(k.partition)] }

// shift is how far tests have moved the clock, in milliseconds.
func (j *Journal) shift() uint64 {
	if j.opts.Shift == nil {
		return 0
	}
	return uint64(j.opts.Shift().Milliseconds())
}

// hold lets Close wait until leave; false if it has been called.
func (j *Journal) hold() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.pending.Add(1)
	}
	return !j.closed
}

// promptly is f, but for a caller whose context ends: he is not kept by a client
// that reads on until its own time-out.
func promptly[T any](ctx context.Context, j *Journal, f func() (T, error)) (T, error) {
	var none T
	if !j.hold() {
		return none, journal.ErrClosed
	}
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		defer j.leave()
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		return none, fmt.Errorf("redisjournal: %w", ctx.Err())
	}
}

// begin begins an operation; leave ends it.
func (j *Journal) begin(ctx context.Context) error {
	if !j.hold() {
		return journal.ErrClosed
	}
	if err := j.settle(ctx); err != nil {
		j.leave()
		return err
	}
	return nil
}

func (j *Journal) leave() { j.pending.Done() }

// enter begins an operation on a thread; leave ends it.
func (j *Journal) enter(ctx context.Context, key chat.Key) (threadKeys, error) {
	if err := checkKey(key); err != nil {
		return threadKeys{}, err
	}
	if err := j.begin(ctx); err != nil {
		return threadKeys{}, err
	}
	return j.keys.thread(key), nil
}

// settle makes sure, once, that the threads under the prefix are spread over as
// many partitions as this journal thinks: another number would look for them
// elsewhere.
func (j *Journal) settle(ctx context.Context) error {
	if j.settled.Load() {
		return nil
	}
	if err := j.checkLayout(ctx); err != nil {
		return err
	}
	j.settled.Store(true)
	return nil
}

// checkLayout says what is wrong with the stored number of partitions, or
// stores it, and with the schema.
func (j *Journal) checkLayout(ctx context.Context) error {
	mine := strconv.Itoa(j.keys.partitions())
	if err := j.link.write.SetNX(ctx, j.keys.layout(), mine, 0).Err(); err != nil {
		return fmt.Errorf("redisjournal: %w", err)
	}
	theirs, err := j.link.read.Get(ctx, j.keys.layout()).Result()
	if err != nil {
		return fmt.Errorf("redisjournal: %w", err)
	}
	if theirs != mine {
		return fmt.Errorf("redisjournal: prefix %q was begun with %.8q partitions, not %s: leave the number as it is, or take another prefix", j.keys.prefix, theirs, mine)
	}
	return j.checkSchema(ctx)
}

// closeGrace is how long Close waits for a server's answers.
const closeGrace = time.Second

// Close waits for all that is under way, but not long for a server that hangs.
// Further calls wait for the first.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		<-j.closing
		return j.result
	}
	j.closed = true
	j.mu.Unlock()
	j.blobs.proof.cancel()
	j.followers.cancel()
	defer time.AfterFunc(closeGrace, j.link.cut).Stop()
	j.pending.Wait()
	for _, l := range j.lanes {
		l.close()
	}
	var both sync.WaitGroup
	both.Go(j.blobs.proof.close)
	both.Go(j.followers.close)
	both.Wait()
	j.result = j.link.close()
	close(j.closing)
	return j.result
}

// Follow implements journal.Journal.
func (j *Journal) Follow(key chat.Key, f func(journal.Notice)) (stop func()) {
	return j.followers.follow(key, journal.NewInbox(f, &j.followers.running))
}

// FollowPromptly implements journal.Prompt.
func (j *Journal) FollowPromptly(key chat.Key, f func(journal.Notice)) (stop func()) {
	return j.followers.follow(key, &prompt{f: f})
}

// Shelf returns the shelf, which lives as long as the journal.
func (j *Journal) Shelf() journal.Shelf { return j.shelf }

// Roster returns the roster, which lives as long as the journal.
func (j *Journal) Roster() journal.Roster { return j.roster }

// Blobs returns the blobs, which live as long as the journal.
func (j *Journal) Blobs() journal.Blobs { return j.blobs }
