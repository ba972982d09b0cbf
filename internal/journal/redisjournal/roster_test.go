package redisjournal

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
	"github.com/redis/go-redis/v9"
)

func TestRosterInRedis(t *testing.T) {
	s := redistest.Start(t)
	c := newClock()
	j, key := mustOpen(t, Options{Addresses: []string{s.Addr()}, Shift: c.shift}), threadKey("a")
	r := j.Roster()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	attend := func(boot string) {
		t.Helper()
		must(r.Announce(t.Context(), journal.Edge{Boot: boot}))
		must(r.Attend(t.Context(), key, journal.Attendance{Boot: boot, Count: 1}))
	}
	fields := func() string { return fmt.Sprint(s.Do("HLEN", j.roster.attendance(key))) }
	present := func() int {
		t.Helper()
		list, err := r.Present(t.Context(), key)
		must(err)
		return len(list)
	}
	attend("slow")
	attend("here")
	c.Advance(journal.OwnerDeadline + time.Second)
	must(r.Announce(t.Context(), journal.Edge{Boot: "here"}))
	if n, f := present(), fields(); n != 1 || f != "2" {
		t.Errorf("an edge that is late: %d present, %s kept", n, f)
	}
	must(r.Announce(t.Context(), journal.Edge{Boot: "slow"}))
	if n := present(); n != 2 {
		t.Errorf("an edge that was slow: %d present", n)
	}
	c.Advance(journal.OwnerDeadline + remembered + time.Second)
	must(r.Announce(t.Context(), journal.Edge{Boot: "here"}))
	if n, f := present(), fields(); n != 1 || f != "1" {
		t.Errorf("an edge that is gone: %d present, %s kept", n, f)
	}
	s.Do("SCRIPT", "FLUSH")
	s.Do("DEL", j.roster.leases()[0], j.roster.leases()[1], j.roster.attendance(key))
	must(r.Announce(t.Context(), journal.Edge{Boot: "here"}))
	if n := present(); n != 1 {
		t.Errorf("after Redis has lost everything: %d present", n)
	}
}

// between calls f before a pipeline goes out.
type between struct{ f func() }

func (between) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (between) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (b between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "hset" {
			b.f()
		}
		return next(ctx, cmds)
	}
}

func TestARoomThatIsLeftWhileItIsSaidAgainStaysLeft(t *testing.T) {
	s := redistest.Start(t)
	j, key := mustOpen(t, Options{Addresses: []string{s.Addr()}}), threadKey("a")
	r := j.Roster()
	if err := r.Attend(t.Context(), key, journal.Attendance{Boot: "here", Count: 1}); err != nil {
		t.Fatal(err)
	}
	left := false
	j.link.read.AddHook(between{func() {
		if left {
			return
		}
		left = true
		if err := r.Attend(t.Context(), key, journal.Attendance{Boot: "here"}); err != nil {
			t.Error(err)
		}
	}})
	if err := r.Announce(t.Context(), journal.Edge{Boot: "here"}); err != nil { // it is new, so all is said again
		t.Fatal(err)
	}
	if n := s.Do("HLEN", j.roster.attendance(key)); !left || n != int64(0) {
		t.Errorf("left: %v, and %v are there", left, n)
	}
}
