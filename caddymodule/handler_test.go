package caddymodule

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/parlance-gateway/parlance/internal/edge"
)

// prepared is a request as Caddy's server hands it to a handler.
func prepared(method, target string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), nil)
}

// A server that starts before the app keeps its requests waiting; it does not
// answer that there is nothing.
func TestRequestWaitsForStart(t *testing.T) {
	a := &App{current: make(chan struct{}), ended: make(chan struct{})}
	h := &Handler{app: a, site: new(edge.Site)}
	serve := func(ctx context.Context) error {
		return h.ServeHTTP(httptest.NewRecorder(), prepared(http.MethodGet, "/").WithContext(ctx), nil)
	}
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- serve(ctx) }()
	leave()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a request that waited and left got %v", err)
	}
	go func() { done <- a.wait(t.Context()) }()
	close(a.current)
	if err := <-done; err != nil {
		t.Errorf("a request that waited got %v", err)
	}

	a.current = make(chan struct{})
	if err := a.Cleanup(); err != nil {
		t.Error(err)
	}
	if err := serve(t.Context()); !errors.Is(err, errNotCurrent) {
		t.Errorf("a configuration that failed answers %v", err)
	}
}

func TestCredentials(t *testing.T) {
	h := &Handler{cookies: []string{"session"}, metas: []string{"org"}}
	r := prepared(http.MethodGet, "http://chat.example.com/socket.io/")
	r.RemoteAddr = "192.0.2.1:1234"
	r.Header.Set("X-Forwarded-Proto", "https")
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	r.Header.Set("Authorization", "Bearer abc")
	r.AddCookie(&http.Cookie{Name: "session", Value: "s"})
	r.AddCookie(&http.Cookie{Name: "other", Value: "o"})

	c := h.credentials(r)
	if c.RemoteIP != "192.0.2.1" || c.Secure {
		t.Errorf("a proxy is believed that nobody trusts: %q, secure %v", c.RemoteIP, c.Secure)
	}
	if c.CaddyUser != "" || len(c.CaddyMeta) != 0 {
		t.Errorf("a user whom Caddy does not know: %q %v", c.CaddyUser, c.CaddyMeta)
	}
	if c.Token != "abc" || len(c.Cookies) != 1 || c.Cookies[0].Value != "s" {
		t.Errorf("token %q, cookies %v", c.Token, c.Cookies)
	}

	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "203.0.113.9")
	caddyhttp.SetVar(r.Context(), caddyhttp.TrustedProxyVarKey, true)
	repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	repl.Set("http.auth.user.id", "ada")
	repl.Set("http.auth.user.org", "engines")
	repl.Set("http.auth.candidate.id", "eve")
	c = h.credentials(r)
	if c.RemoteIP != "203.0.113.9" || !c.Secure {
		t.Errorf("behind a trusted proxy: %q, secure %v", c.RemoteIP, c.Secure)
	}
	if c.CaddyUser != "ada" || c.CaddyMeta["org"] != "engines" {
		t.Errorf("Caddy's user: %q %v", c.CaddyUser, c.CaddyMeta)
	}
}
