package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// exampleAgent puts the published example of an agent that dials in beside the
// published clients that it imports, and returns its path there.
func exampleAgent(t *testing.T) string {
	t.Helper()
	code, err := os.ReadFile("../../spec/pingerchips/example/agent.mjs")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(modules, "example-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "agent.mjs"), code, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(filepath.Base(dir), "agent.mjs")
}

// TestInboundAgent has the published example of an agent that dials in serve
// threads, end to end.
func TestInboundAgent(t *testing.T) {
	t.Parallel()
	g := start(t, site(`		agent worker socket {
			idle 6s
		}
		app pk_live_x {
			secret `+appSecret+`
		}`))
	script(t, "agent.mjs", nil, "BASE="+g.base, "SECRET="+appSecret, "AGENT="+exampleAgent(t))
}

// wakeSecret signs the calls that wake agents.
const wakeSecret = "whsec_0123456789abcdef"

// alarmClock is an address where agents are woken: what it was called with, if the
// signature is right. The first call fails on its side.
type alarmClock struct {
	*httptest.Server
	mu    sync.Mutex
	calls int
	heard []string
}

func newAlarmClock(t *testing.T) *alarmClock {
	a := new(alarmClock)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, []byte(wakeSecret))
		mac.Write([]byte(r.Header.Get("Parlance-Timestamp") + "." + string(body)))
		a.mu.Lock()
		defer a.mu.Unlock()
		a.calls++
		switch {
		case hex.EncodeToString(mac.Sum(nil)) != r.Header.Get("Parlance-Signature"):
			t.Errorf("PIN-254 signed with %q", r.Header.Get("Parlance-Signature"))
			w.WriteHeader(http.StatusForbidden)
		case a.calls == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			a.heard = append(a.heard, string(body))
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(a.Close)
	return a
}

// TestInboundAgentsOverEdges has agents dial in to one of two edges on one Redis
// and windows of two dialects watch at the other, while the agents move, and while
// their edge is killed and restarted. A run waits longer for its agent than a busy
// machine takes to restart an edge.
func TestInboundAgentsOverEdges(t *testing.T) {
	t.Parallel()
	clock := newAlarmClock(t)
	s := redistest.Start(t)
	f := fleetOn(t, 2, "redis "+s.URL(), "agent bot agui AGENT", `agent worker socket {
			idle 20s
			wake `+clock.URL+`/wake {
				secret `+wakeSecret+`
			}
		}
		app pk_live_x {
			secret `+appSecret+`
		}`)
	e := f.edges[1]
	script(t, "dial.mjs", map[string]func() any{
		"kill": func() any { e.kill(); return nil },
		"boot": func() any {
			if err := e.boot(); err != nil {
				t.Error(err)
			}
			f.serving()
			return nil
		},
		"restart": func() any {
			if err := e.restart(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			f.serving()
			return nil
		},
		"heard": func() any {
			clock.mu.Lock()
			defer clock.mu.Unlock()
			return clock.heard
		},
	}, "BASE="+f.edges[0].base, "OTHER="+e.base, "SECRET="+appSecret, "AGENT="+exampleAgent(t))
	for _, e := range f.edges {
		if said := e.log.String(); strings.Contains(said, wakeSecret) || strings.Contains(said, appSecret) {
			t.Error("the log tells a secret")
		}
	}
}
