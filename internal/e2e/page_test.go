package e2e

import "testing"

// The page in a real browser, with an agent that is slow enough to be watched.
func TestPage(t *testing.T) {
	t.Parallel()
	g := start(t, site("\t\tagent echo echo {\n\t\t\tdelay 40ms\n\t\t}\n\t\tpage /demo/"))
	script(t, "page.mjs", nil, "BASE="+g.base, "PAGE="+g.base+"/demo/")
}
