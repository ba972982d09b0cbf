package caddymodule

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program builds Caddy with this module, once for all tests.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "caddy")
	args := []string{"build", "-o", path}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "../internal/e2e/caddy")...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		os.Stderr.Write(out)
	}
	return path, err
})

// patience bounds whatever a test waits for.
const patience = time.Minute

// process is a Caddy that a test started, and ends.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	admin  string // host:port
	site   string // host:port
	home   string
	exited chan struct{}

	mu  sync.Mutex
	log strings.Builder
}

// newProcess makes the places that a process needs; start runs it.
func newProcess(t *testing.T) *process {
	p := &process{t: t, admin: freeAddress(t), site: freeAddress(t), home: t.TempDir()}
	t.Cleanup(func() {
		if p.cmd != nil {
			p.stop(os.Kill)
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", p.logged())
		}
	})
	return p
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// config is a configuration: app stands in the parlance option, site in the site.
func (p *process) config(app, site string) string {
	return "{\n\tadmin " + p.admin + "\n\tpersist_config off\n\tauto_https off\n\tparlance {\n\t\t" + app + "\n\t}\n}\n\n" +
		"http://" + p.site + " {\n\tbind 127.0.0.1\n\t" + site + "\n}\n"
}

func (p *process) command(verb, config string) *exec.Cmd {
	p.t.Helper()
	path, err := program()
	if err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(p.t.TempDir(), "Caddyfile")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(path, verb, "--config", file, "--adapter", "caddyfile")
	cmd.Env = append(os.Environ(), "HOME="+p.home, "XDG_DATA_HOME="+p.home, "XDG_CONFIG_HOME="+p.home)
	return cmd
}

// start runs the process and returns when it serves.
func (p *process) start(config string) {
	p.t.Helper()
	p.cmd = p.command("run", config)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ready, exited, cmd := make(chan struct{}), make(chan struct{}), p.cmd
	p.exited = exited
	go func() {
		defer close(exited)
		p.scan(stderr, ready)
		_ = cmd.Wait()
	}()
	select {
	case <-ready:
	case <-exited:
		p.t.Fatal("the server did not start")
	case <-time.After(patience):
		p.t.Fatal("the server does not get ready")
	}
}

func (p *process) scan(r io.Reader, ready chan struct{}) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		p.mu.Lock()
		p.log.WriteString(lines.Text() + "\n")
		p.mu.Unlock()
		if strings.Contains(lines.Text(), "serving initial configuration") {
			close(ready)
		}
	}
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// stop ends the process by a signal and says how long that took.
func (p *process) stop(signal os.Signal) time.Duration {
	begin := time.Now()
	_ = p.cmd.Process.Signal(signal)
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Error("the server does not exit")
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	p.cmd = nil
	return time.Since(begin)
}

// load gives the process another configuration; it returns Caddy's answer.
func (p *process) load(config string) (status int, body string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://"+p.admin+"/load", strings.NewReader(config))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/caddyfile")
	r.Header.Set("Cache-Control", "must-revalidate")
	return p.do(r)
}

func (p *process) get(address string) (status int, body string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.do(r)
}

func (p *process) do(r *http.Request) (int, string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	resp, err := http.DefaultClient.Do(r.WithContext(ctx))
	// A reload closes the listeners of the configuration before, and resets
	// what waits there to be accepted.
	for n := 0; n < 10 && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)); n++ {
		again := r.Clone(ctx)
		if r.GetBody != nil {
			again.Body, _ = r.GetBody()
		}
		resp, err = http.DefaultClient.Do(again)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// stats reads what the admin API tells.
func (p *process) stats() []hubStats {
	p.t.Helper()
	status, body := p.get("http://" + p.admin + "/parlance/stats")
	var list []hubStats
	if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK {
		p.t.Fatalf("stats: %d %s", status, body)
	}
	return list
}

// order sends a command to the admin endpoint.
func (p *process) order(path string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://"+p.admin+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.do(r)
}

// lists asks the admin endpoint until its answer has all the texts.
func (p *process) lists(path string, texts ...string) string {
	p.t.Helper()
	var body string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		_, body = p.get("http://" + p.admin + path)
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(body, text) }) {
			return body
		}
	}
	p.t.Fatalf("%s has not all of %q: %s", path, texts, body)
	return ""
}

// poll opens a session and a request that waits for its events; the channel is
// closed when that has ended.
func (p *process) poll() <-chan struct{} {
	p.t.Helper()
	address := "http://" + p.site + "/socket.io/?EIO=4&transport=polling"
	_, body := p.get(address)
	_, session, _ := strings.Cut(body, `"sid":"`)
	session, _, ok := strings.Cut(session, `"`)
	if !ok {
		p.t.Fatalf("no session: %s", body)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := http.Get(address + "&sid=" + session); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}()
	return done
}
