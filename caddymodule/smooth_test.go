package caddymodule

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestSmoothReachesTheSite: what the options come to.
func TestSmoothReachesTheSite(t *testing.T) {
	if s := made(t, "parlance echo").site; s.Smooth != nil {
		t.Errorf("by default: %+v", s.Smooth)
	}
	s := made(t, "parlance echo {\nsmooth\n}").site.Smooth
	if s == nil || s.Path != "/ws" || s.Anonymous || s.CancelOnDisconnect || s.Strict || s.Park != 0 || s.Keepalive != 0 ||
		s.AuthKey != nil || s.Kinds != nil || s.Models != nil || s.Skills != nil || s.IDs != nil {
		t.Errorf("with one word: %+v", s)
	}
	s = made(t, `parlance {
		agent parrot echo
		agent finch echo
		smooth /chat/ws {
			agents parrot finch
			agent_origins parrot https://shop.example *.shop.example
			agent_origins finch *
			extras
			agent_id 7e1f27c6-2a70-4b5e-9b69-6c20e8a3c9d1 parrot
			anonymous
			park none
			on_disconnect cancel
			keepalive 10s
			strict
			models small
			models big-*
			skills *
			auth_key {env.PARLANCE_TEST_SECRET}
			interaction survey {
				capability survey_card
				description "Ask what the user thinks."
				spec testdata/survey.spec.json
				values testdata/survey.values.json
			}
		}
	}`).site.Smooth
	if s.Path != "/chat/ws" || !s.Anonymous || !s.CancelOnDisconnect || !s.Strict || s.Park >= 0 || s.Keepalive != 10*time.Second ||
		!slices.Equal(s.Models, []string{"small", "big-*"}) || !slices.Equal(s.Skills, []string{"*"}) ||
		s.IDs["7e1f27c6-2a70-4b5e-9b69-6c20e8a3c9d1"] != "parrot" {
		t.Errorf("%+v", s)
	}
	if !s.Extras || !slices.Equal(s.Allowed, []string{"parrot", "finch"}) {
		t.Errorf("SMO-052 SMO-229 %+v", s)
	}
	for origin, want := range map[string]bool{"https://shop.example": true, "http://shop.example": false, "https://a.shop.example": true, "https://evil.example": false, "": false, "null": false} {
		if s.Origins["parrot"](origin) != want || !s.Origins["finch"](origin) {
			t.Errorf("SMO-052 the page of %q", origin)
		}
	}
	if string(s.AuthKey) != testSecret {
		t.Error("auth_key is not what its placeholder stands for")
	}
	if len(s.Kinds) != 1 {
		t.Fatalf("%d kinds", len(s.Kinds))
	}
	k := s.Kinds[0]
	if k.Name != "survey" || k.Capability != "survey_card" || k.Description != "Ask what the user thinks." ||
		string(k.Spec) != `{"type":"object","properties":{"question":{"type":"string"}},"required":["question"]}` ||
		!strings.Contains(string(k.Values), `"maximum":5`) {
		t.Errorf("%+v", k)
	}
	if s := made(t, "parlance echo {\nsmooth {\non_disconnect continue\npark 2m\nkeepalive none\n}\n}").site.Smooth; s.CancelOnDisconnect || s.Park != 2*time.Minute || s.Keepalive >= 0 {
		t.Errorf("%+v", s)
	}
}

