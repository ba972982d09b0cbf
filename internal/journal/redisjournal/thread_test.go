package redisjournal

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// ended makes a thread whose one run has ended, with some messages.
func ended(t testing.TB, j *Journal, key chat.Key) {
	t.Helper()
	res := mustCommit(t, j, opening(key))
	if _, err := j.Append(t.Context(), appendOf(key, 0, 1<<40, "some text of an answer")); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		id := fmt.Sprintf("01890000-0000-7000-8000-00000000000%d", i)
		c := opening(key)
		c.Epoch, c.Rev, c.Runs, c.Segments = 7, res.Rev, nil, nil
		c.Entries = []chat.Entry{chat.NewEntry(chat.KindMessage, "", &chat.MessageBody{Message: &chat.Message{
			ID: id, Role: chat.User, Parts: []*chat.Part{{ID: id, Type: chat.PartText, Text: chat.Text(strings.Repeat("word ", 60))}},
		}})}
		if i == 3 {
			c.Entries = []chat.Entry{{Kind: chat.KindRunEnd, Run: "run", N: 1, Logged: true, Body: &chat.RunEndBody{Status: chat.RunComplete}}}
			c.Runs = []journal.RunChange{{Run: "run", End: true}}
		}
		c.Nodes = chat.NodesOf(c.Entries)
		res = mustCommit(t, j, c)
	}
}

func trim(t testing.TB, j *Journal, key chat.Key) {
	t.Helper()
	s := mustLoad(t, j, key)
	st := s.State(nil)
	base, pages := st.Compact()
	res, err := j.Trim(t.Context(), journal.Trim{Key: key, Epoch: s.Meta.Epoch, Base: base, FirstPage: st.Chunks, Pages: pages})
	if err != nil || res != journal.OK {
		t.Fatalf("trim: %s, %v", res, err)
	}
}

func TestIdleThreadCostsLessThan6KB(t *testing.T) {
	server := redistest.Start(t)
	j := mustOpen(t, Options{Addresses: []string{server.Addr()}})
	ended(t, j, theKey)
	trim(t, j, theKey)
	k := j.keys.thread(theKey)
	c := server.Client()
	defer c.Close()
	total := int64(0)
	for _, key := range []string{k.meta, k.stream, k.base, k.pages, k.nodes, k.segments} {
		n, err := c.MemoryUsage(t.Context(), key, 0).Result()
		if err == nil { // else it is not there
			t.Logf("%s: %d bytes", key, n)
			total += n
		}
	}
	if total == 0 || total > 6<<10 {
		t.Errorf("%d bytes", total)
	}
	if ttl, err := c.PTTL(t.Context(), k.commands).Result(); err != nil || ttl <= 0 {
		t.Errorf("its commands stay for %s, %v", ttl, err)
	}
	for _, set := range []string{j.keys.due(k.partition), j.keys.idle(k.partition), j.keys.segment(k.partition)} {
		if n := c.Exists(t.Context(), set).Val(); n != 0 {
			t.Errorf("%s is still there", set)
		}
	}
}

// A deleted thread leaves a tombstone with a time, and nothing else that would
// stay.
func TestF60DeletedThreadLeavesNothingForEver(t *testing.T) {
	server := redistest.Start(t)
	j := mustOpen(t, Options{Addresses: []string{server.Addr()}})
	for i := range 2 {
		key := chat.Key{Realm: "r", Thread: fmt.Sprint(i)}
		if i == 0 {
			mustCommit(t, j, opening(key)) // with a live run
		} else {
			ended(t, j, key)
		}
		if res, err := j.Delete(t.Context(), key, 7); err != nil || res != journal.OK {
			t.Fatal(res, err)
		}
	}
	c := server.Client()
	defer c.Close()
	keys, err := c.Keys(t.Context(), "*:{*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if ttl := c.PTTL(t.Context(), k).Val(); ttl <= 0 || ttl > journal.Tombstone {
			t.Errorf("%s stays for %s", k, ttl)
		}
	}
}

