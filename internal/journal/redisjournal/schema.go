package redisjournal

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/redis/go-redis/v9"
)

// firstSchema is that of a prefix under which none is stored.
const firstSchema = 1

var speakScript = load("speak")

// schema is which version a journal writes: the newest that every living edge
// reads. Once it has risen no edge writes an older one, and one that knows only
// those is refused.
type schema struct {
	knows  uint16        // the newest that this build reads
	writes atomic.Uint32 // never above knows, and never goes back
}

func (s *schema) rise(n uint16) {
	for old := s.writes.Load(); uint32(n) > old && !s.writes.CompareAndSwap(old, uint32(n)); {
		old = s.writes.Load()
	}
}

// Speak implements journal.Speaker.
func (j *Journal) Speak(ctx context.Context, version int) error {
	n := uint16(max(firstSchema, min(version, int(j.schema.knows))))
	if uint32(n) <= j.schema.writes.Load() {
		return nil
	}
	if err := j.begin(ctx); err != nil {
		return err
	}
	defer j.leave()
	// Who comes later must know before anything is written so.
	if err := j.link.run(ctx, j.link.read, speakScript, []string{j.keys.schema()}, int(n)).Err(); err != nil {
		return fmt.Errorf("redisjournal: the schema: %w", err)
	}
	j.schema.rise(n)
	return nil
}

// checkSchema writes from now on what the other edges have come to, or says that
// this build is too old for it.
func (j *Journal) checkSchema(ctx context.Context) error {
	text, err := j.link.read.Get(ctx, j.keys.schema()).Result()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("redisjournal: %w", err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return fmt.Errorf("%w: the schema under prefix %q", errDamaged, j.keys.prefix)
	}
	if uint16(n) > j.schema.knows {
		return fmt.Errorf("redisjournal: what is under prefix %q is of schema %d, this build knows %d: upgrade this edge", j.keys.prefix, n, j.schema.knows)
	}
	j.schema.rise(uint16(n))
	return nil
}

// spoken is a state as it is stored: of the schema that this journal writes.
func (j *Journal) spoken(s *chat.State) *chat.State {
	c := *s
	c.Schema = int(j.schema.writes.Load())
	return &c
}
