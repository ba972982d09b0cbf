package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// F46: edges whose clocks differ by ten minutes, and one whose clock is set back
// again and again, which alone is left when another dies and must end what that
// one leaves.
func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	back := "5m"
	for i := range 60 {
		back += fmt.Sprintf(",%dm@%ds", -5*i, 3*i)
	}
	for i, clock := range []string{"-5m", back} {
		f.edges[i].stop()
		f.edges[i].clock = clock
		if err := f.edges[i].boot(); err != nil {
			t.Fatal(err)
		}
	}
	f.serving()
	s := startSwarm(t, crowd{Edges: f.bases(), Seed: 46, Threads: 6, Windows: 4, Polling: 2, Kinds: []string{"long", "long", "ask", "cancel"}})
	<-s.begun
	f.until("runs on both", func() bool { return f.bot.at() >= 5 })
	f.edges[0].kill()
	f.until("the other ends what it left", func() bool {
		return strings.Contains(f.edges[1].log.String(), "a run that cannot go on is ended")
	})
	if err := f.edges[0].boot(); err != nil {
		t.Fatal(err)
	}
	f.serving()
	s.healed()
	s.stop()
	s.mustHold(f)
}
