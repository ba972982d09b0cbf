package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// By hand: -rolls 100 -reloads 500 -timeout 0.
var (
	rollCount   = flag.Int("rolls", 6, "how many restarts TestRollingRestarts makes")
	reloadCount = flag.Int("reloads", 40, "how many reloads TestReloadsOnRedis makes")
)

// TestRollingRestarts restarts one edge after the other, in order, under a crowd:
// nothing is lost. When the crowd has gone and its threads are deleted, the store
// has what it had before.
func TestRollingRestarts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	c := f.store.Client()
	defer c.Close()
	f.settle()
	rest := f.footprint(c)
	s := startSwarm(t, crowd{Edges: f.bases(), Seed: 100, Threads: 6, Windows: 4, Polling: 2, Kinds: allKinds, Remove: true})
	<-s.begun
	for i := range *rollCount {
		if err := f.edges[i%3].restart(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		f.serving()
	}
	s.healed()
	s.stop()
	s.mustHold(f)
	f.atRest(c, rest, nil)
}

// TestReloadsOnRedis reloads the edges under a crowd, and looks at what that
// leaves in the processes and in the store.
func TestReloadsOnRedis(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	c := f.store.Client()
	defer c.Close()
	// One crowd before the first look, so that what is made once is there, and what
	// is reused is as large as a crowd makes it.
	var rest footprint
	var before []map[string]int
	for i, reloads := range []int{min(60, *reloadCount), *reloadCount} {
		s := startSwarm(t, crowd{Edges: f.bases(), Seed: 500 + int64(i), Threads: 5, Windows: 4, Polling: 2, Kinds: allKinds, Remove: true})
		<-s.begun
		for n := range reloads {
			e := f.edges[n%2]
			e.change(fmt.Sprintf("commands_per_second %d", 1000+n/2), fmt.Sprintf("commands_per_second %d", 1001+n/2))
			if err := e.reload(); err != nil {
				t.Fatal(err)
			}
			pause(t.Context(), 20*time.Millisecond)
		}
		for _, e := range f.edges {
			e.change(fmt.Sprintf("commands_per_second %d", 1000+(reloads+1)/2), "commands_per_second 1000")
			e.change(fmt.Sprintf("commands_per_second %d", 1000+reloads/2), "commands_per_second 1000")
		}
		s.healed()
		s.stop()
		s.mustHold(f)
		if i == 0 {
			f.settle()
			rest = f.footprint(c)
			for _, e := range f.edges {
				before = append(before, e.stats(t))
			}
			continue
		}
		f.atRest(c, rest, before)
	}
}

// footprint is what a fleet at rest has in its store: connections, and keys
// that do not go away by themselves.
type footprint struct{ clients, keys int }

// settle waits until no run and no socket is left.
func (f *fleet) settle() {
	f.t.Helper()
	for i, e := range f.edges {
		f.until(fmt.Sprintf("edge %d has no socket and no run", i), func() bool {
			n, err := e.count()
			return err == nil && n == 0
		})
	}
}

// count is how many sockets, rooms and runs the edge has.
func (e *edge) count() (int, error) {
	resp, err := http.Get(e.admin + "/parlance/stats")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, m := range regexp.MustCompile(`"(?:sockets|rooms|runs)":(\d+)`).FindAllSubmatch(body, -1) {
		n, _ := strconv.Atoi(string(m[1]))
		sum += n
	}
	return sum, nil
}

func (f *fleet) footprint(c *redis.Client) footprint {
	f.t.Helper()
	n, err := clients(f.t.Context(), c)
	if err != nil {
		f.t.Fatal(err)
	}
	keys, err := lasting(f.t.Context(), c)
	if err != nil {
		f.t.Fatal(err)
	}
	return footprint{n, len(keys)}
}

// lasting are the keys that have no expiry.
func lasting(ctx context.Context, c *redis.Client) (list []string, err error) {
	keys := c.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		ttl, err := c.TTL(ctx, keys.Val()).Result()
		if err != nil {
			return nil, err
		}
		if ttl == -1 {
			list = append(list, keys.Val())
		}
	}
	return list, keys.Err()
}

// atRest waits until the fleet has come back to what it was. A few more
// connections than before may idle in the edges' pools, which are bounded.
func (f *fleet) atRest(c *redis.Client, was footprint, before []map[string]int) {
	f.t.Helper()
	f.settle()
	const spare = 10 // idle connections of each edge's pool
	var now footprint
	var keys []string
	end := time.Now().Add(time.Minute)
	for {
		now = f.footprint(c)
		keys, _ = lasting(f.t.Context(), c)
		if now.keys <= was.keys+1 && now.clients <= was.clients+spare*len(f.edges) || time.Now().After(end) {
			break
		}
		pause(f.t.Context(), 200*time.Millisecond)
	}
	f.t.Logf("the store has %d connections and %d lasting keys, and had %d and %d", now.clients, now.keys, was.clients, was.keys)
	if now.keys > was.keys+1 {
		f.t.Errorf("%d keys stay, for instance %s", now.keys-was.keys, strings.Join(keys[:min(len(keys), 10)], ", "))
	}
	if now.clients > was.clients+spare*len(f.edges) {
		f.t.Errorf("%d connections, and there were %d", now.clients, was.clients)
	}
	for i, b := range before {
		e := f.edges[i]
		var s map[string]int
		for range 60 {
			if s = e.stats(f.t); s["goroutines"] <= b["goroutines"]+30 && s["heap"] <= b["heap"]*13/10 {
				break
			}
			pause(f.t.Context(), 500*time.Millisecond)
		}
		f.t.Logf("edge %d: heap %d -> %d, goroutines %d -> %d", i, b["heap"], s["heap"], b["goroutines"], s["goroutines"])
		if s["goroutines"] > b["goroutines"]+30 || s["heap"] > b["heap"]*13/10 {
			f.t.Errorf("edge %d does not come back to its size", i)
		}
	}
}
