package redisjournal

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
	"github.com/redis/go-redis/v9"
)

// A master of a cluster that hangs holds up what is on it and nothing else.
func TestAHangingMasterHoldsUpOnlyItsOwn(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, "cluster-node-timeout 60000")
	j := mustOpen(t, Options{Addresses: c.Addrs(), Cluster: true})
	byServer := map[string]chat.Key{}
	for i := 0; len(byServer) < len(c.Nodes); i++ {
		key := threadKey(fmt.Sprint(i))
		node, err := nodeOf(t.Context(), j.link.read, j.keys.thread(key).meta)
		if err != nil {
			t.Fatal(err)
		}
		byServer[node.(*redis.Client).Options().Addr] = key
	}
	var owned, healthy, hanging []journal.Owned
	for i, n := range c.Nodes {
		key := byServer[n.Addr()]
		commit := opening(key)
		commit.Runs[0].Due = 1
		commit.Segments = nil
		o := journal.Owned{Key: key, Run: "run", Fence: mustCommit(t, j, commit).Fences["run"]}
		owned = append(owned, o)
		if i == 0 {
			hanging = append(hanging, o)
		} else {
			healthy = append(healthy, o)
		}
	}
	if lost, err := j.Beat(t.Context(), "edge", owned); err != nil || len(lost) > 0 {
		t.Fatal(lost, err)
	}
	c.Nodes[0].Signal(syscall.SIGSTOP)
	defer c.Nodes[0].Signal(syscall.SIGCONT)
	asked := append(owned[:len(owned):len(owned)], journal.Owned{Key: healthy[0].Key, Run: "other", Fence: 1})
	var part *journal.Unheard
	lost, err := j.Beat(t.Context(), "edge", asked)
	if !errors.As(err, &part) || !reflect.DeepEqual(part.Runs, hanging) {
		t.Errorf("F8 the heartbeat says %v, not that %v was not heard", err, hanging)
	}
	if len(lost) != 1 || lost[0].Run != "other" {
		t.Errorf("F8 lost are %v", lost)
	}
	items, err := j.Due(t.Context(), 10)
	got := map[chat.Key]bool{}
	for _, i := range items {
		got[i.Key] = true
	}
	if err == nil || len(items) != 2 || !got[healthy[0].Key] || !got[healthy[1].Key] {
		t.Errorf("F8 due are %v, %v", items, err)
	}
	if ids, err := j.link.histories(t.Context()); err != nil || ids[c.Nodes[0].Addr()] != "" || ids[c.Nodes[1].Addr()] == "" || ids[c.Nodes[2].Addr()] == "" {
		t.Errorf("F8 the masters' histories are %v, %v", ids, err)
	}
	if lost, err := j.Beat(t.Context(), "edge", hanging); errors.As(err, &part) || err == nil || len(lost) > 0 {
		t.Errorf("F8 with nothing heard: %v, %v", lost, err)
	}
	if err := j.Leave(t.Context(), "edge"); err == nil {
		t.Error("F8 an edge has left a server that hangs")
	}
	for _, o := range healthy {
		if m := mustLoad(t, j, o.Key).Meta.Runs["run"]; m.Until != 0 {
			t.Errorf("F8 a run of an edge that has left is held until %d", m.Until)
		}
	}
}

// A write whose outcome is unknown is its caller's to send again.
func TestAClusterIsNotSentTheSameWriteTwice(t *testing.T) {
	c := redistest.StartCluster(t, "cluster-node-timeout 60000")
	j := mustOpen(t, Options{Addresses: c.Addrs(), Cluster: true})
	mustCommit(t, j, opening(theKey))
	write := func(w uint64) (journal.Appended, error) {
		return j.Append(t.Context(), appendOf(theKey, w, (w+1)<<40, "x"))
	}
	if _, err := write(0); err != nil { // the server knows the script now
		t.Fatal(err)
	}
	u, err := nodeOf(t.Context(), j.link.write, j.keys.thread(theKey).meta)
	if err != nil {
		t.Fatal(err)
	}
	node := u.(*redis.Client)
	// Connections that the client could send it again by.
	var idle []*redis.Conn
	for range 5 {
		conn := node.Conn()
		if err := conn.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	for _, conn := range idle {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	server := c.Nodes[slices.IndexFunc(c.Nodes, func(n *redistest.Server) bool { return n.Addr() == node.Options().Addr })]
	calls := func() (n int) {
		stats := parseInfo(server.Do("INFO", "commandstats").(string))["cmdstat_evalsha"]
		if _, err := fmt.Sscanf(stats, "calls=%d,", &n); err != nil {
			t.Fatal(stats, err)
		}
		return n
	}
	before := calls()
	server.Signal(syscall.SIGSTOP)
	if res, err := write(1); err == nil {
		t.Errorf("F9 a server that hangs answers %s", res.Result)
	}
	server.Signal(syscall.SIGCONT)
	if res, err := write(1); err != nil || res.Result != journal.Already && res.Result != journal.Stored {
		t.Errorf("F9 sent again by its caller: %s, %v", res.Result, err)
	}
	if n := calls() - before; n != 2 {
		t.Errorf("F9 what was sent twice has come %d times", n)
	}
}

// A server that hangs keeps nobody who has stopped waiting, nor Close.
func TestNobodyWaitsLongForAServerThatHangs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	j := mustOpen(t, Options{Addresses: []string{s.Addr()}, timeout: time.Hour})
	mustCommit(t, j, opening(theKey))
	l := listen(t, j, theKey)
	l.resync()
	s.Signal(syscall.SIGSTOP)
	defer s.Signal(syscall.SIGCONT)
	ctx, cancel := context.WithCancel(t.Context())
	calls := map[string]func() error{
		"a load":     func() error { _, err := j.Load(ctx, journal.Load{Key: theKey}); return err },
		"a look":     func() error { _, err := j.Due(ctx, 1); return err },
		"a name":     func() error { return j.Roster().Announce(ctx, journal.Edge{Boot: "edge"}) },
		"a guest":    func() error { return j.Roster().Attend(ctx, theKey, journal.Attendance{Boot: "edge", Count: 1}) },
		"a decision": func() error { _, err := j.Commit(ctx, opening(threadKey("other"))); return err },
		"a beat": func() error {
			_, err := j.Beat(ctx, "edge", []journal.Owned{{Key: theKey, Run: "run", Fence: 1}})
			return err
		},
	}
	var all sync.WaitGroup
	for name, call := range calls {
		all.Go(func() {
			if err := call(); !errors.Is(err, context.Canceled) {
				t.Errorf("F8 %s: %v", name, err)
			}
		})
	}
	time.AfterFunc(100*time.Millisecond, cancel)
	all.Wait()
	if err := j.Close(); err != nil {
		t.Errorf("F8 it was closed: %v", err)
	}
}
