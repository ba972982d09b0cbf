package pingerchips_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/edge"
)

func after(log uint64) string { return fmt.Sprintf(`"after_log_id":%d`, log) }

// Whatever entry a client had last, a join with it leads to what one has that
// saw everything: on the edge that ran the runs, and on one that was not there.
func TestReplayFromEachEntry(t *testing.T) {
	t.Parallel()
	j := open(t)
	one := on(t, j, nil)
	w := one.join("t1", "ann")
	w.talk("m1", "some words to be shown")
	w.send("m2", "first /ask")
	list := w.after(0, "run:suspend", event("run:suspend"))
	w.ok("tool_approval", `{"runId":"r-m2","toolCallId":`+quote(read(t, list[len(list)-1]).ToolCallID)+`,"approved":true}`)
	w.over(0, "r-m2")
	w.ok("edit", `{"messageId":"m1","newMessageId":"m1b","runId":"r-m1b","text":"words /fail"}`)
	w.over(0, "r-m1b")
	w.send("m3", "waits /ask") // so that nothing more comes
	n := len(w.after(0, "run:suspend", about("r-m3", "run:suspend")))
	w.after(n, "its change", event("change"))
	live := newClient(t, "live")
	live.frames(w.all())
	two := on(t, j, nil)
	for name, s := range map[string]*site{"the same edge": one, "another edge": two} {
		for k := uint64(0); k <= live.log+1; k++ {
			v := s.join("t1", "bob", after(k))
			c := newClient(t, fmt.Sprintf("%s, after %d", name, k))
			if k > 0 { // a client that has nothing knows of no entry
				c.log, c.known = k, true
			}
			all := v.all()
			for i, f := range all {
				if f.event == "batch" || f.event == "change" {
					c.entryOnly(f)
				} else if f.event != "snapshot" && i > 0 {
					t.Fatalf("PIN-063 PIN-065 after %d comes %s", k, f.event)
				}
			}
			want := live.log - min(k, live.log)
			if uint64(len(c.logs)) != want {
				t.Fatalf("PIN-060 PIN-066 %s: after %d come %d entries, want %d", name, k, len(c.logs), want)
			}
			for log, entry := range c.logs {
				if entry != live.logs[log] {
					t.Errorf("PIN-061 PIN-062 PIN-086 %s: entry %d is replayed as\n%s\nwas\n%s", name, log, entry, live.logs[log])
				}
			}
			fresh := newClient(t, "the snapshot")
			fresh.frames(all[len(all)-1:])
			if fresh.log != live.log || fresh.folded() != live.folded() {
				t.Fatalf("PIN-064 PIN-078 %s: after %d the snapshot is\n%s\nwant\n%s", name, k, fresh.folded(), live.folded())
			}
		}
	}
	w.ok("cancel", `{"runId":"r-m3"}`)
	w.over(0, "r-m3")
	ended := newClient(t, "ended")
	ended.frames(w.all())
	// An edge that was not there while a run lived has to read the journal.
	three := on(t, j, nil)
	for k := uint64(1); k <= ended.log; k++ {
		c := newClient(t, fmt.Sprintf("a third edge, after %d", k))
		c.log, c.known = k, true
		all := three.join("t1", "carol", after(k)).all()
		for _, f := range all[1 : len(all)-1] {
			c.entryOnly(f)
		}
		for log, entry := range c.logs {
			if entry != ended.logs[log] {
				t.Errorf("PIN-061 entry %d is replayed as\n%s\nwas\n%s", log, entry, ended.logs[log])
			}
		}
		if c.log != ended.log {
			t.Fatalf("PIN-060 PIN-067 after %d the replay ends at %d of %d", k, c.log, ended.log)
		}
	}
}

// entryOnly notes an entry without folding it.
func (c *client) entryOnly(f frame) {
	c.t.Helper()
	r := read(c.t, f)
	if r.LogID == nil || (c.known && *r.LogID != c.log+1) {
		c.t.Fatalf("%s: PIN-060 entry %s after %d", c.what, f.payload, c.log)
	}
	c.log, c.known = *r.LogID, true
	c.logs[c.log] = canonical(f.payload)
}

