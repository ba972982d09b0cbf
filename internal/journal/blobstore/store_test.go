package blobstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parlance-gateway/parlance/internal/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a storage. broken, if set, is asked before something is stored.
type memory struct {
	mu     sync.Mutex
	values map[string][]byte
	broken func(key string) error
}

func (m *memory) Store(_ context.Context, key string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		if err := m.broken(key); err != nil {
			return err
		}
	}
	m.values[key] = bytes.Clone(value)
	return nil
}

func (m *memory) Load(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.values[key]; ok {
		return bytes.Clone(v), nil
	}
	return nil, fs.ErrNotExist
}

func (m *memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.values[key]; !ok {
		return fs.ErrNotExist
	}
	delete(m.values, key)
	return nil
}

// find returns the only key whose end says which it is: "" for the head.
func (m *memory) find(t *testing.T, piece string) string {
	t.Helper()
	var found []string
	for key := range m.values {
		if head := !strings.Contains(key, "-"); piece == "" && head || piece != "" && strings.HasSuffix(key, "/"+piece) {
			found = append(found, key)
		}
	}
	if len(found) != 1 {
		t.Fatalf("keys of %q: %q", piece, found)
	}
	return found[0]
}

func fresh() (*Blobs, *memory) {
	m := &memory{values: map[string][]byte{}}
	return New(m, "files", slog.New(slog.DiscardHandler)), m
}

func TestABlobOfManyPiecesIsWhatWasPut(t *testing.T) {
	b, m := fresh()
	data := bytes.Repeat([]byte("0123456789abcdef"), (2*pieceSize+1000)/16)
	for range 2 {
		if n, err := b.PutBlob(t.Context(), "r", "id", bytes.NewReader(data), int64(len(data))); err != nil || n != int64(len(data)) {
			t.Fatal(n, err)
		}
		if n := len(m.values); n != 4 {
			t.Errorf("%d keys", n)
		}
	}
	for key := range m.values {
		if !strings.HasPrefix(key, "files/") {
			t.Errorf("outside of the folder: %s", key)
		}
	}
	r, size, err := b.OpenBlob(t.Context(), "r", "id")
	if err != nil || size != int64(len(data)) {
		t.Fatal(size, err)
	}
	for _, from := range []int64{0, pieceSize - 3, pieceSize, 2*pieceSize + 5, size} {
		if _, err := r.Seek(from, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data[from:]) {
			t.Errorf("from %d: %d bytes, %v", from, len(got), err)
		}
	}
	r.Close()
	if err := b.DeleteBlob(t.Context(), "r", "id"); err != nil || len(m.values) != 0 {
		t.Error(err, len(m.values))
	}
}

func TestWhatFailsLeavesNothingBehind(t *testing.T) {
	b, m := fresh()
	data := make([]byte, 2*pieceSize+1)
	if _, err := b.PutBlob(t.Context(), "r", "id", bytes.NewReader(data), int64(len(data))-1); !errors.Is(err, journal.ErrTooLarge) {
		t.Error(err)
	}
	full := errors.New("full")
	for _, last := range []string{"/1", "/2", ""} { // a piece, the last piece, the head
		m.broken = func(key string) error {
			if head := !strings.Contains(key, "-"); head && last == "" || last != "" && strings.HasSuffix(key, last) {
				return full
			}
			return nil
		}
		if _, err := b.PutBlob(t.Context(), "r", "id", bytes.NewReader(data), int64(len(data))); !errors.Is(err, full) {
			t.Error(last, err)
		}
		if n := len(m.values); n != 0 {
			t.Errorf("%q: %d keys are left", last, n)
		}
	}
}

// TestADamagedBlobIsNotThere: no reader is told to try again, and it can be
// replaced and deleted.
func TestADamagedBlobIsNotThere(t *testing.T) {
	data := make([]byte, 10)
	for name, damage := range map[string]func(t *testing.T, m *memory){
		"a piece is gone":      func(t *testing.T, m *memory) { delete(m.values, m.find(t, "0")) },
		"a piece was cut":      func(t *testing.T, m *memory) { m.values[m.find(t, "0")] = make([]byte, 9) },
		"a piece has grown":    func(t *testing.T, m *memory) { m.values[m.find(t, "0")] = make([]byte, 11) },
		"the head is no head":  func(t *testing.T, m *memory) { m.values[m.find(t, "")] = []byte("{") },
		"the head has no size": func(t *testing.T, m *memory) { m.values[m.find(t, "")] = []byte(`{"set":"x","size":-1,"piece":1}`) },
	} {
		t.Run(name, func(t *testing.T) {
			b, m := fresh()
			put := func() {
				if _, err := b.PutBlob(t.Context(), "r", "id", bytes.NewReader(data), int64(len(data))); err != nil {
					t.Fatal(err)
				}
			}
			read := func() error {
				r, _, err := b.OpenBlob(t.Context(), "r", "id")
				if err != nil {
					return err
				}
				defer r.Close()
				_, err = io.ReadAll(r)
				return err
			}
			put()
			damage(t, m)
			if err := read(); !errors.Is(err, journal.ErrNotFound) {
				t.Errorf("reading: %v", err)
			}
			put()
			if err := read(); err != nil {
				t.Errorf("replaced: %v", err)
			}
			damage(t, m)
			for range 2 {
				if err := b.DeleteBlob(t.Context(), "r", "id"); err != nil {
					t.Errorf("deleting: %v", err)
				}
			}
			if _, _, err := b.OpenBlob(t.Context(), "r", "id"); !errors.Is(err, journal.ErrNotFound) {
				t.Errorf("deleted: %v", err)
			}
		})
	}
}

// TestNobodyOpensADamagedHead: none that names what was never written so, which a
// reader would be told as its size.
func TestNobodyOpensADamagedHead(t *testing.T) {
	b, m := fresh()
	for _, head := range []string{
		`{`, `{}`, `{"set":"","size":1,"piece":1}`, `{"set":"x","size":-1,"piece":1}`, `{"set":"x","size":1,"piece":0}`,
		`{"set":"x","size":1,"piece":4194305}`, `{"set":"x","size":9223372036854775807,"piece":4194304}`,
	} {
		m.values[b.path("r", "id")] = []byte(head)
		if r, size, err := b.OpenBlob(t.Context(), "r", "id"); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("%s: %v %d %v", head, r, size, err)
		}
	}
}

// slow is a storage that takes a second to find nothing, and looks at no context.
type slow struct {
	*memory
	t     *testing.T
	asked int
}

func (s *slow) Delete(ctx context.Context, key string) error {
	if s.asked++; s.asked > 100 {
		s.t.Fatal("it goes on removing what is not there")
	}
	time.Sleep(time.Second)
	return s.memory.Delete(ctx, key)
}

// A damaged head that names pieces without end keeps nobody: what removes them
// ends with its time, whatever the storage does.
func TestADamagedSizeEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, m := fresh()
		b.storage = &slow{memory: m, t: t}
		m.values[b.path("r", "id")] = []byte(`{"set":"x","size":1152921504606846976,"piece":1}`)
		if err := b.DeleteBlob(t.Context(), "r", "id"); err != nil || len(m.values) != 0 {
			t.Error(err, len(m.values))
		}
	})
}
