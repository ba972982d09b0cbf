package conductor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// mortal is an edge's way to a store until the edge dies: at its call number at,
// before that is carried out or after. Only the calls that change something
// count.
type mortal struct {
	journal.Journal
	mu    sync.Mutex
	calls int
	at    int
	after bool
	died  func()
	last  string
}

var errDead = errors.New("the edge is dead")

func mortally[T any](m *mortal, what string, counts bool, do func() (T, error)) (out T, err error) {
	m.mu.Lock()
	dead, dies := m.at != 0 && m.calls >= m.at, false
	if !dead && counts {
		m.calls++
		if dies = m.calls == m.at; dies {
			m.last = what
		}
	}
	m.mu.Unlock()
	if dead {
		return out, errDead
	}
	if dies && !m.after {
		m.died()
		return out, errDead
	}
	got, err := do()
	if dies {
		m.died()
		return out, errDead
	}
	return got, err
}

func (m *mortal) Load(ctx context.Context, q journal.Load) (journal.Snapshot, error) {
	return mortally(m, "load", false, func() (journal.Snapshot, error) { return m.Journal.Load(ctx, q) })
}

func (m *mortal) Commit(ctx context.Context, c journal.Commit) (journal.Committed, error) {
	return mortally(m, "commit", true, func() (journal.Committed, error) { return m.Journal.Commit(ctx, c) })
}

func (m *mortal) Trim(ctx context.Context, q journal.Trim) (journal.Result, error) {
	return mortally(m, "trim", true, func() (journal.Result, error) { return m.Journal.Trim(ctx, q) })
}

func (m *mortal) Delete(ctx context.Context, key chat.Key, epoch uint64) (journal.Result, error) {
	return mortally(m, "delete", true, func() (journal.Result, error) { return m.Journal.Delete(ctx, key, epoch) })
}

// Due and List keep it from what it would do by itself.
func (m *mortal) Due(context.Context, int) ([]journal.DueItem, error) { return nil, nil }

func (m *mortal) Shelf() journal.Shelf { return mortalShelf{m.Journal.Shelf(), m} }
func (m *mortal) Blobs() journal.Blobs { return mortalBlobs{m.Journal.Blobs(), m} }

type mortalShelf struct {
	journal.Shelf
	m *mortal
}

func (s mortalShelf) Put(ctx context.Context, p journal.Put) (version uint64, ok bool, err error) {
	_, err = mortally(s.m, "put "+p.Kind, true, func() (int, error) {
		version, ok, err = s.Shelf.Put(ctx, p)
		return 0, err
	})
	return version, ok, err
}

func (s mortalShelf) Delete(ctx context.Context, realm, kind, id string) error {
	_, err := mortally(s.m, "delete "+kind, true, func() (int, error) { return 0, s.Shelf.Delete(ctx, realm, kind, id) })
	return err
}

func (s mortalShelf) List(context.Context, string, string, string, string, int) ([]journal.Value, error) {
	return nil, nil
}

type mortalBlobs struct {
	journal.Blobs
	m *mortal
}

func (b mortalBlobs) PutBlob(ctx context.Context, realm, id string, r io.Reader, limit int64) (int64, error) {
	return mortally(b.m, "put blob", true, func() (int64, error) { return b.Blobs.PutBlob(ctx, realm, id, r, limit) })
}

func (b mortalBlobs) DeleteBlob(ctx context.Context, realm, id string) error {
	_, err := mortally(b.m, "delete blob", true, func() (int, error) { return 0, b.Blobs.DeleteBlob(ctx, realm, id) })
	return err
}

// dying runs f on an edge that dies at each of its steps in turn, before and
// after, each time on a thread of its own; check looks at the thread then. The
// steps that were tried are returned.
func (y *yard) dying(name string, prepare func(chat.Key), f func(context.Context, *Conductor, chat.Key), check func(string, chat.Key)) (steps []string) {
	for at := 1; ; at++ {
		for _, after := range []bool{false, true} {
			key := y.thread(fmt.Sprintf("%s-%d-%t", name, at, after))
			prepare(key)
			ctx, cancel := context.WithCancel(context.Background())
			m := &mortal{Journal: y.j, after: after, died: cancel, at: 1 << 30}
			c := y.edge(archives(), m)
			m.mu.Lock()
			m.calls, m.at = 0, at
			m.mu.Unlock()
			f(ctx, c, key)
			cancel()
			c.Close()
			if m.last == "" {
				return steps
			}
			step := m.last + ", before"
			if after {
				step = m.last + ", after"
			}
			steps = append(steps, step)
			check(step, key)
		}
	}
}

// cleared lets the list of blobs become old, tidies, and checks that just n
// blobs are left.
func (y *yard) cleared(c *Conductor, step string, n int) {
	y.t.Helper()
	y.pass(looseAge + time.Minute)
	for range 2 { // the first may only have made sure that a commit comes too late
		must(y.t, c.tidyNow(context.Background()))
	}
	if got := len(y.blobs()); got != n || y.loose() != 0 {
		y.t.Fatalf("%s: %d blobs are left, want %d; %d on the list", step, got, n, y.loose())
	}
}

