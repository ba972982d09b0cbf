package conductor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
	"github.com/parlance-gateway/parlance/internal/room"
)

// yard is a store and the storage of its blobs, on a clock that a test moves.
type yard struct {
	t     testing.TB
	j     journal.Journal
	moved atomic.Int64
	// blobs are the paths of what the storage has; hide takes it away.
	blobs func() []string
	hide  func(bool)
}

func (y *yard) now() int64 { return time.Now().UnixMilli() + y.moved.Load() }

func (y *yard) pass(d time.Duration) { y.moved.Add(d.Milliseconds()) }

// yards are the stores that archives are tried on.
var yards = map[string]func(testing.TB) *yard{"file": fileYard, "redis": redisYard}

func fileYard(t testing.TB) *yard {
	y := &yard{t: t}
	dir := t.TempDir()
	j, err := filejournal.Open(context.Background(), filejournal.Options{
		Dir: dir, Clock: func() time.Time { return time.UnixMilli(y.now()) },
	})
	must(t, err)
	t.Cleanup(func() { _ = j.Close() })
	y.j = j
	root := filepath.Join(dir, "blobs")
	y.blobs = func() (list []string) {
		must(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				list = append(list, path)
			}
			return err
		}))
		return list
	}
	y.hide = func(yes bool) {
		from, to := root, root+"-away"
		if !yes {
			from, to = to, from
		}
		must(t, os.Rename(from, to))
	}
	return y
}

func redisYard(t testing.TB) *yard {
	y := &yard{t: t}
	server := redistest.Start(t)
	a := &attic{values: map[string][]byte{}}
	j, err := redisjournal.Open(redisjournal.Options{
		Addresses: []string{server.Addr()}, Storage: a, Shift: func() time.Duration { return time.Duration(y.moved.Load()) * time.Millisecond },
	})
	must(t, err)
	t.Cleanup(func() { _ = j.Close() })
	y.j = j
	y.blobs = func() (list []string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for path := range a.values {
			if i := strings.Index(path, "/files/"); i >= 0 && !strings.Contains(path[i:], "-") {
				list = append(list, path)
			}
		}
		return list
	}
	y.hide = a.away.Store
	return y
}

// attic is a storage that all edges share.
type attic struct {
	mu     sync.Mutex
	values map[string][]byte
	away   atomic.Bool
}

var errAway = errors.New("the storage does not answer")

func (a *attic) Store(_ context.Context, key string, v []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away.Load() {
		return errAway
	}
	a.values[key] = bytes.Clone(v)
	return nil
}

func (a *attic) Load(_ context.Context, key string) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away.Load() {
		return nil, errAway
	}
	v, ok := a.values[key]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return bytes.Clone(v), nil
}

