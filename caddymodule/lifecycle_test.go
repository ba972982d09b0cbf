package caddymodule

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slow is a site whose agent takes its time over some twenty words.
const slow = "parlance {\n\t\tagent parrot echo {\n\t\t\tdelay 40ms\n\t\t}\n\t}\n"

var sentence = strings.TrimSpace(strings.Repeat("word ", 30))

func journalIn(dir string) string { return `journal file "` + dir + `"` + "\n\t\tdrain 2s" }

func TestReloadDropsNothing(t *testing.T) {
	p := newProcess(t)
	app := journalIn(filepath.Join(p.home, "threads"))
	p.start(p.config(app, slow))
	w := p.openWindow()
	w.say("m1", sentence)
	w.until("RUN_STARTED")
	for _, site := range []string{
		slow + "\trespond /v two\n",
		"header X-Version three\n\t" + strings.Replace(slow, "40ms", "41ms", 1),
	} {
		if status, body := p.load(p.config(app, site)); status != http.StatusOK {
			t.Fatalf("reload: %d %s", status, body)
		}
	}
	if got := w.until("RUN_FINISHED"); !strings.Contains(got, sentence) {
		t.Errorf("the answer over two reloads was %q", got)
	}
	if s := p.stats(); len(s) != 1 || s[0].Sockets != 1 || !s[0].Ready {
		t.Errorf("after two reloads: %+v", s)
	}
	w.say("m2", "still there")
	w.until("RUN_FINISHED")
}

func TestFailedReloadTouchesNothing(t *testing.T) {
	p := newProcess(t)
	app := journalIn(filepath.Join(p.home, "threads"))
	p.start(p.config(app, slow))
	// A sentence may be over before all is tried; what hangs is not.
	w, hanging := p.openWindow(), p.openWindow()
	hanging.say("m1", "/slow")
	hanging.until("RUN_STARTED")
	w.say("m1", sentence)
	w.until("RUN_STARTED")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	other := "parlance echo {\n\t\trealm other\n\t}\n"
	for name, c := range map[string]struct{ config, want string }{
		"a word that nobody knows": {p.config(app, "parlance echo {\n\t\tfoo\n\t}"), "unrecognized option"},
		"what cannot be":           {p.config(app, "parlance {\n\t\tagent parrot agui ftp://x\n\t}"), "http or https"},
		// Caddy's http app cannot start, when Parlance may have started already
		// and another realm been the only one.
		"a port that is taken": {p.config(app, other+"}\nhttp://"+taken.Addr().String()+" {\n\tbind 127.0.0.1\n\t"+other), "address already in use"},
		// A folder cannot be made below a file.
		"a journal that cannot be opened": {p.config(journalIn("/dev/null/threads"), slow), "filejournal"},
	} {
		for range 6 { // Caddy starts apps in any order
			if status, body := p.load(c.config); status == http.StatusOK || !strings.Contains(body, c.want) {
				t.Errorf("%s: %d %s", name, status, body)
			}
		}
		if s := p.stats(); len(s) != 1 || s[0].Sockets != 2 || s[0].Runs < 1 {
			t.Errorf("after %s: %+v", name, s)
		}
	}
	if got := w.until("RUN_FINISHED"); !strings.Contains(got, sentence) {
		t.Errorf("the answer over failed reloads was %q", got)
	}
	w.say("m2", "still there")
	w.until("RUN_FINISHED")
	if s := p.stats(); len(s) != 1 || s[0].Runs < 1 {
		t.Errorf("what hung has ended: %+v", s)
	}
}

// A journal that is configured away lets its sockets come back, and one that is
// configured again at once is not found locked.
func TestReloadToAnotherJournalAndBack(t *testing.T) {
	p := newProcess(t)
	one, two := journalIn(filepath.Join(p.home, "one")), journalIn(filepath.Join(p.home, "two"))
	p.start(p.config(one, slow))
	w := p.openWindow()
	w.say("m1", "/slow")
	w.until("RUN_STARTED")
	for _, app := range []string{two, one} {
		if status, body := p.load(p.config(app, slow)); status != http.StatusOK {
			t.Fatalf("reload: %d %s", status, body)
		}
	}
	w.ended()
	w.connect(p)
	if m := w.messages(); len(m) == 0 || m[0]["id"] != "m1" {
		t.Errorf("after coming back the conversation is %v", m)
	}
}

