package pingerchips_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent/echo"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
)

const patience = time.Minute

const secret = "sk_live_x"

// site is a whole edge on a file journal, behind HTTP.
type site struct {
	t      testing.TB
	url    string
	client *http.Client
	hub    *edge.Hub
	config *edge.Site
	before func() // gives the configuration in force back
}

// serve starts a site; change may alter its configuration first.
func serve(t testing.TB, change func(*edge.Site)) *site {
	t.Helper()
	return on(t, open(t), change)
}

func open(t testing.TB) journal.Journal {
	t.Helper()
	j, err := filejournal.Open(t.Context(), filejournal.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// shared keeps a journal open when one of its hubs closes.
type shared struct{ journal.Journal }

func (shared) Close() error { return nil }

// on starts a site on a journal that others may be on too.
func on(t testing.TB, j journal.Journal, change func(*edge.Site)) *site {
	t.Helper()
	s := &site{t: t, hub: edge.NewHub(shared{j}, edge.Options{}), before: func() {}}
	s.configure(&edge.Site{
		Name: "site", Realm: "default",
		Agents: []edge.NamedAgent{{Name: "echo", Agent: echo.New(echo.Config{Delay: time.Millisecond, Sub: time.Second})}},
		Apps: []identity.App{
			{Key: "pk_live_x", Secrets: []string{secret}},
			{Key: "pk_live_y", Tenant: "y", Secrets: []string{"sk_live_y"}},
		},
		Rules:       dialect.Rules{CommandsPerSecond: 100_000, CommandBurst: 100_000, ConnectionsPerClient: 1000},
		Pilotoo:     &edge.Pilotoo{Path: "/socket.io/"},
		Pingerchips: &edge.Pingerchips{Path: "/socket/"},
	}, change)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.hub.Serve(s.config, w, r, identity.FromRequest(r)) {
			http.NotFound(w, r)
		}
	}))
	s.url, s.client = server.URL, server.Client()
	t.Cleanup(func() {
		_ = s.hub.Close()
		server.Close()
	})
	return s
}

// configure makes a changed copy of a configuration the one in force.
func (s *site) configure(c *edge.Site, change func(*edge.Site)) {
	s.t.Helper()
	next := *c
	if change != nil {
		change(&next)
	}
	deactivate, err := s.hub.Activate([]*edge.Site{&next})
	if err != nil {
		s.t.Fatal(err)
	}
	s.before()
	s.config, s.before = &next, deactivate
}

// mint makes a token of an app of the site.
func (s *site) mint(app int, c identity.AppClaims) string {
	s.t.Helper()
	if c.Expires == 0 {
		c.Expires = time.Now().Unix() + 3600
	}
	token, err := s.config.Apps[app].Mint(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

// token is a user's, with what a user may do on every thread if no capabilities
// are named.
func (s *site) token(client string, caps ...string) string {
	s.t.Helper()
	if len(caps) == 0 {
		caps = []string{"chat:subscribe:*", "chat:publish:user_message:*", "chat:publish:cancel_own:*", "chat:publish:tool_approval:*"}
	}
	return s.mint(0, identity.AppClaims{ClientID: client, Cap: caps})
}
