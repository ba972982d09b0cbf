package e2e

import (
	"flag"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// before is a build of another version, for TestVersionsSideBySide by hand.
var before = flag.String("before", "", "a build of another version that runs beside this one")

// F45: a newer version has come to write what this one does not read. The edge
// says so, with what to do, takes no sockets, and serves again when that is taken
// back.
func TestEdgeThatIsTooOldSaysSo(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	e := f.edges[0]
	f.store.Do("SET", "parlance:schema", chat.SchemaVersion+1)
	f.until("it is not ready", func() bool { return e.unready() != "" })
	resp, err := http.Get(e.admin + "/parlance/ready")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body), "upgrade this edge") {
		t.Errorf("it says %s", body)
	}
	if err := e.alive(); err != nil {
		t.Error(err)
	}
	f.store.Do("DEL", "parlance:schema")
	f.serving()
}

// F45: an upgrade edge by edge under a crowd, a rollback of one edge, and the
// upgrade again. With -before the other version is another build; without it this
// one, and then it is no more than a rolling restart.
func TestVersionsSideBySide(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	swap := func(e *edge, program string) {
		t.Helper()
		e.stop()
		e.program = program
		if err := e.boot(); err != nil {
			t.Fatal(err)
		}
		f.serving()
		if *before != "" {
			pause(t.Context(), seconds(2))
		}
	}
	for _, e := range f.edges {
		if *before != "" {
			swap(e, *before)
		}
	}
	s := startSwarm(t, crowd{Edges: f.bases(), Seed: 45, Threads: 6, Windows: 4, Polling: 2, Kinds: allKinds})
	<-s.begun
	for _, e := range f.edges {
		swap(e, "")
	}
	for _, program := range []string{*before, ""} {
		swap(f.edges[0], program)
	}
	s.healed()
	s.stop()
	s.mustHold(f)
}
