package caddymodule

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// admin is the admin endpoint's own routes, as Caddy puts them up.
func admin() http.Handler {
	mux := http.NewServeMux()
	for _, route := range new(AdminAPI).Routes() {
		mux.HandleFunc(route.Pattern, func(w http.ResponseWriter, r *http.Request) {
			err := route.Handler.ServeHTTP(w, r)
			if err == nil {
				return
			}
			var e caddy.APIError
			if !errors.As(err, &e) {
				e.HTTPStatus = http.StatusInternalServerError
			}
			w.WriteHeader(e.HTTPStatus)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": e.Err.Error()})
		})
	}
	return mux
}

func ask(t *testing.T, h http.Handler, method, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil).WithContext(t.Context()))
	return w.Code, strings.TrimSpace(w.Body.String())
}

// hubIn takes the hub of a folder for the time of a test.
func hubIn(t *testing.T, dir string) *pooled {
	t.Helper()
	at, err := folderPlace(dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := acquire(at, "here", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p.follow(at, slog.New(slog.DiscardHandler), time.Second)
	t.Cleanup(func() {
		if _, err := hubs.Delete(at.key); err != nil {
			t.Error(err)
		}
		leaving.wait(at.key)
	})
	return p
}

// TestAdminRefuses: what is not there, and how not to ask.
func TestAdminRefuses(t *testing.T) {
	hubIn(t, t.TempDir())
	hubIn(t, t.TempDir())
	for _, c := range []struct {
		name, method, path string
		status             int
		want               string
	}{
		{"an unknown thread", "GET", "/parlance/realms/default/threads/none", 404, "no such thread"},
		{"a thread of an unknown realm", "GET", "/parlance/realms/none/threads/none", 404, "no such thread"},
		{"a thread of an unknown tenant", "GET", "/parlance/realms/default/threads/none?tenant=none", 404, "no such thread"},
		{"a thread's id that is none", "GET", "/parlance/realms/default/threads/" + strings.Repeat("a", 200), 404, "no such thread"},
		{"a tenant that is none", "GET", "/parlance/realms/default/threads/a?tenant=%01", 404, "no such thread"},
		{"an unknown run", "GET", "/parlance/runs/none", 404, "no such run"},
		{"a run's id that is none", "GET", "/parlance/runs/%01", 404, "no such run"},
		{"stopping an unknown run", "POST", "/parlance/runs/none/cancel", 404, "no such run, or it has ended"},
		{"stopping what is no run's id", "POST", "/parlance/runs/%01/cancel", 404, "no such run, or it has ended"},
		{"an unknown edge", "POST", "/parlance/edges/none/drain", 404, "no such edge"},
		{"stopping by GET", "GET", "/parlance/runs/none/cancel", 405, "method not allowed"},
		{"draining by GET", "GET", "/parlance/drain", 405, "method not allowed"},
		{"draining by name by GET", "GET", "/parlance/edges/none/drain", 405, "method not allowed"},
		{"reading by POST", "POST", "/parlance/stats", 405, "method not allowed"},
		{"edges by DELETE", "DELETE", "/parlance/edges", 405, "method not allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if status, body := ask(t, admin(), c.method, c.path); status != c.status || body != `{"error":"`+c.want+`"}` {
				t.Errorf("%d %s, want %d %s", status, body, c.status, c.want)
			}
		})
	}
}

// TestAdminNamesJournals: each journal of the process has an entry, in the order
// of their names.
func TestAdminNamesJournals(t *testing.T) {
	a, b := hubIn(t, t.TempDir()), hubIn(t, t.TempDir())
	if b.key.address < a.key.address {
		a, b = b, a
	}
	for _, path := range []string{"/parlance/stats", "/parlance/ready", "/parlance/edges"} {
		status, body := ask(t, admin(), "GET", path)
		var list []struct{ Journal string }
		if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, body)
		}
		if len(list) != 2 || list[0].Journal != "file "+a.key.address || list[1].Journal != "file "+b.key.address {
			t.Errorf("%s: %s", path, body)
		}
	}
}