// Long threads are read in several commands; a trim meanwhile makes no hole.
func TestLongLoadsAreOfOneInstant(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	j := mustOpen(t, Options{Addresses: []string{server.Addr()}})
	mustCommit(t, j, opening(theKey))
	w := uint64(0)
	add := func(n int) {
		texts := make([]string, n)
		for i := range texts {
			texts[i] = fmt.Sprintf("%d,", int(w)+i)
		}
		res, err := j.Append(t.Context(), appendOf(theKey, w, (w+1)<<20, texts...))
		if err != nil || res.Result != journal.Stored {
			t.Errorf("append: %s, %v", res.Result, err)
		}
		w += uint64(n)
	}
	add(3 * loadRecords)
	quit := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for range 12 {
			add(loadRecords)
			trim(t, j, theKey)
		}
		close(quit)
	})
	for loads := 0; ; loads++ {
		select {
		case <-quit:
			writer.Wait()
			if loads == 0 {
				t.Error("nothing was loaded")
			}
			return
		default:
		}
		s := mustLoad(t, j, theKey)
		st := s.State(nil)
		if st.Pos != s.Meta.Pos || st.Tag != s.Meta.Tag {
			t.Fatalf("a load ends at %d of %d", st.Pos, s.Meta.Pos)
		}
		text := st.Run("run").Part("p1").Text.String()
		if n := strings.Count(text, ","); uint64(n) != s.Meta.Runs["run"].W {
			t.Fatalf("%d of %d texts", n, s.Meta.Runs["run"].W)
		}
	}
}

func TestOlderWriterIsRefused(t *testing.T) {
	server := redistest.Start(t)
	o := Options{Addresses: []string{server.Addr()}}
	newer, older := mustOpen(t, o), mustOpen(t, o)
	newer.schema.writes.Add(1)
	done := mustCommit(t, newer, opening(theKey))
	c := opening(theKey)
	c.Epoch, c.Rev, c.Runs = 7, done.Rev, nil
	base := &chat.State{Schema: 1, Pos: 2, Tag: done.Records[1].Tag}
	for name, f := range map[string]func() error{
		"append": func() error { _, err := older.Append(t.Context(), appendOf(theKey, 0, 1<<40, "x")); return err },
		"commit": func() error { _, err := older.Commit(t.Context(), c); return err },
		"load":   func() error { _, err := older.Load(t.Context(), journal.Load{Key: theKey}); return err },
		"trim": func() error {
			_, err := older.Trim(t.Context(), journal.Trim{Key: theKey, Epoch: 7, Base: base})
			return err
		},
		"reset": func() error {
			_, err := older.Reset(t.Context(), journal.Reset{Key: theKey, Seen: journal.Cursor{Epoch: 7, Pos: 2, Tag: base.Tag}, NewEpoch: 8, Base: &chat.State{Pos: 9}})
			return err
		},
		"claim": func() error {
			_, _, _, err := older.Claim(t.Context(), journal.Claim{Key: theKey, Run: "run", Fence: 1, Owner: "x", Living: true, Tag: 5})
			return err
		},
		"delete": func() error {
			_, err := older.Delete(t.Context(), theKey, 7)
			return err
		},
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), "upgrade this edge") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if res, err := newer.Append(t.Context(), appendOf(theKey, 0, 1<<40, "x")); err != nil || res.Result != journal.Stored {
		t.Errorf("the newer one's append: %s, %v", res.Result, err)
	}
}

// F45: two versions side by side write what both read; when the older ones have
// gone the newer form is written, and an older edge is told what to do.
func TestSchemaIsWrittenWhenItIsSpoken(t *testing.T) {
	server := redistest.Start(t)
	o := Options{Addresses: []string{server.Addr()}}
	newer, older := mustOpen(t, o), mustOpen(t, o)
	newer.schema.knows++
	mustCommit(t, newer, opening(theKey))
	mustLoad(t, older, theKey)
	say := func(version int) {
		t.Helper()
		if err := newer.Speak(t.Context(), version); err != nil {
			t.Fatal(err)
		}
	}
	say(0)
	say(chat.SchemaVersion)
	other := threadKey("other")
	mustCommit(t, newer, opening(other))
	mustLoad(t, older, other)
	if err := older.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	say(chat.SchemaVersion + 9) // more than it knows
	say(chat.SchemaVersion)
	risen := threadKey("risen")
	mustCommit(t, newer, opening(risen))
	if _, err := older.Load(t.Context(), journal.Load{Key: risen}); err == nil || !strings.Contains(err.Error(), "upgrade this edge") {
		t.Errorf("a thread of the newer schema: %v", err)
	}
	older.health.mu.Lock()
	older.health.at = time.Time{}
	older.health.mu.Unlock()
	late := mustOpen(t, o)
	for name, err := range map[string]error{"the older one": older.Ready(t.Context()), "one that comes later": late.Ready(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), "upgrade this edge") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := late.Commit(t.Context(), opening(threadKey("late"))); err == nil || !strings.Contains(err.Error(), "upgrade this edge") {
		t.Errorf("it writes: %v", err)
	}
	heir := mustOpen(t, o)
	heir.schema.knows++
	if err := heir.Ready(t.Context()); err != nil || heir.schema.writes.Load() != uint32(chat.SchemaVersion+1) {
		t.Errorf("another of the newer version writes %d, %v", heir.schema.writes.Load(), err)
	}
}

