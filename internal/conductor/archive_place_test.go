package conductor

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/parlance-gateway/parlance/internal/journal/blobstore"
	"github.com/parlance-gateway/parlance/internal/room"
)

// TestArchivesLieWhereTheyAreTold: with a storage for archives they are in it,
// and not where the journal keeps attachments; a thread that is deleted takes
// its own along.
func TestArchivesLieWhereTheyAreTold(t *testing.T) {
	y := fileYard(t)
	a := &attic{values: map[string][]byte{}}
	rooms := room.New(y.j, room.Options{Now: y.now, Random: rand.Uint64})
	c := New(y.j, rooms, Options{
		Boot: uuid.NewString(), Now: y.now, Random: rand.Uint64, Realm: func(string) *Realm { return archives() },
		SweepEvery: time.Hour, TidyEvery: time.Hour, Archives: blobstore.New(a, "archives", slog.New(slog.DiscardHandler)),
	})
	defer rooms.Close()
	defer c.Close()
	key := y.thread("t")
	y.write(key, 320)
	must(t, c.trimNow(t.Context(), key))
	y.pass(season)
	must(t, c.archive(t.Context(), key))
	if n := y.state(key).Archived(); n != 5 || y.kept(key) != 0 || len(a.values) == 0 || len(y.blobs()) != 0 {
		t.Fatalf("%d pages are archived, %d in the journal; %d values in the storage, beside the journal %v", n, y.kept(key), len(a.values), y.blobs())
	}
	y.whole(c, key, 320)
	_, err := c.Delete(t.Context(), ann, "t")
	must(t, err)
	if len(a.values) != 0 || y.loose() != 0 {
		t.Errorf("of a deleted thread there are %d values, %d on the list", len(a.values), y.loose())
	}
}
