package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// appSecret is of the sites' app.
const appSecret = "sk_live_0123456789abcdef"

var channelSite = site(`		agent echo echo {
			delay 42ms
		}
		app pk_live_x {
			secret ` + appSecret + `
		}
		limits {
			connections_per_client 1000
			commands_per_second 1000
		}`)

// minted is a token of the command line.
func minted(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"parlance-token", "--app", "pk_live_x"}, args...)...)
	cmd.Env = append(os.Environ(), "PARLANCE_APP_SECRET="+appSecret)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestPhoenixClients drives the dialect with the published client, its newest and
// an older one, over both of its transports.
func TestPhoenixClients(t *testing.T) {
	t.Parallel()
	g := start(t, channelSite)
	env := []string{"BASE=" + g.base, "SECRET=" + appSecret, "TOKEN=" + minted(t, "--thread", "*", "--client", "ada", "--can", "subscribe")}
	t.Run("clients", func(t *testing.T) {
		for _, client := range []string{"phoenix", "phoenix-1.8.9"} {
			for _, transport := range []string{"websocket", "longpoll"} {
				t.Run(client+" "+transport, func(t *testing.T) {
					t.Parallel()
					f := newFrames(t)
					script(t, "pingerchips.mjs", nil, append(env[:len(env):len(env)], f.env(), "CLIENT="+client, "TRANSPORT="+transport)...)
					f.check()
					f.has("join", "join.reply", "leave", "leave.reply", "phx_close", "heartbeat", "heartbeat.reply", "error", "snapshot", "change", "batch",
						"run.start", "run.end", "send", "send.reply", "cancel", "cancel.reply", "edit.reply", "regenerate.reply", "branch.select.reply", "view.update", "view.get.reply")
				})
			}
		}
	})
	if strings.Contains(g.log.String(), appSecret) {
		t.Error("the log tells the app's secret")
	}
}

func TestDialectsTogether(t *testing.T) {
	t.Parallel()
	g := start(t, channelSite)
	for _, transport := range []string{"websocket", "longpoll"} {
		t.Run(transport, func(t *testing.T) {
			f := newFrames(t)
			script(t, "both.mjs", nil, f.env(), "BASE="+g.base, "SECRET="+appSecret, "TRANSPORT="+transport)
			f.check()
			f.has("send.reply", "cancel.reply", "tool_approval.reply", "run.suspend", "run.resume")
		})
	}
}

func TestPhoenixClientsRestart(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"websocket", "longpoll"} {
		t.Run(transport, func(t *testing.T) {
			g := start(t, channelSite)
			script(t, "restart.mjs", map[string]func() any{"restart": func() any {
				g.stop()
				g.run()
				return true
			}}, "BASE="+g.base, "SECRET="+appSecret, "TRANSPORT="+transport)
		})
	}
}