func TestAnEdgeThatDiesWhileItArchives(t *testing.T) {
	t.Parallel()
	onYards(t, func(t *testing.T, y *yard) {
		d := y.edge(archives(), y.j)
		kept := 0
		steps := y.dying("t", func(key chat.Key) {
			y.write(key, 160)
			must(t, d.trimNow(t.Context(), key))
			y.pass(season)
		}, func(ctx context.Context, c *Conductor, key chat.Key) {
			_ = c.archive(ctx, key)
		}, func(step string, key chat.Key) {
			y.whole(d, key, 160)
			st := y.state(key)
			if n := st.Archived(); n != 0 && n != 2 {
				t.Fatalf("%s: %d pages are archived", step, n)
			}
			if n := st.Archived(); n == 0 && y.kept(key) != 2 {
				t.Fatalf("%s: %d pages are kept of a thread that is not archived", step, y.kept(key))
			}
			kept += len(st.Archives)
			y.cleared(d, step, kept)
			y.whole(d, key, 160)
			// Another edge finishes it.
			if len(st.Archives) == 0 {
				kept++
			}
			must(t, d.trimNow(t.Context(), key))
			y.finish(d, key)
			if st := y.state(key); st.Archived() != 2 || len(st.Archives) != 1 || y.kept(key) != 0 {
				t.Fatalf("%s: in the end %+v, %d pages kept", step, st.Archives, y.kept(key))
			}
			y.whole(d, key, 160)
			y.cleared(d, step, kept)
		})
		t.Log(steps)
		if len(steps) < 12 {
			t.Errorf("only %d steps were tried", len(steps))
		}
	})
}

// finish waits for an archiving that a look has begun.
func (y *yard) finish(c *Conductor, key chat.Key) {
	y.t.Helper()
	late := time.Now().Add(patience)
	for ; c.archiving.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			y.t.Fatal("the archiving does not end")
		}
	}
	must(y.t, c.archive(context.Background(), key))
}

func TestAnEdgeThatDiesWhileItDeletes(t *testing.T) {
	onYards(t, func(t *testing.T, y *yard) {
		d := y.edge(archives(), y.j)
		steps := y.dying("t", func(key chat.Key) {
			y.write(key, 160)
			must(t, d.trimNow(t.Context(), key))
			y.pass(season)
			must(t, d.archive(t.Context(), key))
			y.cleared(d, "before", 1)
		}, func(ctx context.Context, c *Conductor, key chat.Key) {
			_, _ = c.Delete(ctx, ann, key.Thread)
		}, func(step string, key chat.Key) {
			if !y.load(key).Exists {
				y.cleared(d, step, 0)
				return
			}
			y.whole(d, key, 160)
			y.cleared(d, step, 1)
			y.whole(d, key, 160)
			if _, err := d.Delete(t.Context(), ann, key.Thread); err != nil {
				t.Fatalf("%s: delete: %v", step, err)
			}
			y.cleared(d, step, 0)
		})
		t.Log(steps)
		if len(steps) < 8 {
			t.Errorf("only %d steps were tried", len(steps))
		}
	})
}

// TestACommitThatComesTooLate: the blob was taken for nobody's and deleted, and
// then the edge that had packed it wakes up.
func TestACommitThatComesTooLate(t *testing.T) {
	onYards(t, func(t *testing.T, y *yard) {
		d := y.edge(archives(), y.j)
		key := y.thread("t")
		y.write(key, 320)
		must(t, d.trimNow(t.Context(), key))
		y.pass(season)
		w := &meddler{Journal: y.j}
		w.before = sync.OnceFunc(func() { y.cleared(d, "while it slept", 0) })
		c := y.edge(archives(), w)
		must(t, c.archive(t.Context(), key))
		if n := y.state(key).Archived(); n != 0 {
			t.Fatalf("%d pages are archived in a blob that is gone", n)
		}
		y.whole(d, key, 320)
	})
}

// TestAStorageThatFails keeps everything as it was.
func TestAStorageThatFails(t *testing.T) {
	y := redisYard(t)
	c := y.edge(archives(), y.j)
	key := y.thread("t")
	y.write(key, 320)
	must(t, c.trimNow(t.Context(), key))
	y.pass(season)
	y.hide(true)
	y.settleDown(c)
	if n := y.state(key).Archived(); n != 0 || y.loose() != 1 {
		t.Errorf("%d pages archived, %d blobs on the list", n, y.loose())
	}
	items, err := y.j.Due(t.Context(), 10)
	if err != nil || len(items) != 0 {
		t.Errorf("tried again at once: %v, %v", items, err)
	}
	y.hide(false)
	y.whole(c, key, 320)
	y.pass(archiveAgain)
	y.settleDown(c)
	if n := y.state(key).Archived(); n != 5 {
		t.Errorf("%d pages are archived in the end", n)
	}
	y.cleared(c, "in the end", 1)
}

// TestWhoeverTidiesReachesTheOldest however many came after it.
func TestWhoeverTidiesReachesTheOldest(t *testing.T) {
	y := fileYard(t)
	c := y.edge(archives(), y.j)
	key, blob := Key(ann, "gone"), uuid.NewString()
	must(t, c.loosen(t.Context(), loose{Key: key, At: y.now() - 2*looseAge.Milliseconds()}, blob))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range looseLimit/20 + 1 {
				if err := c.loosen(t.Context(), loose{Key: key, At: y.now()}, uuid.NewString()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must(t, c.tidyNow(t.Context()))
	if _, err := y.j.Shelf().Get(t.Context(), ownRealm, kindLoose, blob); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("the oldest is still on the list: %v", err)
	}
}
