package redisjournal

import (
	"reflect"
	"testing"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

func TestWhatFreesMemoryIsDoneInAFullRedis(t *testing.T) {
	s := redistest.Start(t)
	j := mustOpen(t, Options{Addresses: []string{s.Addr()}})
	ended(t, j, theKey)
	trimmed := threadKey("trimmed")
	ended(t, j, trimmed)
	trim(t, j, trimmed)
	put := journal.Put{Realm: "r", Kind: "k", ID: "id", Data: []byte("value")}
	if _, ok, err := j.Shelf().Put(t.Context(), put); err != nil || !ok {
		t.Fatal(ok, err)
	}
	snap := mustLoad(t, j, theKey)
	st := snap.State(nil)
	base, pages := st.Compact()
	loads := map[string]journal.Load{
		"a whole thread":             {Key: theKey},
		"what follows a position":    {Key: theKey, From: journal.Cursor{Epoch: snap.Meta.Epoch, Pos: 1, Tag: snap.Records[0].Tag}},
		"a thread's index":           {Key: theKey, IDs: []string{"none", "01890000-0000-7000-8000-000000000000"}},
		"a thread that was trimmed":  {Key: trimmed},
		"a thread that is not there": {Key: threadKey("absent")},
	}
	before := map[string]journal.Snapshot{}
	for name, q := range loads {
		var err error
		if before[name], err = j.Load(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	living := threadKey("living")
	owned := []journal.Owned{{Key: living, Run: "run", Fence: mustCommit(t, j, opening(living)).Fences["run"]}}
	if err := j.Roster().Announce(t.Context(), journal.Edge{Boot: "edge", Name: "one"}); err != nil {
		t.Fatal(err)
	}
	s.Do("CONFIG", "SET", "maxmemory", "1")
	if lost, err := j.Beat(t.Context(), "edge", owned); err != nil || len(lost) > 0 {
		t.Errorf("F10 an edge cannot say that it lives: %v, %v", lost, err)
	}
	if err := j.Roster().Announce(t.Context(), journal.Edge{Boot: "edge", Name: "one", Rooms: 1}); err != nil {
		t.Errorf("F10 an edge cannot say what it is: %v", err)
	}
	if _, err := j.Commit(t.Context(), opening(threadKey("more"))); err == nil {
		t.Error("F10 more was taken")
	}
	for name, q := range loads {
		if got, err := j.Load(t.Context(), q); err != nil || !reflect.DeepEqual(got, before[name]) {
			t.Errorf("F10 %s is not read as it was before: %v", name, err)
		}
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
	if res, err := j.Delete(t.Context(), theKey, snap.Meta.Epoch); err != nil || res != journal.OK {
		t.Errorf("F10 a thread is not deleted: %s, %v", res, err)
	}
}
