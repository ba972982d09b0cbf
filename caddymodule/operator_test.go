package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// What changes something is not for pages of other origins, whatever a browser
// sends along for them.
func TestAdminActsForNoForeignPage(t *testing.T) {
	hubIn(t, t.TempDir())
	api, op := admin(), new(Operator)
	op.Path, op.Users = "/ops/", []string{"ada"}
	if err := op.make(); err != nil {
		t.Fatal(err)
	}
	const none = http.StatusNotFound // it came through: there is no such run
	for _, c := range []struct {
		name        string
		head        map[string]string
		admin, site int
	}{
		{"a program", nil, none, 403},
		{"a program with the header", map[string]string{"Parlance-Operator": "act"}, none, none},
		{"the page", map[string]string{"Origin": "http://example.com", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Parlance-Operator": "act"}, none, none},
		{"an older browser's page", map[string]string{"Origin": "http://example.com", "Parlance-Operator": "act"}, none, none},
		{"a form of the same origin", map[string]string{"Origin": "http://example.com", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate"}, 403, 403},
		{"the page behind a proxy that asks for another host", map[string]string{"Origin": "https://chat.example", "Sec-Fetch-Site": "same-origin", "Parlance-Operator": "act"}, none, none},
		{"a form of an older browser", map[string]string{"Origin": "http://evil.example"}, 403, 403},
		{"a page of another port", map[string]string{"Origin": "http://example.com:81", "Sec-Fetch-Site": "same-site", "Parlance-Operator": "act"}, 403, 403},
		{"a page of another site", map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site", "Parlance-Operator": "act"}, 403, 403},
		{"a page without an origin", map[string]string{"Origin": "null", "Parlance-Operator": "act"}, none, 403},
		{"JSON of another kind", map[string]string{"Sec-Fetch-Mode": "cors", "Content-Type": "application/json"}, 403, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, act := range []struct{ method, path string }{
				{"POST", "runs/none/cancel"}, {"POST", "edges/none/drain"}, {"DELETE", "realms/r/threads/none"}, {"POST", "realms/r/threads/none/members/none/close"},
			} {
				send := func(prefix string, serve func(http.ResponseWriter, *http.Request)) int {
					r, w := as("ada", httptest.NewRequest(act.method, "http://example.com"+prefix+act.path, nil)), httptest.NewRecorder()
					for k, v := range c.head {
						r.Header.Set(k, v)
					}
					serve(w, r)
					return w.Code
				}
				if got := send(adminPath, api.ServeHTTP); got != c.admin {
					t.Errorf("%s on the admin endpoint: %d", act.path, got)
				}
				if got := send("/ops/", func(w http.ResponseWriter, r *http.Request) { op.serve(w, r) }); got != c.site {
					t.Errorf("%s on the site: %d", act.path, got)
				}
			}
		})
	}
}

// as is a request by a user whom Caddy has authenticated.
func as(user string, r *http.Request) *http.Request {
	r = r.WithContext(prepared(r.Method, "/").Context())
	if user != "" {
		r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).Set("http.auth.user.id", user)
	}
	return r
}

// The operator's page of a site is there for the users that it names alone, and
// what stands beside it stays the site's.
func TestOperatorOfASite(t *testing.T) {
	h := made(t, "parlance echo {\noperator /ops/* ada \"bob b\"\n}")
	for _, c := range []struct {
		user, path string
		status     int // 0: it is the next handler's
		has        string
	}{
		{"ada", "/ops", 307, ""},
		{"ada", "/ops/", 307, ""},
		{"ada", "/ops/ui", 307, ""},
		{"ada", "/ops/u%69", 307, ""},
		{"ada", "/ops//", 0, ""},
		{"ada", "/ops//stats", 0, ""},
		{"ada", "/ops/x/../stats", 0, ""},
		{"ada", "/ops/./ui/", 0, ""},
		{"ada", "/ops/ui/", 200, "<title>Parlance: operator</title>"},
		{"bob b", "/ops/ui/style.css", 200, ":root"},
		{"ada", "/ops/ui/none", 404, "not found"},
		{"ada", "/ops/edges", 200, "[]"},
		{"ada", "/ops/members", 200, "[]"},
		{"ada", "/ops/pulse", 200, "[]"},
		{"ada", "/ops/find?id=x", 200, "[]"},
		{"ada", "/ops/runs/none", 404, `{"error":"no such run"}`},
		{"ada", "/ops/runs/%2e%2e%2fconfig", 404, `{"error":"no such run"}`},
		{"ada", "/ops/config/", 0, ""},
		{"ada", "/parlance/edges", 0, ""},
		{"ada", "/opsx/ui/", 0, ""},
		{"Ada", "/ops/ui/", 0, ""},
		{"eve", "/ops/edges", 0, ""},
		{"", "/ops/ui/", 0, ""},
		{"", "/ops/", 0, ""},
	} {
		w := httptest.NewRecorder()
		handled := h.Operator.serve(w, as(c.user, httptest.NewRequest("GET", c.path, nil)))
		if handled != (c.status != 0) || handled && (w.Code != c.status || !strings.Contains(w.Body.String(), c.has)) {
			t.Errorf("%q asks for %s: %v, %d %.80s", c.user, c.path, handled, w.Code, w.Body)
		}
		if c.status == 307 && w.Header().Get("Location") != "/ops/ui/" {
			t.Errorf("%s leads to %q", c.path, w.Header().Get("Location"))
		}
	}
}

// The log says who acted from where: of a site the client's address as Caddy knows
// it behind its trusted proxies, of the admin endpoint the peer's.
func TestWhereAnActWasAskedFrom(t *testing.T) {
	r := prepared("POST", "/")
	r.RemoteAddr = "192.0.2.1:1234"
	if got := askedFrom(r); got != "192.0.2.1" {
		t.Errorf("without a client's address: %q", got)
	}
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "203.0.113.9")
	if got := askedFrom(r); got != "203.0.113.9" {
		t.Errorf("behind a proxy: %q", got)
	}
	bare := httptest.NewRequest("POST", "/", nil)
	bare.RemoteAddr = "@"
	if got := askedFrom(bare); got != "@" {
		t.Errorf("on a Unix socket: %q", got)
	}
}
