package filejournal

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	bolt "go.etcd.io/bbolt"
)

// streaming makes a folder that was left by kill -9 with a thread "live",
// whose last three records only the log has, and a thread "idle".
func streaming(t *testing.T) (dir string, live journal.Meta, idle journal.Meta) {
	t.Helper()
	ctx := t.Context()
	dir = t.TempDir()
	j := mustOpen(t, Options{noSync: true, Dir: dir, machine: "boot-1"})
	for _, id := range []string{"idle", "live"} {
		w := newWriter(j, id)
		must(t, w.open(ctx))
		must(t, w.start(ctx))
		say(t, w, "before ")
		if id == "idle" {
			must(t, w.end(ctx))
			_, idle, _ = w.state(ctx)
			continue
		}
		_, err := w.commit(ctx, nil, chat.NewEntry(chat.KindThread, "", &chat.ThreadBody{}))
		must(t, err)
		for _, s := range []string{"one ", "two ", "three"} {
			say(t, w, s)
		}
		_, live, _ = w.state(ctx)
	}
	j.kill()
	return dir, live, idle
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func say(t testing.TB, w *writer, text string) *chat.Record {
	t.Helper()
	r, err := w.say(t.Context(), text)
	must(t, err)
	return r
}

// theLog is the only file of the log.
func theLog(t *testing.T, dir string) string {
	t.Helper()
	segments, err := logSegments(dir)
	if err != nil || len(segments) != 1 {
		t.Fatalf("files of the log: %v, %v", segments, err)
	}
	return logName(dir, segments[0])
}

func copyDir(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// reopened is what a folder has of a thread when it is opened.
type reopened struct {
	text string
	meta journal.Meta
}

func reopen(t *testing.T, opts Options, id string) reopened {
	t.Helper()
	j := mustOpen(t, opts)
	defer j.kill()
	w := newWriter(j, id)
	must(t, w.resume(t.Context()))
	st, meta, err := w.state(t.Context())
	must(t, err)
	out := reopened{meta: meta}
	if w.run != "" {
		out.text = st.Run(w.run).Part("p1").Text.String()
		say(t, w, " and on")
	}
	return out
}

// A record that was cut off, at whatever byte, was never shown: it is cut from
// the log, and the thread goes on in its epoch.
func TestTornRecordIsCut(t *testing.T) {
	dir, live, _ := streaming(t)
	whole, err := os.ReadFile(theLog(t, dir))
	must(t, err)
	var last int // where the last frame begins
	for rest := whole; ; {
		_, next, err := nextFrame(rest)
		must(t, err)
		if len(next) == 0 {
			last = len(whole) - len(rest)
			break
		}
		rest = next
	}
	for cut := last; cut < len(whole); cut++ {
		c := copyDir(t, dir)
		must(t, os.WriteFile(theLog(t, c), whole[:cut], 0o600))
		got := reopen(t, Options{noSync: true, Dir: c, machine: "boot-1"}, "live")
		if got.text != "before one two " || got.meta.Epoch != live.Epoch || got.meta.Pos != live.Pos-1 {
			t.Fatalf("cut at byte %d of %d: text %q, position %d of %d, epoch %d", cut-last, len(whole)-last, got.text, got.meta.Pos, live.Pos, got.meta.Epoch)
		}
	}
	if got := reopen(t, Options{noSync: true, Dir: dir, machine: "boot-1"}, "live"); got.text != "before one two three" || got.meta.Epoch != live.Epoch {
		t.Fatalf("not cut: %+v", got)
	}
}

// F61 damage within the log is a loss of what was shown, and is told as one.
func TestDamagedLogBeginsANewEpoch(t *testing.T) {
	dir, live, idle := streaming(t)
	whole, err := os.ReadFile(theLog(t, dir))
	must(t, err)
	for i := 0; i < len(whole); i += 7 {
		c := copyDir(t, dir)
		bad := bytes.Clone(whole)
		bad[i] ^= 0x41
		must(t, os.WriteFile(theLog(t, c), bad, 0o600))
		got := reopen(t, Options{noSync: true, Dir: c, machine: "boot-1"}, "live")
		if !strings.HasPrefix("before one two three", got.text) {
			t.Fatalf("byte %d: text %q", i, got.text)
		}
		// A length that says more than there is looks like a cut record.
		if got.meta.Epoch == live.Epoch && got.text == "before one two three" {
			t.Fatalf("byte %d: the damage went unnoticed", i)
		}
		if got.meta.Epoch != live.Epoch && got.meta.Pos <= live.Pos {
			t.Fatalf("byte %d: position %d may have been shown", i, got.meta.Pos)
		}
		if other := reopen(t, Options{noSync: true, Dir: c, machine: "boot-1"}, "idle"); other.meta.Epoch != idle.Epoch {
			t.Fatalf("byte %d: a thread that lost nothing has a new epoch", i)
		}
	}
}

// So is a record that is missing in the middle.
func TestHoleInTheLogBeginsANewEpoch(t *testing.T) {
	dir, live, _ := streaming(t)
	whole, err := os.ReadFile(theLog(t, dir))
	must(t, err)
	frames := [][]byte{}
	for rest := whole; len(rest) > 0; {
		_, next, err := nextFrame(rest)
		must(t, err)
		frames = append(frames, rest[:len(rest)-len(next)])
		rest = next
	}
	n := len(frames)
	must(t, os.WriteFile(theLog(t, dir), bytes.Join(append(frames[:n-2:n-2], frames[n-1]), nil), 0o600))
	got := reopen(t, Options{noSync: true, Dir: dir, machine: "boot-1"}, "live")
	if got.text != "before one " || got.meta.Epoch == live.Epoch || got.meta.Pos <= live.Pos {
		t.Fatalf("text %q, epoch %d, position %d", got.text, got.meta.Epoch, got.meta.Pos)
	}
}

// After a stop of the machine any part of the log's end may be gone. A commit
// survives with all that streamed before it, a thread that was live begins a
// new epoch beyond all that was shown, and one that was not goes on.
func TestPowerLossBeginsANewEpochWhereSomethingMayBeLost(t *testing.T) {
	dir, live, idle := streaming(t)
	for name, c := range map[string]struct {
		lose func(path string) error
		text string
	}{
		"log gone":   {os.Remove, "before "},
		"log empty":  {func(p string) error { return os.Truncate(p, 0) }, "before "},
		"log zeroed": {func(p string) error { return os.WriteFile(p, make([]byte, 4096), 0o600) }, "before "},
		"nothing":    {func(string) error { return nil }, "before one two three"},
	} {
		t.Run(name, func(t *testing.T) {
			d := copyDir(t, dir)
			must(t, c.lose(theLog(t, d)))
			got := reopen(t, Options{noSync: true, Dir: d, machine: "boot-2"}, "live")
			if got.text != c.text {
				t.Errorf("text %q", got.text)
			}
			if got.meta.Epoch == live.Epoch || got.meta.Pos <= live.Pos || got.meta.Log < live.Log {
				t.Errorf("epoch %d, position %d; it was %d, %d", got.meta.Epoch, got.meta.Pos, live.Epoch, live.Pos)
			}
			if got := reopen(t, Options{noSync: true, Dir: d, machine: "boot-2"}, "idle"); got.meta.Epoch != idle.Epoch || got.meta.Pos != idle.Pos {
				t.Errorf("the idle thread is at %d in epoch %d", got.meta.Pos, got.meta.Epoch)
			}
			again := reopen(t, Options{noSync: true, Dir: d, machine: "boot-2"}, "live")
			if again.meta.Epoch != got.meta.Epoch || again.text != c.text+" and on" {
				t.Errorf("killed once more: epoch %d, was %d, text %q", again.meta.Epoch, got.meta.Epoch, again.text)
			}
		})
	}
}

// Where the system does not tell one boot from the next, each unclean stop may
// have been one of the machine.
func TestUnknownMachineIsTakenForAnother(t *testing.T) {
	dir, live, _ := streaming(t)
	j := mustOpen(t, Options{noSync: true, Dir: dir, machine: "?"})
	_, meta, err := newWriter(j, "live").state(t.Context())
	must(t, err)
	if meta.Epoch == live.Epoch || meta.Pos <= live.Pos {
		t.Fatalf("epoch %d, position %d", meta.Epoch, meta.Pos)
	}
}

// A clean stop brings all into the bbolt file, so nothing can be lost, and the
// log is gone.
func TestCleanStopNeedsNoLog(t *testing.T) {
	dir, live, _ := streaming(t)
	j := mustOpen(t, Options{noSync: true, Dir: dir, machine: "boot-1"})
	w := newWriter(j, "live")
	must(t, w.resume(t.Context()))
	say(t, w, " four")
	must(t, j.Close())
	segments, err := logSegments(dir)
	must(t, err)
	for _, n := range segments {
		must(t, os.Remove(logName(dir, n)))
	}
	got := reopen(t, Options{noSync: true, Dir: dir, machine: "boot-2"}, "live")
	if got.text != "before one two three four" || got.meta.Epoch != live.Epoch {
		t.Fatalf("text %q, epoch %d, was %d", got.text, got.meta.Epoch, live.Epoch)
	}
}

// U: a folder of a newer layout is refused, not believed.
func TestNewerFolderIsRefused(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, Options{noSync: true, Dir: dir})
	must(t, j.Close())
	db, err := bolt.Open(filepath.Join(dir, "threads.db"), 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error { return putMarker(tx, marker{Version: layoutVersion + 1}) }))
	must(t, db.Close())
	if _, err := Open(t.Context(), Options{noSync: true, Dir: dir}); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Fatalf("got %v", err)
	}
}

func FuzzFrame(f *testing.F) {
	s := streamed{key: chat.Key{Realm: "r", Thread: "t"}, epoch: 1, run: "run", w: 2, tag: 3, seq: 4, records: [][]byte{[]byte("a"), {}}}
	f.Add(s.frame(nil))
	f.Add(append(s.frame(nil), s.frame(nil)[:20]...))
	f.Fuzz(func(t *testing.T, b []byte) {
		for {
			s, rest, err := nextFrame(b)
			if err != nil {
				return
			}
			if again := s.frame(nil); len(again) > len(b)-len(rest) {
				t.Fatalf("%d bytes were read from %d", len(again), len(b)-len(rest))
			}
			b = rest
		}
	})
}
