package redisjournal

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
	"pgregory.net/rapid"
)

var theKey = chat.Key{Realm: "r", Thread: "t"}

func say(text string) chat.Entry {
	return chat.NewEntry(chat.KindTextDelta, "run", &chat.DeltaBody{Part: "p1", Text: text})
}

var serial atomic.Uint64

// opening makes a thread with a live run.
func opening(key chat.Key) journal.Commit {
	n := serial.Add(1)
	return journal.Commit{
		Key: key, Command: journal.CommandID{ID: [16]byte{byte(n), byte(n >> 8), byte(n >> 16)}}, NewEpoch: 7, Tag: n << 20,
		Entries: []chat.Entry{
			chat.NewEntry(chat.KindThread, "", &chat.ThreadBody{}),
			chat.NewEntry(chat.KindRunPending, "run", &chat.RunPendingBody{Run: &chat.Run{
				ID: "run", Status: chat.RunPending, Parts: []*chat.Part{{ID: "p1", Type: chat.PartText, Open: true}},
			}}),
		},
		Runs:     []journal.RunChange{{Run: "run", New: true, NewOwner: true, Owner: "edge"}},
		Segments: []string{fmt.Sprint("seg-", n)},
	}
}

func mustCommit(t testing.TB, j *Journal, c journal.Commit) journal.Committed {
	t.Helper()
	res, err := j.Commit(t.Context(), c)
	if err != nil || res.Result != journal.Done {
		t.Fatalf("commit: %s, %v", res.Result, err)
	}
	return res
}

func mustLoad(t testing.TB, j *Journal, key chat.Key) journal.Snapshot {
	t.Helper()
	s, err := j.Load(t.Context(), journal.Load{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func appendOf(key chat.Key, w, tag uint64, texts ...string) journal.Append {
	a := journal.Append{Key: key, Epoch: 7, Run: "run", Owner: "edge", Fence: 1, W: w, Tag: tag}
	for _, s := range texts {
		a.Entries = append(a.Entries, say(s))
	}
	return a
}

// What the scripts do with tags in two halves is what the ledger does with 64
// bits, whatever carries over.
func TestTagsAreExact(t *testing.T) {
	j := mustOpen(t, Options{Addresses: []string{redistest.Start(t).Addr()}})
	word := rapid.OneOf(rapid.Uint64Range(0, 1<<64-1<<16-1), rapid.Custom(func(t *rapid.T) uint64 {
		return rapid.Uint64Range(0, 1<<32-2).Draw(t, "high")<<32 | 1<<32 - rapid.Uint64Range(1, 4).Draw(t, "below")
	}), rapid.Uint64Range(0, 8))
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		key := chat.Key{Realm: "r", Thread: fmt.Sprint(n)}
		l := journal.NewLedger()
		c := opening(key)
		c.NewEpoch, c.Tag = max(1, word.Draw(rt, "epoch")), word.Draw(rt, "tag")
		check := func(got, want []*chat.Record) {
			if len(got) != len(want) {
				rt.Fatalf("%d records, want %d", len(got), len(want))
			}
			for i, r := range got {
				if w := want[i]; r.Pos != w.Pos || r.Tag != w.Tag || r.Prev != w.Prev || r.W != w.W || r.Seq != w.Seq {
					rt.Fatalf("record %d is %+v, want %+v", i, r, w)
				}
			}
		}
		res, want := mustCommit(t, j, c), l.Commit(c, 1)
		check(res.Records, want.Records)
		for range rapid.IntRange(1, 6).Draw(rt, "writes") {
			a := appendOf(key, l.Meta.Runs["run"].W, word.Draw(rt, "tag"), "a", "b", "c", "d")
			a.Epoch = c.NewEpoch
			got, err := j.Append(t.Context(), a)
			if err != nil {
				rt.Fatal(err)
			}
			check(got.Records, l.Append(a, 1).Records)
		}
		s := mustLoad(t, j, key)
		check(s.Records, l.Records)
		if s.Meta.Tag != l.Meta.Tag || s.Meta.Epoch != l.Meta.Epoch || s.Meta.Rev != l.Meta.Rev || s.Meta.Runs["run"].WTag != l.Meta.Runs["run"].WTag {
			rt.Fatalf("meta %+v, want %+v", s.Meta, l.Meta)
		}
	})
}

// A server that forgets its scripts at any time loses no write and doubles none.
func TestScriptsAreSentAgain(t *testing.T) {
	server := redistest.Start(t)
	j := mustOpen(t, Options{Addresses: []string{server.Addr()}})
	c := server.Client()
	defer c.Close()
	quit, flushed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(flushed)
		for {
			select {
			case <-quit:
				return
			default:
				c.ScriptFlush(t.Context())
			}
		}
	}()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			key := chat.Key{Realm: "r", Thread: fmt.Sprint(i)}
			if res, err := j.Commit(t.Context(), opening(key)); err != nil || res.Result != journal.Done {
				t.Errorf("commit: %s, %v", res.Result, err)
				return
			}
			for w := range uint64(200) {
				res, err := j.Append(t.Context(), appendOf(key, w, (w+1)<<20, "x"))
				if err != nil || res.Result != journal.Stored {
					t.Errorf("append %d: %s, %v", w, res.Result, err)
					return
				}
			}
		})
	}
	all.Wait()
	close(quit)
	<-flushed
	if s := mustLoad(t, j, chat.Key{Realm: "r", Thread: "0"}); len(s.Records) != 202 {
		t.Errorf("%d records", len(s.Records))
	}
}

