package conductor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// settleDown does what is due for threads, and waits for what that began.
func (y *yard) settleDown(c *Conductor) {
	y.t.Helper()
	items, err := y.j.Due(context.Background(), 100)
	must(y.t, err)
	for _, i := range items {
		must(y.t, c.act(context.Background(), i))
	}
	late := time.Now().Add(patience)
	for ; c.archiving.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			y.t.Fatal("the archiving does not end")
		}
	}
}

func onYards(t *testing.T, f func(*testing.T, *yard)) {
	for name, open := range yards {
		t.Run(name, func(t *testing.T) { f(t, open(t)) })
	}
}

func TestIdleThreadsAreArchived(t *testing.T) {
	onYards(t, func(t *testing.T, y *yard) {
		c := y.edge(archives(), y.j)
		key, short := y.thread("long"), y.thread("short")
		y.write(key, 320)
		y.write(short, 100)
		y.pass(time.Hour)
		y.settleDown(c)
		if st := y.state(key); st.Chunks != 5 || st.Archived() != 0 {
			t.Fatalf("after the idle trim: %d pages, %d archived", st.Chunks, st.Archived())
		}
		y.pass(season - 2*time.Hour)
		y.settleDown(c)
		if n := y.state(key).Archived(); n != 0 {
			t.Fatalf("%d pages are archived before their time", n)
		}
		y.pass(3 * time.Hour)
		y.settleDown(c)
		st := y.state(key)
		if st.Archived() != 5 || y.kept(key) != 0 || len(y.blobs()) != 1 {
			t.Fatalf("%d pages archived, %d in the journal, blobs %v", st.Archived(), y.kept(key), y.blobs())
		}
		if n := y.state(short).Archived(); n != 0 {
			t.Errorf("%d pages of a short thread are archived", n)
		}
		y.whole(c, key, 320)

		// It goes on, and what came after is archived in its turn.
		y.write(key, 240)
		y.whole(c, key, 560)
		y.pass(time.Hour)
		y.settleDown(c)
		y.whole(c, key, 560)
		y.pass(season)
		y.settleDown(c)
		y.settleDown(c)
		if st := y.state(key); len(st.Archives) != 2 || st.Archived() != 10 || y.kept(key) != 0 {
			t.Fatalf("%+v archived, %d in the journal", st.Archives, y.kept(key))
		}
		y.whole(c, key, 560)

		// Ids that only the index has are refused as before.
		s := say("long-0003", "again")
		s.OneRun = false
		if _, _, err := c.StartRun(t.Context(), ann, "long", s); !errors.Is(err, chat.ErrDuplicateMessage) {
			t.Errorf("an archived message's id is taken again: %v", err)
		}
		if at, err := c.Ordinal(t.Context(), key, y.state(key), "long-0003"); at != 3 || err != nil {
			t.Errorf("an archived message is at %d, %v", at, err)
		}
		if _, err := c.Ordinal(t.Context(), key, y.state(key), "nobody"); !errors.Is(err, chat.ErrNoMessage) {
			t.Errorf("an unknown message: %v", err)
		}
	})
}

func TestNothingIsArchivedUnasked(t *testing.T) {
	y := fileYard(t)
	r := archives()
	r.ArchiveAfter = 0
	c := y.edge(r, y.j)
	key := y.thread("t")
	y.write(key, 320)
	for range 5 {
		y.pass(season)
		y.settleDown(c)
	}
	if st := y.state(key); st.Archived() != 0 || st.Chunks != 5 {
		t.Fatalf("%d of %d pages are archived", st.Archived(), st.Chunks)
	}
	items, err := y.j.Due(t.Context(), 10)
	if err != nil || len(items) != 0 {
		t.Errorf("looked at again at once: %v, %v", items, err)
	}
	// What is configured later holds for it too.
	c = y.edge(archives(), y.j)
	y.pass(restAnyway)
	y.settleDown(c)
	if n := y.state(key).Archived(); n != 5 {
		t.Errorf("%d pages are archived, want 5", n)
	}
	y.whole(c, key, 320)
}