func TestReloadWithoutHandlerClosesTheHub(t *testing.T) {
	p := newProcess(t)
	app := journalIn(filepath.Join(p.home, "threads"))
	p.start(p.config(app, slow))
	w := p.openWindow()
	if status, body := p.load(p.config(app, "respond gone\n")); status != http.StatusOK {
		t.Fatalf("reload: %d %s", status, body)
	}
	w.ended()
	if s := p.stats(); len(s) != 0 {
		t.Errorf("a hub is left: %+v", s)
	}
}

func TestExitDrains(t *testing.T) {
	p := newProcess(t)
	app := journalIn(filepath.Join(p.home, "threads"))
	p.start(p.config(app, slow))
	idle, short, hanging := p.openWindow(), p.openWindow(), p.openWindow()
	short.say("m1", sentence)
	short.until("RUN_STARTED")
	hanging.say("m1", "/slow")
	hanging.until("RUN_STARTED")
	polling := p.poll()
	begin := time.Now()
	took := p.stop(syscall.SIGTERM)
	select {
	case <-polling:
	case <-time.After(patience):
		t.Error("a request that waits for events outlives the server")
	}
	if took < time.Second || took > 15*time.Second {
		t.Errorf("with a run that hangs and a drain of 2s, the exit took %v", took)
	}
	for _, w := range []*window{idle, short, hanging} {
		w.ended()
	}
	t.Logf("exit after %v, sockets ended after %v", took, time.Since(begin))

	p.start(p.config(app, slow))
	short.connect(p)
	if m := short.messages(); len(m) != 2 || !strings.Contains(m[1]["content"].(string), sentence) {
		t.Errorf("a run that could end in time has left %v", m)
	}
	hanging.connect(p)
	if m := hanging.messages(); len(m) == 0 || m[0]["id"] != "m1" {
		t.Errorf("a run that was ended has left %v", m)
	}
	hanging.say("m2", "go on") // refused while a run is in flight
	hanging.until("RUN_FINISHED")
	if took := p.stop(syscall.SIGTERM); took > 2*time.Second {
		t.Errorf("without a run, the exit took %v", took)
	}
}

func TestOneProcessHasTheFolder(t *testing.T) {
	p := newProcess(t)
	app := journalIn(filepath.Join(p.home, "threads"))
	config := p.config(app, slow)
	p.start(config)
	if out, err := p.command("validate", config).CombinedOutput(); err != nil {
		t.Errorf("validating while a server runs: %v\n%s", err, out)
	}
	other := newProcess(t)
	out, err := other.command("run", other.config(app, slow)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another process uses the folder") {
		t.Errorf("a second server: %v\n%s", err, out)
	}
	w := p.openWindow()
	w.say("m1", "hello")
	w.until("RUN_FINISHED")
}

// No request fails because a configuration is being replaced.
func TestRequestsDuringReloads(t *testing.T) {
	p := newProcess(t)
	app := journalIn(filepath.Join(p.home, "threads"))
	p.start(p.config(app, slow))
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { done <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			r, err := http.Get("http://" + p.site + "/protocol")
			if err != nil {
				// Closing a listener resets what waits to be accepted, on
				// systems where Caddy gives each configuration its own.
				continue
			}
			r.Body.Close()
			if r.StatusCode != http.StatusOK {
				t.Errorf("request %d: %s", n, r.Status)
			}
			n++
		}
	}()
	for range 10 {
		if status, body := p.load(p.config(app, slow)); status != http.StatusOK {
			t.Errorf("reload: %d %s", status, body)
		}
	}
	close(stop)
	t.Logf("%d requests during 10 reloads", <-done)
}

