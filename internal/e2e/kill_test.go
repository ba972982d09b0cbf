package e2e

import (
	"encoding/json"
	"os/exec"
	"testing"
)

// TestKilledAtNamedPoints cuts the process off by SIGKILL at each point of a
// run, starts it again on the same journal, and lets the same client look:
// nothing acknowledged or shown is lost (PIL-048), every run has one terminal
// (PIL-130), nothing is stuck.
func TestKilledAtNamedPoints(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("node", "kill.mjs")
	cmd.Dir = modules
	list, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var points []string
	if err := json.Unmarshal(list, &points); err != nil || len(points) != 30 {
		t.Fatalf("%d points, %v", len(points), err)
	}
	for _, p := range points {
		t.Run(p, func(t *testing.T) {
			t.Parallel()
			killAt(t, p)
		})
	}
}

// killSite shows each delta by itself, so that every point is there to be met.
var killSite = site("\t\tagent echo echo {\n\t\t\tdelay 20ms\n\t\t}\n\t\tlimits {\n\t\t\tpace none\n\t\t}")

func killAt(t *testing.T, point string) {
	g := start(t, killSite)
	killed := false
	script(t, "kill.mjs", map[string]func() any{"kill": func() any {
		g.kill()
		g.run()
		killed = true
		return nil
	}}, "POINT="+point, "BASE="+g.base)
	if !killed {
		t.Error("the point was not reached")
	}
}
