package e2e

import (
	"encoding/json"
	"slices"
	"testing"
)

// story is a history that somebody made up, with the agent's books of it.
type story struct {
	notes []note
	calls []call
	open  int
	lossy bool
}

// honest is a history in which all is well: two windows, one of which comes back
// in the middle, a run that asks and is answered, one that is stopped.
func honest() *story {
	s := &story{calls: []call{
		{ID: 0, Segment: "r1", Planned: 2, Said: 2, Whole: true, Over: true},
		{ID: 1, Segment: "r2", Planned: 1, Said: 1, Whole: true, Over: true, Answers: []answerGiven{{"q0", "resolved", json.RawMessage(`{"approved":true,"reason":"yes"}`)}}},
		{ID: 2, Segment: "r3", Planned: 9, Said: 2, Over: true},
	}}
	add := func(n note) { n.Th = "t"; s.notes = append(s.notes, n) }
	run := func(id string, message, question string, texts ...string) []note {
		list := []note{{R: id, S: 1, Y: "RUN_STARTED", M: message, D: "n=2"}, {R: id, S: 2, Y: "TEXT_MESSAGE_START", M: "a" + id}}
		for _, x := range texts {
			list = append(list, note{R: id, S: len(list) + 1, Y: "TEXT_MESSAGE_CONTENT", M: "a" + id, D: x})
		}
		list = append(list, note{R: id, S: len(list) + 1, Y: "TEXT_MESSAGE_END", M: "a" + id})
		if question != "" {
			list = append(list, note{R: id, S: len(list) + 1, Y: "INTERRUPT", I: question})
		}
		return list
	}
	end := func(list []note, y string) []note {
		return append(list, note{R: list[0].R, S: len(list) + 1, Y: y, T: 1000})
	}
	live := func(w string, c int, list []note) {
		for _, e := range list {
			e.K, e.W, e.C = "ev", w, c
			add(e)
		}
	}
	r1 := end(run("r1", "m1", "i1", word(0, 0), word(0, 1)), "RUN_FINISHED")
	r2 := end([]note{{R: "r2", S: 1, Y: "RUN_STARTED"}, {R: "r2", S: 2, Y: "TEXT_MESSAGE_START", M: "ar2"}, {R: "r2", S: 3, Y: "TEXT_MESSAGE_CONTENT", M: "ar2", D: word(1, 0)}, {R: "r2", S: 4, Y: "TEXT_MESSAGE_END", M: "ar2"}}, "RUN_FINISHED")
	r3 := end(run("r3", "m3", "", word(2, 0), word(2, 1)), "RUN_CANCELLED")
	for _, w := range []string{"w1", "w2"} {
		add(note{K: "conn", W: w, C: 1})
		add(note{K: "join", W: w, C: 1})
	}
	add(note{K: "epoch", N: 1})
	add(note{K: "send", ID: "m1", W: "w1"})
	live("w1", 1, r1)
	live("w2", 1, r1[:3])
	add(note{K: "disc", W: "w2", C: 1})
	add(note{K: "ack", ID: "m1", Lost: true})
	add(note{K: "ack", ID: "m1", Code: "DUPLICATE_MESSAGE"})
	add(note{K: "conn", W: "w2", C: 2})
	add(note{K: "join", W: "w2", C: 2, Msgs: []shown{{"m1", "user", "n=2"}}, Env: r1[:4]})
	live("w2", 2, r1[4:])
	add(note{K: "answered", W: "w1", I: "i1", D: "yes", OK: true, R: "r2"})
	add(note{K: "answered", W: "w2", I: "i1", D: "no", Code: "UNKNOWN_RUN"})
	add(note{K: "send", ID: "m3", W: "w1"})
	add(note{K: "ack", ID: "m3", OK: true, R: "r3"})
	for _, w := range []string{"w1", "w2"} {
		c := map[string]int{"w1": 1, "w2": 2}[w]
		live(w, c, r2)
		live(w, c, r3)
	}
	add(note{K: "cancelled", W: "w1", R: "r3", OK: true})
	add(note{K: "healed", T: 900})
	add(note{K: "epoch", N: 1})
	msgs := []shown{{"m1", "user", "n=2"}, {"ar1", "assistant", word(0, 0) + word(0, 1)}, {"ar2", "assistant", word(1, 0)}, {"m3", "user", "n=2"}, {"ar3", "assistant", word(2, 0) + word(2, 1)}}
	add(note{K: "final", W: "t-last-0", E: 0, Msgs: msgs})
	add(note{K: "final", W: "t-last-1", E: 1, Msgs: slices.Clone(msgs)})
	return s
}

