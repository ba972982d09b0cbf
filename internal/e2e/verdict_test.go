package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// verdict holds all that was seen to the agent's books, when nothing moves any
// more, and returns every violation that was found.
func (k *checker) verdict(calls []call, open int) []violation {
	k.judgeSends()
	k.judgeRuns(calls)
	k.judgeAnswers(calls)
	for id, t := range k.threads {
		k.judgeThread(id, t, calls)
	}
	if open > 0 {
		k.bad(badCallOpen, "%d calls", open)
	}
	return k.found
}

// judgeSends: what was acknowledged is there, once; what was not, at most once.
func (k *checker) judgeSends() {
	for id, s := range k.sends {
		t := k.threads[s.thread]
		if t == nil || len(t.final) == 0 {
			continue // said already: it did not settle
		}
		n := 0
		for _, m := range t.final[0].Msgs {
			if m.ID == id {
				n++
			}
		}
		if s.acked && n == 0 && !k.unsure {
			k.bad(badLostSend, "%s in %s:%s", id, s.thread, s.answers)
		}
		if n > 1 {
			k.bad(badTwice, "%s is %d times in %s", id, n, s.thread)
		}
	}
}

// judgeRuns: one run a message, one call a segment, an end in time.
func (k *checker) judgeRuns(calls []call) {
	by := map[string]string{}
	for id, r := range k.runs {
		if r.message != "" {
			// One that a store lost may be sent again, and begins another run.
			if other := by[r.message]; other != "" && !k.unsure {
				k.bad(badTwoRuns, "%s began %s and %s", r.message, other, id)
			}
			by[r.message] = id
		}
		if k.healed > 0 && r.end != "" && r.beganAt <= k.healed && r.endAt > k.healed+(endBound+endSlack).Milliseconds() {
			k.bad(badLate, "%s ended %d ms after the last fault", id, r.endAt-k.healed)
		}
	}
	segments := map[string]int{}
	for _, c := range calls {
		if segments[c.Segment]++; segments[c.Segment] == 2 && !k.unsure {
			k.bad(badTwoCalls, "the agent was called twice for %s", c.Segment)
		}
	}
	for _, s := range k.stops {
		if r := k.runs[s.R]; s.OK && !k.unsure && r != nil && r.end != "" && r.end != "RUN_CANCELLED" {
			k.bad(badCancel, "%s was stopped by %s and is %s", s.R, s.W, r.end)
		}
	}
}

// judgeAnswers: a question has one winner, and the agent gets what it said.
func (k *checker) judgeAnswers(calls []call) {
	won := map[string]note{} // by question as windows know it
	for _, a := range k.answers {
		if !a.OK {
			continue
		}
		if other, there := won[a.I]; there && !k.unsure {
			k.bad(badTwoWinners, "%s was answered by %s and by %s", a.I, other.W, a.W)
		}
		won[a.I] = a
	}
	given := map[string]string{} // by segment: what the agent was told
	asked := map[string]bool{}
	for _, c := range calls {
		for _, a := range c.Answers {
			if a.Status != "resolved" {
				continue
			}
			if asked[a.Interrupt] && !k.unsure {
				k.bad(badTwoWinners, "the agent got two answers to %s", a.Interrupt)
			}
			asked[a.Interrupt] = true
			var v struct{ Reason string }
			_ = json.Unmarshal(a.Payload, &v)
			given[c.Segment] = v.Reason
		}
	}
	for _, a := range won {
		if said, there := given[a.R]; there && said != a.D && !k.unsure {
			k.bad(badFalseWin, "%s won by %q, and the agent was told %q", a.I, a.D, said)
		}
	}
}

// judgeThread: all edges tell the same, nothing that was shown has gone, and
// each text is what one call said.
func (k *checker) judgeThread(id string, t *talk, calls []call) {
	if len(t.final) == 0 {
		return
	}
	for _, f := range t.final[1:] {
		if d := difference(f.Msgs, t.final[0].Msgs); d != "" {
			k.bad(badEdges, "%s on edge %d: %s", id, f.E, d)
		}
	}
	whole := map[string]string{} // message -> run that ended well
	for run, r := range k.runs {
		if r.thread == id && r.end == "RUN_FINISHED" {
			for m := range r.texts {
				whole[m] = run
			}
		}
	}
	for _, m := range t.final[0].Msgs {
		for had := range t.shown[m.ID] {
			if !k.lossy && !strings.HasPrefix(m.Text, had) {
				k.bad(badShrunk, "%s was: %s", m.ID, parting(had, m.Text))
			}
		}
		delete(t.shown, m.ID)
		if m.Role != "assistant" {
			continue
		}
		c, n, err := spoken(m.Text)
		switch {
		case err != nil:
			k.bad(badWords, "%s: %v", m.ID, err)
		case n == 0: // nothing was said before it ended
		case c >= len(calls) || n > calls[c].Said:
			k.bad(badWords, "%s has %d words of call %d, which did not say so many", m.ID, n, c)
		case whole[m.ID] != "" && !k.unsure && n != calls[c].Planned:
			k.bad(badShort, "%s of %s has %d words of %d", m.ID, whole[m.ID], n, calls[c].Planned)
		}
	}
	for m, had := range t.shown {
		for text := range had {
			if text != "" && !k.lossy {
				k.bad(badShrunk, "%s was %q and is gone", m, text)
			}
		}
	}
}

var wordForm = regexp.MustCompile(`^c(\d+)\.(\d+)\.[0-9a-f]{4}$`)

// spoken reads whose words a text is and how many; they must be the first ones
// of one call, in order, each whole but perhaps the last.
func spoken(text string) (caller, words int, err error) {
	caller = -1
	for i, w := range strings.Split(strings.TrimSuffix(text, " "), " ") {
		if w == "" {
			return 0, 0, nil
		}
		m := wordForm.FindStringSubmatch(w)
		if m == nil {
			return 0, 0, fmt.Errorf("%q is no word", w)
		}
		c, _ := strconv.Atoi(m[1])
		n, _ := strconv.Atoi(m[2])
		if caller < 0 {
			caller = c
		}
		if c != caller || n != i || w+" " != word(c, i) {
			return 0, 0, fmt.Errorf("word %d is %q of call %d", i, w, c)
		}
		words++
	}
	return caller, words, nil
}
