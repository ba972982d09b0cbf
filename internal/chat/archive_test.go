package chat

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func stub(first, pages int) Entry {
	return NewEntry(KindArchive, "", &ArchiveBody{Archive: Archive{
		Blob: fmt.Sprint("blob", first), First: first, Pages: pages, Sum: "sum",
	}})
}

func TestArchivesFollowOneAnother(t *testing.T) {
	h := opened()
	before := written(t, h.st)
	for _, e := range []Entry{stub(1, 2), stub(0, 0), stub(-1, 2), stub(0, MaxArchive+1)} {
		h.write(e)
		if len(h.st.Archives) != 0 {
			t.Fatalf("taken: %+v", h.st.Archives)
		}
	}
	h.write(stub(0, 2), stub(2, 3))
	h.write(stub(4, 1), stub(2, 3))
	if n := h.st.Archived(); n != 5 || len(h.st.Archives) != 2 {
		t.Fatalf("%d pages in %+v", n, h.st.Archives)
	}
	for page, want := range []string{"blob0", "blob0", "blob2", "blob2", "blob2"} {
		if a := h.st.ArchiveOf(page); a == nil || a.Blob != want {
			t.Errorf("page %d is in %+v, want %s", page, a, want)
		}
	}
	if a := h.st.ArchiveOf(5); a != nil {
		t.Errorf("page 5 is in %+v", a)
	}
	st := *h.st
	st.Archives, st.Pos, st.Tag, st.At = nil, 0, 0, 0
	first, err := ParseState([]byte(before))
	if err != nil {
		t.Fatal(err)
	}
	first.Pos, first.Tag, first.At = 0, 0, 0
	if got, want := written(t, &st), written(t, first); got != want {
		t.Errorf("beside its archives the state has become\n%s\nit was\n%s", got, want)
	}
	holed := *h.st
	holed.Archives = []Archive{{Blob: "b", First: 1, Pages: 1}}
	if _, err := ParseState([]byte(written(t, &holed))); err == nil {
		t.Error("a state with a hole before its archive is read")
	}
}

// TestArchivesChangeNothingElse puts stubs at random places into a history.
func TestArchivesChangeNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory()
		st := &State{Schema: SchemaVersion}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			h.step(t)
		}
		for _, r := range h.recs {
			if rapid.IntRange(0, 3).Draw(t, "archive") == 0 {
				e := stub(st.Archived(), rapid.IntRange(1, 3).Draw(t, "pages"))
				st = st.Apply(&Record{Pos: st.Pos, Tag: st.Tag, At: st.At, Entry: e})
			}
			st = st.Apply(r)
		}
		got := *st
		got.Archives = nil
		if got, want := written(t, &got), written(t, h.st); got != want {
			t.Fatalf("with archives\n%s\nwithout\n%s", got, want)
		}
	})
}

func TestQuietIsTheNewestMessage(t *testing.T) {
	h := opened()
	if at := h.st.Quiet(); at != 0 {
		t.Errorf("without messages %d", at)
	}
	h.answered("")
	at := h.st.Quiet()
	last := h.st.Tail[len(h.st.Tail)-1]
	if at < last.Created || at < last.Ran.Ended {
		t.Errorf("quiet since %d; the answer is of %d, its run ended at %d", at, last.Created, last.Ran.Ended)
	}
	h.write(stub(0, 1))
	if now := h.st.Quiet(); now != at {
		t.Errorf("an archive moved it from %d to %d", at, now)
	}
}