// What was meant to be secret is in no log and in no answer of the admin API.
func TestSecretsStaySecret(t *testing.T) {
	p := newProcess(t)
	app := journalIn(filepath.Join(p.home, "threads"))
	p.start(p.config(app, `parlance http://127.0.0.1:1 {
		agent other agui http://127.0.0.1:1 {
			header Authorization "Bearer {env.PARLANCE_TEST_TOKEN}"
		}
		auth jwt {
			secret {env.PARLANCE_TEST_SECRET}
			issuer https://id.example.com
			audience chat
		}
	}
	log`))
	r, err := http.NewRequest(http.MethodGet, "http://"+p.site+"/conversations", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer hunter3.hunter3.hunter3")
	if status, _ := p.do(r); status != http.StatusUnauthorized {
		t.Errorf("a forged token: %d", status)
	}
	_, config := p.get("http://" + p.admin + "/config/")
	p.stop(syscall.SIGTERM)
	for _, secret := range []string{testSecret, testToken, "hunter3"} {
		if strings.Contains(p.logged(), secret) {
			t.Errorf("%s is in the log", secret)
		}
		if strings.Contains(config, secret) {
			t.Errorf("%s is in the configuration that the admin API shows", secret)
		}
	}
	if n := strings.Count(p.logged(), "no auth is configured"); n != 0 {
		t.Errorf("a site with auth is said to have none")
	}
	if _, err := os.Stat(filepath.Join(p.home, "threads")); err != nil {
		t.Error(err)
	}
}

// TestWarnsOnce: a site that lets everybody in says so when it starts.
func TestWarnsOnce(t *testing.T) {
	p := newProcess(t)
	p.start(p.config(journalIn(filepath.Join(p.home, "threads")), "parlance echo\n\thandle /x {\n\t\tparlance echo\n\t}\n"))
	p.stop(syscall.SIGTERM)
	if n := strings.Count(p.logged(), "no auth is configured"); n != 1 {
		t.Errorf("the warning is there %d times", n)
	}
}

// Validating asks no network; a configuration that becomes current fetches its
// keys before the first client comes.
func TestKeysAreFetchedAhead(t *testing.T) {
	fetched := make(chan struct{}, 10)
	keys := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fetched <- struct{}{} }))
	defer keys.Close()
	p := newProcess(t)
	config := p.config(journalIn(filepath.Join(p.home, "threads")), `parlance http://192.0.2.1/agent {
		auth jwt {
			jwks `+keys.URL+`
			issuer https://id.example.com
			audience chat
		}
		pilotoo {
			upstream http://192.0.2.1/desk
		}
	}
`)
	if out, err := p.command("validate", config).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(fetched) != 0 {
		t.Error("validating fetched the keys")
	}
	p.start(config)
	select {
	case <-fetched:
	case <-time.After(patience):
		t.Error("the keys were not fetched")
	}
}

// Who Caddy's own authentication lets in is let in, as himself.
func TestCaddysUsers(t *testing.T) {
	p := newProcess(t)
	p.start(p.config(journalIn(filepath.Join(p.home, "threads")), `basic_auth {
		ada $2a$04$kGCVzC/.mn6mwwpHlP1WReyCGZzeuS6Wzn3edJtozkHMSIQOC2nTu
		eve $2a$04$kGCVzC/.mn6mwwpHlP1WReyCGZzeuS6Wzn3edJtozkHMSIQOC2nTu
	}
	parlance echo {
		auth caddy
	}
`))
	as := func(user, method, path string) (int, string) {
		r, err := http.NewRequest(method, "http://"+p.site+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if user != "" {
			r.SetBasicAuth(user, "sesame")
		}
		return p.do(r)
	}
	if status, _ := as("", http.MethodGet, "/conversations"); status != http.StatusUnauthorized {
		t.Errorf("a stranger: %d", status)
	}
	status, body := as("ada", http.MethodPost, "/conversations")
	_, id, _ := strings.Cut(body, `"id":"`)
	id, _, ok := strings.Cut(id, `"`)
	if status/100 != 2 || !ok {
		t.Fatalf("ada: %d %s", status, body)
	}
	if status, body := as("ada", http.MethodGet, "/conversations/"+id); status != http.StatusOK {
		t.Errorf("ada's own: %d %s", status, body)
	}
	if status, body := as("eve", http.MethodGet, "/conversations/"+id); status != http.StatusNotFound {
		t.Errorf("ada's, for eve: %d %s", status, body)
	}
}
