package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestProbes holds what a load balancer is told, and where.
func TestProbes(t *testing.T) {
	h := made(t, "parlance echo {\nhealth /livez\n}")
	h.app = &App{current: make(chan struct{}), ended: make(chan struct{})}
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusTeapot)
		return nil
	})
	probe := func(method, path string, status int, body string) {
		t.Helper()
		w := httptest.NewRecorder()
		if err := h.ServeHTTP(w, prepared(method, path), next); err != nil {
			t.Fatal(err)
		}
		if w.Code != status || w.Body.String() != body {
			t.Errorf("%s %s is %d %q, want %d %q", method, path, w.Code, w.Body, status, body)
		}
		if retry := w.Header().Get("Retry-After"); (retry != "") != (w.Code == http.StatusServiceUnavailable) {
			t.Errorf("%s %s: Retry-After is %q", method, path, retry)
		}
		if w.Code != http.StatusTeapot && w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s may be cached", method, path)
		}
	}
	probe("GET", "/livez", 200, "ok\n")
	probe("GET", "/ready", 503, "starting\n")
	p := hubIn(t, t.TempDir())
	h.app.hub = p
	close(h.app.current)
	probe("GET", "/ready", 200, "ready\n")
	probe("HEAD", "/ready", 200, "")
	probe("HEAD", "/livez", 200, "")
	probe("POST", "/ready", 405, "")
	probe("DELETE", "/livez", 405, "")
	probe("GET", "/ready/", 418, "")
	probe("GET", "/readyz", 418, "")
	p.letGo()
	probe("GET", "/ready", 503, "draining\n")
	probe("HEAD", "/ready", 503, "")
	probe("GET", "/livez", 200, "ok\n")
}

// TestProbePaths holds where the probes are.
func TestProbePaths(t *testing.T) {
	for _, c := range []struct{ name, block, health, ready string }{
		{"by default", "", "", "/ready"},
		{"behind a prefix", "pilotoo {\nroutes /chat/*\n}", "", "/chat/ready"},
		{"without routes", "pilotoo {\nroutes off\n}", "", ""},
		{"named, without routes", "pilotoo {\nroutes off\n}\nhealth /livez\nready /readyz", "/livez", "/readyz"},
		{"off", "ready off", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := made(t, "parlance echo {\n"+c.block+"\n}")
			if h.health != c.health || h.ready != c.ready {
				t.Errorf("%q, %q", h.health, h.ready)
			}
		})
	}
}
