package caddymodule

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
)

// memory is a storage.
type memory map[string][]byte

func (m memory) Store(_ context.Context, key string, value []byte) error {
	m[key] = value
	return nil
}

func (m memory) Load(_ context.Context, key string) ([]byte, error) {
	if b, ok := m[key]; ok {
		return b, nil
	}
	return nil, fs.ErrNotExist
}

func (m memory) Delete(_ context.Context, key string) error {
	delete(m, key)
	return nil
}

// TestArchivesFollowTheStorage: those of a folder's threads go to the storage of
// the current configuration, and to no other folder of it than their own.
func TestArchivesFollowTheStorage(t *testing.T) {
	at := func(m memory) place {
		p, err := folderPlace(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		p.storage = m
		return p
	}
	one, two := memory{}, memory{}
	var now redisNow
	now.to(at(one))
	blobs := at(one).archives(&now, slog.New(slog.DiscardHandler))
	put := func(id string) {
		if _, err := blobs.PutBlob(t.Context(), "r", id, strings.NewReader("text of "+id), 100); err != nil {
			t.Fatal(err)
		}
	}
	put("a")
	now.to(at(two))
	put("b")
	for name, m := range map[string]memory{"the first": one, "the second": two} {
		if len(m) != 2 { // a head and a piece
			t.Errorf("%s storage has %d values", name, len(m))
		}
		for key := range m {
			if !strings.HasPrefix(key, "parlance/archives/") {
				t.Errorf("%s storage has %s", name, key)
			}
		}
	}
	r, _, err := blobs.OpenBlob(t.Context(), "r", "b")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if text, err := io.ReadAll(r); err != nil || string(text) != "text of b" {
		t.Errorf("read %q, %v", text, err)
	}
	now.to(at(nil)) // a configuration always has one; without, all is refused
	now.place.Load().storage = nil
	if _, err := blobs.PutBlob(t.Context(), "r", "c", strings.NewReader("x"), 1); err == nil {
		t.Error("stored without a storage")
	}
}
