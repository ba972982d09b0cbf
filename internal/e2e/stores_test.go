package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// F2: a store that comes back empty. Every window is told, in words or by a
// history that holds; nobody waits for ever; the next thread works.
func TestStoreComesBackEmpty(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	script(t, "emptied.mjs", map[string]func() any{"empty": func() any {
		f.store.Kill()
		f.store.Wipe()
		f.store.Run()
		return nil
	}}, f.env()...)
}

// sentinelFleet is three edges behind three Sentinels; option is one more of
// the journal's.
func sentinelFleet(t *testing.T, option string) (*fleet, *redistest.Sentinels) {
	t.Helper()
	s := redistest.StartSentinel(t)
	return fleetOn(t, 3, "redis "+s.Servers[0].URL()+" {\n\t\t\t"+option+"\n\t\t\tsentinel "+s.Name+" "+strings.Join(s.Addrs(), " ")+"\n\t\t}"), s
}

// failOver lets a crowd talk while the master changes by fail; sure says that
// commits wait for all replicas, so that no failover loses one.
func failOver(t *testing.T, s *redistest.Sentinels, f *fleet, seed int64, sure bool, fail func()) figures {
	t.Helper()
	c := startSwarm(t, crowd{Edges: f.bases(), Seed: seed, Threads: 4, Windows: 4, Polling: 2, Kinds: allKinds})
	<-c.begun
	c.lossy(sure)
	var ep epochs
	look := func() {
		master := s.Master().Client()
		defer master.Close()
		if err := ep.look(t.Context(), c, master); err != nil {
			t.Error(err)
		}
	}
	for range *failovers {
		pause(t.Context(), seconds(2))
		look()
		fail()
		f.serving()
		pause(t.Context(), seconds(2))
		look()
	}
	c.healed()
	c.stop()
	return c.mustHold(f)
}

// F3: a failover that the Sentinels are asked for, where commits wait for both
// replicas.
func TestFailoverInOrder(t *testing.T) {
	t.Parallel()
	f, s := sentinelFleet(t, "sync replicas 2")
	failOver(t, s, f, 31, true, s.Failover)
}

// F4: a master that dies with a tail that no replica has. Who saw of it is told
// of a new epoch; nobody is skipped silently.
func TestFailoverThatLosesTheTail(t *testing.T) {
	t.Parallel()
	f, s := sentinelFleet(t, "sync none")
	seen := failOver(t, s, f, 41, false, func() {
		master := s.Master()
		// The replicas hear no more of it, and what it writes now goes with it.
		for _, r := range s.Servers {
			if r != master {
				r.Do("REPLICAOF", "127.0.0.1", "1")
			}
		}
		master.Do("CLIENT", "KILL", "TYPE", "replica")
		pause(t.Context(), 700*time.Millisecond)
		master.Kill()
		s.AwaitMaster(master)
		master.Run()
	})
	if seen.epochs == 0 {
		t.Error("no epoch has changed: nothing was lost, and nothing was proved")
	}
}

// F16: slots that move while a crowd talks.
func TestSlotsMove(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	f := fleetOn(t, 3, "redis "+c.Nodes[0].URL()+" {\n\t\t\tcluster "+strings.Join(c.Addrs()[1:], " ")+"\n\t\t}")
	s := startSwarm(t, crowd{Edges: f.bases(), Seed: 16, Threads: 6, Windows: 4, Polling: 2, Kinds: allKinds})
	<-s.begun
	ids := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		ids[i] = fmt.Sprint(n.Do("CLUSTER", "MYID"))
	}
	for i := range *slotMoves {
		from, to := i%3, (i+1)%3
		out, err := exec.CommandContext(t.Context(), "redis-cli", "--cluster", "reshard", c.Nodes[0].Addr(),
			"--cluster-from", ids[from], "--cluster-to", ids[to], "--cluster-slots", "2500", "--cluster-yes", "--cluster-pipeline", "20").CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, tail(out))
		}
	}
	f.serving()
	s.healed()
	s.stop()
	s.mustHold(f)
}

func tail(b []byte) []byte { return b[max(0, len(b)-500):] }

// F14: a password that is changed under running edges. They say that they are
// not ready, stay alive, and go on with the new one without a restart.
func TestPasswordIsChanged(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "requirepass first")
	f := fleetOn(t, 2, "redis "+s.URL()+" {\n\t\t\tpassword first\n\t\t}")
	s.Password = "first"
	w := startSwarm(t, crowd{Edges: f.bases(), Seed: 14, Threads: 3, Windows: 4, Polling: 2, Kinds: allKinds})
	<-w.begun
	pause(t.Context(), seconds(1))
	s.Do("CONFIG", "SET", "requirepass", "second")
	s.Password = "second"
	s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	for i, e := range f.edges {
		f.until(fmt.Sprintf("edge %d says that it is not ready", i), func() bool { return e.unready() != "" })
		if err := e.alive(); err != nil {
			t.Error(err)
		}
	}
	for _, e := range f.edges {
		e.change("password first", "password second")
		if err := e.reload(); err != nil {
			t.Fatal(err)
		}
		if said := e.log.String(); strings.Contains(said, "first") || strings.Contains(said, "second") {
			t.Error("a password is in the log")
		}
	}
	f.serving()
	w.healed()
	w.stop()
	w.mustHold(f)
}

// F11: a store that may evict what it holds takes no sockets.
func TestStoreThatEvictsIsNotReady(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "maxmemory 64mb", "maxmemory-policy allkeys-lru")
	f := &fleet{t: t, bot: newBot(t)}
	f.join(nil, "redis "+s.URL())
	e := f.edges[0]
	t.Cleanup(e.stop)
	if err := e.boot(); err != nil {
		t.Fatal(err)
	}
	if e.unready() == "" {
		t.Error("it is ready")
	}
	s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	f.serving()
}

// F47: two of three edges die at once, and everybody comes to the third.
func TestHerd(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	s := startSwarm(t, crowd{Edges: f.bases(), Seed: 47, Threads: 5, Windows: 40, Polling: 1, Kinds: []string{"plain", "long"}})
	<-s.begun
	pause(t.Context(), seconds(2))
	for _, e := range f.edges[:2] {
		e.kill()
	}
	pause(t.Context(), seconds(3))
	for _, e := range f.edges[:2] {
		if err := e.boot(); err != nil {
			t.Fatal(err)
		}
	}
	f.serving()
	s.healed()
	s.stop()
	s.mustHold(f)
}

// F23, F42: an owner that stood still for longer than its lease comes back,
// finds its run ended by another, and stops its agent.
func TestZombie(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	s := startSwarm(t, crowd{Edges: f.bases(), Seed: 23, Threads: 4, Windows: 4, Polling: 2, Kinds: []string{"long", "ask", "hang"}})
	<-s.begun
	pause(t.Context(), seconds(2))
	if err := f.edges[0].freeze(t.Context(), seconds(17)); err != nil {
		t.Fatal(err)
	}
	f.serving()
	s.healed()
	s.stop()
	s.mustHold(f)
}

// until waits for something that must come.
func (f *fleet) until(what string, ok func() bool) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 90*time.Second)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			f.t.Fatalf("it did not come to this: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// clients is how many connections a store has, beside the one that asks.
func clients(ctx context.Context, c *redis.Client) (int, error) {
	list, err := c.ClientList(ctx).Result()
	return strings.Count(list, "\n") - 1, err
}
