package redisjournal

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

func TestReadinessNoticesWhatStopsWrites(t *testing.T) {
	t.Parallel()
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

func TestReadinessOfARedisThatHangs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	j := mustOpen(t, Options{Addresses: []string{s.Addr()}})
	if err := j.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	j.health.mu.Lock()
	j.health.at = time.Time{}
	j.health.mu.Unlock()
	s.Signal(syscall.SIGSTOP)
	defer s.Signal(syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := j.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("F8 who waits for a moment only is told %v", err)
	}
	j.health.mu.Lock()
	looks := j.health.looking != nil
	j.health.mu.Unlock()
	if !looks {
		t.Error("F8 who waits for a moment only has waited for the whole look")
	}
	if err := j.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer from Redis") {
		t.Errorf("F8 who waits for the look is told %v", err)
	}
}
