//go:build !windows

package redistest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// startLimit bounds how long a server may take to answer.
const startLimit = 30 * time.Second

// Server is one redis-server.
type Server struct {
	t    testing.TB
	port int
	dir  string
	args []string
	cmd  *exec.Cmd
	gone chan struct{}

	// User and Password are what Client uses.
	User, Password string
	sentinel       bool
}

// Start runs a server that keeps its data in an append-only file; config are
// further lines of its configuration, each "name value". It ends with the test.
func Start(t testing.TB, config ...string) *Server {
	t.Helper()
	s := &Server{t: t, port: FreePort(t), dir: t.TempDir(), args: config}
	s.Run()
	t.Cleanup(s.Kill)
	return s
}

// Addr is host:port.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Port is the port as text.
func (s *Server) Port() string { return strconv.Itoa(s.port) }

// Info is one line of what the server says of itself.
func (s *Server) Info(name string) string {
	s.t.Helper()
	text, _ := s.Do("INFO").(string)
	for line := range strings.Lines(text) {
		if n, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && n == name {
			return v
		}
	}
	return ""
}

// URL is redis://host:port.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Dir is where the server keeps its files.
func (s *Server) Dir() string { return s.dir }

// Pid is the process id.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// binary is the server's program: redis-server, or what $PARLANCE_REDIS says, such
// as valkey-server.
func binary() string { return cmp.Or(os.Getenv("PARLANCE_REDIS"), "redis-server") }

// Run starts the server again, on the same port and folder.
func (s *Server) Run() {
	s.t.Helper()
	conf := filepath.Join(s.dir, "redis.conf")
	lines := append([]string{
		"bind 127.0.0.1", "port " + strconv.Itoa(s.port), "dir " + s.dir, "save \"\"", "appendonly yes",
		"appendfsync no", "maxmemory-policy noeviction", "loglevel warning",
	}, s.args...)
	if s.sentinel {
		lines = append([]string{"bind 127.0.0.1", "port " + strconv.Itoa(s.port), "dir " + s.dir}, s.args...)
	}
	if _, err := os.Stat(conf); err != nil || !s.sentinel { // a Sentinel rewrites its own
		if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	args := []string{conf}
	if s.sentinel {
		args = append(args, "--sentinel")
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.cmd = exec.Command(binary(), args...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("%s: %v (Debian's package redis-server has it)", binary(), err)
	}
	s.gone = make(chan struct{})
	go func(c *exec.Cmd, gone chan struct{}) {
		_ = c.Wait()
		close(gone)
	}(s.cmd, s.gone)
	s.await(func(ctx context.Context, c *redis.Client) bool {
		err := c.Ping(ctx).Err()
		return err == nil || redis.HasErrorPrefix(err, "NOAUTH") || redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "WRONGPASS")
	})
}

// await asks until ok or the limit.
func (s *Server) await(ok func(context.Context, *redis.Client) bool) {
	s.t.Helper()
	c := s.Client()
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for !ok(ctx, c) {
		select {
		case <-s.gone:
			s.t.Fatalf("%s ended:\n%s", binary(), s.Log())
		case <-ctx.Done():
			s.t.Fatalf("%s did not come to where it should:\n%s", binary(), s.Log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Log is what the server said.
func (s *Server) Log() string {
	b, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(b)
}

// Client is a new client, which the caller closes.
func (s *Server) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr(), Username: s.User, Password: s.Password, DialTimeout: time.Second, MaxRetries: -1})
}

// Do runs a command and fails the test if the server refuses.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	c := s.Client()
	defer c.Close()
	v, err := c.Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		s.t.Fatalf("%v: %v", args[0], err)
	}
	return v
}

// Signal sends a signal: SIGSTOP and SIGCONT for a server that hangs.
func (s *Server) Signal(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }

// Kill ends the server as kill -9 does and waits for its end.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Shutdown ends the server in order.
func (s *Server) Shutdown() { s.end(syscall.SIGTERM) }

func (s *Server) end(sig syscall.Signal) {
	_ = s.cmd.Process.Signal(syscall.SIGCONT)
	_ = s.cmd.Process.Signal(sig)
	<-s.gone
}

