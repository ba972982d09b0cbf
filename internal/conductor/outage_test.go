package conductor

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/room"
)

// An outage of the store is no flood in the log.
func TestAnOutageIsTwoLines(t *testing.T) {
	var b bytes.Buffer
	l := slog.New(slog.NewTextHandler(&b, nil))
	o := outage{what: "nothing works"}
	o.note(l, nil)
	for range 2 {
		for range 30 {
			o.note(l, errCut)
		}
		o.note(l, nil)
		o.note(l, nil)
	}
	if n := strings.Count(b.String(), "\n"); n != 4 || strings.Count(b.String(), "failures=30") != 2 {
		t.Errorf("the log has\n%s", b.String())
	}
}

// So it is for a run that waits for the journal, however long.
func TestARunThatWaitsIsTwoLines(t *testing.T) {
	w := newWorld(t)
	l := &link{Journal: w.j}
	var b bytes.Buffer
	rooms := room.New(l, room.Options{Now: w.now, Random: rand.Uint64})
	c := New(l, rooms, Options{
		Boot: "boot", Now: w.now, Random: rand.Uint64, CommandTimeout: 10 * time.Millisecond, BeatEvery: time.Hour, SweepEvery: time.Hour,
		Realm: func(string) *Realm { return nil }, Logger: slog.New(slog.NewTextHandler(&b, nil)),
	})
	failures := 0
	l.set(func(call any) error {
		if _, ok := call.(journal.Load); ok && failures < 6 {
			failures++
			return errCut
		}
		return nil
	}, nil)
	_, err := c.carryOn(context.Background(), &Command{ID: newCommand(), Key: Key(ann, "t"), Decide: func(*View) (Plan, error) {
		return Plan{}, nil
	}})
	c.Close() // nobody writes to the log from here on
	rooms.Close()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "a run waiting"); n != 2 || failures < 6 {
		t.Errorf("%d failures, the log has\n%s", failures, b.String())
	}
}
