package redisjournal

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// files are the keys of a storage that belong to blobs.
func (m *memory) files() (n int) {
	for _, k := range m.keys() {
		if strings.Contains(k, "/files/") {
			n++
		}
	}
	return n
}

func TestFiles(t *testing.T) {
	s := redistest.Start(t)
	open := func(t *testing.T, store Storage) *Journal {
		return mustOpen(t, Options{Addresses: []string{s.Addr()}, Storage: store, Prefix: "p" + strings.Map(func(r rune) rune {
			if r < 128 && plain(byte(r)) {
				return r
			}
			return -1
		}, t.Name())})
	}
	t.Run("a file of many pieces is what was put, from any place on; replaced and deleted it leaves nothing", func(t *testing.T) {
		m := newMemory()
		b := open(t, m).Blobs()
		data := bytes.Repeat([]byte("0123456789abcdef"), (2*pieceSize+1000)/16)
		for range 2 {
			if n, err := b.PutBlob(t.Context(), "r", "id", bytes.NewReader(data), int64(len(data))); err != nil || n != int64(len(data)) {
				t.Fatal(n, err)
			}
			if n := m.files(); n != 4 {
				t.Errorf("%d keys", n)
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
		if err := b.DeleteBlob(t.Context(), "r", "id"); err != nil || m.files() != 0 {
			t.Error(err, m.files())
		}
	})
	t.Run("what fails leaves nothing behind", func(t *testing.T) {
		m := newMemory()
		b := open(t, m).Blobs()
		data := make([]byte, 2*pieceSize+1)
		if _, err := b.PutBlob(t.Context(), "r", "id", bytes.NewReader(data), int64(len(data))-1); !errors.Is(err, journal.ErrTooLarge) {
			t.Error(err)
		}
		full := errors.New("full")
		for _, last := range []string{"/1", "/2", ""} { // a piece, the last piece, the head
			m.mu.Lock()
			m.broken = func(op, key string) error {
				_, file, ok := strings.Cut(key, "/files/")
				if head := !strings.Contains(file, "-"); op == "store" && ok && (head && last == "" || last != "" && strings.HasSuffix(key, last)) {
					return full
				}
				return nil
			}
			m.mu.Unlock()
			if _, err := b.PutBlob(t.Context(), "r", "id", bytes.NewReader(data), int64(len(data))); !errors.Is(err, full) {
				t.Error(last, err)
			}
			if n := m.files(); n != 0 {
				t.Errorf("%q: %d keys are left", last, n)
			}
		}
	})
	t.Run("without a storage files are refused in words", func(t *testing.T) {
		b := open(t, nil).Blobs()
		if _, err := b.PutBlob(t.Context(), "r", "id", strings.NewReader("x"), 1); !errors.Is(err, journal.ErrNoBlobs) {
			t.Error(err)
		}
	})
	t.Run("a storage that another edge does not share is found out, until it goes", func(t *testing.T) {
		m := newMemory()
		a := open(t, m)
		put := func(j *Journal) error {
			_, err := j.Blobs().PutBlob(t.Context(), "r", "id", strings.NewReader("x"), 1)
			return err
		}
		if err := put(a); err != nil {
			t.Fatal(err)
		}
		if err := put(open(t, m)); err != nil {
			t.Errorf("the same storage: %v", err)
		}
		other := open(t, newMemory())
		if err := put(other); !errors.Is(err, journal.ErrNoBlobs) {
			t.Errorf("another storage: %v", err)
		}
		if err := a.blobs.proof.look(t.Context()); !errors.Is(err, journal.ErrNoBlobs) {
			t.Errorf("the first edge: %v", err)
		}
		other.Close()
		until(t, "files again", func() bool { return put(a) == nil })
	})
}
