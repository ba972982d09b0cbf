package redisjournal

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parlance-gateway/parlance/internal/chat"
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
	head := packer(nil).u64(q.Fence).u64(q.Tag).flag(q.Living).u48(j.shift()).u8(j.publish(0)).u16(j.schema)
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

// renewal is a call for some runs of one partition; at says which of those that
// were asked for they are.
type renewal struct {
	op *op
	at []int
}

// renew gives runs a new deadline, or with leave none, and says which of them
// are boot's.
func (j *Journal) renew(ctx context.Context, boot string, owned []journal.Owned, leave bool) ([]bool, error) {
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
	var calls []renewal
	for p, all := range parts {
		for at := range slices.Chunk(all, beatRuns) {
			names, args := []string{j.keys.due(p)}, []any{head, boot}
			for _, i := range at {
				names = append(names, keys[i].meta)
				args = append(args, []byte(packer(nil).u64(owned[i].Fence)), owned[i].Run, dueName(keys[i].name, owned[i].Run))
			}
			o, err := j.lanes[j.laneOf(p)].start(ctx, beatScript, 128*len(at), names, args...)
			if err != nil {
				return nil, err
			}
			calls = append(calls, renewal{o, at})
		}
	}
	mine := make([]bool, len(owned))
	for _, c := range calls {
		text, err := c.op.wait()
		if err != nil {
			return nil, err
		}
		if len(text) != len(c.at) {
			return nil, errAnswer
		}
		for n, i := range c.at {
			mine[i] = text[n] == '1'
		}
	}
	return mine, nil
}

// Beat implements journal.Journal: one call for each partition in which the
// edge owns something.
func (j *Journal) Beat(ctx context.Context, boot string, owned []journal.Owned) (lost []journal.Owned, err error) {
	if err := j.begin(ctx); err != nil {
		return nil, err
	}
	defer j.leave()
	mine, err := j.renew(ctx, boot, owned, false)
	if err != nil {
		return nil, err
	}
	for i, ok := range mine {
		if !ok {
			lost = append(lost, owned[i])
		}
	}
	return lost, nil
}

// Leave implements journal.Journal. An edge does so once, when it stops, so
// its runs are looked for among all.
func (j *Journal) Leave(ctx context.Context, boot string) error {
	if err := j.begin(ctx); err != nil {
		return err
	}
	defer j.leave()
	if err := j.roster.leave(ctx, boot); err != nil {
		return err
	}
	// At once: whoever stops has no time to ask one after the other.
	cmds := make([]*redis.StringSliceCmd, j.keys.partitions())
	_, err := j.link.read.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range cmds {
			cmds[i] = p.ZRange(ctx, j.keys.due(i), 0, -1)
		}
		return nil
	})
	if err != nil && !spoilt(err) {
		return fmt.Errorf("redisjournal: leave: %w", err)
	}
	marks := make([]mark, 0, 64)
	for p, c := range cmds {
		if c.Err() != nil && !spoilt(c.Err()) {
			return fmt.Errorf("redisjournal: leave: %w", c.Err())
		}
		for _, m := range c.Val() {
			marks = append(marks, mark{partition: p, name: m})
		}
	}
	items, err := j.look(ctx, marks)
	if err != nil {
		return err
	}
	var owned []journal.Owned
	for _, i := range items {
		if i.Meta.Owner == boot {
			owned = append(owned, journal.Owned{Key: i.Key, Run: i.Run, Fence: i.Meta.Fence})
		}
	}
	_, err = j.renew(ctx, boot, owned, true)
	return err
}

// mark is an entry of a partition's due or idle.
type mark struct {
	partition int
	idle      bool
	name      string
	when      float64
}

// dueName names a run among the due. Names of threads have no space.
func dueName(thread, run string) string { return thread + " " + run }

// Due implements journal.Journal. Runs come before threads, which can wait.
// One pipeline asks all partitions, a second reads what is due.
func (j *Journal) Due(ctx context.Context, limit int) ([]journal.DueItem, error) {
	if err := j.begin(ctx); err != nil {
		return nil, err
	}
	defer j.leave()
	if limit <= 0 {
		return nil, nil
	}
	clock, err := j.link.read.Time(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("redisjournal: due: %w", err)
	}
	now := clock.UnixMilli() + int64(j.shift())
	marks, err := j.marks(ctx, now, limit)
	if err != nil {
		return nil, err
	}
	all, err := j.look(ctx, marks)
	if err != nil {
		return nil, err
	}
	items := make([]journal.DueItem, 0, len(all))
	for _, i := range all {
		i.Lapsed = i.Run != "" && i.Meta.Lapsed(now)
		if i.Run == "" || i.Lapsed || i.Meta.Due != 0 && i.Meta.Due <= now {
			items = append(items, i)
		}
	}
	return items, nil
}