// TestNothingIsDecidedBeforeTheConfiguration: a thread that is due at the start
// is not put off by an edge that does not know its realm yet.
func TestNothingIsDecidedBeforeTheConfiguration(t *testing.T) {
	y := fileYard(t)
	known := y.edge(archives(), y.j)
	key := y.thread("t")
	y.write(key, 320)
	must(t, known.trimNow(t.Context(), key))
	y.pass(season)
	c := y.edge(nil, y.j)
	for range 3 {
		y.settleDown(c)
	}
	items, err := y.j.Due(t.Context(), 10)
	if err != nil || len(items) != 1 {
		t.Fatalf("due %v, %v", items, err)
	}
	y.pass(2 * archiveBusy)
	y.settleDown(c)
	if items, err = y.j.Due(t.Context(), 10); err != nil || len(items) != 0 {
		t.Errorf("a realm that the edge does not have is looked at all the time: %v, %v", items, err)
	}
	y.pass(2 * archiveAgain)
	y.settleDown(known)
	if n := y.state(key).Archived(); n != 5 {
		t.Errorf("%d pages are archived", n)
	}
}

func TestLongThreadsAreArchivedInSeveralBlobs(t *testing.T) {
	t.Parallel()
	y := fileYard(t)
	c := y.edge(archives(), y.j)
	key := y.thread("t")
	const n = (chat.MaxArchive + 30) * chat.ChunkSize
	y.write(key, n)
	y.pass(time.Hour)
	y.settleDown(c)
	y.pass(season)
	y.settleDown(c)
	st := y.state(key)
	if len(st.Archives) != 2 || st.Archives[0].Pages != chat.MaxArchive || st.Archived() != st.Chunks {
		t.Fatalf("%+v of %d pages", st.Archives, st.Chunks)
	}
	y.whole(c, key, n)
	// A page across two archives.
	list, err := c.Messages(t.Context(), key, st, chat.MaxArchive*chat.ChunkSize-3, chat.MaxArchive*chat.ChunkSize+3)
	if err != nil || len(list) != 6 || list[0].ID != "t-4997" || list[5].ID != "t-5002" {
		t.Errorf("%s, %v", ids(list), err)
	}
}

