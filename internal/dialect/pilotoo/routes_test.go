package pilotoo_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// upload stores a picture and returns its id.
func (s *site) upload(t *testing.T, who, body string) string {
	t.Helper()
	resp, out := s.request(t, "POST", "/attachments", who, body, "Content-Type", "image/gif", "X-Name", "a%20b.gif")
	var a struct {
		ID   string `json:"id"`
		Name string `json:"name"`
		Size int    `json:"size"`
	}
	if err := json.Unmarshal([]byte(out), &a); err != nil || resp.StatusCode != http.StatusCreated || a.Size != len(body) || a.Name != "a b.gif" {
		t.Fatalf("PIL-198 POST /attachments: %d %s", resp.StatusCode, out)
	}
	return a.ID
}

func TestAnonymousRoutes(t *testing.T) {
	s := serve(t, nil)
	for path, want := range map[string]string{
		"/health":   `{"status":"ok"}`,
		"/protocol": `{"protocol":{"major":1,"minor":17},"minClientMajor":1}`,
	} {
		resp, body := s.request(t, "GET", path, "", "")
		if resp.StatusCode != http.StatusOK || body != want || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("PIL-195 PIL-196 PIL-198 GET %s: %d %s", path, resp.StatusCode, body)
		}
		if resp, _ := s.request(t, "POST", path, "ann", ""); resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, resp.StatusCode)
		}
	}
}

func TestOtherRoutesWantIdentity(t *testing.T) {
	s := serve(t, nil)
	for _, path := range []string{"/conversations", "/agents", "/agent-admin", "/attachments", "/presentations", "/usage", "/schedules", "/model-gateway", "/agents/a/b"} {
		resp, body := s.request(t, "GET", path, "", "")
		if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(body, `"code"`) {
			t.Errorf("PIL-197 GET %s by nobody: %d %s", path, resp.StatusCode, body)
		}
		resp, body = s.request(t, "GET", path, "ann", "")
		switch {
		case path == "/conversations":
			if resp.StatusCode != http.StatusOK {
				t.Errorf("PIL-198 GET %s: %d", path, resp.StatusCode)
			}
		case path == "/attachments":
			if resp.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("PIL-198 GET %s: %d", path, resp.StatusCode)
			}
		case resp.StatusCode != http.StatusNotImplemented || !strings.Contains(body, "upstream"):
			t.Errorf("PIL-198 GET %s: %d %s", path, resp.StatusCode, body)
		}
	}
	if resp, _ := s.request(t, "GET", "/agentsmith", "ann", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a path that is no route: %d", resp.StatusCode)
	}
}

func TestUpstreamTakesTheRest(t *testing.T) {
	s := serve(t, func(c *edge.Site) {
		c.Pilotoo.Upstream = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "up "+r.URL.Path) })
	})
	if resp, body := s.request(t, "GET", "/usage/today", "ann", ""); resp.StatusCode != http.StatusOK || body != "up /usage/today" {
		t.Errorf("PIL-198 %d %s", resp.StatusCode, body)
	}
	if resp, body := s.request(t, "GET", "/usage/today", "", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("PIL-197 %d %s", resp.StatusCode, body)
	}
}

