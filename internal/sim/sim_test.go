package sim

import (
	"flag"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seedsFlag = flag.Int("seeds", 0, "how many seeds to play (0: as many as the test wants)")
	seedFlag  = flag.Uint64("seed", 0, "play only this seed, with its trace")
	firstFlag = flag.Uint64("first", 1, "the first seed")
	bugFlag   = flag.String("bug", "", "put this bug in")
)

// play plays many seeds on all processors and returns the reports of those
// that broke, at most a few, and the sum of all counts.
func play(first uint64, n int, bug Bug, enough int) (broken []*Report, counts map[string]int) {
	counts = map[string]int{}
	var mu sync.Mutex
	var next atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			sum := map[string]int{}
			for {
				i := next.Add(1) - 1
				mu.Lock()
				done := len(broken) >= enough
				mu.Unlock()
				if i >= uint64(n) || done {
					break
				}
				r := Run(first+i, bug, false)
				for k, v := range r.Counts {
					sum[k] += v
				}
				if len(r.Violations) > 0 {
					mu.Lock()
					broken = append(broken, r)
					mu.Unlock()
				}
			}
			mu.Lock()
			for k, v := range sum {
				counts[k] += v
			}
			mu.Unlock()
		})
	}
	wg.Wait()
	slices.SortFunc(broken, func(a, b *Report) int { return int(a.Seed) - int(b.Seed) })
	return broken, counts
}

// TestWhatMustAlwaysHold plays seeds with all faults and no bug. By hand: -seeds
// N plays more, -first N begins elsewhere, -seed N plays one and shows it, -bug
// NAME puts a bug in.
func TestWhatMustAlwaysHold(t *testing.T) {
	if *seedFlag != 0 {
		if r := Run(*seedFlag, Bug(*bugFlag), true); len(r.Violations) > 0 {
			t.Fatal(r)
		}
		return
	}
	n := defaultSeeds
	if *seedsFlag > 0 {
		n = *seedsFlag
	}
	began := time.Now()
	broken, counts := play(*firstFlag, n, Bug(*bugFlag), 5)
	t.Logf("%d seeds in %v", n, time.Since(began).Round(time.Millisecond))
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("  %-50s %d", k, counts[k])
	}
	for _, r := range broken {
		t.Errorf("seed %d: %v", r.Seed, r.Violations)
	}
	if len(broken) > 0 {
		t.Fatal(Run(broken[0].Seed, Bug(*bugFlag), true))
	}
}

// Seeds that broke once: late loads that set a room back, more sightings of an
// epoch to come than were remembered, one attempt taken for two, a record of a
// lost history that was forgotten before the store was asked, a question that
// was asked in a commit that a failover lost, an edge that lost a run and later
// got it again.
func TestSeedsThatBrokeOnce(t *testing.T) {
	for _, seed := range []uint64{1037097, 1130426, 1295402, 1312145, 1562137, 2468372, 2658392, 2698569, 2798054, 3264106} {
		if r := Run(seed, "", false); len(r.Violations) > 0 {
			t.Errorf("seed %d: %v", seed, r.Violations)
		}
	}
}
