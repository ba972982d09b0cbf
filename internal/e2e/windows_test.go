package e2e

import "testing"

// The site's limits are wide: one browser opens hundreds of windows here.
var wideSite = site(`		agent echo echo {
			delay 10ms
		}
		limits {
			connections_per_client 300
			commands_per_second 1000
			pace none
		}`)

func TestWindows(t *testing.T) {
	t.Parallel()
	g := start(t, wideSite)
	script(t, "windows.mjs", nil, "BASE="+g.base)
}
