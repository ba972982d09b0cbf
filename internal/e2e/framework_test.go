package e2e

import (
	"bufio"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// frameworkAgent starts the agent that an npm framework serves, with its mock
// model, and returns its address.
func frameworkAgent(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("node", "agent.mjs")
	cmd.Dir = "testdata/mastra"
	var said output
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
			return url
		}
	}
	t.Fatalf("the framework's agent did not start: %s", said.String())
	return ""
}

// An agent that nobody here wrote answers through the one-line form, interrupt
// and resume included.
func TestFrameworkAgent(t *testing.T) {
	t.Parallel()
	url := frameworkAgent(t)
	g := start(t, strings.ReplaceAll(site(""), "parlance {\n\n\t}", "parlance "+url))
	script(t, "framework.mjs", nil, "BASE="+g.base)
}
