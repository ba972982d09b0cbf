package redisjournal

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// PIN-067: how long an idle thread keeps its records may change while it lives.
func TestKeepIdle(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var idle, shift atomic.Int64
	keep := func() time.Duration { return time.Duration(idle.Load()) }
	j := mustOpen(t, Options{Addresses: []string{s.Addr()}, KeepIdle: keep, Shift: func() time.Duration { return time.Duration(shift.Load()) }})
	for name, c := range map[string]struct{ keep, due time.Duration }{
		"default": {0, 10 * time.Minute}, "day": {24 * time.Hour, 24 * time.Hour},
	} {
		idle.Store(int64(c.keep))
		key, made := threadKey(name), shift.Load()
		begun := opening(key)
		begun.Entries, begun.Runs, begun.Segments = begun.Entries[:1], nil, nil // with a run it is not idle
		mustCommit(t, j, begun)
		for _, at := range []time.Duration{c.due - 30*time.Second, c.due} {
			shift.Store(made + int64(at))
			items, err := j.Due(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			due := false
			for _, item := range items {
				due = due || item.Key == key
			}
			if due != (at == c.due) {
				t.Errorf("PIN-067 %s: after %v it is due: %v", name, at, due)
			}
		}
	}
}
