package filejournal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/journaltest"
	bolt "go.etcd.io/bbolt"
)

// F51 a disk that is full fails the call, makes the journal unready, and
// nothing is taken for stored; when there is room again, it goes on.
func TestFullDiskFailsCallsUntilThereIsRoom(t *testing.T) {
	for _, what := range []string{"append", "commit"} {
		t.Run(what, func(t *testing.T) {
			ctx := t.Context()
			var full atomic.Bool
			f := &faults{
				onWrite: func(b []byte) ([]byte, error) {
					if full.Load() {
						return b[:len(b)/2], syscall.ENOSPC
					}
					return b, nil
				},
				onCommit: func() error {
					if full.Load() {
						return syscall.ENOSPC
					}
					return nil
				},
			}
			c := newClock()
			j := mustOpen(t, Options{noSync: true, Dir: t.TempDir(), Clock: c.Now, faults: f})
			w := newWriter(j, "t")
			must(t, w.open(ctx))
			must(t, w.start(ctx))
			say(t, w, "one")
			_, before, err := w.state(ctx)
			must(t, err)
			notices := make(chan journal.Notice, 64)
			defer j.Follow(w.key, func(n journal.Notice) { notices <- n })()
			if !(<-notices).Resync {
				t.Fatal("no resync")
			}

			full.Store(true)
			a := w.write("two")
			if what == "append" {
				_, err = j.Append(ctx, a)
			} else {
				_, err = w.commit(ctx, nil)
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("on a full disk: %v", err)
			}
			if err := j.Ready(ctx); !errors.Is(err, syscall.ENOSPC) && err != nil {
				t.Fatalf("ready on a full disk: %v", err)
			}
			if len(notices) > 1 || len(notices) == 1 && !(<-notices).Resync {
				t.Fatal("something was shown that is not stored")
			}
			if _, err := j.Append(ctx, a); what == "append" && err == nil {
				t.Fatal("stored on a full disk")
			}

			full.Store(false)
			c.Advance(2 * retryOpen)
			must(t, j.Ready(ctx))
			_, after, err := w.state(ctx)
			must(t, err)
			if after.Pos != before.Pos || after.Tag != before.Tag || after.Epoch != before.Epoch || after.Rev != before.Rev {
				t.Fatalf("the thread was at %+v and is at %+v", before, after)
			}
			res, err := j.Append(ctx, a)
			if err != nil || res.Result != journal.Stored {
				t.Fatalf("with room again: %s, %v", res.Result, err)
			}
			if lost, err := j.Beat(ctx, "edge", []journal.Owned{{Key: w.key, Run: w.run, Fence: w.fence}}); err != nil || len(lost) > 0 {
				t.Fatalf("the owner lost %v, %v", lost, err)
			}
		})
	}
}

// A disk that stays away is tried again, and the error stays the disk's.
func TestFolderThatIsGoneIsTriedAgain(t *testing.T) {
	var bad atomic.Bool
	c := newClock()
	dir := filepath.Join(t.TempDir(), "journal")
	j := mustOpen(t, Options{noSync: true, Dir: dir, Clock: c.Now, faults: &faults{onCommit: func() error {
		if bad.Load() {
			return syscall.EIO
		}
		return nil
	}}})
	w := newWriter(j, "t")
	must(t, w.open(t.Context()))
	bad.Store(true)
	if _, err := w.commit(t.Context(), nil); err == nil {
		t.Fatal("stored")
	}
	// A file where the folder was: it cannot be opened.
	must(t, os.Rename(dir, dir+".away"))
	must(t, os.WriteFile(dir, nil, 0o600))
	for range 3 {
		c.Advance(2 * retryOpen)
		if err := j.Ready(t.Context()); err == nil {
			t.Fatal("ready without a folder")
		}
		if _, _, err := w.state(t.Context()); err == nil {
			t.Fatal("loaded without a folder")
		}
	}
	bad.Store(false)
	must(t, os.Remove(dir))
	must(t, os.Rename(dir+".away", dir))
	c.Advance(2 * retryOpen)
	must(t, j.Ready(t.Context()))
	if _, err := w.commit(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

// The contract holds when nothing stays in memory and the log turns over all
// the time.
func TestContractWithoutCacheAndWithShortLogs(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) *journaltest.Store {
		c := newClock()
		opts := Options{noSync: true, Dir: t.TempDir(), Clock: c.Now, Cache: 1, segment: 600}
		j := mustOpen(t, opts)
		return &journaltest.Store{
			Hubs:    [2]journal.Journal{j, j},
			Advance: c.Advance,
			Restart: func(t *testing.T, how journaltest.Stop) [2]journal.Journal {
				if how == journaltest.Killed {
					j.kill()
				} else if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				j = mustOpen(t, opts)
				return [2]journal.Journal{j, j}
			},
		}
	})
}

