package e2e

import (
	"fmt"
	"testing"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// F5: a replica is made the master while the old one lives on, and one edge stays
// with that. If the old one wants a replica, the edge is without a store until it
// comes over, and nothing that was acknowledged is lost. If it does not, two
// histories grow; when the edge comes over, whoever saw the other is told of a new
// epoch.
func TestEdgeStaysWithTheOldMaster(t *testing.T) {
	t.Parallel()
	for name, sure := range map[string]bool{"that wants a replica": true, "that goes on alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := []string{"repl-diskless-sync-delay 0"}
			option := "sync none"
			if sure {
				config, option = append(config, "min-replicas-to-write 1"), "sync replicas 1"
			}
			old := redistest.Start(t, config...)
			var heirs []*redistest.Server
			for range 2 {
				heirs = append(heirs, redistest.Start(t, append(config, "replicaof 127.0.0.1 "+old.Port())...))
			}
			f := proxiedFleet(t, 3, old, " {\n\t\t\t"+option+"\n\t\t}")
			f.until("both replicas have come", func() bool { return old.Info("connected_slaves") == "2" })
			s := startSwarm(t, crowd{Edges: f.bases(), Seed: 5, Threads: 5, Windows: 5, Polling: 2, Kinds: allKinds})
			<-s.begun
			s.lossy(sure)
			pause(t.Context(), seconds(2))
			var ep epochs
			look := func(at *redistest.Server) {
				c := at.Client()
				defer c.Close()
				if err := ep.look(t.Context(), s, c); err != nil {
					t.Error(err)
				}
			}
			look(old)
			// Both stop at once, so that the heir has all that the other replica has.
			for _, h := range heirs {
				h.Do("REPLICAOF", "127.0.0.1", "1")
			}
			old.Do("CLIENT", "KILL", "TYPE", "replica")
			heir, other := heirs[0], heirs[1]
			if other.Info("slave_repl_offset") > heir.Info("slave_repl_offset") {
				heir, other = other, heir
			}
			heir.Do("REPLICAOF", "NO", "ONE")
			other.Do("REPLICAOF", "127.0.0.1", heir.Port())
			for _, e := range f.edges[:2] {
				e.move(heir)
			}
			if sure {
				f.until("the edge that stays is not ready", func() bool { return f.edges[2].unready() != "" })
			}
			pause(t.Context(), seconds(5))
			look(heir)
			f.edges[2].move(heir)
			f.serving()
			pause(t.Context(), seconds(3))
			look(heir)
			s.healed()
			s.stop()
			if seen := s.mustHold(f); !sure && seen.epochs == 0 {
				t.Error("two histories have met, and no epoch has changed")
			}
		})
	}
}

// move leads an edge to another store.
func (e *edge) move(to *redistest.Server) {
	e.t.Helper()
	e.busy.Lock()
	defer e.busy.Unlock()
	e.proxy.Stop()
	e.proxy.Upstream = to.Addr()
	if err := e.proxy.Start(); err != nil {
		e.t.Error(fmt.Errorf("moving an edge: %w", err))
	}
}
