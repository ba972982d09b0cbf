package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// What a history can violate. Each is the name of one promise.
const (
	badHole       = "hole"           // a sequence was left out
	badRepeat     = "repeat"         // a sequence came again on a connection
	badRewritten  = "rewritten"      // one sequence of a run, two contents
	badAfterEnd   = "after the end"  // an envelope behind a terminal
	badUnended    = "unended"        // a window at rest has not seen a run's terminal
	badFold       = "fold"           // a window that watched has another transcript
	badShrunk     = "shrunk"         // text that was shown is not in the transcript
	badEdges      = "edges differ"   // two edges tell different transcripts
	badLostSend   = "lost send"      // an acknowledged message is not there
	badTwice      = "two messages"   // a message is there twice
	badTwoRuns    = "two runs"       // one message began two runs
	badTwoCalls   = "two calls"      // an attempt was asked of the agent twice
	badTwoWinners = "two winners"    // two answers of one question won
	badFalseWin   = "false win"      // the agent got another answer than the one that won
	badCancel     = "false cancel"   // a stop that succeeded, on a run that ended otherwise
	badWords      = "words"          // a text that no call has said
	badShort      = "short"          // a finished run whose text is not whole
	badStuck      = "stuck"          // something did not settle
	badLate       = "late"           // a run ended too long after the last fault
	badCallOpen   = "call left open" // an ended run's agent is still at work
	badUntold     = "epoch untold"   // a window was not told of a new epoch
	badBehind     = "behind"         // an edge was told too late of what another had
)

// A run is to end within endBound of the end of the faults. Windows tell of it
// by their own clock, on a machine that compiles and starves processes beside
// it, and what runs then may go on for as long as the longest script does; that
// is what endSlack is for.
const (
	endBound = 20 * time.Second
	endSlack = 15 * time.Second
)

// restBound is how long an edge may be behind another when all is at rest: it has
// to find out that its subscription is deaf, and to make another.
const restBound = 12 * time.Second

// violation is one broken promise.
type violation struct{ kind, what string }

func (v violation) String() string { return v.kind + ": " + v.what }

// checker holds the histories of all windows, the agent's books and the last
// transcripts to what must always hold. It takes the notes in the order of
// their printing and keeps what it needs of them, not all.
type checker struct {
	// lossy: the store itself lost data, and epochs may change. unsure: even what
	// it acknowledged may be lost with them, an end or an answer too.
	lossy, unsure bool

	windows map[string]*window
	runs    map[string]*watched
	sends   map[string]*sent
	stops   []note
	answers []note
	threads map[string]*talk
	healed  int64
	found   []violation
	figures figures
}

// figures are what a check saw.
type figures struct {
	events, connections, histories, runs, sends, epochs int

	behind int // the longest that an edge was behind another in the end, in ms
}

// window is one window's present connection.
type window struct {
	thread string
	c      int
	joined bool
	// connections is how many the window has had.
	connections int
	cut         bool // its last history was truncated
	last        map[string]int
	over        map[string]bool
	fold        *transcript
}

// watched is a run as all windows together saw it.
type watched struct {
	thread, message string
	digest          map[int]string
	end             string
	endSeq          int
	endAt, beganAt  int64
	texts           map[string]bool
}

// sent is a message that somebody sent.
type sent struct {
	thread string
	acked  bool
	tries  int
	// answers are those that acknowledged it.
	answers string
}

// talk is a thread: its last transcripts, and what was cut off in mid-sentence.
type talk struct {
	final []note
	shown map[string]map[string]bool // message -> texts that a window had of it
	epoch int
	// joins is which connection each window had when its epoch was last looked
	// at; owed are those from before it rose.
	joins  map[string]int
	owed   []map[string]int
	judged bool
}

func newChecker() *checker {
	return &checker{
		windows: map[string]*window{}, runs: map[string]*watched{}, sends: map[string]*sent{}, threads: map[string]*talk{},
	}
}

func (k *checker) bad(kind, format string, args ...any) {
	if len(k.found) < 200 {
		k.found = append(k.found, violation{kind, fmt.Sprintf(format, args...)})
	}
}

func (k *checker) talk(id string) *talk {
	t := k.threads[id]
	if t == nil {
		t = &talk{shown: map[string]map[string]bool{}}
		k.threads[id] = t
	}
	return t
}

