package redisjournal

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

var readScript = load("read")

// full says that a transaction was refused for want of memory. Redis queues
// nothing then, not even what only reads.
func full(err error) bool {
	return redis.HasErrorPrefix(err, "OOM") || redis.HasErrorPrefix(err, "EXECABORT")
}

// readFull is the transaction of read as a script, which a server that is full
// lets through: a thread that cannot be loaded cannot be trimmed either.
func (j *Journal) readFull(ctx context.Context, k threadKeys, ids []string, from uint64, base bool) (*image, error) {
	args := make([]any, 0, 3+len(ids))
	args = append(args, streamID(from), loadRecords, base)
	for _, id := range ids {
		args = append(args, id)
	}
	got, err := j.link.run(ctx, j.link.read, readScript, []string{k.meta, k.stream, k.base, k.nodes}, args...).Slice()
	if err != nil {
		return nil, fmt.Errorf("redisjournal: load: %w", err)
	}
	if len(got) != 5 {
		return nil, errAnswer
	}
	im := &image{meta: map[string]string{}}
	im.base, im.hasBase = got[2].(string)
	im.nodes, _ = got[3].([]any)
	meta, ok := texts(got[0])
	list, isList := got[1].([]any)
	clock, isTime := texts(got[4])
	if !ok || len(meta)%2 != 0 || !isList || !isTime || len(clock) != 2 || len(im.nodes) != len(ids) {
		return nil, errAnswer
	}
	for i := 0; i < len(meta); i += 2 {
		im.meta[meta[i]] = meta[i+1]
	}
	for _, r := range list {
		pair, _ := r.([]any)
		if len(pair) != 2 {
			return nil, errAnswer
		}
		id, _ := pair[0].(string)
		fields, ok := texts(pair[1])
		if !ok || len(fields) != 2 {
			return nil, errAnswer
		}
		im.records = append(im.records, redis.XMessage{ID: id, Values: map[string]any{fields[0]: fields[1]}})
	}
	sec, serr := strconv.ParseInt(clock[0], 10, 64)
	micro, merr := strconv.ParseInt(clock[1], 10, 64)
	if serr != nil || merr != nil {
		return nil, errAnswer
	}
	im.now = sec*1000 + micro/1000 + int64(j.shift())
	return im, nil
}

// texts is an array of strings only.
func texts(v any) ([]string, bool) {
	list, ok := v.([]any)
	out := make([]string, len(list))
	for i := range list {
		s, isText := list[i].(string)
		if !isText {
			return nil, false
		}
		out[i] = s
	}
	return out, ok
}
