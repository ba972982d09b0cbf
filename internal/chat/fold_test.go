package chat

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestReturnedStatesNeverChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory()
		states, texts := []*State{h.st}, []string{written(t, h.st)}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			h.step(t)
			states, texts = append(states, h.st), append(texts, written(t, h.st))
		}
		for i, s := range states {
			if got := written(t, s); got != texts[i] {
				t.Fatalf("state %d has become\n%s\nit was\n%s", i, got, texts[i])
			}
		}
	})
}

// TestClipParts folds two lines from one state at once. Under the race detector
// a shared byte is an error, without it a wrong text is.
func TestClipPartsLinesOfFolding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory()
		for range rapid.IntRange(1, 40).Draw(t, "before") {
			h.step(t)
		}
		from, was := h.st, written(t, h.st)
		// Two lines of the same thread that go different ways.
		lines := make([]*history, 2)
		for i := range lines {
			l := *h
			l.st, l.ids = from.Clip(), h.ids+i*1000
			l.recs = slices.Clone(h.recs)
			l.nodes, l.seqs = map[string]Node{}, map[string]uint64{}
			for k, v := range h.nodes {
				l.nodes[k] = v
			}
			for k, v := range h.seqs {
				l.seqs[k] = v
			}
			for range 20 {
				l.step(t)
			}
			lines[i] = &l
		}
		var wg sync.WaitGroup
		got := make([]string, 2)
		for i, l := range lines {
			st := from.Clip()
			wg.Go(func() {
				for _, r := range l.recs[len(h.recs):] {
					st = st.Apply(r)
				}
				b, _ := st.Marshal()
				got[i] = string(b)
			})
		}
		wg.Wait()
		for i, l := range lines {
			if want := written(t, l.st); got[i] != want {
				t.Fatalf("line %d ended at\n%s\nalone it ends at\n%s", i, got[i], want)
			}
		}
		if now := written(t, from); now != was {
			t.Fatalf("the state they began at has become\n%s\nit was\n%s", now, was)
		}
	})
}

func TestFoldFromAnyBaseIsTheFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			h.step(t)
		}
		want := written(t, h.st)
		st := &State{Schema: SchemaVersion}
		for k := 0; ; k++ {
			base, err := ParseState([]byte(written(t, st)))
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range h.recs[k:] {
				b, err := r.Marshal()
				if err != nil {
					t.Fatal(err)
				}
				read, err := ParseRecord(b)
				if err != nil {
					t.Fatal(err)
				}
				base = base.Apply(read)
			}
			if got := written(t, base); got != want {
				t.Fatalf("from a base at %d of %d:\n%s\nwant\n%s", k, len(h.recs), got, want)
			}
			if k == len(h.recs) {
				return
			}
			st = st.Apply(h.recs[k])
		}
	})
}

// TestCompactLosesNothing trims a long thread at every so many records.
func TestCompactLosesNothing(t *testing.T) {
	h := opened()
	for i := range 130 {
		fork := ""
		if i%17 == 16 {
			fork = h.st.Message(h.st.Head).Parent // the newest question again
		}
		h.answered(fork)
	}
	for every := 20; every < len(h.recs); every += 97 {
		st := &State{Schema: SchemaVersion}
		var pages []*Message
		for i, r := range h.recs {
			st = st.Apply(r)
			if i%every != every-1 {
				continue
			}
			before, first := written(t, st), st.Chunks
			base, more := st.Compact()
			if written(t, st) != before {
				t.Fatal("compacting changed the state")
			}
			if len(base.Tail) >= 2*ChunkSize || (len(more) > 0 && len(base.Tail) < ChunkSize) || base.Chunks != first+len(more) {
				t.Fatalf("%d messages are left, %d of %d pages", len(base.Tail), len(more), base.Chunks)
			}
			for _, p := range more {
				if len(p) != ChunkSize {
					t.Fatalf("a page of %d", len(p))
				}
				pages = append(pages, p...)
			}
			var err error
			if st, err = ParseState([]byte(written(t, base))); err != nil {
				t.Fatal(err)
			}
		}
		all := append(pages, st.Tail...)
		if shown(all) != shown(h.st.Tail) {
			t.Fatal("messages were lost")
		}
		whole := *st
		whole.Chunks, whole.Tail = 0, all
		if got, want := written(t, &whole), written(t, h.st); got != want {
			t.Fatalf("trimmed every %d:\n%s\nwant\n%s", every, got, want)
		}
	}
}

