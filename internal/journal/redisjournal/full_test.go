package redisjournal

import (
	"testing"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

func TestWhatFreesMemoryIsDoneInAFullRedis(t *testing.T) {
	s := redistest.Start(t)
	j := mustOpen(t, Options{Addresses: []string{s.Addr()}})
	ended(t, j, theKey)
	put := journal.Put{Realm: "r", Kind: "k", ID: "id", Data: []byte("value")}
	if _, ok, err := j.Shelf().Put(t.Context(), put); err != nil || !ok {
		t.Fatal(ok, err)
	}
	snap := mustLoad(t, j, theKey)
	st := snap.State(nil)
	base, pages := st.Compact()
	s.Do("CONFIG", "SET", "maxmemory", "1")
	if _, err := j.Commit(t.Context(), opening(threadKey("more"))); err == nil {
		t.Error("F10 more was taken")
	}
	if res, err := j.Trim(t.Context(), journal.Trim{Key: theKey, Epoch: snap.Meta.Epoch, Base: base, FirstPage: st.Chunks, Pages: pages}); err != nil || res != journal.OK {
		t.Errorf("F10 a thread is not trimmed: %s, %v", res, err)
	}
	if err := j.Shelf().Delete(t.Context(), "r", "k", "id"); err != nil {
		t.Errorf("F10 a value is not deleted: %v", err)
	}
	if _, err := j.Roster().Edges(t.Context()); err != nil {
		t.Errorf("F10 nobody is told which edges live: %v", err)
	}
	if err := j.Delete(t.Context(), theKey); err != nil {
		t.Errorf("F10 a thread is not deleted: %v", err)
	}
}
