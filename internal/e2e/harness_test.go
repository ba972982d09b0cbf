package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// binary is Caddy with Parlance, built once for all tests of the package, or
// $PARLANCE_CADDY.
var binary string

// These tests wait much more than they work: for leases that lapse, stores that
// come back, agents that think. So more of them run at once than there are
// processors, unless -parallel says how many.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	if os.Getenv("PARLANCE_CADDY") != "" {
		binary = os.Getenv("PARLANCE_CADDY")
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "parlance-e2e")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "caddy")
	args := []string{"build", "-o", binary}
	if raceEnabled {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "./caddy")...)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	code := 1
	if err := build.Run(); err == nil {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// gateway is one running process.
type gateway struct {
	t     testing.TB
	cmd   *exec.Cmd
	base  string // http://127.0.0.1:port
	admin string
	dir   string // of the journal
	conf  string
	log   *output
	gone  chan error
	// program is run in the place of binary, with a clock that is wrong by clock, if
	// these are set.
	program, clock string
	env            []string // more of its environment
}

// output keeps what a process said.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// site is a Caddyfile with one site; block is what stands in the directive's
// braces. PORT, ADMIN and DIR are replaced when a gateway starts.
func site(block string) string {
	return `{
	admin 127.0.0.1:ADMIN
	persist_config off
	auto_https off
	parlance {
		journal file "DIR"
		drain 3s
	}
}
http://127.0.0.1:PORT {
	bind 127.0.0.1
	parlance {
` + block + `
	}
	respond "elsewhere" 404
}
`
}

// start runs a gateway on the Caddyfile, with a journal of its own, and stops
// it when the test ends.
func start(t testing.TB, caddyfile string) *gateway {
	t.Helper()
	g := &gateway{t: t, dir: t.TempDir()}
	port, admin := redistest.FreePort(t), redistest.FreePort(t)
	g.base, g.admin = fmt.Sprintf("http://127.0.0.1:%d", port), fmt.Sprintf("http://127.0.0.1:%d", admin)
	g.conf = filepath.Join(t.TempDir(), "Caddyfile")
	g.configure(caddyfile)
	g.run()
	t.Cleanup(g.stop)
	return g
}

// configure writes the Caddyfile; reload or run takes it.
func (g *gateway) configure(caddyfile string) {
	g.t.Helper()
	r := strings.NewReplacer("PORT", port(g.base), "ADMIN", port(g.admin), "DIR", g.dir)
	if err := os.WriteFile(g.conf, []byte(r.Replace(caddyfile)), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func port(base string) string { return base[strings.LastIndexByte(base, ':')+1:] }

func (g *gateway) run() {
	g.t.Helper()
	if err := g.boot(); err != nil {
		g.t.Fatal(err)
	}
}

// boot starts the process and waits until it answers.
func (g *gateway) boot() error {
	g.log = new(output)
	g.cmd = exec.Command(cmp.Or(g.program, binary), "run", "--config", g.conf, "--adapter", "caddyfile")
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	g.cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+g.dir, "XDG_CONFIG_HOME="+g.dir, "PARLANCE_E2E_CLOCK="+g.clock,
		"PARLANCE_E2E_HOLD=5s") // a busy machine is late with the card that goes before its call
	g.cmd.Env = append(g.cmd.Env, g.env...)
	if err := g.cmd.Start(); err != nil {
		return err
	}
	g.gone = make(chan error, 1)
	go func(c *exec.Cmd, gone chan error) { gone <- c.Wait() }(g.cmd, g.gone)
	deadline := time.After(2 * time.Minute)
	for {
		resp, err := http.Get(g.base + "/health")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-g.gone:
			g.gone <- err
			return fmt.Errorf("the gateway ended at once (%v):\n%s", err, g.log)
		case <-deadline:
			return fmt.Errorf("the gateway did not become ready:\n%s", g.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// kill ends the process as a power cut would, as far as it is concerned.
func (g *gateway) kill() {
	_ = g.cmd.Process.Signal(syscall.SIGKILL)
	<-g.gone
	g.cmd = nil
	g.listen()
}

// stop asks the process to end, and looks at what it said.
func (g *gateway) stop() {
	if g.cmd != nil {
		_ = g.cmd.Process.Signal(syscall.SIGCONT)
		_ = g.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-g.gone:
		case <-time.After(time.Minute):
			_ = g.cmd.Process.Signal(syscall.SIGKILL)
			<-g.gone
			g.t.Error("the gateway did not end within a minute of SIGTERM")
		}
		g.cmd = nil
	}
	if !g.listen() && g.t.Failed() {
		g.t.Logf("the gateway said:\n%s", g.log)
	}
}

// listen fails the test if the process said what none may say.
func (g *gateway) listen() bool {
	s := g.log.String()
	bad := strings.Contains(s, "DATA RACE") || strings.Contains(s, "panic")
	if bad {
		g.t.Errorf("the gateway said:\n%s", s)
	}
	return bad
}

// reload makes the process take its Caddyfile anew, as `caddy reload --force`
// does.
func (g *gateway) reload() error {
	conf, err := os.ReadFile(g.conf)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, g.admin+"/load", bytes.NewReader(conf))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "text/caddyfile")
	req.Header.Set("Cache-Control", "must-revalidate")
	req.Close = true // the admin endpoint begins anew with each configuration
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s: %s", resp.Status, said)
	}
	return nil
}

// modules is where the published clients were installed.
const modules = "testdata/js"

// script runs a JavaScript file; each line that it prints as {"name","error"}
// becomes a test of that name. For a line {"call"} the function of that name is
// run, and its result goes back as a line of JSON.
func script(t *testing.T, file string, calls map[string]func() any, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", file)
	cmd.Dir = modules
	cmd.Env = append(os.Environ(), env...)
	var said output
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cases := 0
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c struct{ Name, Error, Call string }
		switch err := json.Unmarshal(lines.Bytes(), &c); {
		case err == nil && c.Call != "":
			result, err := json.Marshal(calls[c.Call]())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = in.Write(append(result, '\n'))
		case err == nil && c.Name != "":
			cases++
			t.Run(c.Name, func(t *testing.T) {
				if c.Error != "" {
					t.Error(c.Error)
				}
			})
		default:
			t.Log(lines.Text())
		}
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", file, err, said.String())
	}
	if cases == 0 {
		t.Errorf("%s ran no case\n%s", file, said.String())
	}
}
