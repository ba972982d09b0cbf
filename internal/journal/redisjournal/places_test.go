package redisjournal

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/journaltest"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// holds runs the contract over journals of these options; wipe empties the store.
func holds(t *testing.T, o Options, wipe func()) {
	journaltest.Run(t, func(t *testing.T) *journaltest.Store {
		wipe()
		c := newClock()
		o := o
		o.Shift, o.Storage = c.shift, newMemory()
		return &journaltest.Store{Hubs: [2]journal.Journal{mustOpen(t, o), mustOpen(t, o)}, Advance: c.Advance}
	})
}

func TestContractInACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	holds(t, Options{Addresses: c.Addrs(), Cluster: true}, func() {
		for _, n := range c.Nodes {
			n.Do("FLUSHALL")
		}
	})
}

func TestContractBehindSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	o := Options{Addresses: s.Addrs(), Master: s.Name, Sync: Sync{Replicas: 1}}
	holds(t, o, func() { s.Master().Do("FLUSHALL") })
	t.Run("F3 after a failover writes and notices go on", func(t *testing.T) {
		j, key := mustOpen(t, o), threadKey("a")
		l := listen(t, j, key)
		l.resync()
		s.Failover()
		l.resync()
		put := journal.Put{Realm: "r", Kind: "k", ID: "id"}
		until(t, "a write to the new master", func() bool {
			_, ok, err := j.Shelf().Put(t.Context(), put)
			return err == nil && ok
		})
		until(t, "readiness", func() bool { return j.Ready(t.Context()) == nil })
		// What is published while the connections change hands may be lost.
		until(t, "a notice by the new master", func() bool {
			rev := lastRev.Add(1)
			publish(t, j, key, rev)
			for {
				select {
				case n := <-l.ch:
					if n.Rev.N == rev {
						return true
					}
				case <-time.After(time.Second):
					return false
				}
			}
		})
	})
}

// rule is ACLRule for the Redis of the tests, which may not know all commands.
func rule(s *redistest.Server) []any {
	args := []any{"ACL", "SETUSER", "edge", "on", ">pass"}
	for _, w := range strings.Fields(ACLRule) {
		if w == "+waitaof" && !knows(s, "waitaof") {
			continue
		}
		args = append(args, w)
	}
	return args
}

func knows(s *redistest.Server, command string) bool {
	v, _ := s.Do("COMMAND", "INFO", command).([]any)
	return len(v) == 1 && v[0] != nil
}

var refused = regexp.MustCompile("(?i)no permissions|can't access|not allowed")

func user(name, password string) func() (string, string) {
	return func() (string, string) { return name, password }
}

func TestContractAsAUserOfLittlePrivilege(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(rule(s)...)
	o := Options{Addresses: []string{s.Addr()}, Credentials: user("edge", "pass")}
	holds(t, o, func() { s.Do("FLUSHALL") })
	t.Run("S5 the user is ready, and can do nothing else", func(t *testing.T) {
		if err := mustOpen(t, o).Ready(t.Context()); err != nil {
			t.Error(err)
		}
		c := *s
		c.User, c.Password = "edge", "pass"
		r := c.Client()
		defer r.Close()
		for _, cmd := range [][]any{
			{"KEYS", "*"},
			{"FLUSHALL"},
			{"CONFIG", "SET", "maxmemory", "1"},
			{"GET", "other"},
			{"SUBSCRIBE", "other"},
			{"PUBLISH", "other", "x"},
			{"DEBUG", "SLEEP", "0"},
			{"ACL", "LIST"},
			{"SHUTDOWN"},
			{"SCAN", "0"},
			{"EVAL", "return redis.call('GET','other')", "0"},
			{"CLIENT", "LIST"},
			{"MONITOR"},
		} {
			if err := r.Do(t.Context(), cmd...).Err(); err == nil || !refused.MatchString(err.Error()) {
				t.Errorf("%v: %v", cmd, err)
			}
		}
	})
	t.Run("the server has refused nothing that was needed", func(t *testing.T) {
		s.Do("ACL", "LOG", "RESET")
		j := mustOpen(t, o)
		l := listen(t, j, threadKey("a"))
		l.resync()
		l.hears(j, threadKey("a"))
		if err := j.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		if v, _ := s.Do("ACL", "LOG").([]any); len(v) != 0 {
			t.Error(v)
		}
	})
}