func TestAnotherNumberOfPartitionsIsRefused(t *testing.T) {
	server := redistest.Start(t)
	mustCommit(t, mustOpen(t, Options{Addresses: []string{server.Addr()}}), opening(theKey))
	other := mustOpen(t, Options{Addresses: []string{server.Addr()}, Partitions: 64})
	if _, err := other.Load(t.Context(), journal.Load{Key: theKey}); err == nil || !strings.Contains(err.Error(), "128") {
		t.Errorf("load: %v", err)
	}
	if _, err := other.Commit(t.Context(), opening(theKey)); err == nil {
		t.Error("a commit is taken")
	}
	apart := mustOpen(t, Options{Addresses: []string{server.Addr()}, Partitions: 64, Prefix: "other"})
	if s := mustLoad(t, apart, theKey); s.Exists {
		t.Error("another prefix has the thread")
	}
}

// Whatever stands in Redis, it is an error of that thread alone, and tells
// nothing of what stands there.
func TestDamageIsOneThreads(t *testing.T) {
	server := redistest.Start(t)
	j := mustOpen(t, Options{Addresses: []string{server.Addr()}})
	well := chat.Key{Realm: "r", Thread: "well"}
	mustCommit(t, j, opening(well))
	k := j.keys.thread(theKey)
	for name, damage := range map[string][][]any{
		"head":          {{"HSET", k.meta, "h", "secret"}},
		"cold half":     {{"HSET", k.meta, "c", "secret"}},
		"run":           {{"HSET", k.meta, "rrun", "secret"}},
		"run's numbers": {{"HDEL", k.meta, "wrun"}},
		"no head":       {{"HDEL", k.meta, "h"}},
		"kind of value": {{"DEL", k.meta}, {"SET", k.meta, "secret"}},
		"record":        {{"DEL", k.stream}, {"XADD", k.stream, "2-0", "", "secret"}},
		"no records":    {{"DEL", k.stream}},
		"no base":       {{"HDEL", k.meta, "o"}},
	} {
		server.Do("DEL", k.meta, k.stream, k.base)
		done := mustCommit(t, j, opening(theKey))
		for _, cmd := range damage {
			server.Do(cmd...)
		}
		_, err := j.Load(t.Context(), journal.Load{Key: theKey})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: load: %v", name, err)
		}
		if _, err := j.Due(t.Context(), 10); err != nil {
			t.Errorf("%s: due: %v", name, err)
		}
		c := opening(theKey)
		c.Epoch, c.Rev, c.Runs = 7, done.Rev, []journal.RunChange{{Run: "run"}}
		if _, err := j.Commit(t.Context(), c); err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: commit: %v", name, err)
		}
		if _, err := j.Append(t.Context(), appendOf(theKey, 0, 1<<40, "x")); err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: append: %v", name, err)
		}
		mustLoad(t, j, well)
	}
}

// A server that cannot take a write says so and takes nothing of it.
func TestRefusedWritesLeaveTheThreadWhole(t *testing.T) {
	server := redistest.Start(t)
	j := mustOpen(t, Options{Addresses: []string{server.Addr()}})
	done := mustCommit(t, j, opening(theKey))
	before := mustLoad(t, j, theKey)
	a := appendOf(theKey, 0, 1<<40, "x")
	c := opening(theKey)
	c.Epoch, c.Rev, c.Runs = 7, done.Rev, nil
	for name, change := range map[string][2][]any{
		"OOM":        {{"CONFIG", "SET", "maxmemory", "1"}, {"CONFIG", "SET", "maxmemory", "0"}},
		"NOREPLICAS": {{"CONFIG", "SET", "min-replicas-to-write", "1"}, {"CONFIG", "SET", "min-replicas-to-write", "0"}},
		"READONLY":   {{"REPLICAOF", "127.0.0.1", "1"}, {"REPLICAOF", "NO", "ONE"}},
	} {
		server.Do(change[0]...)
		if res, err := j.Append(t.Context(), a); err == nil || !strings.Contains(err.Error(), name) && name != "READONLY" {
			t.Errorf("%s: append: %s, %v", name, res.Result, err)
		}
		if res, err := j.Commit(t.Context(), c); err == nil {
			t.Errorf("%s: commit: %s", name, res.Result)
		}
		server.Do(change[1]...)
		after := mustLoad(t, j, theKey)
		if after.Meta.Pos != before.Meta.Pos || len(after.Records) != len(before.Records) || after.Meta.Rev != before.Meta.Rev {
			t.Errorf("%s: the thread has changed", name)
		}
	}
	if res, err := j.Append(t.Context(), a); err != nil || res.Result != journal.Stored {
		t.Errorf("append again: %s, %v", res.Result, err)
	}
	mustCommit(t, j, c)
}
