package caddymodule

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// made parses a parlance directive and makes its site.
func made(t *testing.T, directive string) *Handler {
	t.Helper()
	h := &Handler{logger: slog.New(slog.DiscardHandler)}
	if err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser(directive)); err != nil {
		t.Fatal(err)
	}
	if err := h.makeSite(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Cleanup() })
	return h
}

// TestDefaults: what the one-line form comes to.
func TestDefaults(t *testing.T) {
	s := made(t, "parlance echo").site
	if s.Realm != "default" || s.Auth != nil || s.Origins != nil || s.Page != "" {
		t.Errorf("%+v", s)
	}
	if p := s.Pilotoo; p.Path != "/socket.io/" || !p.Routes || p.Prefix != "" || p.Upstream != nil || p.Frame < 8*5<<20*4/3 {
		t.Errorf("%+v", p)
	}
	if s.Rules != (dialect.Rules{}) || s.Limits != (edge.Limits{}) {
		t.Errorf("%+v %+v", s.Rules, s.Limits)
	}
	if len(s.Agents) != 1 || s.Agents[0].Name != "echo" {
		t.Errorf("%+v", s.Agents)
	}
}

func TestOptionsReachTheSite(t *testing.T) {
	s := made(t, `parlance echo {
		realm support
		page /demo
		pilotoo /chat/io {
			frame 1MiB
			routes /chat/
			while_waiting refuse
			auto_create_threads
		}
		limits {
			runs_per_thread 4
			runs_per_client 16
			rooms_per_connection 64
			connections_per_client 10
			commands_per_second 2.5
			run_timeout 10m
			pause_timeout none
			pace none
		}
		archive after 30d {
			over 200
		}
	}`).site
	if s.Realm != "support" || s.Page != "/demo/" {
		t.Errorf("%+v", s)
	}
	if p := s.Pilotoo; p.Path != "/chat/io/" || p.Prefix != "/chat" || p.Frame != 1<<20 {
		t.Errorf("%+v", p)
	}
	want := dialect.Rules{RoomsPerConnection: 64, ConnectionsPerClient: 10, CommandsPerSecond: 2.5, CommandBurst: 7, RefuseWaiting: true, AutoCreate: true}
	if s.Rules != want {
		t.Errorf("%+v", s.Rules)
	}
	if s.Limits != (edge.Limits{RunsPerThread: 4, RunsPerClient: 16, RunTimeout: 10 * time.Minute, PauseTimeout: -1, Pace: -1, ArchiveAfter: 30 * 24 * time.Hour, ArchiveOver: 200}) {
		t.Errorf("%+v", s.Limits)
	}
}

// TestAgentOptions calls an agent as configured.
func TestAgentOptions(t *testing.T) {
	got := make(chan *http.Request, 1)
	body := make(chan string, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- r
		body <- string(b)
	}))
	defer upstream.Close()
	h := made(t, `parlance {
		agent helper agui `+upstream.URL+`/agent {
			header Authorization "Bearer {env.PARLANCE_TEST_TOKEN}"
			history 20
			thread same
			forward `+"`"+`{"team":"blue"}`+"`"+`
			retry
			confirm_tools delete_* *mail
		}
	}`)
	a := h.site.Agents[0].Agent
	if n := a.(agent.History).History(); n != 20 {
		t.Errorf("history %d", n)
	}
	if g := a.(agent.Gated); !g.Confirm("delete_all") || !g.Confirm("send/mail") || g.Confirm("list") {
		t.Error("confirm_tools is lost")
	}
	if !a.(agent.Retrier).Retry() || !h.site.Limits.SameUpstream {
		t.Error("retry or thread is lost")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a.Run(ctx, &agent.Call{Run: "r", Segment: "s", Upstream: "u", Messages: []*chat.Message{{ID: "m", Role: chat.User}}}, func(agent.Event) error { return nil })
	r := <-got
	if r.URL.Path != "/agent" || r.Header.Get("Authorization") != "Bearer "+testToken {
		t.Errorf("%s %v", r.URL, r.Header)
	}
	if b := <-body; !strings.Contains(b, `{"team":"blue"}`) {
		t.Errorf("nothing was forwarded: %s", b)
	}
	if strings.Contains(h.site.Agents[0].Same, testToken) {
		t.Error("what agents are compared by holds a secret")
	}
}

// TestAuthJWT signs in as configured.
func TestAuthJWT(t *testing.T) {
	h := made(t, `parlance echo {
		auth jwt {
			secret {env.PARLANCE_TEST_SECRET_OLD}
			secret {env.PARLANCE_TEST_SECRET}
			issuer https://id.example.com
			audience chat desk
			tenant_claim org
			cookie session
		}
		auth caddy {
			tenant org
		}
	}`)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(testSecret)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token := func(issuer string) string {
		s, err := jwt.Signed(signer).Claims(map[string]any{
			"iss": issuer, "aud": "desk", "sub": "ada", "org": "engines", "exp": time.Now().Add(time.Minute).Unix(),
		}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	request := func(change func(*http.Request)) identity.Credentials {
		r := prepared(http.MethodGet, "/")
		change(r)
		return h.credentials(r)
	}
	bearer := request(func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token("https://id.example.com")) })
	cookie := request(func(r *http.Request) {
		r.AddCookie(&http.Cookie{Name: "session", Value: token("https://id.example.com")})
	})
	caddys := request(func(r *http.Request) {
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		repl.Set("http.auth.user.id", "ada")
		repl.Set("http.auth.user.org", "engines")
	})
	for name, c := range map[string]identity.Credentials{"bearer": bearer, "cookie": cookie, "caddy": caddys} {
		p, err := h.site.Auth.Authenticate(t.Context(), c)
		if err != nil || p.Subject.ID != "ada" || p.Tenant != "engines" || p.Realm != "default" {
			t.Errorf("%s: %+v %v", name, p, err)
		}
	}
	for name, c := range map[string]identity.Credentials{
		"nothing":        request(func(*http.Request) {}),
		"another issuer": request(func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token("https://evil.example.com")) }),
	} {
		if p, err := h.site.Auth.Authenticate(t.Context(), c); err == nil {
			t.Errorf("%s admits %+v", name, p)
		}
	}
}

// TestUpstream forwards what a gateway has nothing to say to.
func TestUpstream(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Got", r.URL.RequestURI()+" "+r.Header.Get("X-Forwarded-For")+" "+r.Header.Get("X-Forwarded-Host"))
		w.WriteHeader(http.StatusTeapot)
	}))
	defer service.Close()
	site := made(t, "parlance echo {\npilotoo {\nupstream "+service.URL+"/api\n}\n}").site
	r := prepared(http.MethodGet, "http://chat.example.com/agents?a=1")
	r.RemoteAddr = "192.0.2.1:1"
	r.Header.Set("X-Forwarded-For", "198.51.100.7")
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "203.0.113.9")
	w := httptest.NewRecorder()
	site.Pilotoo.Upstream.ServeHTTP(w, r)
	if got := w.Header().Get("X-Got"); w.Code != http.StatusTeapot || got != "/api/agents?a=1 203.0.113.9 chat.example.com" {
		t.Errorf("%d %q", w.Code, got)
	}
	service.Close()
	w = httptest.NewRecorder()
	site.Pilotoo.Upstream.ServeHTTP(w, prepared(http.MethodGet, "/agents"))
	if w.Code != http.StatusBadGateway || w.Body.Len() > 0 {
		t.Errorf("a service that is away: %d %s", w.Code, w.Body)
	}
}