// where returns the first note that is meant.
func (s *story) where(is func(note) bool) *note {
	for i := range s.notes {
		if is(s.notes[i]) {
			return &s.notes[i]
		}
	}
	panic("the story has no such note")
}

// drop removes the first note that is meant.
func (s *story) drop(is func(note) bool) {
	s.notes = slices.DeleteFunc(s.notes, func(n note) bool {
		hit := is != nil && is(n)
		if hit {
			is = nil
		}
		return hit
	})
}

// behind puts a note behind the first one that is meant.
func (s *story) behind(is func(note) bool, n note) {
	n.Th = "t"
	i := slices.IndexFunc(s.notes, is)
	s.notes = slices.Insert(s.notes, i+1, n)
}

func (s *story) told() []violation {
	k := newChecker()
	k.lossy = s.lossy
	for _, n := range s.notes {
		k.take(n)
	}
	return k.verdict(s.calls, s.open)
}

func seenBy(w, run string, seq int) func(note) bool {
	return func(n note) bool { return n.K == "ev" && n.W == w && n.R == run && n.S == seq }
}

func kind(k string) func(note) bool { return func(n note) bool { return n.K == k } }

// An answer of which nothing was said before its run ended is in no history, and
// whoever saw it begin has lost nothing.
func TestCheckerForgivesAnAnswerWithoutAWord(t *testing.T) {
	s := honest()
	n := s.where(seenBy("w1", "r3", 2))
	said := *n
	said.K, said.R, said.S, said.M = "ev", "r4", 1, "ar4"
	end := said
	end.S, end.Y = 2, "RUN_ERROR"
	s.behind(seenBy("w1", "r3", 6), end)
	s.behind(seenBy("w1", "r3", 6), said)
	if found := s.told(); len(found) > 0 {
		t.Error(found)
	}
}

