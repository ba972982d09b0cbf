package caddymodule

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// becomes asks a path until it answers with the status and the word.
func (p *process) becomes(path string, status int, word string) {
	p.t.Helper()
	var got int
	var body string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got, body = p.get("http://" + p.site + path); got == status && strings.Contains(body, word) {
			return
		}
	}
	p.t.Fatalf("%s is %d %s, want %d %s", path, got, body, status, word)
}

// refused tries to open a socket and returns the answer's header.
func (p *process) refused() (int, http.Header) {
	p.t.Helper()
	ws, resp, err := websocket.Dial(p.t.Context(), "ws://"+p.site+"/socket.io/?EIO=4&transport=websocket", nil)
	if err == nil {
		_ = ws.CloseNow()
		return http.StatusSwitchingProtocols, nil
	}
	if resp == nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header
}

// Redis is no reason for a configuration to fail: what needs it waits, and heals
// by itself.
func TestRedisAwayAndThere(t *testing.T) {
	s := redistest.Start(t, "requirepass "+testToken)
	s.Password = testToken
	s.Kill()
	p := newProcess(t)
	app := "journal redis redis://:{env.PARLANCE_TEST_TOKEN}@" + s.Addr()
	config := p.config(app, slow)
	if out, err := p.command("validate", config).CombinedOutput(); err != nil {
		t.Fatalf("validating without Redis: %v\n%s", err, out)
	}
	p.start(config)
	away := func() {
		t.Helper()
		p.becomes("/ready", http.StatusServiceUnavailable, "journal")
		if status, body := p.get("http://" + p.site + "/health"); status != http.StatusOK {
			t.Errorf("alive: %d %s", status, body)
		}
		if status, h := p.refused(); status != http.StatusServiceUnavailable || h.Get("Retry-After") == "" {
			t.Errorf("a socket while Redis is away: %d %v", status, h)
		}
		status, body := p.get("http://" + p.admin + "/parlance/ready")
		if status != http.StatusServiceUnavailable || !strings.Contains(body, `"ready":false,"reason":"`) {
			t.Errorf("the reason in full: %d %s", status, body)
		}
	}
	away()
	s.Run()
	p.becomes("/ready", http.StatusOK, "ready")
	w := p.openWindow()
	w.say("m1", "hello")
	w.until("RUN_FINISHED")

	s.Kill()
	away()
	if status, body := p.load(p.config(app, slow+"\trespond /v two\n")); status != http.StatusOK {
		t.Fatalf("reload without Redis: %d %s", status, body)
	}
	away()
	s.Run()
	p.becomes("/ready", http.StatusOK, "ready")
	w.say("m2", "still there")
	w.until("RUN_FINISHED")
	if m := w.messages(); len(m) != 4 {
		t.Errorf("the conversation is %v", m)
	}
	p.stop(syscall.SIGTERM)
	if strings.Contains(p.logged(), testToken) {
		t.Error("the password is in the log")
	}
}

// A password that was changed in Redis and then in the configuration is used by
// the same hub: no socket is closed.
func TestRedisRotatedPassword(t *testing.T) {
	s := redistest.Start(t, "requirepass hunter2-one")
	s.Password = "hunter2-one"
	p := newProcess(t)
	file := filepath.Join(p.home, "password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("hunter2-one")
	config := p.config("journal redis "+s.URL()+" {\n\t\t\tpassword {file."+file+"}\n\t\t}", slow)
	p.start(config)
	p.becomes("/ready", http.StatusOK, "ready")
	w := p.openWindow()

	s.Do("CONFIG", "SET", "requirepass", "hunter2-two")
	s.Password = "hunter2-two"
	s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	p.becomes("/ready", http.StatusServiceUnavailable, "journal")
	_, reason := p.get("http://" + p.admin + "/parlance/ready")
	write("hunter2-two")
	status, answer := p.load(config)
	if status != http.StatusOK {
		t.Fatalf("reload: %d %s", status, answer)
	}
	p.becomes("/ready", http.StatusOK, "ready")
	w.say("m1", "hello")
	w.until("RUN_FINISHED")
	if s := p.stats(); len(s) != 1 || s[0].Sockets != 1 {
		t.Errorf("after the password was changed: %+v", s)
	}
	_, dump := p.get("http://" + p.admin + "/config/")
	p.stop(syscall.SIGTERM)
	for where, text := range map[string]string{"the reason": reason, "the answer": answer, "the configuration": dump, "the log": p.logged()} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("a password is in %s: %s", where, text)
		}
	}
}

