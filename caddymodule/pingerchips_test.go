package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/edge"
)

// TestPingerchipsReachesTheSite: what the options come to.
func TestPingerchipsReachesTheSite(t *testing.T) {
	if s := made(t, "parlance echo").site; s.Pingerchips != nil || len(s.Apps) != 0 {
		t.Errorf("by default: %+v %v", s.Pingerchips, s.Apps)
	}
	s := made(t, "parlance echo {\napp k {\nsecret {env.PARLANCE_TEST_SECRET}\n}\n}").site
	if s.Pingerchips == nil || *s.Pingerchips != (edge.Pingerchips{Path: "/socket/", Auth: "/api/chat/auth"}) {
		t.Errorf("with an app only: %+v", s.Pingerchips)
	}
	s = made(t, `parlance echo {
		realm support
		pingerchips /chat/* {
			frame 4MiB
			auth_path off
			replay_multi change
			messages_slot full
			extensions
		}
		app k {
			secret {env.PARLANCE_TEST_SECRET}
			secret {env.PARLANCE_TEST_SECRET_OLD}
			tenant engines
			legacy_tokens
		}
	}`).site
	if *s.Pingerchips != (edge.Pingerchips{Path: "/chat/", Frame: 4 << 20}) || !s.Rules.ReplayApart || !s.Rules.AllMessages || !s.Rules.Extensions {
		t.Errorf("%+v %+v", s.Pingerchips, s.Rules)
	}
	a := s.Apps[0]
	if len(s.Apps) != 1 || a.Key != "k" || a.Realm != "support" || a.Tenant != "engines" || !a.Legacy ||
		len(a.Secrets) != 2 || a.Secrets[0] != testSecret || a.Secrets[1] != testSecret+"-old" {
		t.Errorf("%v of tenant %q in realm %q, %d secrets", s.Apps, a.Tenant, a.Realm, len(a.Secrets))
	}
	if shown := fmt.Sprintf("%v %+v", a.String(), &a); strings.Contains(shown, testSecret) {
		t.Error("an app tells its secret")
	}
}

// TestValidateApps refuses apps that have the right words and make no sense. No
// error repeats a secret.
func TestValidateApps(t *testing.T) {
	app := func(lines ...string) string {
		return "app k {\nsecret {env.PARLANCE_TEST_SECRET}\n" + strings.Join(lines, "\n") + "\n}"
	}
	for _, c := range []struct{ name, block, want string }{
		{"a dialect without an app", "pingerchips /socket/*", "pingerchips: it needs an app"},
		{"a relative path", "pingerchips socket\n" + app(), "pingerchips: a path must begin with /"},
		{"the path of pilotoo", "pingerchips /socket.io/*\n" + app(), "are one in the other"},
		{"a path over pilotoo's", "pingerchips /*\n" + app(), "are one in the other"},
		{"a relative path of tokens", "pingerchips {\nauth_path auth\n}\n" + app(), "pingerchips: auth_path: a path must begin with /"},
		{"replay_multi", "pingerchips {\nreplay_multi all\n}\n" + app(), `replay_multi must be batch or change, not "all"`},
		{"messages_slot", "pingerchips {\nmessages_slot all\n}\n" + app(), `messages_slot must be window or full, not "all"`},
		{"a key with a colon", "app a:b {\nsecret {env.PARLANCE_TEST_SECRET}\n}", "an app's key is not 1 to 128 characters without a colon"},
		{"a key with a control character", "app \"a\x01\" {\nsecret {env.PARLANCE_TEST_SECRET}\n}", "an app's key is not"},
		{"no secret", "app k", `app "k": it has no secret`},
		{"a short secret", "app k {\nsecret hunter2\n}", `app "k": secret: it has fewer than 16 bytes`},
		{"a missing secret", "app k {\nsecret hunter2-{env.PARLANCE_TEST_NOTHING}\n}", `app "k": secret: a placeholder in it is unknown or empty`},
		{"three secrets", app("secret hunter2-hunter2-hunter2", "secret hunter2-hunter2-hunter3"), `app "k": more than two secrets`},
		{"one secret twice", app("secret {env.PARLANCE_TEST_SECRET}"), `app "k": secret: both are the same`},
		{"a tenant with a control character", app("tenant \"a\x01\""), `app "k": tenant: not a name`},
		{"one app twice", app() + "\n" + app(), `app "k" is there twice`},
		{"PIN-024 two apps of one realm and tenant", app() + "\napp l {\nsecret {env.PARLANCE_TEST_SECRET_OLD}\n}", "would share the threads"},
		{"PIN-024 two apps of two tenants", app() + "\napp l {\nsecret {env.PARLANCE_TEST_SECRET_OLD}\ntenant b\n}", ""},
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

// TestValidateAppsJSON refuses what only JSON can say.
func TestValidateAppsJSON(t *testing.T) {
	for _, c := range []struct{ name, keys, want string }{
		{"a null app", `"apps":[null]`, "an app is null"},
		{"an unknown key", `"apps":[{"key":"k","secret":"hunter2"}]`, "unknown field"},
		{"a negative frame", `"apps":[{"key":"k","secrets":["{env.PARLANCE_TEST_SECRET}"]}],"pingerchips":{"frame":-1}`, "pingerchips: frame must not be negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := validateJSON([]byte(`{"apps":{"http":{"servers":{"s":{"listen":["127.0.0.1:0"],"routes":[{"handle":[` +
				`{"handler":"parlance","agents":[{"kind":"echo"}],` + c.keys + `}]}]}}}}}`))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got the error %v, want one with %q", err, c.want)
			}
			noSecret(t, err)
		})
	}
}

