package sim

import (
	"maps"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(2000) // histories are small and short
	goleak.VerifyTestMain(m)
}

// TestASeedIsOneHistory: without that a failing seed would be worth nothing.
func TestASeedIsOneHistory(t *testing.T) {
	for seed := range uint64(20) {
		a, b := Run(seed, "", true), Run(seed, "", true)
		if !maps.Equal(a.Counts, b.Counts) || len(a.Trace) != len(b.Trace) {
			t.Fatalf("seed %d was played twice and differed: %v and %v", seed, a.Counts, b.Counts)
		}
		for i := range a.Trace {
			if a.Trace[i] != b.Trace[i] {
				t.Fatalf("seed %d was played twice and differed: %q and %q", seed, a.Trace[i], b.Trace[i])
			}
		}
	}
}
