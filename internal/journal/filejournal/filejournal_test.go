package filejournal

import (
	"sync"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/journaltest"
)

// clock is a time that passes when a test says so.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// kill leaves the folder as kill -9 does: nothing is brought to an end.
func (j *Journal) kill() {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return
	}
	j.closed = true
	j.mu.Unlock()
	j.shut(false)
}

func mustOpen(t testing.TB, opts Options) *Journal {
	t.Helper()
	j, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func TestContract(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) *journaltest.Store {
		c := newClock()
		opts := Options{Dir: t.TempDir(), Clock: c.Now}
		j := mustOpen(t, opts)
		return &journaltest.Store{
			Hubs:    [2]journal.Journal{j, j},
			Advance: c.Advance,
			Restart: func(t *testing.T, how journaltest.Stop) [2]journal.Journal {
				if how == journaltest.Killed {
					j.kill()
				} else if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				j = mustOpen(t, opts)
				return [2]journal.Journal{j, j}
			},
		}
	})
}
