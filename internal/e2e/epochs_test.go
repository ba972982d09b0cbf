package e2e

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// epochs tells a swarm's checker what the epoch of each of its threads is: the
// how-manieth that has been seen, as the stores say at this moment.
type epochs struct {
	seen map[string][]string
}

// look reads the stores' threads.
func (e *epochs) look(ctx context.Context, s *swarm, stores ...*redis.Client) error {
	if e.seen == nil {
		e.seen = map[string][]string{}
	}
	for _, c := range stores {
		keys := c.Scan(ctx, 0, "parlance:{*}:m:*", 1000).Iterator()
		for keys.Next(ctx) {
			cold, err := c.HGet(ctx, keys.Val(), "c").Result()
			if err != nil || len(cold) < 8 {
				continue // deleted meanwhile
			}
			thread := keys.Val()[strings.LastIndexByte(keys.Val(), ':')+1:]
			if !s.knows(thread) {
				continue
			}
			known := e.seen[thread]
			if len(known) == 0 || known[len(known)-1] != cold[:8] {
				known = append(known, cold[:8])
				e.seen[thread] = known
			}
			s.take(note{K: "epoch", Th: thread, N: len(known)})
		}
		if err := keys.Err(); err != nil {
			return err
		}
	}
	return nil
}

// knows says that a thread is one of the swarm's.
func (s *swarm) knows(thread string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.threads[thread]
}
