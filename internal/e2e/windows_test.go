package e2e

import "testing"

func TestWindows(t *testing.T) {
	g := start(t, echoSite)
	script(t, "windows.mjs", "BASE="+g.base)
}
