package redisjournal

import (
	"errors"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

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
