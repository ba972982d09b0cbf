package redisjournal

import (
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

func TestReadinessNoticesWhatStopsWrites(t *testing.T) {
	for name, c := range map[string]struct{ set, back, problem string }{
		"F10 a Redis that has become full":            {"maxmemory 1", "maxmemory 0", "the memory of Redis is full"},
		"F5 a Redis that misses replicas":             {"min-replicas-to-write 1", "min-replicas-to-write 0", "too few replicas"},
		"S5 a user that may not run scripts any more": {"", "", "may not do what is needed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			j := mustOpen(t, Options{Addresses: []string{s.Addr()}})
			ready := func() error {
				j.health.mu.Lock()
				j.health.at = time.Time{}
				j.health.mu.Unlock()
				return j.Ready(t.Context())
			}
			if err := ready(); err != nil {
				t.Fatal(err)
			}
			set := func(config, user string) {
				if name, value, ok := strings.Cut(config, " "); ok {
					s.Do("CONFIG", "SET", name, value)
				} else {
					s.Do("ACL", "SETUSER", "default", user+"eval", user+"evalsha")
				}
			}
			set(c.set, "-")
			if err := ready(); err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %v, want %q", err, c.problem)
			}
			set(c.back, "+")
			if err := ready(); err != nil {
				t.Errorf("it is well again: %v", err)
			}
		})
	}
}
