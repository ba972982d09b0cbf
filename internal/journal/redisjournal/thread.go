package redisjournal

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/redis/go-redis/v9"
)

// Trim implements journal.Journal.
func (j *Journal) Trim(ctx context.Context, q journal.Trim) (journal.Result, error) {
	k, err := j.enter(ctx, q.Key)
	if err != nil {
		return 0, err
	}
	defer j.leave()
	base, err := j.spoken(q.Base).Marshal()
	if err != nil {
		return 0, fmt.Errorf("redisjournal: a base: %w", err)
	}
	head := packer(nil).u64(q.Epoch).u48(q.Base.Pos).u64(q.Base.Tag).u32(uint32(q.FirstPage)).u16(uint16(j.schema.writes.Load())).
		u48(uint64(q.Rest)).u32(uint32(q.Base.Archived()))
	args, size := []any{[]byte(head), base, k.name}, len(base)
	for _, p := range q.Pages {
		b, err := json.Marshal(p)
		if err != nil {
			return 0, fmt.Errorf("redisjournal: a page: %w", err)
		}
		args = append(args, b)
		size += len(b)
	}
	names := []string{
		k.meta, k.stream, k.base, k.pages, j.keys.idle(k.partition), j.keys.segment(k.partition), k.segments,
	}
	return okOrLost(j.lane(k).do(ctx, trimScript, size, names, args...))
}

// Reset implements journal.Journal.
func (j *Journal) Reset(ctx context.Context, q journal.Reset) (journal.Result, error) {
	k, err := j.enter(ctx, q.Key)
	if err != nil {
		return 0, err
	}
	defer j.leave()
	base, err := j.spoken(q.Base).Marshal()
	if err != nil {
		return 0, fmt.Errorf("redisjournal: a base: %w", err)
	}
	head := packer(nil).u64(q.Seen.Epoch).u48(q.Seen.Pos).u64(q.Seen.Tag).u64(q.NewEpoch).u64(q.Tag).
		u48(q.Base.Pos).u48(q.Base.Log).u64(q.Base.Tag).u8(j.publish(0)).u16(uint16(j.schema.writes.Load()))
	names := []string{k.meta, k.stream, k.base, j.keys.idle(k.partition)}
	return okOrLost(j.lane(k).do(ctx, resetScript, len(base), names, []byte(head), base, k.name, k.channel))
}

// Delete implements journal.Journal.
func (j *Journal) Delete(ctx context.Context, key chat.Key, epoch uint64) (journal.Result, error) {
	k, err := j.enter(ctx, key)
	if err != nil {
		return 0, err
	}
	defer j.leave()
	head := packer(nil).u64(epoch).u48(j.shift()).u8(j.publish(0)).u48(uint64(journal.Tombstone.Milliseconds())).u16(uint16(j.schema.writes.Load()))
	names := []string{
		k.meta, k.stream, k.base, k.pages, k.nodes, j.keys.due(k.partition), j.keys.idle(k.partition),
		j.keys.segment(k.partition), k.segments,
	}
	return okOrLost(j.lane(k).do(ctx, deleteScript, 0, names, []byte(head), k.name, k.channel))
}

// Pages implements journal.Journal. Pages that are not there are left out.
func (j *Journal) Pages(ctx context.Context, key chat.Key, from, to int) ([]*chat.Message, error) {
	k, err := j.enter(ctx, key)
	if err != nil {
		return nil, err
	}
	defer j.leave()
	var out []*chat.Message
	for from = max(from, 0); from < to; {
		n := min(to-from, pagesAtOnce)
		fields := make([]string, n)
		for i := range fields {
			fields[i] = fmt.Sprint(from + i)
		}
		got, err := j.link.read.HMGet(ctx, k.pages, fields...).Result()
		if err != nil {
			return nil, fmt.Errorf("redisjournal: pages: %w", err)
		}
		for i, v := range got {
			text, ok := v.(string)
			if !ok {
				return out, nil // beyond the last, or deleted since
			}
			var page []*chat.Message
			if err := json.Unmarshal([]byte(text), &page); err != nil {
				return nil, fmt.Errorf("redisjournal: page %d of a thread: %w", from+i, err)
			}
			out = append(out, page...)
		}
		from += n
	}
	return out, nil
}

// pagesAtOnce bounds the pages that one command reads.
const pagesAtOnce = 16

// Segment implements journal.Journal. A segment's id does not tell its
// partition, so all are asked at once.
func (j *Journal) Segment(ctx context.Context, segment string) (chat.Key, error) {
	if err := j.begin(ctx); err != nil {
		return chat.Key{}, err
	}
	defer j.leave()
	if segment == "" || len(segment) > maxName {
		return chat.Key{}, journal.ErrNotFound
	}
	cmds := make([]*redis.StringCmd, j.keys.partitions())
	_, err := j.link.read.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range cmds {
			cmds[i] = p.HGet(ctx, j.keys.segment(i), segment)
		}
		return nil
	})
	for _, c := range cmds {
		text, cerr := c.Result()
		if cerr == nil {
			key, ok := parseName(text)
			if !ok {
				return chat.Key{}, errDamaged
			}
			return key, nil
		}
		if !errors.Is(cerr, redis.Nil) {
			err = cerr
		}
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return chat.Key{}, fmt.Errorf("redisjournal: segments: %w", err)
	}
	return chat.Key{}, journal.ErrNotFound
}