// Wipe removes what the server has stored; it must not run.
func (s *Server) Wipe() {
	for _, f := range []string{"appendonlydir", "dump.rdb"} {
		if err := os.RemoveAll(filepath.Join(s.dir, f)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// Cluster is three masters that share the slots.
type Cluster struct{ Nodes []*Server }

// StartCluster runs three masters and waits until the cluster serves.
func StartCluster(t testing.TB, config ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	for range 3 {
		c.Nodes = append(c.Nodes, Start(t, append([]string{"cluster-enabled yes", "cluster-node-timeout 2000"}, config...)...))
	}
	for i, n := range c.Nodes {
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		n.Do("CLUSTER", "ADDSLOTSRANGE", i*16384/3, (i+1)*16384/3-1)
		if i > 0 {
			n.Do("CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].port)
		}
	}
	for _, n := range c.Nodes {
		n.await(func(ctx context.Context, r *redis.Client) bool {
			info, err := r.ClusterInfo(ctx).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3") && strings.Contains(info, "cluster_size:3")
		})
	}
	return c
}

// Addrs are the addresses of all nodes.
func (c *Cluster) Addrs() []string {
	list := make([]string, 0, len(c.Nodes))
	for _, n := range c.Nodes {
		list = append(list, n.Addr())
	}
	return list
}

// Sentinels are a master, two replicas, and the three that watch them.
type Sentinels struct {
	t testing.TB
	// Name is the master's.
	Name    string
	Servers []*Server // the first is the first master
	Watch   []*Server
}

// StartSentinel runs them and waits until each Sentinel knows all.
func StartSentinel(t testing.TB, config ...string) *Sentinels {
	t.Helper()
	s := &Sentinels{t: t, Name: "parlance"}
	master := Start(t, append([]string{"repl-diskless-sync-delay 0"}, config...)...)
	s.Servers = append(s.Servers, master)
	for range 2 {
		s.Servers = append(s.Servers, Start(t, append([]string{"repl-diskless-sync-delay 0", fmt.Sprintf("replicaof 127.0.0.1 %d", master.port)}, config...)...))
	}
	for _, r := range s.Servers[1:] {
		r.await(func(ctx context.Context, c *redis.Client) bool {
			info, _ := c.Info(ctx, "replication").Result()
			return strings.Contains(info, "master_link_status:up")
		})
	}
	for range 3 {
		w := &Server{t: t, port: FreePort(t), dir: t.TempDir(), sentinel: true, args: []string{
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", s.Name, master.port),
			"sentinel down-after-milliseconds " + s.Name + " 1500",
			"sentinel failover-timeout " + s.Name + " 6000",
		}}
		w.Run()
		t.Cleanup(w.Kill)
		s.Watch = append(s.Watch, w)
	}
	for _, w := range s.Watch {
		w.await(func(ctx context.Context, c *redis.Client) bool {
			v, err := c.Do(ctx, "SENTINEL", "MASTER", s.Name).Result()
			if err != nil {
				return false
			}
			m := pairs(v)
			return m["num-other-sentinels"] == "2" && m["num-slaves"] == "2"
		})
	}
	return s
}

func pairs(v any) map[string]string {
	m := map[string]string{}
	switch v := v.(type) {
	case map[any]any:
		for k, x := range v {
			m[fmt.Sprint(k)] = fmt.Sprint(x)
		}
	case []any:
		for i := 0; i+1 < len(v); i += 2 {
			m[fmt.Sprint(v[i])] = fmt.Sprint(v[i+1])
		}
	}
	return m
}

// Addrs are the addresses of the Sentinels.
func (s *Sentinels) Addrs() []string {
	list := make([]string, 0, len(s.Watch))
	for _, w := range s.Watch {
		list = append(list, w.Addr())
	}
	return list
}

// Master is the server that the Sentinels call the master now.
func (s *Sentinels) Master() *Server {
	s.t.Helper()
	v, _ := s.Watch[0].Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.Name).([]any)
	if len(v) == 2 {
		for _, r := range s.Servers {
			if strconv.Itoa(r.port) == fmt.Sprint(v[1]) {
				return r
			}
		}
	}
	s.t.Fatal("the Sentinels know no master")
	return nil
}

// Failover asks for another master and waits until it is one.
func (s *Sentinels) Failover() {
	s.t.Helper()
	was := s.Master()
	s.Watch[0].Do("SENTINEL", "FAILOVER", s.Name)
	s.AwaitMaster(was)
}

// AwaitMaster waits until another server than was is the master and serves.
func (s *Sentinels) AwaitMaster(was *Server) {
	s.t.Helper()
	deadline := time.After(startLimit)
	for {
		if m := s.Master(); m != was {
			c := m.Client()
			info, _ := c.Info(context.Background(), "replication").Result()
			_ = c.Close()
			if strings.Contains(info, "role:master") {
				return
			}
		}
		select {
		case <-deadline:
			s.t.Fatal("no failover")
		case <-time.After(50 * time.Millisecond):
		}
	}
}
