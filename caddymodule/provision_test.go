package caddymodule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// validate provisions a Caddyfile as `caddy validate` does.
func validate(t *testing.T, in string) error {
	t.Helper()
	got, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(in), nil)
	if err != nil {
		t.Fatal(err)
	}
	return validateJSON(got)
}

func validateJSON(in []byte) error {
	var config caddy.Config
	if err := caddy.StrictUnmarshalJSON(in, &config); err != nil {
		return err
	}
	return caddy.Validate(&config)
}

// TestValidate refuses what has the right words and makes no sense. No error
// repeats what may be secret.
func TestValidate(t *testing.T) {
	jwt := "auth jwt {\n%s\nissuer https://id.example.com\naudience chat\n}"
	for _, c := range []struct{ name, block, want string }{
		{"no agent", "realm a", "no agent: write `parlance URL`"},
		{"an agent's name twice", "agent a echo\nagent a echo", `agent "a" is there twice`},
		{"an agent's name with a control character", "agent \"a\x01b\" echo", "an agent's name is not 1 to 128 characters"},
		{"an agent at no address", "agent a agui ftp://localhost", "must be an http or https URL"},
		{"an agent at a missing placeholder", "agent a agui {env.PARLANCE_TEST_NOTHING}", `agent "a": url: a placeholder in it is unknown or empty`},
		{"a header with a missing secret", "agent a agui http://localhost {\nheader Authorization \"Bearer {env.PARLANCE_TEST_NOTHING}\"\n}", `agent "a": header Authorization: a placeholder`},
		{"a header's name", "agent a agui http://localhost {\nheader Author:ization x\n}", ""},
		{"a cancel hook at no address", "agent a agui http://localhost {\ncancel_hook localhost/{threadId}\n}", "the address of the cancel hook must be"},
		{"a pattern of more than *", "agent a agui http://localhost {\nconfirm_tools wipe [a-z]*\n}", `agent "a": confirm_tools: "[a-z]*" is no pattern: only * is special in it`},
		{"an empty pattern", "agent a agui http://localhost {\nconfirm_tools \"\"\n}", `confirm_tools: "" is no pattern: it is empty`},
		{"65 patterns", "agent a agui http://localhost {\nconfirm_tools" + strings.Repeat(" a", 65) + "\n}", "confirm_tools has more than 64 patterns"},
		{"history", "agent a agui http://localhost {\nhistory some\n}", `history must be all, none or a number, not "some"`},
		{"thread", "agent a echo {\nthread other\n}", `thread must be per_branch or same, not "other"`},
		{"agents that differ in thread", "agent a echo {\nthread same\n}\nagent b echo", "differ in thread"},
		{"forward that is no object", "agent a agui http://localhost {\nforward 7\n}", "must be a JSON object"},
		{"todos at no pointer", "agent a agui http://localhost {\ntodos plan\n}", `a JSON pointer such as "/todos"`},

		{"realm", "agent a echo\nrealm \"a\x01\"", "realm: not a name"},
		{"a relative page", "agent a echo\npage demo", "page: a path must begin with /"},
		{"a page without routes", "agent a echo\npage /\npilotoo {\nroutes off\n}", "page: it needs the routes"},
		{"a pattern as a path", "agent a echo\npilotoo /a*b/*", "pilotoo: a path is plain text"},
		{"a relative prefix of routes", "agent a echo\npilotoo {\nroutes chat\n}", "pilotoo: routes: a path must begin with /"},
		{"an upstream without routes", "agent a echo\npilotoo {\nroutes off\nupstream http://localhost\n}", "an upstream needs the routes"},
		{"an upstream at no URL", "agent a echo\npilotoo {\nupstream localhost\n}", "upstream: not an http or https URL"},
		{"a relative path of health", "agent a echo\nhealth livez", "health: a path must begin with /"},
		{"a pattern as the path of ready", "agent a echo\nready /readyz/*", "ready: a path names one resource"},
		{"one path for both probes", "agent a echo\nhealth /z\nready /z", "health and ready need paths of their own"},
		{"while_waiting", "agent a echo\npilotoo {\nwhile_waiting wait\n}", `while_waiting must be withdraw or refuse, not "wait"`},

		{"an origin", "agent a echo\norigins https://app.example.com/path", "is no origin"},
		{"an origin of no page", "agent a echo\norigins ftp://app.example.com", "neither http nor https"},
		{"a pattern in an origin", "agent a echo\norigins app.*.com", "is no origin"},
		{"every origin with a browser's cookie", "agent a echo\norigins *", "would let every web page act as whoever visits it"},
		{"every origin with a token's cookie", "agent a echo\norigins *\n" + fmt.Sprintf(jwt, "secret {env.PARLANCE_TEST_SECRET}\ncookie c"), "would let every web page act"},
		{"every origin with caddy's sign-in", "agent a echo\norigins *\nauth caddy", "would let every web page act"},

		{"jwt without a key", "agent a echo\n" + fmt.Sprintf(jwt, ""), "exactly one of secret, public key and jwks"},
		{"jwt with two kinds of keys", "agent a echo\n" + fmt.Sprintf(jwt, "secret {env.PARLANCE_TEST_SECRET}\njwks https://id.example.com/keys"), "exactly one of"},
		{"jwt with a short secret", "agent a echo\n" + fmt.Sprintf(jwt, "secret hunter2"), "auth jwt: "},
		{"jwt with a missing secret", "agent a echo\n" + fmt.Sprintf(jwt, "secret hunter2-{env.PARLANCE_TEST_NOTHING}"), "auth jwt: secret: a placeholder in it is unknown or empty"},
		{"jwt with a key that is none", "agent a echo\n" + fmt.Sprintf(jwt, "public_key hunter2"), "auth jwt: "},
		{"jwt with keys over http", "agent a echo\n" + fmt.Sprintf(jwt, "jwks http://id.example.com/keys"), "auth jwt: "},
		{"jwt with a wrong algorithm", "agent a echo\n" + fmt.Sprintf(jwt, "secret {env.PARLANCE_TEST_SECRET}\nalgorithms RS256"), "does not fit"},
		{"jwt with too much leeway", "agent a echo\n" + fmt.Sprintf(jwt, "secret {env.PARLANCE_TEST_SECRET}\nleeway 2m"), "leeway must be 0 to 60s"},
		{"jwt without issuer", "agent a echo\nauth jwt {\nsecret {env.PARLANCE_TEST_SECRET}\naudience a\n}", "issuer"},
		{"jwt without audience", "agent a echo\nauth jwt {\nsecret {env.PARLANCE_TEST_SECRET}\nissuer a\n}", "audience is missing"},
		{"a capability that gives nothing", "agent a echo\nauth caddy {\ncapabilities subscribe\n}", `"subscribe" is no capability`},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := "http://chat.example.com {\nparlance {\n" + c.block + "\n}\n}"
			if c.want == "" {
				if _, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(in), nil); err == nil {
					t.Error("it was taken")
				}
				return
			}
			err := validate(t, in)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got the error %v, want one with %q", err, c.want)
			}
			noSecret(t, err)
		})
	}
}

