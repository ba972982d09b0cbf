package redisjournal

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// logged is what a journal has logged.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config  []string
		o       Options
		problem string // "" is ready
		warning string
	}{
		"a Redis as it should be":                          {},
		"L10 one that evicts":                              {config: []string{"maxmemory 100mb", "maxmemory-policy allkeys-lru"}, problem: "set maxmemory-policy noeviction"},
		"one that would evict if it had a limit":           {config: []string{"maxmemory-policy allkeys-lru"}},
		"one with a limit that does not evict":             {config: []string{"maxmemory 100mb"}},
		"one that keeps nothing":                           {config: []string{"appendonly no"}, warning: "a restart loses all threads"},
		"one that keeps snapshots":                         {config: []string{"appendonly no", "save 60 1"}, warning: "what came after the last snapshot"},
		"sync fsync without a file":                        {config: []string{"appendonly no"}, o: Options{Sync: Sync{Fsync: true}}, problem: "set appendonly yes"},
		"sync fsync without WAITAOF, and not always":       {config: []string{"appendfsync everysec"}, o: Options{Sync: Sync{Fsync: true}}, problem: "appendfsync always"},
		"sync fsync without WAITAOF, but always":           {config: []string{"appendfsync always"}, o: Options{Sync: Sync{Fsync: true}}},
		"sync replicas without replicas":                   {o: Options{Sync: Sync{Replicas: 2}}, problem: "the master has 0"},
		"a replica":                                        {config: []string{"replicaof 127.0.0.1 1"}, problem: "is a replica"},
		"S6 a password that is not given":                  {config: []string{"requirepass secret"}, problem: "wants a password"},
		"a password that is wrong":                         {config: []string{"requirepass secret"}, o: Options{Credentials: user("", "hunter2")}, problem: "does not take this user and password"},
		"a cluster that is none":                           {o: Options{Cluster: true}, problem: "leave the word cluster out"},
		"no storage":                                       {warning: "no Caddy storage"},
		"a server of a cluster that is not said to be one": {config: []string{"cluster-enabled yes"}, problem: "the Redis cluster does not serve all slots"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, c.config...)
			log := &logged{}
			o := c.o
			o.Addresses, o.Logger = []string{s.Addr()}, slog.New(slog.NewTextHandler(log, nil))
			j := mustOpen(t, o)
			err := j.Ready(t.Context())
			if c.problem == "appendfsync always" && knows(s, "waitaof") {
				c.problem = ""
			}
			if c.problem == "" && err != nil || c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
				t.Errorf("got %v, want %q", err, c.problem)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "secret")) {
				t.Error("the password is told")
			}
			if !strings.Contains(log.String(), c.warning) {
				t.Errorf("logged %q, want %q", log.String(), c.warning)
			}
		})
	}
	t.Run("another number of partitions is refused, with the mend", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		a := mustOpen(t, Options{Addresses: []string{s.Addr()}})
		b := mustOpen(t, Options{Addresses: []string{s.Addr()}, Partitions: 64})
		if err := a.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		if err := b.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "take another prefix") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("F14 a password that changes needs no new journal", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		set := func(password string) {
			s.Do("ACL", "SETUSER", "edge", "reset", "on", "~*", "&*", "+@all", ">"+password)
		}
		set("one")
		var password atomic.Value
		password.Store("one")
		j := mustOpen(t, Options{Addresses: []string{s.Addr()}, Credentials: func() (string, string) { return "edge", password.Load().(string) }})
		l := listen(t, j, threadKey("a"))
		l.resync()
		password.Store("two")
		set("two")
		s.Do("CLIENT", "KILL", "USER", "edge")
		l.resync()
		until(t, "a write", func() bool {
			_, ok, err := j.Shelf().Put(t.Context(), journal.Put{Realm: "r", Kind: "k", ID: "id"})
			return err == nil && ok
		})
		l.hears(j, threadKey("a"))
	})
	t.Run("S6 TLS is checked", func(t *testing.T) {
		t.Parallel()
		s, addr, trusting := redistest.StartTLS(t)
		j := mustOpen(t, Options{Addresses: []string{addr}, TLS: trusting})
		if err := j.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		l := listen(t, j, threadKey("a"))
		l.resync()
		l.hears(j, threadKey("a"))
		for name, o := range map[string]Options{
			"an unknown authority": {Addresses: []string{addr}, TLS: &tls.Config{MinVersion: tls.VersionTLS12}},
			"another name":         {Addresses: []string{addr}, TLS: &tls.Config{RootCAs: trusting.RootCAs, ServerName: "other", MinVersion: tls.VersionTLS12}},
			"plain to TLS":         {Addresses: []string{addr}},
			"TLS to plain":         {Addresses: []string{s.Addr()}, TLS: trusting},
		} {
			if err := mustOpen(t, o).Ready(t.Context()); err == nil {
				t.Errorf("%s: ready", name)
			}
		}
	})
}

func TestSync(t *testing.T) {
	t.Parallel()
	put := func(t *testing.T, j *Journal) error {
		key := "parlance:{" + j.keys.tag(0) + "}:k"
		if err := j.link.write.HSet(t.Context(), key, "there", 1).Err(); err != nil {
			t.Fatal(err)
		}
		return j.link.sync(t.Context(), j.keys.tag(0), key, []byte("there"))
	}
	t.Run("F4 a commit that the new master does not have is not confirmed by it", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, "appendfsync always")
		j := mustOpen(t, Options{Addresses: []string{s.Addr()}, Sync: Sync{Fsync: true}})
		if err := put(t, j); err != nil {
			t.Fatal(err)
		}
		if err := j.link.sync(t.Context(), j.keys.tag(0), "parlance:{"+j.keys.tag(0)+"}:k", []byte("lost")); !errors.Is(err, errUnconfirmed) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a commit waits for as many replicas as it is told, and no longer than that takes", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartSentinel(t)
		o := Options{Addresses: []string{s.Servers[0].Addr()}, Sync: Sync{Replicas: 2}}
		j := mustOpen(t, o)
		if err := put(t, j); err != nil {
			t.Error(err)
		}
		s.Servers[1].Kill()
		if err := put(t, j); err == nil {
			t.Error("confirmed by one of two")
		}
		o.Sync.Replicas = 1
		if err := put(t, mustOpen(t, o)); err != nil {
			t.Error(err)
		}
	})
	for config, ok := range map[string]bool{"appendfsync always": true, "appendfsync everysec": false, "appendonly no": false} {
		t.Run("sync fsync with "+config, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, config)
			want := ok || config == "appendfsync everysec" && knows(s, "waitaof")
			err := put(t, mustOpen(t, Options{Addresses: []string{s.Addr()}, Sync: Sync{Fsync: true}}))
			if (err == nil) != want {
				t.Errorf("got %v", err)
			}
		})
	}
}