// marks are the limit longest overdue, runs first.
func (j *Journal) marks(ctx context.Context, now int64, limit int) ([]mark, error) {
	until := &redis.ZRangeBy{Min: "-inf", Max: strconv.FormatInt(now, 10), Count: int64(limit)}
	n := j.keys.partitions()
	cmds := make([]*redis.ZSliceCmd, 2*n)
	_, err := j.link.read.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range n {
			cmds[2*i] = p.ZRangeByScoreWithScores(ctx, j.keys.due(i), until)
			cmds[2*i+1] = p.ZRangeByScoreWithScores(ctx, j.keys.idle(i), until)
		}
		return nil
	})
	if err != nil && !spoilt(err) {
		return nil, fmt.Errorf("redisjournal: due: %w", err)
	}
	var marks []mark
	for i, c := range cmds {
		if spoilt(c.Err()) {
			j.log.Error("a key in Redis is damaged: what is due there is left out", "partition", i/2)
			continue
		}
		if c.Err() != nil {
			return nil, fmt.Errorf("redisjournal: due: %w", c.Err())
		}
		for _, z := range c.Val() {
			name, _ := z.Member.(string)
			marks = append(marks, mark{partition: i / 2, idle: i%2 == 1, name: name, when: z.Score})
		}
	}
	slices.SortFunc(marks, func(a, b mark) int {
		switch {
		case a.idle == b.idle:
			return cmp.Or(cmp.Compare(a.when, b.when), cmp.Compare(a.name, b.name))
		case a.idle:
			return 1
		}
		return -1
	})
	return marks[:min(limit, len(marks))], nil
}

// spoilt says that a key holds what none of our scripts puts there. It is left
// out: all others must not wait until somebody has mended that one.
func spoilt(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }

// look reads what is marked, in order, and takes away the marks of what is not
// there.
func (j *Journal) look(ctx context.Context, marks []mark) ([]journal.DueItem, error) {
	items := make([]journal.DueItem, 0, len(marks))
	for some := range slices.Chunk(marks, 500) {
		cmds := make([]*redis.SliceCmd, len(some))
		keys := make([]chat.Key, len(some))
		runs := make([]string, len(some))
		_, err := j.link.read.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, m := range some {
				thread, run, _ := strings.Cut(m.name, " ")
				keys[i], _ = parseName(thread)
				runs[i] = run
				k := j.keys.thread(keys[i])
				cmds[i] = p.HMGet(ctx, k.meta, "c", "r"+run, "w"+run)
			}
			return nil
		})
		if err != nil && !spoilt(err) {
			return nil, fmt.Errorf("redisjournal: due: %w", err)
		}
		for i, m := range some {
			if spoilt(cmds[i].Err()) {
				j.log.Error("a thread's numbers are damaged", "realm", keys[i].Realm, "thread", keys[i].Thread)
				continue
			}
			got, err := cmds[i].Result()
			if err != nil {
				return nil, fmt.Errorf("redisjournal: due: %w", err)
			}
			item := journal.DueItem{Key: keys[i], Run: runs[i]}
			field := "c"
			if !m.idle {
				field = "r" + runs[i]
				if r, ok := got[1].(string); ok {
					w, _ := got[2].(string)
					if item.Meta, err = decodeRun(r, w); err != nil {
						j.log.Error("a run's numbers are damaged", "realm", keys[i].Realm, "thread", keys[i].Thread, "error", err)
						continue
					}
				} else {
					got[0] = nil
				}
			}
			if got[0] == nil {
				if err := j.forget(ctx, m, keys[i], field); err != nil {
					return nil, err
				}
				continue
			}
			items = append(items, item)
		}
	}
	return items, nil
}

// forget takes a mark away if its thread, or its run, is not there.
func (j *Journal) forget(ctx context.Context, m mark, key chat.Key, field string) error {
	k := j.keys.thread(key)
	set := j.keys.due(m.partition)
	if m.idle {
		set = j.keys.idle(m.partition)
	}
	if k.partition != m.partition { // no name of ours
		return j.link.write.ZRem(ctx, set, m.name).Err()
	}
	_, err := j.lane(k).do(ctx, forgetScript, 0, []string{set, k.meta}, m.name, field)
	return err
}
