package pilotoo_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parlance-gateway/parlance/internal/agent/echo"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
)

// site is a whole edge on a file journal, with the echo agent, behind HTTP.
type site struct {
	url    string
	client *http.Client
	hub    *edge.Hub
	config *edge.Site
	guests *guests
}

// serve starts a site; change may alter its configuration first.
func serve(t *testing.T, change func(*edge.Site)) *site {
	t.Helper()
	j, err := filejournal.Open(t.Context(), filejournal.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, j, change)
}

// serveOn serves a site on a journal, which it closes.
func serveOn(t *testing.T, j journal.Journal, change func(*edge.Site)) *site {
	t.Helper()
	hub := edge.NewHub(j, edge.Options{})
	g := &guests{revoked: map[string]bool{}}
	config := &edge.Site{
		Name: "site", Realm: "default", Auth: g,
		Agents:  []edge.NamedAgent{{Name: "echo", Agent: echo.New(echo.Config{Delay: time.Millisecond, Sub: 2 * time.Second})}},
		Rules:   dialect.Rules{CommandsPerSecond: 10_000, CommandBurst: 10_000},
		Pilotoo: &edge.Pilotoo{Path: "/socket.io/", Routes: true},
	}
	if change != nil {
		change(config)
	}
	off, err := hub.Activate([]*edge.Site{config})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hub.Serve(config, w, r, identity.FromRequest(r)) {
			http.NotFound(w, r)
		}
	}))
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := hub.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
		off()
	})
	return &site{url: server.URL, client: client, hub: hub, config: config, guests: g}
}

// thread makes a conversation through the protocol's own route.
func (s *site) thread(t *testing.T, who string) string {
	t.Helper()
	resp, body := s.request(t, "POST", "/conversations", who, "")
	var c struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(body), &c); err != nil || resp.StatusCode != http.StatusCreated || c.ID == "" {
		t.Fatalf("PIL-198 POST /conversations: %d %s", resp.StatusCode, body)
	}
	return c.ID
}

// guests admits everybody whose token is his name, until he is revoked. It
// takes a cookie for one that a browser sends by itself.
type guests struct {
	mu      sync.Mutex
	revoked map[string]bool
}

func (g *guests) Authenticate(_ context.Context, c identity.Credentials) (identity.Principal, error) {
	name, ambient := c.Token, false
	if name == "" && len(c.Cookies) > 0 {
		name, ambient = c.Cookies[0].Value, true
	}
	if c.Bad || name == "" || g.gone(name) {
		return identity.Principal{}, identity.ErrUnauthenticated
	}
	p := person(name)
	p.Ambient = ambient
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

func copyTo(w io.Writer, r io.Reader) (int64, error) { return io.Copy(w, io.LimitReader(r, 64<<20)) }

// guestSite is a site that admits guests.
type guestSite struct{ *guests }

func (guestSite) Name() string { return "site" }

func (guestSite) App(string) *identity.App { return nil }

func (s guestSite) Admit(ctx context.Context, c identity.Credentials) (identity.Principal, error) {
	return s.Authenticate(ctx, c)
}

func (guestSite) Rules() dialect.Rules { return dialect.Rules{} }
