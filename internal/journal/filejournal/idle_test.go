package filejournal

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// PIN-067: how long an idle thread keeps its records may change while it lives.
func TestKeepIdle(t *testing.T) {
	var now, idle atomic.Int64
	now.Store(1_000_000)
	j, err := Open(t.Context(), Options{
		Dir: t.TempDir(), Clock: func() time.Time { return time.UnixMilli(now.Load()) },
		KeepIdle: func() time.Duration { return time.Duration(idle.Load()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for i, c := range []struct{ keep, due time.Duration }{{0, 10 * time.Minute}, {24 * time.Hour, 24 * time.Hour}} {
		idle.Store(int64(c.keep))
		key := chat.Key{Realm: "r", Thread: string(rune('a' + i))}
		res, err := j.Commit(t.Context(), journal.Commit{
			Key: key, Command: journal.CommandID{ID: [16]byte{byte(i + 1)}}, NewEpoch: 7, Tag: uint64(100 * (i + 1)),
			Entries: []chat.Entry{chat.NewEntry(chat.KindThread, "", &chat.ThreadBody{})},
		})
		if err != nil || res.Result != journal.Done {
			t.Fatal(res, err)
		}
		made := now.Load()
		for _, at := range []time.Duration{c.due - time.Second, c.due} {
			now.Store(made + at.Milliseconds())
			items, err := j.Due(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			due := false
			for _, item := range items {
				due = due || item.Key == key
			}
			if due != (at == c.due) {
				t.Errorf("PIN-067 kept for %v, after %v it is due: %v", c.keep, at, due)
			}
		}
	}
}
