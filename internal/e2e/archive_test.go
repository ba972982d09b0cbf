package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// TestArchiveInEveryDialect reads a long, old thread by the clients of each
// dialect before and after it is archived, writes on, breaks the archive and
// mends it, and deletes the thread: on a folder, and on two edges with Redis.
func TestArchiveInEveryDialect(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"file", "two edges"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &antique{t: t}
			n, words := 1, `file "DIR"`
			if name != "file" {
				a.redis = redistest.Start(t)
				n, words = 2, "redis "+a.redis.URL()
			}
			a.fleet = fleetOn(t, n, words, "agent bot agui AGENT", `name chat
		agent echo echo {
			delay none
		}
		app pk_live_x {
			secret `+appSecret+`
		}
		smooth
		archive after 90d {
			over 100
		}`)
			cookie := a.open()
			a.on(a.fill)
			script(t, "archive.mjs", map[string]func() any{
				"archive": a.archive, "spoil": a.spoil, "mend": a.spoil, "blobs": func() any { return len(a.blobs()) },
			}, "BASE="+a.fleet.edges[0].base, "SMOOTH="+a.fleet.edges[n-1].base, "SECRET="+appSecret, "THREAD="+a.key.Thread, "COOKIE="+cookie)
		})
	}
}

// antique is a thread that was written long ago.
type antique struct {
	t     *testing.T
	fleet *fleet
	redis *redistest.Server // or nil
	key   chat.Key
}

// open makes the thread and returns the cookie of its owner.
func (a *antique) open() string {
	resp, err := http.Post(a.fleet.edges[0].base+"/conversations", "application/json", strings.NewReader("{}"))
	a.no(err)
	defer resp.Body.Close()
	var made struct{ ID string }
	a.no(json.NewDecoder(resp.Body).Decode(&made))
	a.key = chat.Key{Realm: "default", Thread: made.ID}
	for _, c := range resp.Cookies() {
		if c.Name == "parlance" {
			return c.Name + "=" + c.Value
		}
	}
	a.t.Fatal("the site gave no cookie")
	return ""
}

func (a *antique) no(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// on does something to the journal itself; a folder's gateway rests meanwhile.
func (a *antique) on(f func(context.Context, journal.Journal)) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 3*time.Minute)
	defer cancel()
	if a.redis != nil {
		j, err := redisjournal.Open(redisjournal.Options{Addresses: []string{a.redis.Addr()}})
		a.no(err)
		f(ctx, j)
		a.no(j.Close())
		return
	}
	g := a.fleet.edges[0]
	g.stop()
	j, err := filejournal.Open(ctx, filejournal.Options{Dir: a.fleet.dir})
	a.no(err)
	f(ctx, j)
	a.no(j.Close())
	g.run()
}

func (a *antique) load(ctx context.Context, j journal.Journal) (journal.Snapshot, *chat.State) {
	a.t.Helper()
	snap, err := j.Load(ctx, journal.Load{Key: a.key})
	a.no(err)
	return snap, snap.State(nil)
}

// turns is how many questions with their answers the thread has.
const turns = 320

// fill writes the thread's turns, of a hundred days ago.
func (a *antique) fill(ctx context.Context, j journal.Journal) {
	a.t.Helper()
	_, st := a.load(ctx, j)
	created, parent := time.Now().Add(-100*24*time.Hour).UnixMilli(), ""
	for n := range turns {
		message := func(role chat.Role, text string) *chat.Message {
			id := uuid.NewString()
			m := &chat.Message{ID: id, Role: role, Parent: parent, Status: chat.MessageComplete, Created: created + int64(n)}
			m.Parts = []*chat.Part{{ID: id, Type: chat.PartText, Text: chat.Text(text)}}
			parent = id
			return m
		}
		ask := message(chat.User, fmt.Sprint("question ", n))
		ask.By = st.Info.Owner
		reply := message(chat.Assistant, fmt.Sprint("answer ", n))
		// Without their runs, whose ends would be of today.
		entries := []chat.Entry{
			chat.NewEntry(chat.KindMessage, "", &chat.MessageBody{Message: ask}),
			chat.NewEntry(chat.KindMessage, "", &chat.MessageBody{Message: reply}),
		}
		a.commit(ctx, j, entries)
	}
	a.trim(ctx, j, 0)
}

func (a *antique) commit(ctx context.Context, j journal.Journal, entries []chat.Entry) {
	a.t.Helper()
	snap, _ := a.load(ctx, j)
	tag := uuid.New()
	res, err := j.Commit(ctx, journal.Commit{
		Key: a.key, Command: journal.CommandID{ID: uuid.New()}, Epoch: snap.Meta.Epoch, Rev: snap.Meta.Rev,
		Tag: uint64(tag[0])<<40 | uint64(tag[1])<<32 | uint64(tag[2])<<24, Entries: entries, Nodes: chat.NodesOf(entries),
	})
	a.no(err)
	if res.Result != journal.Done {
		a.t.Fatalf("commit: %s", res.Result)
	}
}

func (a *antique) trim(ctx context.Context, j journal.Journal, rest int64) {
	a.t.Helper()
	snap, st := a.load(ctx, j)
	base, pages := st.Compact()
	res, err := j.Trim(ctx, journal.Trim{Key: a.key, Epoch: snap.Meta.Epoch, Base: base, FirstPage: st.Chunks, Pages: pages, Rest: rest})
	a.no(err)
	if res != journal.OK {
		a.t.Fatalf("trim: %s", res)
	}
}

// archive says that the thread's rest is over, and waits until an edge has
// archived it.
func (a *antique) archive() any {
	a.on(func(ctx context.Context, j journal.Journal) { a.trim(ctx, j, 1) })
	late := time.Now().Add(2 * time.Minute)
	for {
		for _, e := range a.fleet.edges {
			if strings.Contains(e.log.String(), "older messages were archived") && len(a.blobs()) == 1 {
				return true
			}
		}
		if time.Now().After(late) {
			a.t.Errorf("nobody archives the thread; blobs %v", a.blobs())
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// blobs are the files that archives are in: with either journal in Caddy's
// storage, and nowhere else.
func (a *antique) blobs() (list []string) {
	storage := filepath.Join(a.fleet.dir, "caddy", "parlance", "archives") + "/"
	if a.redis != nil {
		storage = filepath.Join(a.fleet.dir, "caddy", "parlance", "parlance", "parlance", "files") + "/"
	}
	_ = filepath.WalkDir(a.fleet.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasPrefix(path, storage) {
			return nil // a storage in use
		}
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte("question ")) {
			list = append(list, path)
		}
		return nil
	})
	return list
}

// spoil changes one letter in the midst of each archive, or changes it back.
func (a *antique) spoil() any {
	files := a.blobs()
	for _, path := range files {
		b, err := os.ReadFile(path)
		a.no(err)
		b[bytes.Index(b, []byte("uestion 150"))-1] ^= 'q' ^ 'p'
		a.no(os.WriteFile(path, b, 0o600))
	}
	return len(files)
}
