package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// corpus may name a folder with the protocol's own scenarios and fixtures, which
// are then played too.
var corpus = flag.String("corpus", "", "folder of the published smooth-operator scenarios and fixtures")

// codeSecret signs what the gateway asks the service for codes.
const codeSecret = "0123456789abcdef0123"

// codes is a back end's service for one-time codes. The right one is 123456; a
// challenge has three attempts; 000000 has expired.
type codes struct {
	srv *httptest.Server

	mu    sync.Mutex
	wrong map[string]int
	sent  map[string]int
	bad   []string // calls that were not as they should be
}

func newCodes(t *testing.T) *codes {
	c := &codes{wrong: map[string]int{}, sent: map[string]int{}}
	c.srv = httptest.NewServer(c)
	t.Cleanup(c.srv.Close)
	return c
}

func (c *codes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	mac := hmac.New(sha256.New, []byte(codeSecret))
	mac.Write([]byte(r.Header.Get("Parlance-Timestamp") + "." + string(body)))
	var call struct {
		Challenge   string `json:"challengeId"`
		Destination string `json:"destination"`
		Code        string `json:"code"`
	}
	err := json.Unmarshal(body, &call)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Header.Get("Parlance-Signature") != hex.EncodeToString(mac.Sum(nil)) || err != nil || r.Header.Get("Idempotency-Key") == "" {
		c.bad = append(c.bad, r.URL.Path+" "+string(body))
	}
	if r.URL.Path == "/send" {
		if c.sent[call.Challenge]++; strings.HasPrefix(call.Destination, "unreachable") {
			w.WriteHeader(http.StatusBadRequest)
		}
		return
	}
	left := 3 - c.wrong[call.Challenge]
	answer := map[string]any{"verified": false, "error": "INVALID_CODE", "attemptsRemaining": left - 1}
	switch {
	case left <= 0:
		answer = map[string]any{"verified": false, "error": "MAX_ATTEMPTS", "attemptsRemaining": 0}
	case call.Code == "000000":
		answer = map[string]any{"verified": false, "error": "EXPIRED", "attemptsRemaining": 0}
	case call.Code == "123456":
		answer = map[string]any{"verified": true}
	default:
		if c.wrong[call.Challenge]++; left == 1 {
			answer["error"] = "MAX_ATTEMPTS"
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// smoothOn starts a theatre of n edges on a journal that is said in the words of a
// Caddyfile.
func smoothOn(t *testing.T, n int, journal string, options ...string) *theatre {
	t.Helper()
	h := &theatre{actor: newActor(), codes: newCodes(t), met: map[string]bool{}, ends: map[int]chan struct{}{}, dead: map[int]bool{}}
	agent := httptest.NewServer(h.actor)
	t.Cleanup(func() {
		agent.CloseClientConnections()
		agent.Close()
	})
	block := "name chat\n\t\tagent bot agui " + agent.URL + " {\n\t\t\tconfirm_tools purge_*\n\t\t}\n\t\tsmooth {\n\t\t\tanonymous\n\t\t\tkeepalive 200ms\n\t\t\totp {\n\t\t\t\tsend " + h.codes.srv.URL + "/send\n" +
		"\t\t\t\tverify " + h.codes.srv.URL + "/verify\n\t\t\t\tsecret " + codeSecret + "\n\t\t\t}\n"
	for _, o := range options {
		block += "\t\t\t" + o + "\n"
	}
	h.fleet = fleetOn(t, n, journal, "agent bot agui AGENT", block+"\t\t}")
	t.Cleanup(func() {
		for _, bad := range h.codes.bad {
			t.Errorf("the service for codes was asked wrongly: %s", bad)
		}
		for _, e := range h.edges {
			if strings.Contains(e.log.String(), "123456") {
				t.Error("SMO-210 the log tells a code")
			}
		}
	})
	return h
}

// onEach runs f on each kind of journal, and over two edges.
func onEach(t *testing.T, f func(t *testing.T, h *theatre)) {
	for _, c := range []struct {
		name  string
		edges int
	}{{"file", 1}, {"redis", 1}, {"two edges", 2}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			journal := `file "DIR"`
			if c.name != "file" {
				journal = "redis " + redistest.Start(t).URL()
			}
			f(t, smoothOn(t, c.edges, journal))
		})
	}
}

// TestSmoothScenarios plays our scenarios, and the published ones if they are
// there, against the whole binary.
func TestSmoothScenarios(t *testing.T) {
	t.Parallel()
	one := readScenarios(t, filepath.Join(smoothSpec, "scenarios"))
	more := readScenarios(t, filepath.Join(smoothSpec, "scenarios", "edges"))
	if n := len(one) + len(more); n < 36 {
		t.Errorf("SMO-225 there are %d scenarios of ours only", n)
	}
	list := append(one, more...)
	var p *public
	if *corpus != "" {
		theirs := readScenarios(t, *corpus)
		if len(theirs) != 18 {
			t.Errorf("there are %d published scenarios", len(theirs))
		}
		list = append(theirs, list...)
		p = readPublic(t, filepath.Join(*corpus, "fixtures.json"))
	}
	onEach(t, func(t *testing.T, h *theatre) {
		h.public = p
		played := 0
		for n, s := range list {
			name := strings.Join(append(s.Requirements, s.Name), " ")
			if !t.Run("SMO-225 SMO-226 "+name, func(t *testing.T) {
				played++
				h.play(t, s, n%len(h.edges))
			}) {
				for i := range h.edges {
					h.up(t, i)
				}
			}
		}
		all, err := smoothSchemas()
		if err != nil {
			t.Fatal(err)
		}
		for name := range all {
			if kind, _, _ := strings.Cut(name, "."); played == len(list) && (kind == "action" || kind == "event") && !h.met[name] {
				t.Errorf("SMO-003 SMO-004 no scenario has %s", name)
			}
		}
	})
}