// M the log is bounded while runs stream, and so is what the cache holds.
func TestLogAndCacheAreBounded(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	const segment = 32 << 10
	j := mustOpen(t, Options{noSync: true, Dir: dir, Cache: 64 << 10, segment: segment})
	var all sync.WaitGroup
	var most atomic.Int64
	for i := range 8 {
		w := newWriter(j, fmt.Sprint("t", i))
		must(t, w.open(ctx))
		must(t, w.start(ctx))
		all.Go(func() {
			for n := range 600 {
				if _, err := w.say(ctx, strings.Repeat("x", 400)); err != nil {
					t.Error(err)
					return
				}
				if n%20 == 0 {
					most.Store(max(most.Load(), logBytes(dir)))
				}
			}
			if err := w.end(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	// Two files, each of at most four segments and what was under way.
	if n := most.Load(); n > (2*tooLong+1)*segment {
		t.Errorf("the log had %d bytes", n)
	}
	for i := range 200 {
		must(t, newWriter(j, fmt.Sprint("idle", i)).open(ctx))
	}
	s := j.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.weight > s.opts.Cache || len(s.dirty) > 0 || len(s.threads) > 20 {
		t.Errorf("the cache has %d threads of %d bytes, %d dirty", len(s.threads), s.weight, len(s.dirty))
	}
}

func logBytes(dir string) (n int64) {
	segments, _ := logSegments(dir)
	for _, s := range segments {
		if info, err := os.Stat(logName(dir, s)); err == nil {
			n += info.Size()
		}
	}
	return n
}

// DESIGN 4.3: an idle thread costs under 6 KB.
func TestIdleThreadCostsLittle(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // sizes are rounded otherwise there
	}
	ctx := t.Context()
	dir := t.TempDir()
	c := newClock()
	j := mustOpen(t, Options{noSync: true, Dir: dir, Clock: c.Now})
	const threads, writers = 400, 50
	each := func(f func(context.Context, *writer) error) {
		var all sync.WaitGroup
		for g := range writers {
			all.Go(func() {
				for i := g; i < threads; i += writers {
					w := newWriter(j, fmt.Sprintf("8a1ff2d0-0000-4000-8000-%012d", i))
					err := w.resume(ctx)
					if err == nil {
						err = f(ctx, w)
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	}
	each(func(ctx context.Context, w *writer) error {
		if err := w.open(ctx); err != nil {
			return err
		}
		for range 3 {
			if err := w.start(ctx); err != nil {
				return err
			}
			for range 5 {
				if _, err := w.say(ctx, "It is three hours "); err != nil {
					return err
				}
			}
			if err := w.end(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	c.Advance(11 * time.Minute)
	items, err := j.Due(ctx, 2*threads)
	must(t, err)
	if len(items) != threads {
		t.Fatalf("%d threads are due for a trim", len(items))
	}
	each(func(ctx context.Context, w *writer) error {
		res, err := w.trim(ctx)
		if err == nil && res != journal.OK {
			err = fmt.Errorf("trim: %s", res)
		}
		return err
	})
	// Pages that are free, and the room at the file's end, are for what comes
	// next.
	var used int64
	must(t, j.store.db.View(func(tx *bolt.Tx) error {
		for _, b := range buckets {
			s := tx.Bucket(b).Stats()
			used += int64(s.LeafAlloc + s.BranchAlloc)
		}
		return nil
	}))
	per := used / threads
	t.Logf("an idle thread of three questions and answers costs %d bytes", per)
	if per > 6<<10 {
		t.Error("that is too much")
	}
}

// H: what people said is for the owner of the process only.
func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // it has no such modes
	}
	dir := filepath.Join(t.TempDir(), "journal")
	j := mustOpen(t, Options{noSync: true, Dir: dir})
	w := newWriter(j, "t")
	must(t, w.open(t.Context()))
	must(t, w.start(t.Context()))
	say(t, w, "x")
	_, err := j.Blobs().PutBlob(t.Context(), "r", "id", strings.NewReader("x"), 10)
	must(t, err)
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			t.Errorf("%s has mode %o", path, mode)
		}
		return nil
	}))
}

func TestUnfinishedBlobsAreRemovedAtOpen(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, Options{noSync: true, Dir: dir})
	must(t, j.Close())
	left := filepath.Join(dir, "blobs", unfinished, "left")
	must(t, os.WriteFile(left, []byte("half"), 0o600))
	mustOpen(t, Options{noSync: true, Dir: dir})
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("it is still there: %v", err)
	}
}
