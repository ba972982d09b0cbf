package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// env is what scripts are told of a fleet.
func (f *fleet) env(more ...string) []string {
	list, err := json.Marshal(f.bases())
	if err != nil {
		f.t.Fatal(err)
	}
	return append(more, "EDGES="+string(list), "BASE="+f.edges[0].base, "BOOKS="+f.bot.srv.URL)
}

// eachWord changes an edge's Caddyfile so that each word is an event of its own.
var eachWord = []string{"pace 10ms", "pace none"}

// balance runs one more Caddy that spreads clients over the edges and keeps each
// where its cookie says.
func (f *fleet) balance() *gateway {
	f.t.Helper()
	g := &gateway{t: f.t, dir: f.t.TempDir(), log: new(output)}
	g.base, g.admin = fmt.Sprintf("http://127.0.0.1:%d", redistest.FreePort(f.t)), fmt.Sprintf("http://127.0.0.1:%d", redistest.FreePort(f.t))
	g.conf = filepath.Join(f.t.TempDir(), "Caddyfile")
	var to []string
	for _, b := range f.bases() {
		to = append(to, strings.TrimPrefix(b, "http://"))
	}
	conf := "{\n\tadmin 127.0.0.1:" + port(g.admin) + "\n\tpersist_config off\n\tauto_https off\n}\nhttp://127.0.0.1:" + port(g.base) + " {\n\tbind 127.0.0.1\n" +
		"\treverse_proxy " + strings.Join(to, " ") + " {\n\t\tlb_policy cookie lb secret\n\t}\n}\n"
	if err := os.WriteFile(g.conf, []byte(conf), 0o600); err != nil {
		f.t.Fatal(err)
	}
	g.run()
	f.t.Cleanup(g.stop)
	return g
}

// A window that is cut off at any event of a run, and comes back to another
// edge, has what one has that watched from the start.
func TestReconnectAtEachEvent(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	f := fleetOn(t, 3, "redis "+s.URL(), eachWord...)
	script(t, "reconnect.mjs", nil, f.env("BALANCER="+f.balance().base)...)
}

// What windows of three edges do at the same moment has one outcome.
func TestRacesOverEdges(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	f := fleetOn(t, 3, "redis "+s.URL())
	script(t, "races.mjs", nil, f.env()...)
}