// TestAppsTogether holds what apps of two handlers may have in common (PIN-024).
func TestAppsTogether(t *testing.T) {
	block := func(realm, app, secret string) string {
		return fmt.Sprintf("parlance echo {\nrealm %s\napp %s {\nsecret {env.%s}\n}\n}", realm, app, secret)
	}
	one := block("a", "k", "PARLANCE_TEST_SECRET")
	for _, c := range []struct{ name, b, want string }{
		{"the same app", one, ""},
		{"one key of two secrets", block("a", "k", "PARLANCE_TEST_SECRET_OLD"), "configured in two ways"},
		{"two apps of one tenant", block("a", "l", "PARLANCE_TEST_SECRET"), "would share the threads"},
		{"one key in two realms", block("b", "k", "PARLANCE_TEST_SECRET_OLD"), ""},
	} {
		t.Run("PIN-024 "+c.name, func(t *testing.T) {
			err := validate(t, "http://a.example.com {\n"+one+"\n}\nhttp://b.example.com:8081 {\n"+c.b+"\n}")
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got the error %v, want one with %q", err, c.want)
			}
			noSecret(t, err)
		})
	}
}

// TestOpens: which requests would open a socket, and so wait for readiness.
func TestOpens(t *testing.T) {
	h := made(t, "parlance echo {\napp k {\nsecret {env.PARLANCE_TEST_SECRET}\n}\n}")
	polling := prepared(http.MethodGet, "/socket/longpoll?vsn=2.0.0")
	polling.Header.Set("X-Phoenix-Longpoll-Token", "t")
	for _, c := range []struct {
		name string
		r    *http.Request
		want bool
	}{
		{"a Socket.IO handshake", prepared(http.MethodGet, "/socket.io/?EIO=4&transport=polling"), true},
		{"a poll of an open one", prepared(http.MethodGet, "/socket.io/?EIO=4&transport=polling&sid=s"), false},
		{"a Phoenix WebSocket", prepared(http.MethodGet, "/socket/websocket?vsn=2.0.0"), true},
		{"a Phoenix polling socket", prepared(http.MethodGet, "/socket/longpoll?vsn=2.0.0"), true},
		{"a poll of an open one, token in the query", prepared(http.MethodGet, "/socket/longpoll?vsn=2.0.0&token=t"), false},
		{"a poll of an open one, token in a header", polling, false},
		{"a post to an open one", prepared(http.MethodPost, "/socket/longpoll?vsn=2.0.0"), false},
		{"something beside", prepared(http.MethodGet, "/socket/else"), false},
		{"another path", prepared(http.MethodGet, "/"), false},
	} {
		if got := h.opens(c.r); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if made(t, "parlance echo").opens(prepared(http.MethodGet, "/socket/websocket")) {
		t.Error("without an app nothing opens there")
	}
}

// TestValidateSocketAgents refuses agents that could not dial in.
func TestValidateSocketAgents(t *testing.T) {
	app := "app k {\nsecret {env.PARLANCE_TEST_SECRET}\n}"
	redis := "{\nparlance {\njournal redis redis://localhost\n}\n}\n"
	for _, c := range []struct{ name, before, block, want string }{
		{"with an app", "", "agent w socket\n" + app, ""},
		{"without limit", "", "agent w socket {\nidle none\n}\n" + app, ""},
		{"without an app", "", "agent w socket", `agent "w": it joins by the secret of an app`},
		{"on a journal in Redis", redis, "agent w socket\n" + app, ""},
		{"woken", "", "agent w socket {\nwake http://worker:9000/wake {\nsecret {env.PARLANCE_TEST_SECRET}\n}\n}\n" + app, ""},
		{"woken without a signature", "", "agent w socket {\nwake http://worker:9000/wake\n}\n" + app, `agent "w": wake: it has no secret`},
		{"woken with a short secret", "", "agent w socket {\nwake http://worker:9000/wake {\nsecret hunter2\n}\n}\n" + app, `agent "w": wake: secret: it has fewer than 16 bytes`},
		{"woken nowhere", "", "agent w socket {\nwake ftp://worker/wake {\nsecret {env.PARLANCE_TEST_SECRET}\n}\n}\n" + app, `agent "w": wake: it is no address`},
		{"woken with a password in the address", "", "agent w socket {\nwake https://u:hunter2@worker/wake {\nsecret {env.PARLANCE_TEST_SECRET}\n}\n}\n" + app, `agent "w": wake: it is no address`},
		{"woken too patiently", "", "agent w socket {\nwake https://worker/wake {\nsecret {env.PARLANCE_TEST_SECRET}\ntimeout 2m\n}\n}\n" + app, `agent "w": wake: timeout must be above 0 and at most 1m0s`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := validate(t, c.before+"http://chat.example.com {\nparlance {\n"+c.block+"\n}\n}")
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got the error %v, want one with %q", err, c.want)
			}
		})
	}
}