func TestLateAnswerOfAHiddenBranchIsNoHead(t *testing.T) {
	h := opened()
	h.answered("")
	c := h.message("", "ann")
	slow, _ := h.start(c)
	h.active(slow)
	h.answered(c.Message.ID) // replaces it while it is being answered
	for range 60 {
		h.answered("")
	}
	head := h.st.Head
	compact, _ := h.st.Compact()
	h.st = compact
	h.end(slow, RunComplete)
	if h.st.Head != head {
		t.Errorf("the head is %s, an answer to what was replaced; it was %s", h.st.Head, head)
	}
}

func TestForeignRecordsChangeOnlyNumbers(t *testing.T) {
	h := opened()
	for k := KindThread; k < kindCount; k++ {
		switch k {
		case KindThread, KindMessage, KindRunPending, KindTask, KindTodos:
			continue
		}
		r := &Record{Pos: h.st.Pos + 1, Tag: 99, At: 5, Entry: Entry{Kind: k, Run: "unknown", N: 1, Body: NewBody(k)}}
		got := *h.st.Apply(r)
		if got.Pos != r.Pos || got.Tag != 99 {
			t.Errorf("%s: at %d", k, got.Pos)
		}
		got.Pos, got.Tag, got.At = h.st.Pos, h.st.Tag, h.st.At
		if written(t, &got) != written(t, h.st) {
			t.Errorf("a %s of an unknown run changed\n%s\nto\n%s", k, written(t, h.st), written(t, &got))
		}
	}
}

func TestTasksAreBounded(t *testing.T) {
	h := opened()
	for i := range 3 * maxTasks {
		h.write(NewEntry(KindTask, "", &TaskBody{Task: Task{ID: fmt.Sprint(i), Status: "running"}}))
	}
	was, text := h.st, written(t, h.st)
	h.write(NewEntry(KindTask, "", &TaskBody{Task: Task{ID: fmt.Sprint(3*maxTasks - 1), Status: "finished"}}))
	if written(t, was) != text {
		t.Error("a state that was returned has changed")
	}
	if n := len(h.st.Tasks); n != maxTasks || h.st.Tasks[n-1].Status != "finished" {
		t.Errorf("%d tasks, the last is %+v", n, h.st.Tasks[n-1])
	}
}

func TestTextGrowsInPlace(t *testing.T) {
	h := opened()
	run, _ := h.start(h.message("", "ann"))
	h.active(run)
	h.write(NewEntry(KindTextStart, run, &BlockBody{Part: "p"}))
	var first, want Text
	moved := 0
	for i := range 4096 {
		h.write(NewEntry(KindTextDelta, run, &DeltaBody{Part: "p", Text: "0123456789"}))
		want = append(want, "0123456789"...)
		got := h.st.Run(run).Part("p").Text
		if !bytes.Equal(got, want) {
			t.Fatalf("after %d deltas: %q", i, got)
		}
		if first == nil || &first[0] != &got[0] {
			moved++
		}
		first = got
	}
	if moved > 40 {
		t.Errorf("the text was copied %d times for 4,096 deltas", moved)
	}
	a, b := h.st.Clip(), h.st.Clip()
	add := func(s *State, text string) string {
		r := &Record{Entry: NewEntry(KindTextDelta, run, &DeltaBody{Part: "p", Text: text})}
		return string(s.Apply(r).Run(run).Part("p").Text)
	}
	x, y := add(a, "x"), add(b, "y")
	if !strings.HasSuffix(x, "x") || !strings.HasSuffix(y, "y") || !strings.HasSuffix(add(a, "x"), "9x") {
		t.Error("two lines wrote to one text")
	}
}

func BenchmarkApplyDelta(b *testing.B) {
	h := opened()
	run, _ := h.start(h.message("", "ann"))
	h.active(run)
	h.write(NewEntry(KindTextStart, run, &BlockBody{Part: "p"}))
	r := &Record{Entry: NewEntry(KindTextDelta, run, &DeltaBody{Part: "p", Text: "word "})}
	st := h.st
	b.ReportAllocs()
	for b.Loop() {
		if st = st.Apply(r); len(st.Run(run).Part("p").Text) > 1<<16 {
			st = h.st.Clip()
		}
	}
}
