package pingerchips_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/identity"
)

func withAuth(s *edge.Site) {
	s.Pingerchips = &edge.Pingerchips{Path: "/socket/", Auth: "/api/chat/auth"}
}

// ask sends a request for a token; header are names and values.
func (s *site) ask(method, body string, header ...string) (int, http.Header, map[string]any) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+"/api/chat/auth", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Content-Type" {
			r.Header.Del(header[i])
		}
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		s.t.Fatalf("%d %q: %v", resp.StatusCode, b, err)
	}
	return resp.StatusCode, resp.Header, m
}

// PIN-254: a back end that holds the secret gets tokens for its users.
func TestAuthMints(t *testing.T) {
	s := serve(t, withAuth)
	apps := identity.Apps(func(key string) *identity.App {
		for i := range s.config.Apps {
			if s.config.Apps[i].Key == key {
				return &s.config.Apps[i]
			}
		}
		return nil
	})
	user := identity.VerbsOf(identity.Subscribe, identity.UserMessage, identity.CancelOwn, identity.ToolApproval)
	for _, c := range []struct {
		name, body string
		client     string
		verbs      identity.Verbs
		life       time.Duration
	}{
		{"a user's", `{"thread_id":"t:1","client_id":"ada","socket_id":"s.1"}`, "ada", user, time.Hour},
		{"of nobody", `{"thread_id":"t:1","client_id":null}`, "chosen", user, time.Hour},
		{"to read only", `{"thread_id":"t:1","client_id":"ada","capabilities":["subscribe"]}`, "ada", identity.VerbsOf(identity.Subscribe), time.Hour},
		{"for a minute", `{"thread_id":"t:1","client_id":"ada","ttl":60}`, "ada", user, time.Minute},
		{"with what nobody asks for", `{"thread_id":"t:1","client_id":"ada","x":1}`, "ada", user, time.Hour},
	} {
		t.Run("PIN-254 "+c.name, func(t *testing.T) {
			status, header, m := s.ask("POST", c.body, "X-App-Key", "pk_live_x", "X-App-Secret", secret)
			token, _ := m["auth"].(string)
			if status != 200 || token == "" || len(m) != 1 {
				t.Fatalf("%d %v", status, m)
			}
			if header.Get("Cache-Control") != "no-store" || header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%v", header)
			}
			in := identity.Join{AppKey: "pk_live_x", Thread: "t:1", Auth: token, ClientID: "chosen"}
			j, err := apps.Join(in, time.Now().Add(c.life-5*time.Second))
			if err != nil || j.Subject.ID != c.client || j.Caps.On("t:1") != c.verbs || j.Caps.On("t2") != 0 {
				t.Errorf("%v %v %v %v", j.Subject, j.Caps.On("t:1").List(), j.Caps.On("t2").List(), err)
			}
			if _, err := apps.Join(in, time.Now().Add(c.life+5*time.Second)); err == nil {
				t.Error("it holds for longer")
			}
		})
	}
}

// PIN-254: whoever does not hold the secret learns nothing, and nobody gets a
// token that reaches further than its thread or a client's verbs.
func TestAuthRefuses(t *testing.T) {
	s := serve(t, withAuth)
	body := `{"thread_id":"t","client_id":"ada"}`
	good := []string{"X-App-Key", "pk_live_x", "X-App-Secret", secret}
	for _, c := range []struct {
		name, method, body string
		header             []string
		status             int
		reason             string
	}{
		{"no key", "POST", body, good[2:], 401, "auth required"},
		{"no secret", "POST", body, good[:2], 401, "auth required"},
		{"an empty secret", "POST", body, []string{"X-App-Key", "pk_live_x", "X-App-Secret", ""}, 401, "auth required"},
		{"two secrets", "POST", body, append(good[:4:4], "X-App-Secret", "guess"), 401, "auth required"},
		{"a wrong secret", "POST", body, []string{"X-App-Key", "pk_live_x", "X-App-Secret", "guess"}, 401, "invalid secret"},
		{"an app nobody knows", "POST", body, []string{"X-App-Key", "pk_none", "X-App-Secret", secret}, 401, "invalid secret"},
		{"another app's secret", "POST", body, []string{"X-App-Key", "pk_live_x", "X-App-Secret", "sk_live_y"}, 401, "invalid secret"},
		{"a GET", "GET", "", good, 405, "method not allowed"},
		{"a preflight", "OPTIONS", "", good, 405, "method not allowed"},
		{"a form", "POST", body, append(good[:4:4], "Content-Type", "application/x-www-form-urlencoded"), 415, "the body is application/json"},
		{"too much", "POST", strings.Repeat(" ", 20<<10) + body, good, 413, "the body is too large"},
		{"no JSON", "POST", "thread_id=t", good, 400, "invalid payload"},
		{"a name twice", "POST", `{"thread_id":"t","thread_id":"u"}`, good, 400, "invalid payload"},
		{"no thread", "POST", `{"client_id":"ada"}`, good, 400, "invalid payload"},
		{"every thread", "POST", `{"thread_id":"*","client_id":"ada"}`, good, 400, "invalid payload"},
		{"an empty client", "POST", `{"thread_id":"t","client_id":""}`, good, 400, "invalid payload"},
		{"PIN-190 an agent's verb", "POST", `{"thread_id":"t","capabilities":["publish:token"]}`, good, 400, "invalid payload"},
		{"another dialect's verb", "POST", `{"thread_id":"t","capabilities":["delete"]}`, good, 400, "invalid payload"},
		{"capabilities that are no list", "POST", `{"thread_id":"t","capabilities":"subscribe"}`, good, 400, "invalid payload"},
		{"no time", "POST", `{"thread_id":"t","ttl":0}`, good, 400, "invalid payload"},
		{"half a second", "POST", `{"thread_id":"t","ttl":0.5}`, good, 400, "invalid payload"},
		{"a year", "POST", `{"thread_id":"t","ttl":31536000}`, good, 400, "invalid payload"},
	} {
		t.Run("PIN-254 "+c.name, func(t *testing.T) {
			status, _, m := s.ask(c.method, c.body, c.header...)
			if status != c.status || m["reason"] != c.reason || len(m) != 1 {
				t.Errorf("%d %v, want %d %q", status, m, c.status, c.reason)
			}
			if b, _ := json.Marshal(m); bytes.Contains(b, []byte(secret)) {
				t.Error("it tells the secret")
			}
		})
	}
}