// Writes of one attempt that are under way together keep their order although
// the server knows no script when they come.
func TestOrderWithoutScripts(t *testing.T) {
	server := redistest.Start(t)
	j := mustOpen(t, Options{Addresses: []string{server.Addr()}})
	mustCommit(t, j, opening(theKey))
	k := j.keys.thread(theKey)
	for round := range uint64(20) {
		server.Do("SCRIPT", "FLUSH")
		var ops []*op
		for i := range uint64(10) {
			w := round*10 + i
			a := appendOf(theKey, w, (w+1)<<20, "x")
			entries, size, err := encodeEntries(a.Entries)
			if err != nil {
				t.Fatal(err)
			}
			o, err := j.lane(k).start(t.Context(), appendScript, size, []string{k.meta, k.stream}, j.appendHead(&a, size), a.Run, "", k.channel, lengths(entries), entries[0])
			if err != nil {
				t.Fatal(err)
			}
			ops = append(ops, o)
		}
		for i, o := range ops {
			if text, err := o.wait(); err != nil || text[0] != answerOK {
				t.Fatalf("write %d of round %d: %.1q, %v", i, round, text, err)
			}
		}
	}
}

func TestF50TheLargestRecord(t *testing.T) {
	t.Parallel()
	j := mustOpen(t, Options{Addresses: []string{redistest.Start(t).Addr()}, timeout: patience}) // megabytes, on a busy machine
	c := opening(theKey)
	done := mustCommit(t, j, c)
	next := opening(theKey)
	next.Epoch, next.Rev, next.Runs = 7, done.Rev, nil
	body := &chat.MessageBody{Message: &chat.Message{ID: "m", Role: chat.User, Parts: []*chat.Part{{ID: "p", Type: chat.PartText}}}}
	fill := func(n int) {
		body.Message.Parts = []*chat.Part{{ID: "p", Type: chat.PartText, Text: chat.Text(strings.Repeat("x", n))}}
		next.Entries = []chat.Entry{chat.NewEntry(chat.KindMessage, "", body)}
	}
	fill(1)
	one, err := (&chat.Record{Entry: next.Entries[0]}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	fill(journal.MaxRecord - len(one) + 2)
	if _, err := j.Commit(t.Context(), next); !errors.Is(err, journal.ErrTooLarge) {
		t.Fatalf("one byte too many: %v", err)
	}
	notices := make(chan journal.Notice, 16)
	defer j.Follow(theKey, func(n journal.Notice) { notices <- n })()
	for n := range notices { // the first one
		if n.Resync {
			break
		}
	}
	fill(journal.MaxRecord - len(one) + 1)
	res := mustCommit(t, j, next)
	n := <-notices
	if !n.Resync || len(n.Records) != 0 || n.Epoch != 7 || n.Rev != res.Rev {
		t.Errorf("the notice of a large commit is %+v", n)
	}
	s := mustLoad(t, j, theKey)
	if got := s.State(nil).Tail; len(got) != 1 || !reflect.DeepEqual(got[0].Parts[0].Text.String(), body.Message.Parts[0].Text.String()) {
		t.Error("the message is another one")
	}
}
