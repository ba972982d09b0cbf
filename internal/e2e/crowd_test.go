package e2e

import (
	"syscall"
	"testing"
)

// A crowd on one edge with a journal in a file, killed again and again under
// it: what everybody saw holds what the many edges hold.
func TestCrowdOnAFile(t *testing.T) {
	t.Parallel()
	f := fleetOn(t, 1, `file "DIR"`)
	s := startSwarm(t, crowd{Edges: f.bases(), Seed: 1, Threads: 4, Windows: 4, Polling: 3, Kinds: allKinds})
	<-s.begun
	for range 2 {
		pause(t.Context(), seconds(2))
		if err := f.edges[0].restart(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	s.healed()
	s.stop()
	s.mustHold(f)
}