// TestValidateSmooth refuses what has the right words and makes no sense. No
// error repeats a secret.
func TestValidateSmooth(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	long := file("long.json", `{"a":"`+strings.Repeat("a", maxSchema)+`"}`)
	list := file("list.json", `["hunter2"]`)
	two := file("two.json", `{} {"hunter2":1}`)
	smooth := func(lines ...string) string { return "smooth {\n" + strings.Join(lines, "\n") + "\n}" }
	card := func(lines ...string) string {
		return smooth(append(append([]string{"interaction survey {", "capability c", "description d"}, lines...), "}")...)
	}
	for _, c := range []struct{ name, block, want string }{
		{"one word", "smooth", ""},
		{"a relative path", "smooth ws", "smooth: a path must begin with /"},
		{"a path of many", "smooth /ws/*", "smooth: a path names one resource"},
		{"a path of pilotoo", "smooth /socket.io/ws", "smooth: its path /socket.io/ws is pilotoo's too"},
		{"a route of pilotoo", "smooth /conversations", "smooth: its path /conversations is a route of pilotoo too"},
		{"the path of readiness", "ready /up\nsmooth /up", "smooth: its path /up is a load balancer's too"},
		{"a path of pingerchips", "smooth /socket/websocket\napp k {\nsecret {env.PARLANCE_TEST_SECRET}\n}", "is pingerchips' too"},
		{"an agent id of nobody", smooth("agent_id a parrot"), `smooth: agent_id "a" means "parrot", and no agent has that name`},
		{"on_disconnect", smooth("on_disconnect wait"), `smooth: on_disconnect must be cancel or continue, not "wait"`},
		{"agents", smooth("agents finch"), `smooth: agents names "finch", and no agent has that name`},
		{"agent_origins", smooth("agent_origins finch *"), `smooth: agent_origins names "finch", and no agent has that name`},
		{"an origin of an agent", smooth("agent_origins echo https://a.example/x"), `smooth: agent_origins of "echo": "https://a.example/x" is no origin`},
		{"otp_resume", smooth("otp_resume later"), `smooth: otp_resume must be park or resend, not "later"`},
		{"otp_resume without a service", smooth("otp_resume resend"), "smooth: otp_resume needs an otp block"},
		{"a pattern", smooth("models [a"), `smooth: "[a" is no pattern`},
		{"a short auth_key", smooth("auth_key hunter2"), "smooth: auth_key: it has fewer than 16 bytes"},
		{"a missing auth_key", smooth("auth_key hunter2-{env.PARLANCE_TEST_NOTHING}"), "smooth: auth_key: a placeholder in it is unknown or empty"},
		{"a kind of capitals", smooth("interaction Survey"), `smooth: interaction "Survey": a kind is at most 48 small letters`},
		{"a kind of the dialect", smooth("interaction choices"), `smooth: interaction "choices" is the dialect's own`},
		{"no capability", smooth("interaction survey"), `smooth: interaction "survey": it has no capability: write`},
		{"no description", smooth("interaction survey {\ncapability c\n}"), `smooth: interaction "survey": it has no description: write`},
		{"no file", card("spec " + filepath.Join(dir, "none.json")), "no such file"},
		{"a long file", card("values " + long), "values: " + long + " has more than 65536 bytes"},
		{"a list", card("spec " + list), "spec: " + list + " is no JSON Schema"},
		{"two values", card("spec " + two), "spec: " + two + " is no JSON Schema"},
		{"a kind twice", smooth("interaction survey {\ncapability c\ndescription d\n}", "interaction survey {\ncapability c\ndescription d\n}"), `interaction "survey" is there twice`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := validate(t, "http://chat.example.com {\nparlance echo {\n"+c.block+"\n}\n}")
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got the error %v, want one with %q", err, c.want)
			}
			noSecret(t, err)
		})
	}
}

// TestValidateSmoothJSON refuses what only JSON can say.
func TestValidateSmoothJSON(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`{"kind":"a","capability":"c","description":"d"},`, maxInteractions+1), ",")
	for _, c := range []struct{ name, keys, want string }{
		{"a null interaction", `"interactions":[null]`, "an interaction is null"},
		{"too many", `"interactions":[` + many + `]`, "more than 32 interactions"},
		{"an unknown key", `"parks":1`, "unknown field"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := validateJSON([]byte(`{"apps":{"http":{"servers":{"s":{"listen":["127.0.0.1:0"],"routes":[{"handle":[` +
				`{"handler":"parlance","agents":[{"kind":"echo"}],"smooth":{` + c.keys + `}}]}]}}}}}`))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got the error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestOpensSmooth: which requests wait for readiness.
func TestOpensSmooth(t *testing.T) {
	h := made(t, "parlance echo {\nsmooth /chat/ws\n}")
	for target, want := range map[string]bool{"/chat/ws": true, "/chat/ws?token=t": true, "/chat/ws/": false, "/ws": false, "/": false} {
		if got := h.opens(prepared(http.MethodGet, target)); got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
	if made(t, "parlance echo").opens(prepared(http.MethodGet, "/ws")) {
		t.Error("where it is not configured nothing opens there")
	}
}

// TestTokenStaysOutOfLogs: what Caddy would log with a request's address is
// answered without an error where a token is in it (SMO-016).
func TestTokenStaysOutOfLogs(t *testing.T) {
	h := made(t, "parlance echo {\nsmooth\n}")
	for target, logged := range map[string]bool{"/ws?token=t": false, "/ws": false, "/elsewhere?token=t": false, "/": true} {
		w := httptest.NewRecorder()
		err := h.errStarting(w, prepared(http.MethodGet, target), errors.New("it starts"))
		if _, ok := errors.AsType[caddyhttp.HandlerError](err); ok != logged || !logged && w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %v, answered %d", target, err, w.Code)
		}
	}
	for _, c := range []struct {
		directive string
		server    *caddyhttp.Server
		want      bool
	}{
		{"parlance echo {\nsmooth\nauth caddy\n}", &caddyhttp.Server{Logs: new(caddyhttp.ServerLogConfig)}, true},
		{"parlance echo {\nsmooth\nauth caddy\n}", new(caddyhttp.Server), false},
		{"parlance echo {\nsmooth\nauth caddy\n}", nil, false},
		{"parlance echo {\nsmooth\n}", &caddyhttp.Server{Logs: new(caddyhttp.ServerLogConfig)}, false},
		{"parlance echo {\nauth caddy\n}", &caddyhttp.Server{Logs: new(caddyhttp.ServerLogConfig)}, false},
	} {
		var out bytes.Buffer
		h := made(t, c.directive)
		h.logger = slog.New(slog.NewTextHandler(&out, nil))
		h.tellOfLogs(c.server)
		if got := out.Len() > 0; got != c.want {
			t.Errorf("%s: %s", fmt.Sprintf("%.40q", c.directive), out.String())
		}
	}
}