// take takes the next note.
func (k *checker) take(n note) {
	switch n.K {
	case "conn":
		k.figures.connections++
		k.windows[n.W] = &window{thread: n.Th, c: n.C, last: map[string]int{}, over: map[string]bool{}, connections: k.connections(n.W) + 1}
	case "disc":
		k.cut(n)
	case "join":
		k.join(n)
	case "ev":
		k.figures.events++
		if w := k.windows[n.W]; w != nil && w.c == n.C {
			k.event(w, n)
		}
	case "send":
		k.figures.sends++
		s := k.sends[n.ID]
		if s == nil {
			s = &sent{thread: n.Th}
			k.sends[n.ID] = s
		}
		s.tries++
	case "ack":
		// A duplicate is the sender's own earlier attempt: nobody else has the id.
		if s := k.sends[n.ID]; s != nil && (n.OK || n.Code == "DUPLICATE_MESSAGE") {
			s.acked = true
			s.answers += fmt.Sprintf(" try %d ok=%v %s", n.N, n.OK, n.Code)
		}
	case "cancelled":
		k.stops = append(k.stops, n)
	case "answered":
		k.answers = append(k.answers, n)
	case "epoch":
		k.epoch(n)
	case "healed":
		k.healed = n.T
	case "final":
		k.last(n)
	case "stuck":
		k.bad(badStuck, "%s %s %s", n.Th, n.W, n.Why)
	}
}

func (k *checker) connections(name string) int {
	if w := k.windows[name]; w != nil {
		return w.connections
	}
	return 0
}

// join takes a history: what came before it is in it.
func (k *checker) join(n note) {
	k.figures.histories++
	w := k.windows[n.W]
	if w == nil || w.c != n.C {
		return
	}
	w.joined = true
	seen := map[string]int{}
	w.cut = n.Trunc
	w.fold = newTranscript(n.Msgs)
	for _, e := range n.Env {
		e.W, e.C, e.Th, e.T = n.W, n.C, n.Th, n.T
		k.content(e)
		if from, there := seen[e.R]; there && e.S != from+1 {
			k.bad(badHole, "%s: the replay of %s goes from %d to %d", n.W, e.R, from, e.S)
		} else if !there && e.S != 1 && !n.Trunc {
			k.bad(badHole, "%s: the replay of %s begins with %d", n.W, e.R, e.S)
		}
		seen[e.R] = e.S
		w.fold.take(e)
	}
	for run := range w.last {
		if _, there := seen[run]; !there {
			w.over[run] = true // the history holds what it has become
		}
	}
	for run, s := range seen {
		if s < w.last[run] {
			k.bad(badRepeat, "%s: the replay of %s ends with %d behind %d", n.W, run, s, w.last[run])
		}
		w.last[run] = s
	}
}

// event takes an envelope that came live.
func (k *checker) event(w *window, n note) {
	k.content(n)
	want := w.last[n.R] + 1
	if want == 1 && n.S > 1 && w.cut {
		// The history said that the beginning is not held any more (PIL-165).
		want, w.fold.torn = n.S, true
	}
	switch {
	case w.over[n.R]:
		k.bad(badAfterEnd, "%s: %s %d of %s", n.W, n.Y, n.S, n.R)
	case n.S > want:
		k.bad(badHole, "%s: %s goes from %d to %d on connection %d", n.W, n.R, want-1, n.S, n.C)
	case n.S < want:
		k.bad(badRepeat, "%s: %s has %d again behind %d on connection %d", n.W, n.R, n.S, want-1, n.C)
	}
	w.last[n.R] = max(n.S, w.last[n.R])
	if terminalType(n.Y) {
		w.over[n.R] = true
	}
	if w.fold != nil {
		w.fold.take(n)
	}
}

func terminalType(y string) bool {
	return y == "RUN_FINISHED" || y == "RUN_CANCELLED" || y == "RUN_ERROR"
}

