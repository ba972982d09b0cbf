package e2e

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestFiftyReloads reloads the configuration fifty times, changed each time,
// with 200 sockets and 20 runs on it: nothing is dropped, and what it leaves
// behind in the process is what it found.
func TestFiftyReloads(t *testing.T) {
	t.Parallel()
	block := func(greeting string) string {
		return site("\t\tagent echo echo {\n\t\t\tdelay 40ms\n\t\t}\n\t\tlimits {\n\t\t\tconnections_per_client 500\n\t\t\tcommands_per_second " + greeting + "\n\t\t}")
	}
	g := start(t, block("1000"))
	script(t, "reload.mjs", map[string]func() any{
		"reload": func() any {
			for i := range 50 {
				g.configure(block(map[bool]string{true: "1000", false: "2000"}[i%2 == 1]))
				if err := g.reload(); err != nil {
					t.Error(err)
				}
			}
			// One that cannot be taken leaves everything as it is.
			g.configure(strings.Replace(block("1000"), "agent echo echo", "agent echo nonsense", 1))
			if g.reload() == nil {
				t.Error("a configuration that makes no sense was taken")
			}
			return nil
		},
		"stats": func() any { return g.stats(t) },
	}, "BASE="+g.base)
}

// stats is what the process counts of itself: goroutines and live heap, after a
// collection.
func (g *gateway) stats(t *testing.T) map[string]int {
	t.Helper()
	get := func(path, pattern string) int {
		resp, err := http.Get(g.admin + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(pattern).FindSubmatch(body)
		if m == nil {
			t.Fatalf("%s says nothing of %s", path, pattern)
		}
		n, _ := strconv.Atoi(string(m[1]))
		return n
	}
	heap := get("/debug/pprof/heap?gc=1&debug=1", `# HeapAlloc = (\d+)`)
	return map[string]int{"heap": heap, "goroutines": get("/debug/pprof/goroutine?debug=1", `goroutine profile: total (\d+)`)}
}