// The checker finds nothing in an honest history, and each violation in one that
// is honest but for it.
func TestCheckerFindsEachViolation(t *testing.T) {
	if found := honest().told(); len(found) > 0 {
		t.Fatalf("an honest history: %v", found)
	}
	final := func(s *story, edge int) *note {
		return s.where(func(n note) bool { return n.K == "final" && n.E == edge })
	}
	forged := []struct {
		kind string
		do   func(*story)
	}{
		{badHole, func(s *story) { s.drop(seenBy("w1", "r3", 3)) }},
		{badHole, func(s *story) {
			n := s.where(func(n note) bool { return n.K == "join" && n.C == 2 })
			n.Env = n.Env[1:]
		}},
		{badHole, func(s *story) { s.drop(seenBy("w2", "r1", 5)) }},
		{badRepeat, func(s *story) { s.behind(seenBy("w1", "r3", 3), *s.where(seenBy("w1", "r3", 3))) }},
		{badHole, func(s *story) {
			n := s.where(func(n note) bool { return n.K == "join" && n.C == 2 })
			n.Env = n.Env[:3]
		}},
		{badRepeat, func(s *story) {
			n := s.where(func(n note) bool { return n.K == "join" && n.C == 2 })
			again := n.Env[3]
			again.K, again.W, again.C = "ev", "w2", 2
			s.behind(func(n note) bool { return n.K == "join" && n.C == 2 }, again)
		}},
		{badRepeat, func(s *story) {
			s.behind(seenBy("w1", "r3", 4), note{K: "join", W: "w1", C: 1, Env: []note{*s.where(seenBy("w1", "r3", 1))}})
		}},
		{badRewritten, func(s *story) { s.where(seenBy("w2", "r3", 3)).D = word(2, 5) }},
		{badAfterEnd, func(s *story) {
			s.behind(seenBy("w1", "r3", 6), note{K: "ev", W: "w1", C: 1, R: "r3", S: 7, Y: "RUN_FINISHED"})
		}},
		{badAfterEnd, func(s *story) {
			s.behind(seenBy("w2", "r2", 5), note{K: "ev", W: "w2", C: 2, R: "r2", S: 6, Y: "RUN_ERROR"})
		}},
		{badUnended, func(s *story) { s.drop(seenBy("w1", "r3", 6)) }},
		{badUnended, func(s *story) { final(s, 0).Open = true }},
		{badFold, func(s *story) { s.where(seenBy("w1", "r3", 4)).D = "" }},
		{badShrunk, func(s *story) { s.where(seenBy("w2", "r1", 3)).D = word(0, 1) }},
		{badShrunk, func(s *story) {
			for e := range 2 {
				final(s, e).Msgs = slices.Delete(final(s, e).Msgs, 1, 2)
			}
		}},
		{badEdges, func(s *story) { n := final(s, 1); n.Msgs = n.Msgs[:4] }},
		{badLostSend, func(s *story) {
			for e := range 2 {
				final(s, e).Msgs = slices.Delete(final(s, e).Msgs, 3, 4)
			}
		}},
		{badTwice, func(s *story) {
			for e := range 2 {
				final(s, e).Msgs = append(final(s, e).Msgs, final(s, e).Msgs[3])
			}
		}},
		{badTwoRuns, func(s *story) { s.where(seenBy("w1", "r3", 1)).M = "m1"; s.where(seenBy("w2", "r3", 1)).M = "m1" }},
		{badTwoCalls, func(s *story) { s.calls = append(s.calls, call{ID: 3, Segment: "r1"}) }},
		{badTwoWinners, func(s *story) { s.where(func(n note) bool { return n.K == "answered" && n.W == "w2" }).OK = true }},
		{badTwoWinners, func(s *story) {
			s.calls = append(s.calls, call{ID: 3, Segment: "r9", Answers: s.calls[1].Answers})
		}},
		{badFalseWin, func(s *story) { s.where(kind("answered")).D = "perhaps" }},
		{badCancel, func(s *story) {
			s.where(seenBy("w1", "r3", 6)).Y = "RUN_FINISHED"
			s.where(seenBy("w2", "r3", 6)).Y = "RUN_FINISHED"
			s.calls[2].Planned = 2
		}},
		{badWords, func(s *story) { final(s, 0).Msgs[1].Text = word(0, 0) + word(0, 2) }},
		{badWords, func(s *story) { final(s, 0).Msgs[1].Text = word(0, 0) + word(2, 1) }},
		{badWords, func(s *story) { s.calls[2].Said = 1 }},
		{badShort, func(s *story) { s.calls[0].Planned = 3 }},
		{badStuck, func(s *story) { s.behind(kind("healed"), note{K: "stuck", Why: "a run does not end"}) }},
		{badLate, func(s *story) {
			for _, w := range []string{"w1", "w2"} {
				s.where(seenBy(w, "r3", 6)).T = 900 + (endBound + endSlack).Milliseconds() + 1
			}
		}},
		{badCallOpen, func(s *story) { s.open = 1 }},
		{badBehind, func(s *story) { final(s, 1).N = int(restBound.Milliseconds()) + 1 }},
		{badUntold, func(s *story) {
			s.lossy = true
			for i := range s.notes {
				if n := &s.notes[i]; n.K == "epoch" && i > 10 {
					n.N = 2
				}
			}
		}},
	}
	kinds := map[string]bool{}
	for _, f := range forged {
		t.Run(f.kind, func(t *testing.T) {
			s := honest()
			f.do(s)
			found := s.told()
			if !slices.ContainsFunc(found, func(v violation) bool { return v.kind == f.kind }) {
				t.Errorf("not found; it says %v", found)
			}
		})
		kinds[f.kind] = true
	}
	if len(kinds) != 22 {
		t.Errorf("%d kinds of violation are forged", len(kinds))
	}
}
