package chat

import (
	"testing"

	"pgregory.net/rapid"
)

// TestEnvelopesAreCounted counts envelopes as a reader of the Pilotoo dialect
// does: what opens a block, what closes it, and what must be closed at the end.
func TestEnvelopesAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory()
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			h.step(t)
		}
		st := &State{Schema: SchemaVersion}
		next := map[string]uint64{}
		for _, r := range h.recs {
			before := st.Run(r.Run)
			st = st.Apply(r)
			if r.Logged != (r.Log > 0) || (Logged(r.Kind) && !r.Logged) {
				t.Fatalf("a %s with log %d", r.Kind, r.Log)
			}
			if r.Kind != KindRunEnd && r.N != Envelopes(r.Kind) {
				t.Fatalf("a %s is %d envelopes", r.Kind, r.N)
			}
			if r.N == 0 {
				continue
			}
			if r.Opens {
				next[r.Run] = 1 // PIL-139
			}
			if r.Seq != next[r.Run] {
				t.Fatalf("PIL-140 a %s begins at %d, want %d", r.Kind, r.Seq, next[r.Run])
			}
			next[r.Run] += uint64(r.N)
			if after := st.Run(r.Run); after != nil && after.LastSeq != next[r.Run]-1 {
				t.Fatalf("the run's last is %d after %d", after.LastSeq, next[r.Run]-1)
			}
			if r.Kind != KindRunEnd {
				continue
			}
			switch c := before.Closers(); before.Status {
			case RunActive:
				if want := len(c.Parts) + len(c.Subagents) + 1; r.N != want || r.Opens {
					t.Fatalf("PIL-099 the end of a run with %d open is %d envelopes, opens %v", want-1, r.N, r.Opens)
				}
			default:
				if r.N != 2 || !r.Opens {
					t.Fatalf("PIL-221 the end of a %s run is %d envelopes, opens %v", before.Status, r.N, r.Opens)
				}
			}
		}
	})
}

func TestPausedSegmentsEnd(t *testing.T) {
	h := opened()
	run, _ := h.start(h.message("", "ann"))
	h.active(run)
	h.says(run, "may I?")
	h.asks(run, 2)
	n := len(h.recs)
	if p := h.recs[n-1]; p.Kind != KindRunSuspended || p.N != 2 {
		t.Errorf("PIL-120 a suspension is %d envelopes", p.N)
	}
	if h.recs[n-2].Kind != KindInterrupt || h.recs[n-3].Kind != KindInterrupt || h.recs[n-2].N != 1 {
		t.Error("PIL-119 PIL-121 the questions do not come right before it, one envelope each")
	}
	r := h.st.Run(run)
	if r.Drafted != 1 || r.Tools != nil || r.Open() != r.Interrupts[0] {
		t.Errorf("PIL-162 PIL-070 PIL-171 paused as %+v", r)
	}
}
