package pilotoo_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/identity"
)

func TestPaceOfRequests(t *testing.T) {
	const gif = "GIF89a-----------"
	slow := dialect.Rules{CommandsPerSecond: 1e-6, CommandBurst: 7}
	t.Run("R8 R9 U12 conversations and uploads of one client", func(t *testing.T) {
		s := serve(t, func(c *edge.Site) { c.Rules = slow })
		id := s.upload(t, "ann", gif)
		s.thread(t, "ann")
		s.thread(t, "ann")
		for _, route := range []string{"/conversations", "/attachments"} {
			resp, body := s.request(t, "POST", route, "ann", gif, "Content-Type", "image/gif")
			if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
				t.Errorf("POST %s: %d %s", route, resp.StatusCode, body)
			}
		}
		if resp, _ := s.request(t, "DELETE", "/conversations/x", "ann", ""); resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("DELETE: %d", resp.StatusCode)
		}
		for range 10 {
			if resp, _ := s.request(t, "GET", "/attachments/"+id, "ann", ""); resp.StatusCode != http.StatusOK {
				t.Fatalf("GET: %d", resp.StatusCode)
			}
		}
		s.thread(t, "bob")
	})
	t.Run("R6 a browser that comes without its cookie each time", func(t *testing.T) {
		s := serve(t, func(c *edge.Site) { c.Rules, c.Auth = slow, nil })
		for i := range 9 {
			resp, _ := s.request(t, "POST", "/conversations", "", "")
			if want := i < 7; want != (resp.StatusCode == http.StatusCreated) {
				t.Fatalf("request %d: %d", i, resp.StatusCode)
			}
		}
	})
}

func TestUpgradeFromAnotherSite(t *testing.T) {
	reached := 0
	s := serve(t, func(c *edge.Site) {
		c.Auth = &guests{revoked: map[string]bool{}}
		c.Pilotoo.Upstream = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ })
	})
	send := func(origin string, tls *tls.ConnectionState) int {
		r := httptest.NewRequest("GET", "/agents/x", nil)
		r.TLS = tls
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		r.Header.Set("Origin", origin)
		r.AddCookie(&http.Cookie{Name: identity.CookieName, Value: "ann"})
		w := httptest.NewRecorder()
		s.hub.Serve(s.config, w, r, identity.FromRequest(r))
		return w.Code
	}
	for _, c := range []struct {
		name, origin string
		tls          *tls.ConnectionState
		want         int
	}{
		{"H1 of another host", "https://evil.example", nil, http.StatusForbidden},
		{"H1 of the same", "http://example.com", nil, http.StatusOK},
		{"H1 of plain http where the site has TLS", "http://example.com", &tls.ConnectionState{}, http.StatusForbidden},
		{"H1 of https there", "https://example.com", &tls.ConnectionState{}, http.StatusOK},
		{"H1 null", "null", nil, http.StatusForbidden},
	} {
		before := reached
		if got := send(c.origin, c.tls); got != c.want || (reached > before) != (c.want == http.StatusOK) {
			t.Errorf("%s: %d", c.name, got)
		}
	}
}
