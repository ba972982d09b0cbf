package smooth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
)

// site is an edge on a file journal, with a scripted agent, behind HTTP. It can
// be stopped and started again on the same journal.
type site struct {
	t      *testing.T
	dir    string
	agent  *script
	config *edge.Site
	guests *guests
	// open opens the journal, now is the clock.
	open func() (journal.Journal, error)
	now  func() time.Time

	url  string
	hub  *edge.Hub
	stop func()
}

// serve starts a site; change may alter its configuration first.
func serve(t *testing.T, change func(*edge.Site)) *site {
	t.Helper()
	return serveAt(t, nil, change)
}

// serveAt is serve by another clock.
func serveAt(t *testing.T, now func() time.Time, change func(*edge.Site)) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), now: now, agent: new(script), guests: &guests{revoked: map[string]bool{}}}
	s.open = func() (journal.Journal, error) {
		return filejournal.Open(t.Context(), filejournal.Options{Dir: s.dir})
	}
	s.config = configured(s)
	if change != nil {
		change(s.config)
	}
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

func configured(s *site) *edge.Site {
	return &edge.Site{
		Name: "site", Realm: "default", Auth: s.guests,
		Agents:  []edge.NamedAgent{{Name: "helper", Agent: s.agent}},
		Rules:   dialect.Rules{CommandsPerSecond: 10_000, CommandBurst: 10_000},
		Limits:  edge.Limits{Pace: -1},
		Pilotoo: &edge.Pilotoo{Path: "/socket.io/", Routes: true},
		Smooth:  &edge.Smooth{Path: "/ws", Config: smooth.Config{Anonymous: true}},
	}
}

func (s *site) start() {
	s.t.Helper()
	j, err := s.open()
	if err != nil {
		s.t.Fatal(err)
	}
	s.hub = edge.NewHub(j, edge.Options{Now: s.now})
	off, err := s.hub.Activate([]*edge.Site{s.config})
	if err != nil {
		s.t.Fatal(err)
	}
	hub, config := s.hub, s.config
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hub.Serve(config, w, r, identity.FromRequest(r)) {
			http.NotFound(w, r)
		}
	}))
	s.url = strings.Replace(server.URL, "http", "ws", 1) + "/ws"
	s.stop = sync.OnceFunc(func() {
		if err := hub.Close(); err != nil {
			s.t.Error(err)
		}
		server.Close()
		off()
	})
}

// guests admits everybody whose token is his name, until he is revoked.
type guests struct {
	mu      sync.Mutex
	revoked map[string]bool
}

func (g *guests) Authenticate(_ context.Context, c identity.Credentials) (identity.Principal, error) {
	if c.Bad || c.Token == "" || strings.HasPrefix(c.Token, "bad") || g.gone(c.Token) {
		return identity.Principal{}, identity.ErrUnauthenticated
	}
	p := person(c.Token)
	p.Subject.ID, p.Tenant, _ = strings.Cut(c.Token, "@")
	return p, nil
}

func (g *guests) Recheck(p identity.Principal, _ time.Time) error {
	if g.gone(p.Subject.ID) {
		return identity.ErrUnauthenticated
	}
	return nil
}

func (g *guests) gone(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.revoked[name]
}

func (g *guests) revoke(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.revoked[name] = true
}

func person(name string) identity.Principal {
	return identity.Principal{Realm: "default", Subject: identity.Subject{Issuer: "test", ID: name}, Caps: identity.OwnThreads(identity.UserVerbs)}
}