func noSecret(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for _, secret := range []string{"hunter2", testSecret, testToken} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error tells a secret: %v", err)
		}
	}
}

// TestValidateJSON refuses what only JSON can say.
func TestValidateJSON(t *testing.T) {
	echo := `"agents":[{"kind":"echo"}]`
	for _, c := range []struct{ name, app, handler, want string }{
		{"an unknown key", ``, `{"handler":"parlance","reealm":"a",` + echo + `}`, "unknown field"},
		{"an unknown key of an agent", ``, `{"handler":"parlance","agents":[{"kind":"echo","x":1}]}`, "unknown field"},
		{"a null agent", ``, `{"handler":"parlance","agents":[null]}`, "an agent is null"},
		{"a kind of a later version", ``, `{"handler":"parlance","agents":[{"kind":"openai"}]}`, "come with a later version"},
		{"an unknown kind", ``, `{"handler":"parlance","agents":[{"kind":"x"}]}`, `unknown kind "x"`},
		{"echo with a URL", ``, `{"handler":"parlance","agents":[{"kind":"echo","url":"http://localhost"}]}`, "echo has the options delay and thread only"},
		{"agui with a delay", ``, `{"handler":"parlance","agents":[{"kind":"agui","url":"http://localhost","delay":1}]}`, "delay is an option of echo"},
		{"a header with a line break", ``, `{"handler":"parlance","agents":[{"kind":"agui","url":"http://localhost","headers":{"X":["a\r\nhunter2: b"]}}]}`, "characters that a header cannot have"},
		{"a header without a name", ``, `{"handler":"parlance","agents":[{"kind":"agui","url":"http://localhost","headers":{"":["a"]}}]}`, "is no name of a header"},
		{"a negative timeout", ``, `{"handler":"parlance","agents":[{"kind":"agui","url":"http://localhost","timeouts":{"idle":-1}}]}`, "must not be negative"},
		{"a negative size", ``, `{"handler":"parlance","agents":[{"kind":"agui","url":"http://localhost","max_body":-1}]}`, "must not be negative"},
		{"a negative frame", ``, `{"handler":"parlance",` + echo + `,"pilotoo":{"frame":-1}}`, "frame must not be negative"},
		{"routes off and elsewhere", ``, `{"handler":"parlance",` + echo + `,"pilotoo":{"routes":"/a","no_routes":true}}`, "switched off"},
		{"an archive without a time", ``, `{"handler":"parlance",` + echo + `,"archive":{"over":200}}`, "archive: after must be a time above 0"},
		{"an archive of short threads", ``, `{"handler":"parlance",` + echo + `,"archive":{"after":"90d","over":99}}`, "archive: over must be at least 100"},
		{"a negative limit", ``, `{"handler":"parlance",` + echo + `,"limits":{"runs_per_thread":-1}}`, "must not be negative"},
		{"auth of no kind", ``, `{"handler":"parlance",` + echo + `,"auth":[{}]}`, "either jwt or caddy"},
		{"auth of two kinds", ``, `{"handler":"parlance",` + echo + `,"auth":[{"jwt":{},"caddy":{}}]}`, "either jwt or caddy"},
		{"journal redis without options", `"parlance":{"journal":{"kind":"redis"}},`, `{"handler":"parlance",` + echo + `}`, "journal: kind redis needs its options, at least the url"},
		{"journal redis with a folder", `"parlance":{"journal":{"kind":"redis","dir":"/a","redis":{"url":"redis://localhost"}}},`, `{"handler":"parlance",` + echo + `}`, "journal: dir is for kind file"},
		{"journal file with options of redis", `"parlance":{"journal":{"redis":{"url":"redis://localhost"}}},`, `{"handler":"parlance",` + echo + `}`, "journal: options of redis are for kind redis"},
		{"an unknown key of redis", `"parlance":{"journal":{"kind":"redis","redis":{"url":"redis://localhost","passwd":"hunter2"}}},`, `{"handler":"parlance",` + echo + `}`, "unknown field"},
		{"a negative pool", `"parlance":{"journal":{"kind":"redis","redis":{"url":"redis://localhost","pool":-1}}},`, `{"handler":"parlance",` + echo + `}`, "journal: redis: pool must be 1 to 4096"},
		{"journal of no kind", `"parlance":{"journal":{"kind":"x"}},`, `{"handler":"parlance",` + echo + `}`, `unknown kind "x"`},
		{"journal in a missing placeholder", `"parlance":{"journal":{"dir":"{env.PARLANCE_TEST_NOTHING}"}},`, `{"handler":"parlance",` + echo + `}`, "journal: a placeholder in it is unknown or empty"},
		{"a negative drain", `"parlance":{"drain":-1},`, `{"handler":"parlance",` + echo + `}`, "drain must not be negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := `{"apps":{` + c.app + `"http":{"servers":{"s":{"listen":["127.0.0.1:0"],"routes":[{"handle":[` + c.handler + `]}]}}}}}`
			err := validateJSON([]byte(in))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got the error %v, want one with %q", err, c.want)
			}
			noSecret(t, err)
		})
	}
}