// TestAReaderOfBeforeFindsWhatWasMoved reads with a state that knows no archive.
func TestAReaderOfBeforeFindsWhatWasMoved(t *testing.T) {
	onYards(t, func(t *testing.T, y *yard) {
		c := y.edge(archives(), y.j)
		key := y.thread("t")
		y.write(key, 320)
		must(t, c.trimNow(t.Context(), key))
		before := y.state(key)
		y.pass(season)
		must(t, c.archive(t.Context(), key))
		list, err := c.Messages(t.Context(), key, before, 0, before.Count())
		if err != nil || len(list) != 320 || list[0].ID != "t-0000" {
			t.Fatalf("%d messages, %v", len(list), err)
		}
		// Of a thread that was deleted and made again it finds nothing.
		if _, err := c.Delete(t.Context(), ann, "t"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Messages(t.Context(), key, before, 0, 10); !errors.Is(err, ErrPages) {
			t.Errorf("messages of a deleted thread: %v", err)
		}
	})
}

func TestUnreadableArchives(t *testing.T) {
	t.Parallel()
	word := func(b []byte) int { return bytes.Index(b, []byte("words")) }
	last := func(b []byte) int { return len(b) - 1 }
	type spoil func(y *yard, thread, other string)
	tests := map[string]spoil{
		"PIN-178 a page was changed":       func(y *yard, thread, _ string) { y.flip(thread, word) },
		"PIN-178 the index was changed":    func(y *yard, thread, _ string) { y.flip(thread, last) },
		"PIN-178 the storage is away":      func(y *yard, _, _ string) { y.hide(true) },
		"PIN-178 it is of another thread":  (*yard).swap,
		"PIN-178 it is of another place":   func(y *yard, thread, _ string) { y.swap(thread, thread) },
		"PIN-178 its pages are another's":  (*yard).forge,
		"PIN-178 the blob is gone":         func(y *yard, thread, _ string) { y.lose(thread) },
		"PIN-178 a byte is missing at end": func(y *yard, thread, _ string) { y.cut(thread) },
	}
	onYards(t, func(t *testing.T, y *yard) {
		c := y.edge(archives(), y.j)
		n := 0
		for name, spoil := range tests {
			n++
			thread, other := fmt.Sprint("t", n), fmt.Sprint("u", n)
			t.Run(name, func(t *testing.T) {
				for _, id := range []string{thread, other} {
					key := y.thread(id)
					for range 2 {
						y.write(key, 160)
						must(t, c.trimNow(t.Context(), key))
						y.pass(season)
						must(t, c.archive(t.Context(), key))
					}
				}
				key := Key(ann, thread)
				st := y.state(key)
				spoil(y, thread, other)
				if name == "PIN-178 the storage is away" {
					defer y.hide(false)
				}
				if list, err := c.Messages(t.Context(), key, st, 0, 60); !errors.Is(err, ErrPages) || errors.Is(err, journal.ErrNoBlobs) || list != nil {
					t.Errorf("%d messages, %v", len(list), err)
				}
				if list, err := c.History(t.Context(), key, st, 320); !errors.Is(err, ErrPages) || list != nil {
					t.Errorf("a history of %d messages, %v", len(list), err)
				}
				if _, err := c.Ordinal(t.Context(), key, st, thread+"-0003"); !errors.Is(err, ErrPages) {
					t.Errorf("a message's place: %v", err)
				}
				// What the journal has is there all the same.
				list, err := c.Messages(t.Context(), key, st, st.Count()-5, st.Count())
				if err != nil || len(list) != 5 {
					t.Errorf("the newest: %d, %v", len(list), err)
				}
			})
		}
	})
}

// flip changes one bit of the first archive of a thread.
func (y *yard) flip(thread string, at func([]byte) int) {
	id := y.state(Key(ann, thread)).Archives[0].Blob
	y.copyBlob(id, id, func(b []byte) []byte {
		b[at(b)] ^= 1
		return b
	})
}

// swap makes the first archive of one thread's state name the blob of another's
// second.
func (y *yard) swap(thread, other string) {
	from := y.state(Key(ann, other)).Archives[1]
	y.copyBlob(from.Blob, y.state(Key(ann, thread)).Archives[0].Blob, func(b []byte) []byte { return b })
}

// forge puts another thread's pages, of as many bytes, before the right index.
func (y *yard) forge(thread, other string) {
	a, b := y.state(Key(ann, thread)).Archives[0], y.state(Key(ann, other)).Archives[0]
	mine := y.blob(a.Blob)
	index := mine[len(mine)-(a.Pages+1)*indexEntry:]
	y.copyBlob(b.Blob, a.Blob, func(b []byte) []byte {
		return append(b[:len(b)-len(index):len(b)-len(index)], index...)
	})
}

func (y *yard) lose(thread string) {
	must(y.t, y.j.Blobs().DeleteBlob(context.Background(), "r", y.state(Key(ann, thread)).Archives[0].Blob))
}

func (y *yard) cut(thread string) {
	id := y.state(Key(ann, thread)).Archives[0].Blob
	y.copyBlob(id, id, func(b []byte) []byte { return b[:len(b)-1] })
}

func (y *yard) blob(id string) []byte {
	r, _, err := y.j.Blobs().OpenBlob(context.Background(), "r", id)
	must(y.t, err)
	defer r.Close()
	b, err := io.ReadAll(r)
	must(y.t, err)
	return b
}

func (y *yard) copyBlob(from, to string, change func([]byte) []byte) {
	b := change(y.blob(from))
	_, err := y.j.Blobs().PutBlob(context.Background(), "r", to, bytes.NewReader(b), 1<<30)
	must(y.t, err)
}

func TestASumIsOfOneThreadAndPlace(t *testing.T) {
	key := chat.Key{Realm: "r", Tenant: "n", Thread: "t"}
	sums := map[string]string{}
	for name, sum := range map[string]string{
		"itself":         archiveSum(key, 1, 2, []byte("index")),
		"realm":          archiveSum(chat.Key{Realm: "s", Tenant: "n", Thread: "t"}, 1, 2, []byte("index")),
		"tenant":         archiveSum(chat.Key{Realm: "r", Tenant: "m", Thread: "t"}, 1, 2, []byte("index")),
		"thread":         archiveSum(chat.Key{Realm: "r", Tenant: "n", Thread: "u"}, 1, 2, []byte("index")),
		"names in a row": archiveSum(chat.Key{Realm: "rn", Tenant: "", Thread: "t"}, 1, 2, []byte("index")),
		"birth":          archiveSum(key, 3, 2, []byte("index")),
		"place":          archiveSum(key, 1, 3, []byte("index")),
		"index":          archiveSum(key, 1, 2, []byte("other")),
	} {
		if other, ok := sums[sum]; ok {
			t.Errorf("the sum is the same for another %s and another %s", name, other)
		}
		sums[sum] = name
	}
}

func TestDeletingAThreadDeletesItsArchives(t *testing.T) {
	t.Parallel()
	onYards(t, func(t *testing.T, y *yard) {
		c := y.edge(archives(), y.j)
		key := y.thread("t")
		for range 2 {
			y.write(key, 320)
			must(t, c.trimNow(t.Context(), key))
			y.pass(season)
			must(t, c.archive(t.Context(), key))
		}
		if n := len(y.blobs()); n != 2 {
			t.Fatalf("%d blobs", n)
		}
		y.hide(true)
		if _, err := c.Delete(t.Context(), ann, "t"); err == nil && y.load(key).Exists {
			t.Error("a delete failed without an error")
		}
		y.hide(false)
		if !y.load(key).Exists {
			y.thread("t") // a storage without its files has forgotten them: nothing more to see
			return
		}
		files, err := c.Delete(t.Context(), ann, "t")
		must(t, err)
		if len(files) != 64 || !slices.Contains(files, "file-t-0000") || !slices.Contains(files, "file-t-0630") {
			t.Errorf("%d attachments of the thread: %v", len(files), files)
		}
		if n := len(y.blobs()); n != 0 || y.loose() != 0 {
			t.Errorf("%d blobs are left, %d on the list", n, y.loose())
		}
	})
}

func TestDamageKeepsNoThreadFromBeingDeleted(t *testing.T) {
	y := fileYard(t)
	c := y.edge(archives(), y.j)
	key := y.thread("t")
	y.write(key, 320)
	must(t, c.trimNow(t.Context(), key))
	y.pass(season)
	must(t, c.archive(t.Context(), key))
	y.lose("t")
	if _, err := c.Delete(t.Context(), ann, "t"); err != nil || y.load(key).Exists {
		t.Errorf("the thread is there, %v", err)
	}
}

// TestOneEdgeArchives lets several begin at once.
func TestOneEdgeArchives(t *testing.T) {
	onYards(t, func(t *testing.T, y *yard) {
		count := &counted{Journal: y.j}
		edges := make([]*Conductor, 4)
		for i := range edges {
			edges[i] = y.edge(archives(), count)
		}
		key := y.thread("t")
		y.write(key, 320)
		must(t, edges[0].trimNow(t.Context(), key))
		y.pass(season)
		var wg sync.WaitGroup
		for _, c := range edges {
			wg.Go(func() { y.settleDown(c) })
		}
		wg.Wait()
		if st := y.state(key); len(st.Archives) != 1 || st.Archived() != 5 || len(y.blobs()) != 1 {
			t.Errorf("%+v, blobs %v", st.Archives, y.blobs())
		}
		if n := count.puts.Load(); n != 1 {
			t.Errorf("%d blobs were written", n)
		}
		for _, c := range edges {
			y.whole(c, key, 320)
		}
	})
}

// counted counts the blobs that are written.
type counted struct {
	journal.Journal
	puts atomic.Int32
}

type countedBlobs struct {
	journal.Blobs
	n *atomic.Int32
}

func (c *counted) Blobs() journal.Blobs { return countedBlobs{c.Journal.Blobs(), &c.puts} }

func (b countedBlobs) PutBlob(ctx context.Context, realm, id string, r io.Reader, limit int64) (int64, error) {
	b.n.Add(1)
	return b.Blobs.PutBlob(ctx, realm, id, r, limit)
}

func TestAWriteBetweenBlobAndCommitWins(t *testing.T) {
	onYards(t, func(t *testing.T, y *yard) {
		key := y.thread("t")
		y.write(key, 320)
		w := &meddler{Journal: y.j}
		c := y.edge(archives(), w)
		must(t, c.trimNow(t.Context(), key))
		y.pass(season)
		w.before = sync.OnceFunc(func() { y.write(key, 1) })
		must(t, c.archive(t.Context(), key))
		if st := y.state(key); st.Archived() != 0 || len(y.blobs()) != 0 || y.loose() != 0 {
			t.Errorf("%+v, blobs %v, %d on the list", st.Archives, y.blobs(), y.loose())
		}
		y.whole(c, key, 321)
	})
}

// TestACommitWithoutAnAnswer is stored, and the answer lost until the thread has
// forgotten the command.
func TestACommitWithoutAnAnswer(t *testing.T) {
	onYards(t, func(t *testing.T, y *yard) {
		key := y.thread("t")
		y.write(key, 320)
		w := &deafened{Journal: y.j, once: sync.OnceFunc(func() { y.pass(2 * journal.KeepCommandsFor) })}
		c := y.edge(archives(), w)
		must(t, c.trimNow(t.Context(), key))
		y.pass(season)
		must(t, c.archive(t.Context(), key))
		if st := y.state(key); st.Archived() != 5 || len(y.blobs()) != 1 {
			t.Errorf("%+v, blobs %v", st.Archives, y.blobs())
		}
		y.whole(c, key, 320)
		must(t, c.trimNow(t.Context(), key))
		y.whole(c, key, 320)
	})
}

// deafened does not hear the answer to its first commit.
type deafened struct {
	journal.Journal
	once  func()
	tried bool
}

func (d *deafened) Commit(ctx context.Context, c journal.Commit) (journal.Committed, error) {
	res, err := d.Journal.Commit(ctx, c)
	if !d.tried {
		d.tried = true
		d.once()
		return journal.Committed{}, errDead
	}
	return res, err
}

// meddler does something before each commit.
type meddler struct {
	journal.Journal
	before func()
}

func (m *meddler) Commit(ctx context.Context, c journal.Commit) (journal.Committed, error) {
	if m.before != nil {
		m.before()
	}
	return m.Journal.Commit(ctx, c)
}

func TestRestUntil(t *testing.T) {
	y := fileYard(t)
	r := archives()
	c := y.edge(r, y.j)
	page := func(chunks, tail int, archived int) *chat.State {
		st := &chat.State{Chunks: chunks}
		for range tail {
			st.Tail = append(st.Tail, &chat.Message{Created: 1000})
		}
		if archived > 0 {
			st.Archives = []chat.Archive{{Blob: "b", Pages: archived, Sum: "s"}}
		}
		return st
	}
	due := 1000 + season.Milliseconds()
	for i, tt := range []struct {
		st   *chat.State
		want int64
	}{
		{page(0, 99, 0), 0},
		{page(1, 50, 0), 0},
		{page(1, 51, 0), due},
		{page(9, 50, 9), 0},
		{page(9, 50, 8), 0},
		{page(9, 51, 8), due},
		{page(9, 50, 7), due},
	} {
		if got := c.restUntil("r", tt.st); got != tt.want {
			t.Errorf("case %d: %d, want %d", i, got, tt.want)
		}
	}
	live := page(9, 51, 0)
	live.Runs = []*chat.Run{{ID: "run"}}
	if got := c.restUntil("r", live); got != 0 {
		t.Errorf("with a live run: %d", got)
	}
	answered := page(9, 51, 0)
	answered.Tail[50] = &chat.Message{Created: 1000, Ran: &chat.Ran{Ended: 5000}}
	if got := c.restUntil("r", answered); got != due+4000 {
		t.Errorf("after a run that ended late: %d, want %d", got, due+4000)
	}
	r.ArchiveAfter = 0
	if got := c.restUntil("r", page(9, 51, 0)); got < y.now()+restAnyway.Milliseconds()-60_000 {
		t.Errorf("where nothing is archived: %d", got)
	}
}
