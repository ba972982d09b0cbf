package redisjournal

import (
	"flag"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/journaltest"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
	"go.uber.org/goleak"
)

// TestMain tries fewer histories than a store in memory would have time for,
// unless -rapid.checks says how many: each runs against a real server, which
// some of them stop and start. Tests wait for servers more than they work, so more
// of them run at once than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { asked[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": "25", "test.parallel": strconv.Itoa(2 * runtime.GOMAXPROCS(0))} {
		if asked[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// clock holds Redis' time where a test has moved it, but for what a call takes.
type clock struct {
	began time.Time
	ms    atomic.Int64
}

func newClock() *clock { return &clock{began: time.Now()} }

// shift is an hour and what was advanced, less what has passed since.
func (c *clock) shift() time.Duration {
	return time.Hour + time.Duration(c.ms.Load())*time.Millisecond - time.Since(c.began)
}

func (c *clock) Advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

func mustOpen(t testing.TB, o Options) *Journal {
	t.Helper()
	j, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func TestContract(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	journaltest.Run(t, func(t *testing.T) *journaltest.Store {
		server.Do("FLUSHALL")
		c, files := newClock(), newMemory()
		hubs := func() [2]journal.Journal {
			o := Options{Addresses: []string{server.Addr()}, Shift: c.shift, Storage: files}
			return [2]journal.Journal{mustOpen(t, o), mustOpen(t, o)}
		}
		s := &journaltest.Store{Hubs: hubs(), Advance: c.Advance}
		s.Restart = func(t *testing.T, how journaltest.Stop) [2]journal.Journal {
			for _, j := range s.Hubs {
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if how == journaltest.Killed {
				server.Kill()
			} else {
				server.Shutdown()
			}
			server.Run()
			s.Hubs = hubs()
			return s.Hubs
		}
		return s
	})
}