// TestTogether holds what handlers of one configuration may have in common.
func TestTogether(t *testing.T) {
	for _, c := range []struct{ name, a, b, want string }{
		{"equal, without a realm", "parlance echo", "parlance echo", ""},
		{"unequal agents, without a realm", "parlance echo", "parlance http://localhost:8000", "give each a realm of its own"},
		{"unequal pages, without a realm", "parlance echo", "parlance echo {\npage /\n}", "give each a realm of its own"},
		{"unequal, one in the default realm by name", "parlance echo", "parlance http://localhost {\nrealm default\n}", "give each a realm of its own"},
		{"unequal, one in another realm", "parlance echo", "parlance http://localhost {\nrealm b\n}", ""},
		{"more agents in one realm on purpose", "parlance echo {\nrealm a\n}", "parlance echo {\nrealm a\nagent x agui http://localhost\n}", ""},
		{"other first agents in one realm", "parlance echo {\nrealm a\n}", "parlance http://localhost {\nrealm a\n}", "begin with different agents"},
		{"other auth and paths in one realm", "parlance echo {\nrealm a\n}", "parlance echo {\nrealm a\nauth caddy\npilotoo /io/*\n}", ""},
		{"other limits of runs in one realm", "parlance echo {\nrealm a\n}", "parlance echo {\nrealm a\nlimits {\npace none\n}\n}", "which hold for a realm"},
		{"one name for two agents", "parlance {\nrealm a\nagent x echo\n}", "parlance {\nrealm a\nagent x agui http://localhost\n}", `agent "x" is configured in two ways`},
		{"one name for two agents in two realms", "parlance {\nrealm a\nagent x echo\n}", "parlance {\nrealm b\nagent x agui http://localhost\n}", ""},
		{"one name for two handlers", "parlance echo {\nrealm a\nname x\n}", "parlance echo {\nrealm a\nname x\n}", "used twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Caddy takes servers in any order: both must come to the same.
			for range 4 {
				err := validate(t, "http://a.example.com {\n"+c.a+"\n}\nhttp://b.example.com:8081 {\n"+c.b+"\n}")
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("got the error %v, want one with %q", err, c.want)
				}
			}
		})
	}
}
