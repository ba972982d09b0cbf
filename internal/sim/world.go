package sim

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Times of a history, in ms.
const (
	epochStart = 1_000_000 // the clock when a history begins
	roughest   = 24_000    // faults last at most for so long
	recovery   = 20_500    // a lost run has visibly ended after so long
	quiet      = 85_000    // all is settled after so long
	// traceLines bounds what is kept of a failing history.
	traceLines = 600
)

// Report is what a history came to.
type Report struct {
	Seed uint64
	// Violations are the broken promises, the first one first.
	Violations []string
	// Trace is the end of the history, if it was asked for.
	Trace []string
	// Counts says how often each thing happened.
	Counts map[string]int
}

func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s\n", r.Seed, strings.Join(r.Violations, "\n  "))
	for _, l := range r.Trace {
		b.WriteString("    ")
		b.WriteString(l)
		b.WriteByte('\n')
	}
	return b.String()
}

// Run plays the history of a seed, with a bug or "", and says what broke.
func Run(seed uint64, bug Bug, trace bool) *Report {
	w := newWorld(seed, bug, trace)
	w.play()
	return &Report{Seed: seed, Violations: w.broken, Trace: w.trace, Counts: w.counts}
}

// world is one history: the loop, the clock and the dice.
type world struct {
	rnd     *rand.Rand
	bug     Bug
	now     int64
	queue   queue
	ids     int
	calm    bool   // the faults are over
	spared  uint32 // the kinds of faults that this history is spared
	leisure int64  // how much longer than usual people think
	store   *store
	edges   []*edge
	clients []*client
	checker *checker

	tracing bool
	trace   []string
	broken  []string
	counts  map[string]int
}

func newWorld(seed uint64, bug Bug, tracing bool) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), bug: bug, now: epochStart, tracing: tracing, counts: map[string]int{}}
	w.checker = newChecker(w)
	if w.chance(0.7) {
		w.spared = w.rnd.Uint32() & w.rnd.Uint32()
	}
	if w.chance(0.1) {
		w.spared = w.rnd.Uint32() | w.rnd.Uint32()
	}
	w.leisure = []int64{1, 1, 2, 8}[w.rnd.IntN(4)]
	w.store = newStore(w, 1+w.rnd.IntN(2))
	for i := range 2 + w.rnd.IntN(3) {
		e := &edge{w: w, name: "edge" + strconv.Itoa(i), skew: w.between(-3000, 3000)}
		w.edges = append(w.edges, e)
		e.boot()
	}
	for i := range 2 + w.rnd.IntN(4) {
		c := &client{w: w, name: "client" + strconv.Itoa(i), key: w.store.threads[w.rnd.IntN(len(w.store.threads))].key}
		w.clients = append(w.clients, c)
		c.live()
	}
	return w
}

// play runs the history to its end, or to the first broken promise.
func (w *world) play() {
	rough := w.between(roughest/3, roughest)
	w.faults(w.now + rough)
	w.after(rough, w.calmDown)
	w.after(rough+recovery, w.checker.recovered)
	end := w.now + rough + quiet
	for len(w.queue.heap) > 0 && len(w.broken) == 0 {
		ev := w.queue.pop()
		if ev.at > end {
			break
		}
		w.now = ev.at
		ev.f()
	}
	if len(w.broken) == 0 {
		w.checker.final()
	}
}

// after calls f in d ms.
func (w *world) after(d int64, f func()) { w.queue.push(w.now+max(0, d), f) }

func (w *world) chance(p float64) bool { return w.rnd.Float64() < p }

// between draws from [lo, hi].
func (w *world) between(lo, hi int64) int64 { return lo + w.rnd.Int64N(hi-lo+1) }

// random draws a tag or an epoch: never 0, far below the top.
func (w *world) random() uint64 { return w.rnd.Uint64()>>1 | 1<<20 }

func (w *world) id(kind string) string {
	w.ids++
	return kind + strconv.Itoa(w.ids)
}

func (w *world) log(format string, args ...any) {
	if !w.tracing {
		return
	}
	if len(w.trace) >= 2*traceLines {
		w.trace = append(w.trace[:0], w.trace[traceLines:]...)
	}
	w.trace = append(w.trace, fmt.Sprintf("%7.3f ", float64(w.now-epochStart)/1000)+fmt.Sprintf(format, args...))
}

// fail notes a broken promise; the history ends with it.
func (w *world) fail(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	w.broken = append(w.broken, s)
	w.log("BROKEN: %s", s)
}

// count notes that something happened, for the figures of a run.
func (w *world) count(what string) { w.counts[what]++ }

// event is something that is to happen.
type event struct {
	at  int64
	seq uint64
	f   func()
}

// queue is a heap of events by time, then by the order in which they came.
type queue struct {
	heap []event
	seq  uint64
}

func (q *queue) less(i, j int) bool {
	a, b := &q.heap[i], &q.heap[j]
	return a.at < b.at || (a.at == b.at && a.seq < b.seq)
}

func (q *queue) push(at int64, f func()) {
	q.seq++
	q.heap = append(q.heap, event{at, q.seq, f})
	for i := len(q.heap) - 1; i > 0 && q.less(i, (i-1)/2); i = (i - 1) / 2 {
		q.heap[i], q.heap[(i-1)/2] = q.heap[(i-1)/2], q.heap[i]
	}
}

func (q *queue) pop() event {
	top, n := q.heap[0], len(q.heap)-1
	q.heap[0], q.heap[n] = q.heap[n], event{}
	q.heap = q.heap[:n]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
			if q.less(c, least) {
				least = c
			}
		}
		if least == i {
			return top
		}
		q.heap[i], q.heap[least] = q.heap[least], q.heap[i]
		i = least
	}
}
