package redisjournal

import (
	"context"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// patience is what no test waits for if all is well.
const patience = time.Minute

// listener hears a thread.
type listener struct {
	t  *testing.T
	ch chan journal.Notice
}

func listen(t *testing.T, j *Journal, key chat.Key) *listener {
	l := &listener{t, make(chan journal.Notice, 4096)}
	t.Cleanup(j.Follow(key, func(n journal.Notice) { l.ch <- n }))
	return l
}

// await hears until a notice is as it should be.
func (l *listener) await(what string, ok func(journal.Notice) bool) {
	l.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case n := <-l.ch:
			if ok(n) {
				return
			}
		case <-limit:
			l.t.Fatal("never heard " + what)
		}
	}
}

func (l *listener) resync() {
	l.t.Helper()
	l.await("a resync", func(n journal.Notice) bool { return n.Resync })
}

// publish sends a notice with a revision, as a script would.
func publish(t *testing.T, j *Journal, key chat.Key, rev uint64) {
	t.Helper()
	b := packer(nil).u8(0).u64(1).u64(rev).u64(1).u48(0).u32(0)
	send := j.link.write.Publish
	if j.link.cluster {
		send = j.link.write.SPublish
	}
	if err := send(context.Background(), j.keys.channel(key), []byte(b)).Err(); err != nil {
		t.Fatal(err)
	}
}

var lastRev atomic.Uint64

// hears says that what is published by a journal comes.
func (l *listener) hears(from *Journal, key chat.Key) {
	l.t.Helper()
	rev := lastRev.Add(1)
	publish(l.t, from, key, rev)
	l.await("what was published", func(n journal.Notice) bool { return n.Rev.N == rev })
}

func threadKey(id string) chat.Key { return chat.Key{Realm: "r", Tenant: "t", Thread: id} }