// Two handlers of a process have one hub, and two processes one conversation.
func TestRedisIsShared(t *testing.T) {
	s := redistest.Start(t)
	one, two := newProcess(t), newProcess(t)
	app := "journal redis " + s.URL()
	both := "parlance echo {\n\t\trealm a\n\t}\n\thandle /b/* {\n\t\tparlance echo {\n\t\t\trealm b\n\t\t\tpilotoo /b/* {\n\t\t\t\troutes /b\n\t\t\t}\n\t\t}\n\t}\n"
	one.start(one.config(app+"\n\t\tedge one", both))
	two.start(two.config(app+"\n\t\tedge two", both))
	for _, p := range []*process{one, two} {
		p.becomes("/ready", http.StatusOK, "ready")
		p.becomes("/b/ready", http.StatusOK, "ready")
		if s := p.stats(); len(s) != 1 {
			t.Errorf("hubs: %+v", s)
		}
	}
	w := one.openWindow()
	w.say("m1", "hello there")
	w.until("RUN_FINISHED")
	w.connect(two)
	m := w.messages()
	if len(m) != 2 || m[0]["id"] != "m1" || !strings.Contains(m[1]["content"].(string), "hello there") {
		t.Errorf("on the other edge the conversation is %v", m)
	}
	w.say("m2", "and back")
	w.until("RUN_FINISHED")

	// Both know each other; each drains itself only.
	one.lists("/parlance/edges", `"name":"one"`, `"name":"two"`)
	if status, body := one.order("/parlance/edges/two/drain"); status != http.StatusConflict || !strings.Contains(body, `this is edge \"one\"`) {
		t.Errorf("draining the other: %d %s", status, body)
	}
	one.becomes("/ready", http.StatusOK, "ready")
	if status, body := one.order("/parlance/edges/one/drain"); status != http.StatusAccepted || !strings.Contains(body, `"draining":true`) {
		t.Errorf("draining: %d %s", status, body)
	}
	one.becomes("/ready", http.StatusServiceUnavailable, "draining")
	one.becomes("/health", http.StatusOK, "ok")
	if status, h := one.refused(); status != http.StatusServiceUnavailable || h.Get("Retry-After") == "" {
		t.Errorf("a socket of an edge that drains: %d %v", status, h)
	}
	two.becomes("/ready", http.StatusOK, "ready")
	w.say("m3", "the other goes on")
	w.until("RUN_FINISHED")
}

// What a hub cannot change while it lives is said, or needs a hub of its own.
func TestRedisReconfigured(t *testing.T) {
	s := redistest.Start(t)
	p := newProcess(t)
	app := func(options string) string {
		return "journal redis " + s.URL() + " {\n\t\t\t" + options + "\n\t\t}\n\t\tdrain 2s"
	}
	p.start(p.config(app("pool 8"), slow))
	p.becomes("/ready", http.StatusOK, "ready")
	w := p.openWindow()
	if status, body := p.load(p.config(app("pool 9"), slow)); status != http.StatusOK {
		t.Fatalf("reload: %d %s", status, body)
	}
	w.say("m1", "hello")
	w.until("RUN_FINISHED")
	if !strings.Contains(p.logged(), `"options":["pool"]`) {
		t.Error("nobody was told that the pool stays")
	}

	if status, body := p.load(p.config(app("partitions 7"), slow)); status != http.StatusOK {
		t.Fatalf("reload: %d %s", status, body)
	}
	w.ended()
	p.becomes("/ready", http.StatusServiceUnavailable, "journal")
	if _, body := p.get("http://" + p.admin + "/parlance/ready"); !strings.Contains(body, "partitions") {
		t.Errorf("the reason is %s", body)
	}
	if status, body := p.load(p.config(app("partitions 128"), slow)); status != http.StatusOK {
		t.Fatalf("reload: %d %s", status, body)
	}
	p.becomes("/ready", http.StatusOK, "ready")
	w.connect(p)
	if m := w.messages(); len(m) != 2 {
		t.Errorf("after the mistake was mended: %v", m)
	}
}