// PIN-060: a client that comes back folds on from what it had, and the snapshot
// says the same.
func TestComeBackInTheMiddle(t *testing.T) {
	s := serve(t, nil)
	w := s.join("t1", "ann")
	w.talk("m0", "hi")
	n := w.count()
	w.send("m1", strings.Repeat("many words to say ", 60)+"/tool /think done")
	for range 12 {
		old := newClient(t, "before")
		old.frames(w.all()[:n])
		v := s.join("t1", "bob", after(old.log))
		back := newClient(t, fmt.Sprintf("back after %d", old.log))
		back.resumes(old)
		whole := newClient(t, "whole")
		w.over(0, "r-m1")
		whole.frames(w.all())
		v.after(0, "the newest entry", func(f frame) bool {
			r := read(t, f)
			return r.LogID != nil && *r.LogID == whole.log
		})
		v.ok("load_older", `{}`) // the snapshot has come by then
		back.frames(v.all())
		if back.folded() != whole.folded() || back.log != whole.log {
			t.Fatalf("PIN-078 came back after %d with\n%s\nwant\n%s", old.log, back.folded(), whole.folded())
		}
		n = min(n+2, len(w.all()))
	}
}

// PIN-062: by the letter of the seed, each slot is a change of its own.
func TestReplayApart(t *testing.T) {
	s := serve(t, func(c *edge.Site) { c.Rules.ReplayApart = true })
	s.join("t1", "ann").talk("m1", "hi")
	all := s.join("t1", "bob", after(0)).all()
	keys := ""
	for _, f := range all[1 : len(all)-1] {
		var r struct {
			Key string `json:"key"`
		}
		if f.event != "change" {
			t.Fatalf("PIN-062 PIN-061 replayed as %s", f.event)
		}
		unmarshal(t, f.payload, &r)
		keys += " " + r.Key
	}
	if !strings.HasPrefix(keys, " messages run:r-m1 last_message_id run:r-m1 stream:r-m1 ") || !strings.HasSuffix(keys, " messages run:r-m1 stream:r-m1 last_message_id") {
		t.Errorf("PIN-062 replayed%s", keys)
	}
}

// PIN-067: what would be more than a join is sent is not sent at all.
func TestReplayIsBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	w := s.join("t1", "ann")
	w.talk("m1", "/long 40000")
	for i := range 6 {
		w.talk(fmt.Sprint("n", i), "/long 40000")
	}
	size, log := 0, newClient(t, "all")
	log.frames(w.all())
	for _, f := range w.all() {
		if f.event == "batch" || f.event == "change" {
			size += len(f.payload)
		}
	}
	all := s.join("t1", "bob", after(0)).all()
	if n := len(all) - 2; (n == 0) != (size > 8<<20) || (n != 0 && uint64(n) != log.log) {
		t.Errorf("PIN-067 a log of %d bytes is replayed in %d entries of %d", size, n, log.log)
	}
	if size <= 8<<20 {
		t.Fatalf("PIN-067 the log has %d bytes only", size)
	}
}

// PIN-007: a second join of the topic replaces the first; PIN-006: after leave
// nothing comes.
func TestJoinTwiceAndLeave(t *testing.T) {
	s := serve(t, nil)
	k := s.dial()
	payload := `{"auth":` + quote(s.token("ann")) + `}`
	first, _, _ := k.attempt(topicOf("t1"), payload)
	second, _, reason := k.attempt(topicOf("t1"), payload)
	if reason != "" {
		t.Fatal(reason)
	}
	first.wait("PIN-007 phx_close", func() bool { return first.closed == "phx_close" })
	list := second.talk("m1", "hi")
	c := newClient(t, "PIN-007")
	second.after(0, "snapshot", event("snapshot"))
	c.frames(second.all())
	if len(list) < 4 {
		t.Errorf("PIN-007 the second join sees %d frames", len(list))
	}
	n := first.count()
	second.ask("phx_leave", `{}`)
	second.wait("PIN-006 phx_close", func() bool { return second.closed == "phx_close" })
	m := second.count()
	third := s.join("t1", "bob")
	third.talk("m2", "hi")
	if first.count() != n || second.count() != m {
		t.Error("PIN-006 who left is sent more")
	}
}
