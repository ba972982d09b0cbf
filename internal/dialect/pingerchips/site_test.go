package pingerchips_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/agent/echo"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/pingerchips"
	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
)

const patience = 30 * time.Second

const secret = "sk_live_x"

// site is an edge on a file journal, with the dialect on it.
type site struct {
	t      testing.TB
	hub    *edge.Hub
	server *pingerchips.Server
	config *edge.Site
	admits *admits
}

// admits is the handler as it is configured.
type admits struct {
	mu    sync.Mutex
	rules dialect.Rules
	apps  map[string]*identity.App
}

func (a *admits) Name() string { return "site" }

func (a *admits) Admit(context.Context, identity.Credentials) (identity.Principal, error) {
	return identity.Principal{}, identity.ErrUnauthenticated
}

func (a *admits) Recheck(identity.Principal, time.Time) error { return identity.ErrUnauthenticated }

func (a *admits) Rules() dialect.Rules {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rules
}

func (a *admits) App(key string) *identity.App {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.apps[key]
}

func (a *admits) set(f func(*admits)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(a)
}

// options change a site before it starts.
type options struct {
	edge   func(*edge.Site)
	server func(*pingerchips.Options)
	agent  agent.Agent
}

func serve(t testing.TB, o options) *site {
	t.Helper()
	j, err := filejournal.Open(t.Context(), filejournal.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s := on(t, j, o)
	t.Cleanup(func() { _ = j.Close() })
	return s
}

// shared keeps a journal open when one of its hubs closes.
type shared struct{ journal.Journal }

func (shared) Close() error { return nil }

// on starts a site on a journal that others may be on too.
func on(t testing.TB, j journal.Journal, o options) *site {
	t.Helper()
	s := &site{t: t, hub: edge.NewHub(shared{j}, edge.Options{}), admits: &admits{
		rules: dialect.Rules{CommandsPerSecond: 100_000, CommandBurst: 100_000, ConnectionsPerClient: 1000},
		apps: map[string]*identity.App{
			"pk_live_x": {Key: "pk_live_x", Realm: "default", Secrets: []string{secret}},
			"pk_live_y": {Key: "pk_live_y", Realm: "default", Tenant: "y", Secrets: []string{"sk_live_y"}},
		},
	}}
	if o.agent == nil {
		o.agent = echo.New(echo.Config{Delay: time.Millisecond, Sub: time.Second})
	}
	s.config = &edge.Site{
		Name: "site", Realm: "default", Agents: []edge.NamedAgent{{Name: "echo", Agent: o.agent}},
		Pilotoo: &edge.Pilotoo{Path: "/socket.io/"},
	}
	if o.edge != nil {
		o.edge(s.config)
	}
	if _, err := s.hub.Activate([]*edge.Site{s.config}); err != nil {
		t.Fatal(err)
	}
	po := pingerchips.Options{Desk: s.hub.Desk()}
	if o.server != nil {
		o.server(&po)
	}
	s.server = pingerchips.NewServer(po)
	t.Cleanup(func() {
		s.server.Close()
		_ = s.hub.Close()
	})
	return s
}

// token is a user's, with capabilities on every thread if none are named.
func (s *site) token(client string, caps ...string) string {
	s.t.Helper()
	if len(caps) == 0 {
		caps = []string{"chat:subscribe:*", "chat:publish:user_message:*", "chat:publish:cancel_own:*", "chat:publish:tool_approval:*"}
	}
	now := time.Now().Unix()
	token, err := s.admits.App("pk_live_x").Mint(identity.AppClaims{ClientID: client, Cap: caps, IssuedAt: now, Expires: now + 3600})
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}