func TestConversations(t *testing.T) {
	s := serve(t, nil)
	type conversation struct {
		ID        string `json:"id"`
		Title     string `json:"title"`
		CreatedAt string `json:"createdAt"`
	}
	var made []string
	for _, title := range []string{"one", "two", "three"} {
		resp, body := s.request(t, "POST", "/conversations", "ann", `{"title":"`+title+`"}`)
		var c conversation
		if err := json.Unmarshal([]byte(body), &c); err != nil || resp.StatusCode != http.StatusCreated || c.Title != title {
			t.Fatalf("PIL-198 %d %s", resp.StatusCode, body)
		}
		made = append(made, c.ID)
	}
	var got []string
	for after := ""; ; {
		resp, body := s.request(t, "GET", "/conversations?limit=2&after="+after, "ann", "")
		var page struct {
			Conversations []conversation `json:"conversations"`
			Next          string         `json:"next"`
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil || resp.StatusCode != http.StatusOK || len(page.Conversations) > 2 {
			t.Fatalf("PIL-198 %d %s", resp.StatusCode, body)
		}
		for _, c := range page.Conversations {
			got = append(got, c.ID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(got) != 3 || got[0] != made[2] || got[2] != made[0] {
		t.Errorf("PIL-198 the pages hold %v, want %v from its end", got, made)
	}
	if _, body := s.request(t, "GET", "/conversations", "bob", ""); !strings.Contains(body, `"conversations":[]`) {
		t.Errorf("PIL-045 another is shown %s", body)
	}
	path := "/conversations/" + made[0]
	for _, who := range []string{"bob", "ann"} {
		want := map[string]int{"bob": http.StatusNotFound, "ann": http.StatusOK}[who]
		if resp, body := s.request(t, "GET", path, who, ""); resp.StatusCode != want {
			t.Errorf("PIL-045 PIL-198 GET by %s: %d %s", who, resp.StatusCode, body)
		}
		if resp, body := s.request(t, "DELETE", path, who, ""); (resp.StatusCode == http.StatusNoContent) != (who == "ann") {
			t.Errorf("PIL-045 PIL-198 DELETE by %s: %d %s", who, resp.StatusCode, body)
		}
	}
	if resp, _ := s.request(t, "GET", path, "ann", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("PIL-198 GET after DELETE: %d", resp.StatusCode)
	}
	for name, after := range map[string]string{"a deleted one": made[0], "another's": s.thread(t, "bob"), "one that never was": "never"} {
		if resp, body := s.request(t, "GET", "/conversations?after="+after, "ann", ""); resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "CONVERSATION_NOT_FOUND") {
			t.Errorf("PIL-045 PIL-198 the page after %s: %d %s", name, resp.StatusCode, body)
		}
	}
	if resp, body := s.request(t, "GET", "/conversations?after="+made[1], "ann", ""); resp.StatusCode != http.StatusOK || body != `{"conversations":[]}` {
		t.Errorf("PIL-198 the page after the last: %d %s", resp.StatusCode, body)
	}
	for name, body := range map[string]string{"PIL-002 an unknown key": `{"owner":"bob"}`, "no JSON": `{`, "no object": `[]`} {
		if resp, out := s.request(t, "POST", "/conversations", "ann", body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(out, "INVALID_COMMAND") {
			t.Errorf("%s: %d %s", name, resp.StatusCode, out)
		}
	}
	if resp, _ := s.request(t, "POST", "/conversations", "ann", `{"title":"`+strings.Repeat("x", 1<<20)+`"}`); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: %d", resp.StatusCode)
	}
	for id, path := range map[string]string{"ends/": "ends%2F", "a b": "a%20b", "é/%?": "%C3%A9%2F%25%3F"} {
		if resp, body := s.request(t, "POST", "/conversations", "ann", `{"id":"`+id+`"}`); resp.StatusCode != http.StatusCreated {
			t.Errorf("PIL-198 POST of the id %q: %d %s", id, resp.StatusCode, body)
		}
		if resp, body := s.request(t, "GET", "/conversations/"+path, "ann", ""); resp.StatusCode != http.StatusOK || !strings.Contains(body, id) {
			t.Errorf("PIL-198 GET of the id %q: %d %s", id, resp.StatusCode, body)
		}
	}
}

func TestUploads(t *testing.T) {
	s := serve(t, nil)
	id := s.upload(t, "ann", gif)
	resp, body := s.request(t, "GET", "/attachments/"+id, "ann", "")
	h := resp.Header
	if resp.StatusCode != http.StatusOK || body != gif || h.Get("Content-Type") != "image/gif" ||
		h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") ||
		!strings.Contains(h.Get("Cache-Control"), "private") || !strings.Contains(h.Get("Content-Disposition"), "a b.gif") {
		t.Errorf("PIL-198 GET: %d %q %v", resp.StatusCode, body, h)
	}
	for _, who := range []string{"bob", "ann"} {
		path := map[string]string{"bob": id, "ann": "0b0f7a52-94b5-4a3a-9a53-0d0e0f0a0b0c"}[who]
		if resp, body := s.request(t, "GET", "/attachments/"+path, who, ""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("PIL-045 GET of another's or an unknown upload: %d %s", resp.StatusCode, body)
		}
	}
	big := make([]byte, 5<<20+1)
	copy(big, gif)
	cases := []struct {
		name, mediaType, body string
		status                int
	}{
		{"PIL-051 another type", "text/html", gif, http.StatusUnsupportedMediaType},
		{"PIL-051 no type", "", gif, http.StatusUnsupportedMediaType},
		{"PIL-054 a gif that says it is a png", "image/png", gif, http.StatusBadRequest},
		{"PIL-054 a page that says it is a gif", "image/gif", "<html>", http.StatusBadRequest},
		{"PIL-052 one byte too many", "image/gif", string(big), http.StatusRequestEntityTooLarge},
		{"PIL-052 exactly 5 MiB", "image/gif", string(big[:5<<20]), http.StatusCreated},
	}
	for _, c := range cases {
		if resp, body := s.request(t, "POST", "/attachments", "ann", c.body, "Content-Type", c.mediaType); resp.StatusCode != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, resp.StatusCode, body, c.status)
		}
	}
}

// Files of many edges need a storage that all of them share.
func TestUploadsWithoutSharedStorage(t *testing.T) {
	server := redistest.Start(t)
	j, err := redisjournal.Open(redisjournal.Options{Addresses: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	s := serveOn(t, j, nil)
	resp, body := s.request(t, "POST", "/attachments", "ann", gif, "Content-Type", "image/gif")
	if resp.StatusCode != http.StatusNotImplemented || !strings.Contains(body, "storage") {
		t.Errorf("PIL-198 POST: %d %s", resp.StatusCode, body)
	}
}

// A browser sends its cookie from any page: what changes something wants to
// come from our own.
func TestForeignPagesChangeNothing(t *testing.T) {
	s := serve(t, nil)
	cases := []struct {
		name           string
		method, origin string
		site           string
		status         int
	}{
		{"a foreign page posts", "POST", "https://evil.example", "cross-site", http.StatusForbidden},
		{"without the newer header", "POST", "https://evil.example", "", http.StatusForbidden},
		{"an opaque page posts", "POST", "null", "", http.StatusForbidden},
		{"our own page posts", "POST", s.url, "same-origin", http.StatusCreated},
		{"a foreign page reads", "GET", "https://evil.example", "cross-site", http.StatusOK},
	}
	for _, c := range cases {
		headers := []string{"Cookie", "parlance=ann", "Origin", c.origin}
		if c.site != "" {
			headers = append(headers, "Sec-Fetch-Site", c.site)
		}
		if resp, body := s.request(t, c.method, "/conversations", "", "", headers...); resp.StatusCode != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, resp.StatusCode, body, c.status)
		}
	}
	if resp, _ := s.request(t, "POST", "/conversations", "ann", "", "Origin", "https://app.example"); resp.StatusCode != http.StatusCreated {
		t.Errorf("a token from another origin: %d", resp.StatusCode)
	}
}

// A page of another host that the site names reads and changes with a token;
// any other page's browser is told nothing that lets it.
func TestPagesOfNamedHostsUseTheRoutes(t *testing.T) {
	const named = "https://app.example"
	s := serve(t, func(c *edge.Site) {
		c.Origins = func(origin string, _ *http.Request) bool { return origin == named }
		c.Pilotoo.Upstream = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	})
	closed := serve(t, nil)
	cases := []struct {
		name         string
		site         *site
		method, path string
		who, origin  string
		status       int
		readable     bool
	}{
		{"a preflight of a named page", s, "OPTIONS", "/conversations", "", named, http.StatusNoContent, true},
		{"its request", s, "POST", "/conversations", "ann", named, http.StatusCreated, true},
		{"its request without a token", s, "GET", "/conversations", "", named, http.StatusUnauthorized, true},
		{"what anybody may read", s, "GET", "/protocol", "", named, http.StatusOK, true},
		{"a preflight of another page", s, "OPTIONS", "/conversations", "", "https://evil.example", http.StatusUnauthorized, false},
		{"a request of another page", s, "GET", "/conversations", "ann", "https://evil.example", http.StatusOK, false},
		{"a preflight for an upstream", s, "OPTIONS", "/usage", "", named, http.StatusUnauthorized, false},
		{"an upstream's answer", s, "GET", "/usage", "ann", named, http.StatusOK, false},
		{"a site that names nobody", closed, "OPTIONS", "/conversations", "", named, http.StatusUnauthorized, false},
	}
	for _, c := range cases {
		headers := []string{"Origin", c.origin}
		if c.method == "OPTIONS" {
			headers = append(headers, "Access-Control-Request-Method", "POST")
		}
		resp, body := c.site.request(t, c.method, c.path, c.who, "", headers...)
		if resp.StatusCode != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, resp.StatusCode, body, c.status)
		}
		want := map[bool]string{true: named}[c.readable]
		if got := resp.Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("%s: readable for %q, want %q", c.name, got, want)
		}
	}
}
