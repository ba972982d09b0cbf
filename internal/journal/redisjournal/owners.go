package redisjournal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/redis/go-redis/v9"
)

// Claim implements journal.Journal.
func (j *Journal) Claim(ctx context.Context, q journal.Claim) (fence uint64, rev journal.Rev, res journal.Result, err error) {
	k, err := j.enter(ctx, q.Key)
	if err != nil {
		return 0, rev, 0, err
	}
	defer j.leave()
	if len(q.Owner) > maxName {
		return 0, rev, 0, fmt.Errorf("%w: an owner's name", journal.ErrTooLarge)
	}
	head := packer(nil).u64(q.Fence).u64(q.Tag).flag(q.Living).u48(j.shift()).u8(j.publish(0)).u16(uint16(j.schema.writes.Load()))
	text, err := j.lane(k).do(ctx, claimScript, 0, []string{k.meta, j.keys.due(k.partition)}, []byte(head), q.Run, q.Owner, k.name, k.channel)
	if res, err = okOrLost(text, err); err != nil || res != journal.OK {
		return 0, rev, res, err
	}
	p := parser{b: text[1:]}
	fence, rev = p.u64(), p.rev()
	if p.bad {
		return 0, journal.Rev{}, 0, errAnswer
	}
	return fence, rev, journal.OK, nil
}

// beatRuns bounds the runs that one call of the script renews.
const beatRuns = 200

// aside bounds in a cluster how long the others wait for a master that hangs.
const aside = 3 * time.Second

// verdict is what is known of a run that was to be renewed.
type verdict uint8

// The store did not say, or it did.
const (
	unheard verdict = iota
	notMine
	mine
)

// renewal is a call for some runs of one partition; at says which of those that
// were asked for they are.
type renewal struct {
	names []string
	args  []any
	at    []int
}

// renew gives runs a new deadline, or with leave none, and says which of them
// are boot's. The lanes are asked side by side; err is of those that did not
// answer.
func (j *Journal) renew(ctx context.Context, boot string, owned []journal.Owned, leave bool) ([]verdict, error) {
	parts := map[int][]int{}
	keys := make([]threadKeys, len(owned))
	for i, o := range owned {
		if err := checkKey(o.Key); err != nil {
			return nil, err
		}
		keys[i] = j.keys.thread(o.Key)
		parts[keys[i].partition] = append(parts[keys[i].partition], i)
	}
	head := []byte(packer(nil).u48(j.shift()).flag(leave))
	lanes := map[*lane][]renewal{}
	for p, all := range parts {
		for at := range slices.Chunk(all, beatRuns) {
			names, args := []string{j.keys.due(p)}, []any{head, boot}
			for _, i := range at {
				names = append(names, keys[i].meta)
				args = append(args, []byte(packer(nil).u64(owned[i].Fence)), owned[i].Run, dueName(keys[i].name, owned[i].Run))
			}
			l := j.lanes[j.laneOf(p)]
			lanes[l] = append(lanes[l], renewal{names, args, at})
		}
	}
	if j.opts.Cluster {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, aside)
		defer cancel()
	}
	verdicts := make([]verdict, len(owned)) // each lane has its own places
	errs := make([]error, 0, len(lanes))
	var mu sync.Mutex
	var all sync.WaitGroup
	for l, calls := range lanes {
		all.Go(func() {
			if err := l.renew(ctx, calls, verdicts); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	all.Wait()
	return verdicts, errors.Join(errs...)
}

// renew makes the calls at once and writes down what they say.
func (l *lane) renew(ctx context.Context, calls []renewal, verdicts []verdict) error {
	var errs []error
	ops := make([]*op, len(calls))
	for i, c := range calls {
		var err error
		if ops[i], err = l.start(ctx, beatScript, 128*len(c.at), c.names, c.args...); err != nil {
			errs = append(errs, err)
		}
	}
	for i, c := range calls {
		if ops[i] == nil {
			continue
		}
		text, err := ops[i].wait()
		if err == nil && len(text) != len(c.at) {
			err = errAnswer
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for n, run := range c.at {
			verdicts[run] = notMine
			if text[n] == '1' {
				verdicts[run] = mine
			}
		}
	}
	return errors.Join(errs...)
}

// Beat implements journal.Journal: one call for each partition in which the
// edge owns something.
func (j *Journal) Beat(ctx context.Context, boot string, owned []journal.Owned) (lost []journal.Owned, err error) {
	if err := j.begin(ctx); err != nil {
		return nil, err
	}
	defer j.leave()
	verdicts, err := j.renew(ctx, boot, owned, false)
	var silent []journal.Owned
	for i, v := range verdicts {
		switch v {
		case unheard:
			silent = append(silent, owned[i])
		case notMine:
			lost = append(lost, owned[i])
		}
	}
	if err != nil && len(silent) < len(owned) {
		err = &journal.Unheard{Runs: silent, Err: err}
	}
	return lost, err
}

// Leave implements journal.Journal. An edge does so once, when it stops, so
// its runs are looked for among all.
func (j *Journal) Leave(ctx context.Context, boot string) error {
	if err := j.begin(ctx); err != nil {
		return err
	}
	defer j.leave()
	// Side by side: whoever stops has no time, and one that hangs keeps only its
	// own runs from being claimed at once.
	var roster error
	var all sync.WaitGroup
	all.Go(func() { roster = j.roster.leave(ctx, boot) })
	err := j.each(ctx, func(ctx context.Context, partitions []int) error { return j.leaveSome(ctx, boot, partitions) })
	all.Wait()
	return errors.Join(roster, err)
}

// leaveSome ends the deadlines of an edge's runs in some partitions.
func (j *Journal) leaveSome(ctx context.Context, boot string, partitions []int) error {
	cmds := make([]*redis.StringSliceCmd, len(partitions))
	_, err := j.link.read.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, part := range partitions {
			cmds[i] = p.ZRange(ctx, j.keys.due(part), 0, -1)
		}
		return nil
	})
	if err != nil && !spoilt(err) {
		return fmt.Errorf("redisjournal: leave: %w", err)
	}
	marks := make([]mark, 0, 64)
	for i, c := range cmds {
		if c.Err() != nil && !spoilt(c.Err()) {
			return fmt.Errorf("redisjournal: leave: %w", c.Err())
		}
		for _, m := range c.Val() {
			marks = append(marks, mark{partition: partitions[i], name: m})
		}
	}
	found, err := j.look(ctx, marks)
	if err != nil {
		return err
	}
	var owned []journal.Owned
	for _, f := range found {
		if f.item.Meta.Owner == boot {
			owned = append(owned, journal.Owned{Key: f.item.Key, Run: f.item.Run, Fence: f.item.Meta.Fence})
		}
	}
	_, err = j.renew(ctx, boot, owned, true)
	return err
}

// each calls f for the partitions of each master, side by side, and returns
// what went wrong with any.
func (j *Journal) each(ctx context.Context, f func(ctx context.Context, partitions []int) error) error {
	shares, err := j.link.byMaster(ctx, j.keys)
	errs := make([]error, len(shares)+1)
	if err != nil {
		errs[len(shares)] = fmt.Errorf("redisjournal: %w", err)
	}
	if j.opts.Cluster {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, aside)
		defer cancel()
	}
	var all sync.WaitGroup
	for i, partitions := range shares {
		all.Go(func() { errs[i] = f(ctx, partitions) })
	}
	all.Wait()
	return errors.Join(errs...)
}
