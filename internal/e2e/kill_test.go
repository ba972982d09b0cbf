package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
)

// TestKilledAtNamedPoints cuts the process off by SIGKILL at each point of a
// run, starts it again on the same journal, and lets the same client look:
// nothing acknowledged or shown is lost (PIL-048), every run has one terminal
// (PIL-130), nothing is stuck.
func TestKilledAtNamedPoints(t *testing.T) {
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

func killAt(t *testing.T, point string) {
	g := start(t, echoSite)
	cmd := exec.Command("node", "kill.mjs")
	cmd.Dir = modules
	cmd.Env = append(os.Environ(), "POINT="+point, "BASE="+g.base)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ran, killed := false, false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "kill" {
			killed = true
			g.kill()
			g.run()
			_, _ = in.Write([]byte("up\n"))
			continue
		}
		var c struct{ Name, Error string }
		if json.Unmarshal(lines.Bytes(), &c) == nil && c.Name == point {
			ran = true
			if c.Error != "" {
				t.Error(c.Error)
			}
		}
	}
	if err := cmd.Wait(); err != nil || !ran || !killed {
		t.Errorf("the client ended: %v (ran %v, killed %v)", err, ran, killed)
	}
}
