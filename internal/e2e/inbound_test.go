package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// TestInboundAgent has the published example of an agent that dials in serve
// threads, end to end.
func TestInboundAgent(t *testing.T) {
	code, err := os.ReadFile("../../spec/pingerchips/example/agent.mjs")
	if err != nil {
		t.Fatal(err)
	}
	// Beside the published clients that it imports.
	dir, err := os.MkdirTemp(modules, "example-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "agent.mjs"), code, 0o600); err != nil {
		t.Fatal(err)
	}
	g := start(t, site(`		agent worker socket {
			idle 3s
		}
		app pk_live_x {
			secret `+appSecret+`
		}`))
	script(t, "agent.mjs", nil, "BASE="+g.base, "SECRET="+appSecret, "AGENT="+filepath.Join(filepath.Base(dir), "agent.mjs"))
}
