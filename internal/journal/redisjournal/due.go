package redisjournal

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/redis/go-redis/v9"
)

// mark is an entry of a partition's due or idle.
type mark struct {
	partition int
	idle      bool
	name      string
	when      float64
}

// dueName names a run among the due. Names of threads have no space.
func dueName(thread, run string) string { return thread + " " + run }

// found is what a mark stands for.
type found struct {
	mark
	item journal.DueItem
}

// Due implements journal.Journal. Runs come before threads, which can wait. The
// masters of a cluster are asked side by side.
func (j *Journal) Due(ctx context.Context, limit int) ([]journal.DueItem, error) {
	// What is known comes with the error of what is not.
	type known struct {
		items []journal.DueItem
		err   error
	}
	k, err := promptly(ctx, j, func() (known, error) {
		items, err := j.due(ctx, limit)
		return known{items, err}, nil
	})
	if err == nil {
		err = k.err
	}
	return k.items, err
}

func (j *Journal) due(ctx context.Context, limit int) ([]journal.DueItem, error) {
	if err := j.begin(ctx); err != nil {
		return nil, err
	}
	defer j.leave()
	if limit <= 0 {
		return nil, nil
	}
	var mu sync.Mutex
	var all []found
	err := j.each(ctx, func(ctx context.Context, partitions []int) error {
		some, err := j.dueSome(ctx, partitions, limit)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, some...)
		return err
	})
	slices.SortFunc(all, func(a, b found) int { return byUrgency(a.mark, b.mark) })
	all = all[:min(limit, len(all))]
	items := make([]journal.DueItem, len(all))
	for i, f := range all {
		items[i] = f.item
	}
	return items, err
}

// dueSome is Due for the partitions of one master, by its clock: one pipeline
// asks them all, a second reads what is due. A master that takes no writes has
// not been told that the owners of its runs live, so it says nothing of them.
func (j *Journal) dueSome(ctx context.Context, partitions []int, limit int) ([]found, error) {
	node, err := nodeOf(ctx, j.link.read, j.keys.due(partitions[0]))
	if err != nil {
		return nil, fmt.Errorf("redisjournal: due: %w", err)
	}
	clock, err := node.Time(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("redisjournal: due: %w", err)
	}
	now := clock.UnixMilli() + int64(j.shift())
	marks, err := j.marks(ctx, now, partitions, limit)
	if err != nil {
		return nil, err
	}
	all, err := j.look(ctx, marks)
	if err != nil {
		return nil, err
	}
	due, lapsed := all[:0], false
	for _, f := range all {
		i := &f.item
		i.Lapsed = i.Run != "" && i.Meta.Lapsed(now)
		if i.Run == "" || i.Lapsed || i.Meta.Due != 0 && i.Meta.Due <= now {
			due = append(due, f)
			lapsed = lapsed || i.Lapsed
		}
	}
	if lapsed {
		if err := j.link.touch(ctx, node, j.keys.due(partitions[0])); err != nil {
			return nil, fmt.Errorf("redisjournal: due: %w", err)
		}
	}
	return due, nil
}

// marks are the limit longest overdue, runs first.
func (j *Journal) marks(ctx context.Context, now int64, partitions []int, limit int) ([]mark, error) {
	until := &redis.ZRangeBy{Min: "-inf", Max: strconv.FormatInt(now, 10), Count: int64(limit)}
	cmds := make([]*redis.ZSliceCmd, 2*len(partitions))
	_, err := j.link.read.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, part := range partitions {
			cmds[2*i] = p.ZRangeByScoreWithScores(ctx, j.keys.due(part), until)
			cmds[2*i+1] = p.ZRangeByScoreWithScores(ctx, j.keys.idle(part), until)
		}
		return nil
	})
	if err != nil && !spoilt(err) {
		return nil, fmt.Errorf("redisjournal: due: %w", err)
	}
	var marks []mark
	for i, c := range cmds {
		if spoilt(c.Err()) {
			j.log.Error("a key in Redis is damaged: what is due there is left out", "partition", partitions[i/2])
			continue
		}
		if c.Err() != nil {
			return nil, fmt.Errorf("redisjournal: due: %w", c.Err())
		}
		for _, z := range c.Val() {
			name, _ := z.Member.(string)
			marks = append(marks, mark{partition: partitions[i/2], idle: i%2 == 1, name: name, when: z.Score})
		}
	}
	slices.SortFunc(marks, byUrgency)
	return marks[:min(limit, len(marks))], nil
}

// byUrgency orders runs before threads, and the longest overdue first.
func byUrgency(a, b mark) int {
	switch {
	case a.idle == b.idle:
		return cmp.Or(cmp.Compare(a.when, b.when), cmp.Compare(a.name, b.name))
	case a.idle:
		return 1
	}
	return -1
}

// spoilt says that a key holds what none of our scripts puts there. It is left
// out: all others must not wait until somebody has mended that one.
func spoilt(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }

// look reads what is marked, in order, and takes away the marks of what is not
// there.
func (j *Journal) look(ctx context.Context, marks []mark) ([]found, error) {
	items := make([]found, 0, len(marks))
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
			items = append(items, found{m, item})
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
