package e2e

import (
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// app changes the fleet's site into one with the built-in agent and an app.
var app = []string{
	"\t\tagent bot agui AGENT", "\t\tagent echo echo {\n\t\t\tdelay 42ms\n\t\t}\n\t\tapp pk_live_x {\n\t\t\tsecret " + appSecret + "\n\t\t}",
	"\t\t\tpace 10ms\n", "",
}

// TestDialectsAtRandom lets published clients of two dialects do to one thread
// what comes: both see the same of it.
func TestDialectsAtRandom(t *testing.T) {
	t.Parallel()
	t.Run("on a file", func(t *testing.T) {
		t.Parallel()
		g, f := start(t, channelSite), newFrames(t)
		script(t, "mixed.mjs", nil, f.env(), "BASE="+g.base, "SECRET="+appSecret, "SEED=1")
		f.check()
		f.has("send", "edit", "regenerate", "cancel", "tool_approval", "run.suspend", "run.resume", "batch", "change", "view.get.reply", "branch.select.reply", "view.update")
	})
	t.Run("on two edges", func(t *testing.T) {
		t.Parallel()
		f := newFrames(t)
		e := fleetOn(t, 2, "redis "+redistest.Start(t).URL(), app...)
		script(t, "mixed.mjs", nil, e.env(f.env(), "SECRET="+appSecret, "SEED=100")...)
		f.check()
		f.has("send", "edit", "regenerate", "tool_approval", "run.suspend", "run.resume", "batch", "change", "view.get.reply", "branch.select.reply", "view.update")
	})
}

// TestPhoenixClientsOnTwoEdges is what TestPhoenixClients asks for, where every
// other socket is another edge's.
func TestPhoenixClientsOnTwoEdges(t *testing.T) {
	t.Parallel()
	e := fleetOn(t, 2, "redis "+redistest.Start(t).URL(), app...)
	env := e.env("SECRET="+appSecret, "TOKEN="+minted(t, "--thread", "*", "--client", "ada", "--can", "subscribe"))
	for _, transport := range []string{"websocket", "longpoll"} {
		t.Run(transport, func(t *testing.T) {
			f := newFrames(t)
			script(t, "pingerchips.mjs", nil, append(env[:len(env):len(env)], f.env(), "TRANSPORT="+transport)...)
			f.check()
		})
	}
}

// TestChannelsOutliveEdges kills an edge by SIGKILL again and again under windows
// of the published client: alone on a file, and beside another one on Redis.
func TestChannelsOutliveEdges(t *testing.T) {
	t.Parallel()
	t.Run("on a file", func(t *testing.T) {
		t.Parallel()
		g, f := start(t, channelSite), newFrames(t)
		kills := 0
		script(t, "deaths.mjs", map[string]func() any{"kill": func() any {
			kills++
			g.kill()
			gone := time.Now().UnixMilli()
			g.run()
			return gone
		}}, f.env(), "BASE="+g.base, "SECRET="+appSecret)
		f.check()
		if kills != 4 {
			t.Errorf("it was killed %d times", kills)
		}
	})
	t.Run("on two edges", func(t *testing.T) {
		t.Parallel()
		e, f := fleetOn(t, 2, "redis "+redistest.Start(t).URL(), app...), newFrames(t)
		kills := 0
		script(t, "deaths.mjs", map[string]func() any{"kill": func() any {
			kills++
			e.edges[0].kill()
			gone := time.Now().UnixMilli()
			if err := e.edges[0].boot(); err != nil {
				return err.Error()
			}
			return gone
		}}, e.env(f.env(), "SECRET="+appSecret)...)
		f.check()
		if kills != 4 {
			t.Errorf("it was killed %d times", kills)
		}
	})
}