// content holds an envelope to what others saw of the same run.
func (k *checker) content(n note) {
	r := k.runs[n.R]
	if r == nil {
		k.figures.runs++
		r = &watched{thread: n.Th, digest: map[int]string{}, texts: map[string]bool{}, beganAt: n.T}
		k.runs[n.R] = r
	}
	digest := strings.Join([]string{n.Y, n.M, n.D, n.I, n.Code}, "\x00")
	if old, there := r.digest[n.S]; there && old != digest && !k.lossy {
		k.bad(badRewritten, "%s: %d of %s is %q, and was %q", n.W, n.S, n.R, digest, old)
	}
	r.digest[n.S] = digest
	switch {
	case n.Y == "RUN_STARTED":
		r.message = n.M
	case n.Y == "TEXT_MESSAGE_START":
		r.texts[n.M] = true
	case terminalType(n.Y):
		if r.end == "" {
			r.endAt = n.T
		}
		r.end, r.endSeq = n.Y, n.S
	}
	if r.end != "" && n.S > r.endSeq && !k.lossy {
		k.bad(badAfterEnd, "%s: %s %d of %s, which ended with %d", n.W, n.Y, n.S, n.R, r.endSeq)
	}
}

// cut takes the end of a connection: what it had of unfinished texts must be
// the beginning of what they become.
func (k *checker) cut(n note) {
	w := k.windows[n.W]
	if w == nil || w.c != n.C || !w.joined {
		return
	}
	w.joined = false
	t := k.talk(w.thread)
	for run := range w.last {
		if r := k.runs[run]; r != nil && !w.over[run] {
			for m := range r.texts {
				if t.shown[m] == nil {
					t.shown[m] = map[string]bool{}
				}
				t.shown[m][w.fold.text(m)] = true
			}
		}
	}
}

// epoch takes what the epoch of a thread is. When it has risen, each window
// that watched before must begin anew, at the latest until all is at rest.
func (k *checker) epoch(n note) {
	t := k.talk(n.Th)
	if t.epoch != 0 && n.N > t.epoch {
		k.figures.epochs += n.N - t.epoch
		t.owed = append(t.owed, t.joins)
	}
	t.epoch, t.joins = n.N, map[string]int{}
	for name, w := range k.windows {
		if w.thread == n.Th && w.joined {
			t.joins[name] = w.connections
		}
	}
}

// last takes what somebody who comes last sees; with the first of a thread its
// windows are at rest, and must have it too.
func (k *checker) last(n note) {
	t := k.talk(n.Th)
	t.final = append(t.final, n)
	k.figures.behind = max(k.figures.behind, n.N)
	if late := time.Duration(n.N) * time.Millisecond; late > restBound {
		k.bad(badBehind, "%s on edge %d by %v", n.Th, n.E, late)
	}
	if n.Pi != "" {
		k.bad(badStuck, "%s asks %s still", n.Th, n.Pi)
	}
	if n.Open {
		k.bad(badUnended, "%s has a run at work when all is settled", n.Th)
	}
	if t.judged {
		return
	}
	t.judged = true
	for _, before := range t.owed {
		for name, c := range before {
			if w := k.windows[name]; w != nil && w.joined && w.connections == c {
				k.bad(badUntold, "%s went on in %s when its epoch changed", name, n.Th)
			}
		}
	}
	for name, w := range k.windows {
		if w.thread != n.Th || !w.joined || strings.Contains(name, "-last-") {
			continue
		}
		for run := range w.last {
			if !w.over[run] {
				k.bad(badUnended, "%s has seen no end of %s", name, run)
			}
		}
		if w.fold != nil && !w.fold.torn {
			if d := difference(visible(w.fold.list), visible(n.Msgs)); d != "" {
				k.bad(badFold, "%s: %s", name, d)
			}
		}
	}
}

// visible leaves out the answers in which nothing was said: a history hides them.
func visible(list []shown) []shown {
	return slices.DeleteFunc(slices.Clone(list), func(m shown) bool { return m.Role == "assistant" && m.Text == "" })
}

func difference(got, want []shown) string {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			if i < len(got) && i < len(want) && got[i].ID == want[i].ID && got[i].Role == want[i].Role {
				return fmt.Sprintf("message %d, %s: %s", i, got[i].ID, parting(got[i].Text, want[i].Text))
			}
			at := func(l []shown) any {
				if i < len(l) {
					return l[i]
				}
				return "nothing"
			}
			return fmt.Sprintf("message %d is %q, not %q", i, at(got), at(want))
		}
	}
	return ""
}

// parting shows where a text leaves another.
func parting(got, want string) string {
	n := 0
	for n < len(got) && n < len(want) && got[n] == want[n] {
		n++
	}
	from := max(0, n-24)
	return fmt.Sprintf("%d bytes, not %d, and from %d on %.80q, not %.80q", len(got), len(want), from, got[from:], want[from:])
}