func (a *attic) Delete(_ context.Context, key string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away.Load() {
		return errAway
	}
	delete(a.values, key)
	return nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const season = 90 * 24 * time.Hour

// archives is a realm that archives what a season has not touched.
func archives() *Realm {
	r := echoes()
	r.ArchiveAfter, r.ArchiveOver = season, 2*chat.ChunkSize
	return r
}

// sightless shows nothing that is due: the look with which a conductor begins may
// come late, when a test has made something due.
type sightless struct{ journal.Journal }

func (sightless) Due(context.Context, int) ([]journal.DueItem, error) { return nil, nil }

// edge is a conductor that looks and tidies only when it is told to.
func (y *yard) edge(r *Realm, j journal.Journal) *Conductor {
	rooms := room.New(j, room.Options{Now: y.now, Random: rand.Uint64, RetryPause: time.Millisecond})
	c := New(sightless{j}, rooms, Options{
		Boot: uuid.NewString(), Now: y.now, Random: rand.Uint64, Realm: func(string) *Realm { return r },
		SweepEvery: time.Hour, TidyEvery: time.Hour, CommandTimeout: 10 * time.Second,
		Open: func(context.Context, chat.Key, string) (io.ReadCloser, error) { return nil, errors.New("no file") },
	})
	y.t.Cleanup(sync.OnceFunc(func() { c.Close(); rooms.Close() }))
	return c
}

// thread opens a thread of ann's.
func (y *yard) thread(id string) chat.Key {
	key := Key(ann, id)
	y.commit(key, chat.NewEntry(chat.KindThread, "", &chat.ThreadBody{Info: chat.Info{Owner: chat.Subject(ann.Subject), Created: y.now()}}))
	return key
}

func (y *yard) load(key chat.Key) journal.Snapshot {
	y.t.Helper()
	snap, err := y.j.Load(context.Background(), journal.Load{Key: key})
	must(y.t, err)
	return snap
}

func (y *yard) state(key chat.Key) *chat.State {
	y.t.Helper()
	snap := y.load(key)
	return snap.State(nil)
}

func (y *yard) commit(key chat.Key, entries ...chat.Entry) {
	y.t.Helper()
	snap := y.load(key)
	c := journal.Commit{
		Key: key, Command: newCommand(), NewEpoch: rand.Uint64()>>1 + 1, Tag: rand.Uint64() >> 1,
		Entries: entries, Nodes: chat.NodesOf(entries),
	}
	if snap.Exists {
		c.Epoch, c.Rev = snap.Meta.Epoch, snap.Meta.Rev
	}
	res, err := y.j.Commit(context.Background(), c)
	must(y.t, err)
	if res.Result != journal.Done {
		y.t.Fatalf("commit: %s", res.Result)
	}
}

// write appends n messages, each below the one before it; each tenth names a
// file.
func (y *yard) write(key chat.Key, n int) {
	y.t.Helper()
	st := y.state(key)
	var entries []chat.Entry
	parent := st.Head
	for i := range n {
		m := &chat.Message{
			ID: fmt.Sprintf("%s-%04d", key.Thread, st.Count()+i), Role: chat.User, Parent: parent, Status: chat.MessageComplete, Created: y.now(),
		}
		m.Parts = []*chat.Part{{ID: m.ID, Type: chat.PartText, Text: chat.Text("words of " + m.ID)}}
		if i%2 == 1 {
			m.Role = chat.Assistant
		}
		if i%10 == 0 {
			m.Attachments = []chat.Attachment{{ID: "file-" + m.ID, MediaType: "image/png", Size: 1}}
		}
		parent = m.ID
		entries = append(entries, chat.NewEntry(chat.KindMessage, "", &chat.MessageBody{Message: m}))
	}
	for len(entries) > 0 {
		k := min(len(entries), 500)
		y.commit(key, entries[:k]...)
		entries = entries[k:]
	}
}

// all are the thread's messages, oldest first, as a reader gets them.
func (y *yard) all(c *Conductor, key chat.Key) ([]*chat.Message, error) {
	st := y.state(key)
	return c.Messages(context.Background(), key, st, 0, st.Count())
}

// whole checks that the thread has n messages, from its first to its last.
func (y *yard) whole(c *Conductor, key chat.Key, n int) {
	y.t.Helper()
	list, err := y.all(c, key)
	must(y.t, err)
	if len(list) != n {
		y.t.Fatalf("%d messages, want %d", len(list), n)
	}
	for i, m := range list {
		if want := fmt.Sprintf("%s-%04d", key.Thread, i); m.ID != want || m.Content() != "words of "+want {
			y.t.Fatalf("message %d is %s %q, want %s", i, m.ID, m.Content(), want)
		}
	}
}

// kept are the pages that the journal itself has.
func (y *yard) kept(key chat.Key) (n int) {
	y.t.Helper()
	for page := range y.state(key).Chunks {
		list, err := y.j.Pages(context.Background(), key, page, page+1)
		must(y.t, err)
		if len(list) > 0 {
			n++
		}
	}
	return n
}

// loose are how many blobs are on the list of those that may be nobody's.
func (y *yard) loose() int {
	y.t.Helper()
	list, err := y.j.Shelf().List(context.Background(), ownRealm, kindLoose, looseOwner, "", 1000)
	must(y.t, err)
	return len(list)
}
