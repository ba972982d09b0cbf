package journaltest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/parlance-gateway/parlance/internal/journal"
)

func (b *bench) read(hub int, realm, id string) (string, error) {
	b.Helper()
	r, size, err := b.Hubs[hub].Blobs().OpenBlob(b.ctx, realm, id)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	b.no(err)
	b.equal("size", size, int64(len(data)))
	return string(data), nil
}

var blobCases = []testCase{
	{"a blob is what was put, on either hub", func(b *bench) {
		data := strings.Repeat("0123456789", 20_000)
		n, err := b.Hubs[0].Blobs().PutBlob(b.ctx, "r", "id", strings.NewReader(data), 1<<20)
		b.no(err)
		b.equal("size", n, int64(len(data)))
		got, err := b.read(1, "r", "id")
		b.no(err)
		if got != data {
			b.Fatal("another blob came back")
		}
		r, _, err := b.Hubs[1].Blobs().OpenBlob(b.ctx, "r", "id")
		b.no(err)
		defer r.Close()
		_, err = r.Seek(7, io.SeekStart)
		b.no(err)
		var part [3]byte
		_, err = io.ReadFull(r, part[:])
		b.no(err)
		b.equal("part", string(part[:]), "789")
	}},
	{"PIL-052 exactly the limit is stored, one byte more is not", func(b *bench) {
		blobs := b.Hubs[0].Blobs()
		_, err := blobs.PutBlob(b.ctx, "r", "fits", bytes.NewReader(make([]byte, 1000)), 1000)
		b.no(err)
		if _, err := blobs.PutBlob(b.ctx, "r", "larger", bytes.NewReader(make([]byte, 1001)), 1000); !errors.Is(err, journal.ErrTooLarge) {
			b.Fatalf("one byte more: %v", err)
		}
		if _, err := b.read(1, "r", "larger"); !errors.Is(err, journal.ErrNotFound) {
			b.Fatalf("what was refused: %v", err)
		}
	}},
	{"a blob that is not there, or was deleted, is not found", func(b *bench) {
		blobs := b.Hubs[0].Blobs()
		if _, err := b.read(0, "r", "none"); !errors.Is(err, journal.ErrNotFound) {
			b.Fatalf("none: %v", err)
		}
		_, err := blobs.PutBlob(b.ctx, "r", "id", strings.NewReader("x"), 10)
		b.no(err)
		if _, err := b.read(0, "r2", "id"); !errors.Is(err, journal.ErrNotFound) {
			b.Fatalf("in another realm: %v", err)
		}
		for range 2 {
			b.no(blobs.DeleteBlob(b.ctx, "r", "id"))
		}
		if _, err := b.read(1, "r", "id"); !errors.Is(err, journal.ErrNotFound) {
			b.Fatalf("deleted: %v", err)
		}
	}},
	{"no realm and no id leads elsewhere", func(b *bench) {
		blobs := b.Hubs[0].Blobs()
		names := []string{
			"../x", "..", ".", "x/../../y", "/etc/passwd", `..\x`, "a\x00b", "A", "a", "con", "x.", "x ", "%2e%2e%2f", "tmp", "_a", "=a", "é",
			strings.Repeat("n", 500), strings.Repeat("n", 501),
		}
		for _, realm := range []string{"r", "..", "", "../r", "tmp", "R"} {
			for _, id := range names {
				_, err := blobs.PutBlob(b.ctx, realm, id, strings.NewReader(realm+"\n"+id), 2000)
				b.no(err)
			}
		}
		for _, realm := range []string{"r", "..", "", "../r", "tmp", "R"} {
			for _, id := range names {
				got, err := b.read(1, realm, id)
				b.no(err)
				b.equal("blob", got, realm+"\n"+id)
			}
		}
		if _, err := blobs.PutBlob(b.ctx, "r", "", strings.NewReader("x"), 10); err == nil {
			b.Fatal("a blob without an id was stored")
		}
	}},
	{"a blob that could not be read to its end is not stored", func(b *bench) {
		blobs := b.Hubs[0].Blobs()
		broken := io.MultiReader(strings.NewReader("half"), failing{})
		if _, err := blobs.PutBlob(b.ctx, "r", "half", broken, 100); err == nil {
			b.Fatal("stored")
		}
		dead, cancel := context.WithCancel(b.ctx)
		cancel()
		if _, err := blobs.PutBlob(dead, "r", "half", strings.NewReader("whole"), 100); err == nil {
			b.Fatal("stored")
		}
		if _, err := b.read(1, "r", "half"); !errors.Is(err, journal.ErrNotFound) {
			b.Fatalf("half a blob: %v", err)
		}
	}},
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("journaltest: the line is dead") }
