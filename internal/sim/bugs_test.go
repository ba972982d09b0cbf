package sim

import "testing"

// TestEachBugIsCaught puts each bug in and demands that a check finds it.
func TestEachBugIsCaught(t *testing.T) {
	for _, bug := range Bugs {
		t.Run(string(bug), func(t *testing.T) {
			broken, _ := play(1, bugSeeds, bug, 1)
			if len(broken) == 0 {
				t.Fatalf("not caught in %d seeds", bugSeeds)
			}
			t.Logf("caught by seed %d: %s", broken[0].Seed, broken[0].Violations[0])
		})
	}
}
