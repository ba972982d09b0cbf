package redisjournal

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// TestPromptFollowers: they hear what the others do, small and large, in order,
// and nothing once they have stopped.
func TestPromptFollowers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	j, key := mustOpen(t, Options{Addresses: []string{s.Addr()}}), threadKey("prompt")
	heard := make(chan journal.Notice, 1024)
	var calls atomic.Int64
	stop := j.FollowPromptly(key, func(n journal.Notice) { calls.Add(1); heard <- n })
	l := &listener{t, heard}
	if n := <-heard; !n.Resync {
		t.Fatalf("first came %+v", n)
	}
	commit := func(text string) {
		t.Helper()
		snap, err := j.Load(t.Context(), journal.Load{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		c := journal.Commit{
			Key: key, Epoch: snap.Meta.Epoch, Rev: snap.Meta.Rev, NewEpoch: 7, Tag: 1 << 20, Command: journal.CommandID{ID: [16]byte{text[0]}},
			Entries: []chat.Entry{chat.NewEntry(chat.KindThread, "", &chat.ThreadBody{Info: chat.Info{Title: text}})},
		}
		if res, err := j.Commit(t.Context(), c); err != nil || res.Result != journal.Done {
			t.Fatal(res.Result, err)
		}
	}
	for _, text := range []string{"a", strings.Repeat("b", 2*promptBytes), "c", strings.Repeat("d", 2*largeNotice), "e"} {
		commit(text)
	}
	last := ""
	l.await("all of it", func(n journal.Notice) bool {
		for _, r := range n.Records {
			if title := r.Body.(*chat.ThreadBody).Info.Title; title < last {
				t.Errorf("%.1s came after %.1s", title, last)
			} else {
				last = title
			}
		}
		return last == "e"
	})
	stop()
	stop()
	before := calls.Load()
	other := listen(t, j, key)
	other.resync()
	commit("f")
	other.await("the last", func(n journal.Notice) bool { return len(n.Records) == 1 })
	if n := calls.Load(); n != before {
		t.Errorf("%d calls after the stop", n-before)
	}
}
