package conductor

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// twin is a history that is written into two threads, one of which is archived
// at random points.
type twin struct {
	y           *yard
	c           *Conductor
	apart, same chat.Key
	list        []*chat.Message
}

// write appends a message to both; one in some replaces another.
func (w *twin) write(t *rapid.T) {
	n := rapid.IntRange(1, 90).Draw(t, "messages")
	var entries []chat.Entry
	for range n {
		m := &chat.Message{
			ID: fmt.Sprintf("m%05d", len(w.list)), Role: chat.User, Status: chat.MessageComplete, Created: 1 + int64(len(w.list)),
		}
		m.Parts = []*chat.Part{{ID: "p" + m.ID, Type: chat.PartText, Text: chat.Text("words of " + m.ID)}}
		if len(w.list) > 0 {
			m.Parent = w.list[len(w.list)-1].ID
		}
		if len(w.list) > 2 && rapid.IntRange(0, 40).Draw(t, "fork") == 0 {
			old := w.list[rapid.IntRange(max(0, len(w.list)-120), len(w.list)-1).Draw(t, "of")]
			m.ForkOf, m.Parent = old.ID, old.Parent
		}
		w.list = append(w.list, m)
		entries = append(entries, chat.NewEntry(chat.KindMessage, "", &chat.MessageBody{Message: m}))
	}
	w.y.commit(w.apart, entries...)
	w.y.commit(w.same, entries...)
}

// page is what a client is shown of the thread by one of the ways to older
// messages, as text.
func (w *twin) page(key chat.Key, st *chat.State, how, from, to int) (string, error) {
	ctx := context.Background()
	var v any
	var err error
	switch how {
	case 0:
		v, err = w.c.Messages(ctx, key, st, from, to)
	case 1:
		v, err = w.c.History(ctx, key, st, max(1, to-from))
	case 2:
		v, err = w.c.Ordinal(ctx, key, st, fmt.Sprintf("m%05d", from))
	case 3:
		v, err = w.c.branch(ctx, key, st, &chat.Run{Message: fmt.Sprintf("m%05d", from)}, -1)
	}
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(v)
	return string(b), err
}

// compare asks both threads the same.
func (w *twin) compare(t *rapid.T, before *chat.State) {
	a, b := w.y.state(w.apart), w.y.state(w.same)
	if before != nil && rapid.Bool().Draw(t, "as of before") {
		a = before // seen before the last archive
	}
	if a.Count() != b.Count() || a.Head != b.Head || a.Forked != b.Forked {
		t.Fatalf("%d messages to %s, want %d to %s", a.Count(), a.Head, b.Count(), b.Head)
	}
	for range 4 {
		how := rapid.IntRange(0, 3).Draw(t, "how")
		from := rapid.IntRange(0, b.Count()).Draw(t, "from")
		to := rapid.IntRange(from, b.Count()).Draw(t, "to")
		got, err := w.page(w.apart, a, how, from, to)
		want, werr := w.page(w.same, b, how, from, to)
		if !errors.Is(err, werr) || (err == nil) != (werr == nil) || got != want {
			t.Fatalf("%d: messages %d to %d of %d, %d of %d pages archived:\n%s, %v\nwant\n%s, %v",
				how, from, to, b.Count(), a.Archived(), a.Chunks, got, err, want, werr)
		}
	}
}

// TestArchivedThreadsPageAsOthersDo tries fewer histories than rapid would by
// itself, unless -rapid.checks says how many: each writes to a real store.
func TestArchivedThreadsPageAsOthersDo(t *testing.T) {
	t.Parallel()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		must(t, f.Value.Set("15"))
		defer func() { must(t, f.Value.Set(f.DefValue)) }()
	}
	onYards(t, func(t *testing.T, y *yard) {
		c := y.edge(archives(), y.j)
		y.pass(season) // everything here is old
		serial := 0
		rapid.Check(t, func(t *rapid.T) {
			serial++
			w := &twin{y: y, c: c, apart: y.thread(fmt.Sprint("apart", serial)), same: y.thread(fmt.Sprint("same", serial))}
			var before *chat.State
			for range rapid.IntRange(1, 8).Draw(t, "steps") {
				w.write(t)
				before = nil
				trims := func(key chat.Key) {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					snap := y.load(key)
					if snap.Meta.Pos != snap.Meta.Floor {
						must(y.t, c.trimNow(ctx, key))
					}
				}
				if rapid.Bool().Draw(t, "trim") {
					trims(w.same)
				}
				if rapid.Bool().Draw(t, "archive") {
					trims(w.apart)
					before = y.state(w.apart)
					must(y.t, c.archive(context.Background(), w.apart))
				}
				w.compare(t, before)
			}
			if rapid.Bool().Draw(t, "delete") {
				must(y.t, w.drop(w.apart))
				must(y.t, w.drop(w.same))
			}
		})
	})
}

func (w *twin) drop(key chat.Key) error {
	_, err := w.c.Delete(context.Background(), ann, key.Thread)
	return err
}
