package e2e

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// How much TestFaults does: the default is CI's part. By hand, for instance:
//
//	go test ./internal/e2e -run TestFaults -timeout 0 -faults 10000 -faultseed 1
var (
	faultCount = flag.Int("faults", 50, "how many faults TestFaults injects")
	faultSeed  = flag.Int64("faultseed", 0, "where the faults' dice begin; 0 is the time of day")
	faultKinds = flag.String("faultkinds", "", "only kinds of faults that contain this")
	failovers  = flag.Int("failovers", 1, "how often the store fails over in each test of failovers")
	slotMoves  = flag.Int("slotmoves", 3, "how often TestSlotsMove moves 2,500 slots from one master to the next")
	faultRound = flag.Int("faultround", 25, "how many faults a round has, after which all must come to rest")
)

// storm injects faults into a fleet, several at a time, each on another target.
type storm struct {
	f     *fleet
	r     *rand.Rand
	store sync.Mutex // held by whatever is done to the store
	wg    sync.WaitGroup

	mu    sync.Mutex
	count map[string]int
	errs  []error
	diary []string // of this round: what began and ended when
}

// write notes in the diary what has come of a fault.
func (s *storm) write(c fault, e *edge, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	on := "the store"
	if i := slices.Index(s.f.edges, e); i >= 0 {
		on = fmt.Sprintf("edge %d", i)
	}
	s.diary = append(s.diary, fmt.Sprintf("%s %s of %s %s", time.Now().UTC().Format("15:04:05.000"), c.kind, on, what))
}

// pickFault draws a fault of the kinds that are wanted.
func (s *storm) pickFault() fault {
	for {
		c := faults[s.r.IntN(len(faults))]
		if c.proxied && s.f.edges[0].proxy == nil || c.alone && s.f.nodes != nil {
			continue
		}
		if strings.Contains(c.kind, *faultKinds) && (!c.heavy || *faultKinds != "" || s.r.IntN(3) == 0) {
			return c
		}
	}
}

// inject starts n faults, some hundred ms apart, and waits until all are over.
func (s *storm) inject(ctx context.Context, n int) {
	for range n {
		c := s.pickFault()
		var e *edge
		busy := &s.store
		if c.edge {
			e = s.f.edges[s.r.IntN(len(s.f.edges))]
			busy = &e.busy
		}
		r := rand.New(rand.NewPCG(s.r.Uint64(), s.r.Uint64()))
		gap := between(s.r, 50, 500)
		busy.Lock() // at most one for each target: the dice wait for it
		s.wg.Go(func() {
			defer busy.Unlock()
			s.write(c, e, "begins")
			err := c.do(ctx, s.f, e, r)
			s.write(c, e, "is over")
			s.mu.Lock()
			defer s.mu.Unlock()
			s.count[c.kind]++
			if err != nil {
				s.errs = append(s.errs, fmt.Errorf("%s: %w", c.kind, err))
			}
		})
		pause(ctx, gap)
	}
	s.wg.Wait()
}

// dice are the seed of the faults.
func dice(t *testing.T) int64 {
	seed := *faultSeed
	if seed == 0 {
		seed = time.Now().UnixNano() % 1_000_000
	}
	t.Logf("-faultseed %d", seed)
	if !slices.ContainsFunc(faults, func(c fault) bool { return strings.Contains(c.kind, *faultKinds) }) {
		t.Fatalf("no kind of fault contains %q", *faultKinds)
	}
	return seed
}

// TestFaults breaks edges, the store and the ways between them while a crowd
// talks, and holds what everybody saw to what must always hold: nothing lost,
// nothing twice, nothing out of order, one end for each run, in time.
func TestFaults(t *testing.T) {
	t.Parallel()
	seed := dice(t)
	f := newFleet(t, 3)
	f.weather(seed, *faultCount, f.store)
}

// TestFaultsInACluster is the same with three masters, of which one is broken at
// a time. There is no proxy between, since a client of a cluster goes where its
// servers say that they are.
func TestFaultsInACluster(t *testing.T) {
	t.Parallel()
	seed := dice(t)
	c := redistest.StartCluster(t)
	f := fleetOn(t, 3, "redis "+c.Nodes[0].URL()+" {\n\t\t\tcluster "+strings.Join(c.Addrs()[1:], " ")+"\n\t\t}")
	f.nodes = c.Nodes
	f.weather(seed, (*faultCount+2)/3, c.Nodes...)
}

// weather injects count faults in rounds, each with a crowd of its own.
func (f *fleet) weather(seed int64, count int, servers ...*redistest.Server) {
	t := f.t
	t.Helper()
	s := &storm{f: f, r: rand.New(rand.NewPCG(uint64(seed), 1)), count: map[string]int{}}
	var clients []*redis.Client
	for _, server := range servers {
		c := server.Client()
		defer c.Close()
		clients = append(clients, c)
	}
	var ep epochs
	look := func(crowd *swarm) {
		if err := ep.look(t.Context(), crowd, clients...); err != nil {
			t.Error(err)
		}
	}
	var sum figures
	bad := 0
	for done, round := 0, int64(0); done < count; round++ {
		n := min(*faultRound, count-done)
		done += n
		crowd := startSwarm(t, crowd{
			Edges: f.bases(), Seed: seed*1000 + round, Threads: 6, Windows: 4, Polling: 2, Kinds: allKinds, Remove: true,
		})
		<-crowd.begun
		look(crowd)
		s.inject(t.Context(), n)
		f.serving()
		look(crowd)
		crowd.healed()
		crowd.stop()
		found, seen := crowd.verdict(f.bot)
		sum.add(seen)
		if bad += len(found); len(found) > 0 {
			s.tell(round, seed, found)
		}
		t.Logf("%d faults: %s, %d violations", done, sum, bad)
		for _, err := range s.errs {
			t.Error(err)
		}
		s.errs, s.diary = nil, nil
		if bad > 100 {
			break
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.count)) {
		t.Logf("%5d %s", s.count[k], k)
	}
	calls, _ := f.bot.books()
	t.Logf("%s, %d agent calls, %d violations", sum, len(calls), bad)
}

// tell says what a round has violated, and what happened in it.
func (s *storm) tell(round, seed int64, found []violation) {
	t := s.f.t
	t.Helper()
	t.Errorf("round %d of seed %d, %d violations:", round, seed, len(found))
	for _, v := range found[:min(len(found), 20)] {
		t.Error(v)
	}
	t.Logf("the faults:\n%s", strings.Join(s.diary, "\n"))
	for i, e := range s.f.edges {
		t.Logf("edge %d:\n%s", i, e.log.tail(20_000))
	}
}

func (f *figures) add(o figures) {
	f.events += o.events
	f.connections += o.connections
	f.histories += o.histories
	f.runs += o.runs
	f.sends += o.sends
	f.epochs += o.epochs
	f.behind = max(f.behind, o.behind)
}

func (f figures) String() string {
	return fmt.Sprintf("%d events, %d runs, %d sends, %d connections, %d histories, %d epochs, an edge behind by at most %d ms",
		f.events, f.runs, f.sends, f.connections, f.histories, f.epochs, f.behind)
}
