package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// patient is a configuration for the doctor: what stands in the global options
// and in the site, around what is sound.
type patient struct{ global, journal, site string }

func (p patient) file(dir string) string {
	if p.global == "" {
		p.global = "admin localhost:2019"
	}
	if p.journal == "" {
		p.journal = fmt.Sprintf("journal file %q", filepath.Join(dir, "journal"))
	}
	if p.site == "" {
		p.site = "parlance echo"
	}
	return fmt.Sprintf("{\n%s\nstorage file_system %q\nparlance {\n%s\n}\n}\nhttp://127.0.0.1:8080 {\nbind 127.0.0.1\n%s\n}\n", p.global, dir, p.journal, p.site)
}

// doctor asks the doctor about a file and returns what he says.
func doctor(t *testing.T, file string, env ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "parlance-doctor", file, "--adapter", "caddyfile")
	// Certificates and folders of the system stay out of it.
	cmd.Env = append(append(os.Environ(), "XDG_DATA_HOME="+t.TempDir(), "HOME="+t.TempDir()), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestDoctor plants what goes wrong, one thing at a time: each is found, and the
// way to mend it is said.
func TestDoctor(t *testing.T) {
	t.Parallel()
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/agent":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case "/post-only":
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			w.WriteHeader(http.StatusNotFound)
		case "/locked":
			w.WriteHeader(http.StatusUnauthorized)
		case "/moved":
			http.Redirect(w, r, "/agent", http.StatusMovedPermanently)
		case "/broken":
			w.WriteHeader(http.StatusBadGateway)
		case "/late":
			w.Header().Set("Date", time.Now().Add(-10*time.Minute).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusMethodNotAllowed)
		case "/keys":
			_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{}})
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(agent.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	well := redistest.Start(t, "appendonly yes")
	locked := redistest.Start(t, `requirepass plums-and-pears`)
	forgetful := redistest.Start(t, "maxmemory 100mb", "maxmemory-policy allkeys-lru")
	volatile := redistest.Start(t, `save ""`, "appendonly no")
	nobody := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	dir := t.TempDir()
	occupied := filepath.Join(dir, "occupied")
	if err := os.WriteFile(occupied, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o755); err != nil { //nolint:gosec // this is what is to be found
		t.Fatal(err)
	}
	agui := func(url string) string { return "parlance " + url }
	jwks := func(url string) string {
		return "parlance {\nagent a echo\nauth jwt {\njwks " + url + "\nissuer https://id.example\naudience chat\n}\n}"
	}
	const smooth = "parlance {\nagent a echo\nauth jwt {\nsecret {env.KEY}\nissuer i\naudience a\n}\nsmooth\n}\n"
	const key = "KEY=0123456789abcdef0123456789abcdef"

	for _, c := range []struct {
		name  string
		p     patient
		finds []string // all of them
		wrong bool
	}{
		{"what is well", patient{}, []string{"ok    configuration", "ok    journal", "ok    storage", "ok    default: agent echo", "nothing is wrong"}, false},
		{"an agent that is well", patient{site: agui(agent.URL + "/agent")}, []string{"ok    default: agent agui: it is there"}, false},
		{"an agent that knows POST alone", patient{site: agui(agent.URL + "/post-only")}, []string{"ok    default: agent agui: it is there"}, false},
		{"a Redis that is well", patient{journal: "journal redis " + well.URL()}, []string{"ok    journal: redis"}, false},
		{"a log without tokens", patient{site: smooth + "log {\nformat filter {\nrequest>uri query {\ndelete token\n}\n}\n}"}, []string{"ok    default: access log"}, false},

		{"1 a mistake in the file", patient{site: "parlance {\nagnet a echo\n}"}, []string{"FAIL  configuration", "agnet"}, true},
		{"2 no directive", patient{site: "respond hello"}, []string{"FAIL  configuration: no site has the parlance directive", "parlance echo"}, true},
		{"3 no agent", patient{site: "parlance {\npage /\n}"}, []string{"FAIL  configuration: no agent", "agent NAME KIND URL"}, true},
		{"4 a secret that is too short", patient{site: "parlance {\nagent a echo\nauth jwt {\nsecret short\nissuer i\naudience a\n}\n}"}, []string{"FAIL  configuration: auth jwt: secret has 5 bytes, needs 32"}, true},
		{"5 a placeholder without a value", patient{site: strings.ReplaceAll(smooth, "KEY", "NO_SUCH_VARIABLE")}, []string{"FAIL  configuration", "placeholder"}, true},
		{"6 a journal in a file's place", patient{journal: fmt.Sprintf("journal file %q", occupied)}, []string{"FAIL  journal", "is no folder", "journal file DIR"}, true},
		{"7 a journal that others may read", patient{journal: fmt.Sprintf("journal file %q", open)}, []string{"warn  journal", "chmod 700"}, false},
		{"8 a Redis that is away", patient{journal: "journal redis redis://" + nobody}, []string{"FAIL  journal"}, true},
		{"9 a Redis that wants a password", patient{journal: "journal redis " + locked.URL()}, []string{"FAIL  journal: Redis wants a password", "give user and password"}, true},
		{"10 a Redis that throws data away", patient{journal: "journal redis " + forgetful.URL()}, []string{"FAIL  journal", "set maxmemory-policy noeviction"}, true},
		{"11 a Redis that keeps nothing", patient{journal: "journal redis " + volatile.URL()}, []string{"warn  journal", "set appendonly yes"}, false},
		{"12 replicas that are not there", patient{journal: "journal redis " + well.URL() + " {\nsync replicas 1\n}"}, []string{"FAIL  journal", "add replicas, or ask for fewer"}, true},
		{"13 an agent that is not started", patient{site: agui("http://" + nobody + "/agent")}, []string{"FAIL  default: agent agui: nobody listens", "Start it"}, true},
		{"14 an agent at another path", patient{site: agui(agent.URL + "/elsewhere")}, []string{"FAIL  default: agent agui: there is nothing at its path", "Mend the path"}, true},
		{"15 an agent that wants a key", patient{site: agui(agent.URL + "/locked")}, []string{"FAIL  default: agent agui: it refuses us", "header Authorization"}, true},
		{"16 an agent with a foreign certificate", patient{site: agui(secure.URL + "/agent")}, []string{"FAIL  default: agent agui: its certificate is of an authority", "Install"}, true},
		{"17 an agent without TLS", patient{site: agui(strings.Replace(agent.URL, "http:", "https:", 1) + "/agent")}, []string{"FAIL  default: agent agui: it speaks http", "http://"}, true},
		{"18 an agent that has moved", patient{site: agui(agent.URL + "/moved")}, []string{"FAIL  default: agent agui: it sends us elsewhere (301)"}, true},
		{"19 an agent that is ill", patient{site: agui(agent.URL + "/broken")}, []string{"warn  default: agent agui: it answers, with an error of its own (502)"}, false},
		{"20 a clock that is off", patient{site: agui(agent.URL + "/late")}, []string{"FAIL  clock", "10m", "NTP"}, true},
		{"21 key sets that are not there", patient{site: jwks(agent.URL + "/nothing")}, []string{"FAIL  default: auth jwt: the key set", "404"}, true},
		{"22 key sets without a key", patient{site: jwks(agent.URL + "/keys")}, []string{"FAIL  default: auth jwt: the key set"}, true},
		{"23 tokens in a log", patient{site: smooth + "log"}, []string{"warn  default: access log", "delete token"}, false},
		{"24 an admin endpoint for everybody", patient{global: "admin :2019"}, []string{"FAIL  admin endpoint", "localhost"}, true},
		{"25 no admin endpoint", patient{global: "admin off"}, []string{"warn  admin endpoint: it is off"}, false},
		{"26 a secret in the configuration", patient{site: strings.ReplaceAll(smooth, "{env.KEY}", "0123456789abcdef0123456789abcdef")}, []string{"warn  secrets", "{env.NAME}"}, false},
		{"26 a password in an address", patient{journal: "journal redis redis://u:plums@" + nobody}, []string{"warn  secrets: 1 stand", "(url)"}, true},
		{"26 a key that contexts are signed with", patient{site: strings.Replace(smooth, "smooth", "smooth {\nauth_key 0123456789abcdef0123456789abcdef\n}", 1)}, []string{"warn  secrets: 1 stand", "(auth_key)"}, false},
		{"27 a storage in a file's place", patient{global: fmt.Sprintf("storage file_system %q", occupied)}, []string{"FAIL  storage", "global option storage"}, true},
		{"28 nobody is asked who he is", patient{site: "parlance echo\n}\nhttp://chat.example:8081 {\nparlance echo"}, []string{"warn  default: auth", "auth jwt"}, false},
		{"29 codes that nobody sends", patient{site: strings.Replace(smooth, "smooth", "smooth {\notp {\nsend http://"+nobody+"/send\nverify http://"+nobody+"/verify\nsecret {env.KEY}\n}\n}", 1)}, []string{"FAIL  default: otp send: nobody listens", "FAIL  default: otp verify: nobody listens"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			here := t.TempDir()
			file := filepath.Join(here, "Caddyfile")
			text := c.p.file(here)
			if strings.Contains(c.p.global, "storage") {
				text = strings.Replace(text, fmt.Sprintf("storage file_system %q\n", here), "", 1)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			said, err := doctor(t, file, key)
			for _, want := range c.finds {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q:\n%s", want, said)
				}
			}
			if c.wrong != (err != nil) || c.wrong != strings.Contains(said, "FAIL") {
				t.Errorf("%v:\n%s", err, said)
			}
			if strings.Contains(said, "0123456789abcdef") || strings.Contains(said, "plums") {
				t.Errorf("it tells a secret:\n%s", said)
			}
		})
	}
	t.Run("no file", func(t *testing.T) {
		if said, err := doctor(t, filepath.Join(dir, "none")); err == nil || !strings.Contains(said, "FAIL  configuration") {
			t.Errorf("%v: %s", err, said)
		}
	})
}