// until polls a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-limit:
			t.Fatal("never came: " + what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestFollowing(t *testing.T) {
	t.Parallel()
	t.Run("one subscription for all followers of a thread, none for one that nobody follows", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		j, key := mustOpen(t, Options{Addresses: []string{s.Addr()}}), threadKey("a")
		subscribers := func() (n int64) {
			c := s.Client()
			defer c.Close()
			return c.PubSubNumSub(t.Context(), j.keys.channel(key)).Val()[j.keys.channel(key)]
		}
		var stops []func()
		for range 50 {
			heard := make(chan struct{}, 64)
			stops = append(stops, j.Follow(key, func(journal.Notice) { heard <- struct{}{} }))
			<-heard
		}
		if n := subscribers(); n != 1 {
			t.Fatalf("%d subscriptions", n)
		}
		l := listen(t, j, key)
		l.resync()
		l.hears(j, key)
		for _, stop := range stops {
			stop()
		}
		l.hears(j, key)
		j.Follow(key, func(journal.Notice) {})()
		l.hears(j, key)
		other := threadKey("b")
		o := listen(t, j, other)
		o.resync()
		third := j.keys.channel(threadKey("c"))
		channels := func() int {
			v, _ := s.Do("PUBSUB", "CHANNELS", third).([]any)
			return len(v)
		}
		stopped := j.Follow(threadKey("c"), func(journal.Notice) {})
		until(t, "a subscription", func() bool { return channels() == 1 })
		stopped()
		until(t, "the end of a subscription", func() bool { return channels() == 0 })
		o.hears(j, other)
	})
	t.Run("F6 a cut connection is made anew, and each follower told", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		j, key := mustOpen(t, Options{Addresses: []string{s.Addr()}}), threadKey("a")
		l := listen(t, j, key)
		l.resync()
		for range 5 {
			s.Do("CLIENT", "KILL", "TYPE", "pubsub")
			l.resync()
			l.hears(j, key)
		}
	})
	t.Run("F1 a server that comes back", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		j, key := mustOpen(t, Options{Addresses: []string{s.Addr()}}), threadKey("a")
		l := listen(t, j, key)
		l.resync()
		s.Kill()
		s.Run()
		l.resync()
		l.hears(j, key)
	})
	t.Run("a server that was not there when the journal was opened", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		s.Kill()
		j, key := mustOpen(t, Options{Addresses: []string{s.Addr()}}), threadKey("a")
		l := listen(t, j, key)
		if err := j.Ready(t.Context()); err == nil {
			t.Error("ready without a server")
		}
		s.Run()
		l.resync()
		l.hears(j, key)
	})
	t.Run("F7 a server that hangs and goes on", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		j, key := mustOpen(t, Options{Addresses: []string{s.Addr()}}), threadKey("a")
		l := listen(t, j, key)
		l.resync()
		s.Signal(syscall.SIGSTOP)
		until(t, "a line that is given up", func() bool { return j.followers.age() > silence+markTick })
		s.Signal(syscall.SIGCONT)
		l.resync()
		l.hears(j, key)
		until(t, "a marker", func() bool { return j.followers.age() < silence })
	})
	t.Run("F6 a connection that stays and brings nothing is replaced", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		r := newRelay(t, s.Addr())
		j, key := mustOpen(t, Options{Addresses: []string{r.addr()}}), threadKey("a")
		direct := mustOpen(t, Options{Addresses: []string{s.Addr()}})
		l := listen(t, j, key)
		l.resync()
		r.swallow()
		publish(t, direct, key, 1<<40) // lost
		l.resync()
		l.hears(direct, key)
	})
	t.Run("F6 a subscription at the wrong server, which answers pings, is replaced", func(t *testing.T) {
		t.Parallel()
		s, wrong := redistest.Start(t), redistest.Start(t)
		r := newRelay(t, s.Addr())
		j, key := mustOpen(t, Options{Addresses: []string{r.addr()}}), threadKey("a")
		direct := mustOpen(t, Options{Addresses: []string{s.Addr()}})
		l := listen(t, j, key)
		l.resync()
		until(t, "a connection for markers", func() bool { return j.link.write.PoolStats().TotalConns > 0 })
		r.point(wrong.Addr())
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		l.resync()
		until(t, "the subscription there", func() bool {
			v, _ := wrong.Do("PUBSUB", "CHANNELS", j.keys.channel(key)).([]any)
			return len(v) == 1
		})
		r.point(s.Addr())
		// Markers go to the right one, also where a busy machine has dialed anew.
		wrong.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		l.resync()
		l.hears(direct, key)
	})
	t.Run("F4 another history of the server is a resync", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, "enable-debug-command local")
		j, key := mustOpen(t, Options{Addresses: []string{s.Addr()}}), threadKey("a")
		l := listen(t, j, key)
		l.resync()
		until(t, "a first look", func() bool { return j.followers.looked.Load() > 0 })
		s.Do("DEBUG", "CHANGE-REPL-ID")
		l.resync()
	})
	t.Run("S8 a notice that nobody can read is a resync, and the next one comes", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		j, key := mustOpen(t, Options{Addresses: []string{s.Addr()}}), threadKey("a")
		l := listen(t, j, key)
		l.resync()
		for _, text := range []string{"", "x", "\x00\x01\x02", string(make([]byte, 40)), "\x00" + string(make([]byte, 30)) + "\xff\xff\xff\xff"} {
			s.Do("PUBLISH", j.keys.channel(key), text)
			l.hears(j, key)
		}
		s.Do("PUBLISH", j.keys.channel(key), "x")
		l.resync()
	})
	t.Run("a flood beyond what may wait is a resync, and keeps nobody else waiting", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		j, key := mustOpen(t, Options{Addresses: []string{s.Addr()}}), threadKey("a")
		l := listen(t, j, key)
		l.resync()
		tp := j.followers.lines[0].topic(j.keys.channel(key))
		tp.mu.Lock() // its decoder is held up
		tp.busy = true
		tp.mu.Unlock()
		other := threadKey("b")
		o := listen(t, j, other)
		o.resync()
		for range 3 * maxWaiting {
			publish(t, j, key, 5)
		}
		o.hears(j, other)
		tp.mu.Lock()
		if n := len(tp.waiting); n > maxWaiting {
			t.Errorf("%d wait", n)
		}
		tp.busy = false
		tp.start()
		tp.mu.Unlock()
		l.resync()
		l.hears(j, key)
	})
}
