package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// fleet is some edges that share a journal and an agent.
type fleet struct {
	t     *testing.T
	edges []*edge
	bot   *bot
	dir   string              // Caddy's storage, which all share
	store *redistest.Server   // what stands behind the proxies, or nil
	nodes []*redistest.Server // of a cluster, or nil
}

// edge is one gateway of a fleet with its own way to the store.
type edge struct {
	*gateway
	// busy is held by whatever is done to the edge.
	busy  sync.Mutex
	proxy *toxiproxy.Proxy
}

// fleetSite is the Caddyfile of an edge. JOURNAL and AGENT stand for what differs.
var fleetSite = strings.Replace(site(`		agent bot agui AGENT
		limits {
			connections_per_client 4000
			commands_per_second 1000
			runs_per_client 1000
			pace 10ms
		}`), `journal file "DIR"`, `journal JOURNAL`, 1)

// newFleet starts n edges on one Redis, each through a proxy of its own.
func newFleet(t *testing.T, n int, config ...string) *fleet {
	t.Helper()
	return proxiedFleet(t, n, redistest.Start(t, config...), "")
}

// proxiedFleet is newFleet on a Redis that runs; options are the journal's.
func proxiedFleet(t *testing.T, n int, store *redistest.Server, options string) *fleet {
	t.Helper()
	f := &fleet{t: t, bot: newBot(t), store: store}
	zerolog.SetGlobalLevel(zerolog.Disabled) // toxics tell all they do
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	for i := range n {
		p := toxiproxy.NewProxy(server, fmt.Sprintf("edge%d", i), fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t)), f.store.Addr())
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		f.join(p, "redis redis://"+p.Listen+options)
	}
	f.start()
	return f
}

// fleetOn makes n edges on a journal that is said in the words of a Caddyfile;
// change is made to their Caddyfiles by pairs of old and new.
func fleetOn(t *testing.T, n int, journal string, change ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, bot: newBot(t)}
	for range n {
		f.join(nil, journal, change...)
	}
	f.start()
	return f
}

// join adds an edge that is not started yet.
func (f *fleet) join(p *toxiproxy.Proxy, journal string, change ...string) {
	f.t.Helper()
	if f.dir == "" {
		f.dir = f.t.TempDir()
	}
	g := &gateway{t: f.t, dir: f.dir, log: new(output)}
	g.base, g.admin = fmt.Sprintf("http://127.0.0.1:%d", redistest.FreePort(f.t)), fmt.Sprintf("http://127.0.0.1:%d", redistest.FreePort(f.t))
	g.conf = filepath.Join(f.t.TempDir(), "Caddyfile")
	g.configure(strings.NewReplacer(append(change, "JOURNAL", journal, "AGENT", f.bot.srv.URL)...).Replace(fleetSite))
	f.edges = append(f.edges, &edge{gateway: g, proxy: p})
}

// start boots all edges and leaves it to the test's end to stop them.
func (f *fleet) start() {
	f.t.Helper()
	errs := make(chan error, len(f.edges))
	for _, e := range f.edges {
		f.t.Cleanup(e.stop)
		go func() { errs <- e.boot() }()
	}
	for range f.edges {
		if err := <-errs; err != nil {
			f.t.Fatal(err)
		}
	}
	f.serving()
}

// serving waits until every edge says that it is ready.
func (f *fleet) serving() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	for i, e := range f.edges {
		for said := ""; ; {
			if said = e.unready(); said == "" {
				break
			}
			select {
			case <-ctx.Done():
				f.t.Fatalf("edge %d is not ready: %s\n%s", i, said, e.log)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// unready is why an edge is not ready, or "".
func (e *edge) unready() string {
	resp, err := http.Get(e.base + "/ready")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return resp.Status
	}
	return ""
}

// alive is an error if the edge does not say that it lives.
func (e *edge) alive() error {
	resp, err := http.Get(e.base + "/health")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("an edge says of its health: %s", resp.Status)
	}
	return nil
}

// change writes another Caddyfile, for the next reload or boot.
func (e *edge) change(old, with string) {
	conf, err := os.ReadFile(e.conf)
	if err == nil {
		err = os.WriteFile(e.conf, []byte(strings.ReplaceAll(string(conf), old, with)), 0o600)
	}
	if err != nil {
		e.t.Error(err)
	}
}

// bases are the addresses of all edges.
func (f *fleet) bases() []string {
	var list []string
	for _, e := range f.edges {
		list = append(list, e.base)
	}
	return list
}

// restart ends an edge by a signal, in the way that the signal asks for, and
// starts it again on its ports.
func (e *edge) restart(sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		e.kill()
	} else {
		e.stop()
	}
	return e.boot()
}

// tail is the end of what a gateway said.
func (o *output) tail(bytes int) string {
	s := o.String()
	return s[max(0, len(s)-bytes):]
}
