package conductor

import (
	"slices"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Bounds of an owner.
const (
	// writeEntries and writeBytes bound one append.
	writeEntries = 512
	writeBytes   = 256 << 10
	// logEvery is how often streamed text takes a log number, in ms; for long
	// answers it grows so that changes, each of which holds the text before and
	// after it, stay under logBytes a second.
	logEvery = 40
	logBytes = 1 << 20
)

// Phase is where an owner stands.
type Phase uint8

// An owner opens its segment (unless an earlier attempt did), calls the agent,
// streams, and ends; it is over when it has ended the segment or lost the run.
const (
	PhaseOpening Phase = iota
	PhaseStreaming
	PhaseEnding
	PhaseOver
)

// Owner is one attempt at one segment of a run, by the edge that owns it.
type Owner struct {
	Key   chat.Key
	Epoch uint64
	Run   string
	Fence uint64
	// Boot is the edge's: after a loss another edge may have the same fence.
	Boot  string
	Phase Phase
	// Pace is how long further deltas of a block are gathered, in ms.
	Pace int64

	gather   []chat.Entry // one delta a block, in the order of first deltas
	flushAt  int64        // when gather is due
	begun    map[string]bool
	out      []chat.Entry // ready to be written
	flight   *journal.Append
	w        uint64 // acknowledged by the store, the opening too
	textLen  int
	logAt    int64
	unlogged string // the text part that has text without a log number
	said     int64  // when it last got some
	outcome  *agent.Outcome
	lapsed   bool
	withheld bool // the append in flight is to be sent again
	unsaved  bool // what was said was not stored when the run was lost
}

// Do is what an owner needs next. More than one may be set.
type Do struct {
	// Open and End ask for the segment's first and last commit; the answers
	// go to Opened and Over.
	Open, End bool
	Append    *journal.Append
	// Call asks to call the agent, Abort to close the call at once.
	Call, Abort bool
	// Lost says that the store may have lost records of this attempt: what is
	// held is to be restored (DecideRestore).
	Lost bool
}

// Start asks for the segment's opening, or for the call where it is open.
func (o *Owner) Start(open bool) Do {
	o.begun = make(map[string]bool)
	if open {
		return Do{Open: true}
	}
	o.Phase = PhaseStreaming
	return Do{Call: true}
}

// Opened takes the outcome of the opening commit.
func (o *Owner) Opened(ok bool) Do {
	if o.Phase != PhaseOpening {
		return Do{}
	}
	if !ok {
		o.Phase = PhaseOver
		return Do{}
	}
	o.Phase, o.w = PhaseStreaming, 1 // the opening counts
	return Do{Call: true}
}

// Entries takes what the agent said, repaired. tag is a fresh random number.
func (o *Owner) Entries(entries []chat.Entry, now int64, tag uint64) Do {
	if o.Phase != PhaseStreaming {
		return Do{}
	}
	for _, e := range entries {
		if e.Kind.Delta() {
			o.delta(e, now)
			continue
		}
		o.flush(now, true)
		o.out = append(o.out, e)
	}
	return o.write(tag)
}

// delta sends the first of a block at once and gathers what follows.
func (o *Owner) delta(e chat.Entry, now int64) {
	b := e.Body.(*chat.DeltaBody)
	if !o.begun[b.Part] || o.Pace <= 0 {
		o.begun[b.Part] = true
		o.flush(now, false)
		o.push(e, now, false)
		return
	}
	for i, g := range o.gather {
		if d := g.Body.(*chat.DeltaBody); d.Part == b.Part {
			g.Body = &chat.DeltaBody{Part: d.Part, Text: d.Text + b.Text}
			o.gather[i] = g
			return
		}
	}
	if len(o.gather) == 0 {
		o.flushAt = now + o.Pace
	}
	o.gather = append(o.gather, e)
}

// flush moves what was gathered to the queue, in the order of first deltas.
func (o *Owner) flush(now int64, forced bool) {
	for _, e := range o.gather {
		o.push(e, now, forced)
	}
	o.gather = o.gather[:0]
}

// push queues a delta and decides whether it takes a log number.
func (o *Owner) push(e chat.Entry, now int64, forced bool) {
	b := e.Body.(*chat.DeltaBody)
	if e.Kind == chat.KindTextDelta {
		o.textLen += len(b.Text)
		if forced || now >= o.logDue() {
			e.Logged, o.logAt, o.unlogged = true, now, ""
		} else {
			o.unlogged, o.said = b.Part, now
		}
	}
	if n := len(o.out); n > 0 && !forced {
		// The journal is behind: what waits for it is gathered further.
		last := o.out[n-1]
		if d, ok := last.Body.(*chat.DeltaBody); ok && d.Part == b.Part && last.Kind == e.Kind && len(d.Text) < writeBytes/4 {
			last.Body = &chat.DeltaBody{Part: d.Part, Text: d.Text + b.Text}
			last.Logged = last.Logged || e.Logged
			last.N = max(last.N, e.N) // it may have been there for its number alone
			o.out[n-1] = last
			return
		}
	}
	o.out = append(o.out, e)
}

// logDue is when the run's text may take its next log number.
func (o *Owner) logDue() int64 {
	return o.logAt + max(logEvery, 2*int64(o.textLen)*1000/logBytes)
}

// numberDue is when text that nothing has followed takes one.
func (o *Owner) numberDue() int64 { return max(o.logDue(), o.said+logEvery) }

// number gives text that has no log number yet one on an empty delta, which is
// no envelope.
func (o *Owner) number(now int64) {
	e := chat.NewEntry(chat.KindTextDelta, o.Run, &chat.DeltaBody{Part: o.unlogged})
	e.N, e.Logged = 0, true
	o.out = append(o.out, e)
	o.logAt, o.unlogged = now, ""
}

// write puts an append in flight if none is. One at a time: the next begins
// where the store says that this one ended.
func (o *Owner) write(tag uint64) Do {
	if o.Phase == PhaseOver || o.flight != nil || o.lapsed {
		return Do{}
	}
	if len(o.out) == 0 {
		if o.Phase == PhaseEnding {
			return Do{End: true}
		}
		return Do{}
	}
	n, size := 0, 0
	for n < len(o.out) && n < writeEntries && size < writeBytes {
		size += entrySize(o.out[n])
		n++
	}
	o.flight = &journal.Append{
		Key: o.Key, Epoch: o.Epoch, Run: o.Run, Owner: o.Boot, Fence: o.Fence, W: o.w, Tag: tag,
		Entries: o.out[:n:n],
	}
	o.out = o.out[n:]
	return Do{Append: o.flight}
}

func entrySize(e chat.Entry) int {
	switch b := e.Body.(type) {
	case *chat.DeltaBody:
		return len(b.Text) + 64
	case *chat.ToolResultBody:
		return len(b.Content) + 128
	case *chat.StateBody:
		return len(b.State) + 64
	}
	return 256
}

// Backlog is how many entries wait for the journal; a caller that feeds the
// owner slows down when it grows.
func (o *Owner) Backlog() int { return len(o.out) }

// W is how many records the store has acknowledged in this attempt.
func (o *Owner) W() uint64 { return o.w }

// Wake is when Tick should be called, in ms, or 0.
func (o *Owner) Wake() int64 {
	at := int64(0)
	if len(o.gather) > 0 {
		at = o.flushAt
	}
	if o.unlogged != "" && o.Phase == PhaseStreaming && (at == 0 || o.numberDue() < at) {
		at = o.numberDue()
	}
	return at
}

// Tick flushes what was gathered for long enough, and numbers text that nothing
// has followed for as long as numbers are apart (PIN-195).
func (o *Owner) Tick(now int64, tag uint64) Do {
	if o.Phase != PhaseStreaming {
		return o.write(tag)
	}
	due := o.unlogged != "" && now >= o.numberDue()
	if len(o.gather) > 0 && (due || now >= o.flushAt) {
		o.flush(now, false)
	}
	if due && o.unlogged != "" {
		o.number(now)
	}
	return o.write(tag)
}

// Appended takes the store's answer to the append in flight.
func (o *Owner) Appended(r journal.Appended, tag uint64) Do {
	if o.flight == nil || o.Phase == PhaseOver {
		return Do{}
	}
	switch r.Result {
	case journal.Stored, journal.Already:
		o.w += uint64(len(o.flight.Entries))
		o.flight = nil
		return o.write(tag)
	case journal.Gap, journal.WrongEpoch, journal.Ended, journal.Fenced:
		// Ended and Fenced: either that news is on its way to us, or the store
		// lost the run or this attempt at it; who restores it finds out which.
		return o.lose(true)
	}
	return o.lose(false)
}

// Retry asks for the append in flight again, unchanged: its answer was lost.
func (o *Owner) Retry() Do {
	if o.flight == nil || o.Phase == PhaseOver {
		return Do{}
	}
	if o.lapsed {
		o.withheld = true
		return Do{}
	}
	return Do{Append: o.flight}
}

// Lapse stops all writing: the edge has had no word from the store for as long
// as it owns its runs after one, so another may have this run by now. Renew goes
// on where it stopped.
func (o *Owner) Lapse() { o.lapsed = true }

// Lapsed says whether the owner waits for Renew.
func (o *Owner) Lapsed() bool { return o.lapsed }

// Renew takes the store's word that the edge has its runs again. If it has not
// this one, the next answer says so.
func (o *Owner) Renew(tag uint64) Do {
	if !o.lapsed {
		return Do{}
	}
	o.lapsed = false
	if o.withheld && o.flight != nil {
		o.withheld = false
		return o.Retry()
	}
	return o.write(tag)
}

// Silent says that nothing was said in this attempt, not even what waits.
func (o *Owner) Silent() bool {
	return o.flight == nil && len(o.out) == 0 && len(o.gather) == 0 && o.Phase <= PhaseStreaming
}

// Finish takes the agent's outcome: flush, wait for every acknowledgement, and
// only then the last commit, guarded.
func (o *Owner) Finish(out agent.Outcome, now int64, tag uint64) Do {
	if o.Phase != PhaseStreaming {
		return Do{}
	}
	o.flush(now, true)
	if o.unlogged != "" {
		o.number(now) // a lifecycle record follows
	}
	o.outcome, o.Phase = &out, PhaseEnding
	return o.write(tag)
}

// Outcome is what Finish was given, or nil.
func (o *Owner) Outcome() *agent.Outcome { return o.outcome }

// Over says that the last commit was made, or that its run was found lost.
func (o *Owner) Over() { o.Phase = PhaseOver }

// Seen takes a record of the thread: a seal or an end that somebody else wrote
// takes the run from its owner.
func (o *Owner) Seen(r *chat.Record) Do {
	if r.Run != o.Run || o.Phase == PhaseOver {
		return Do{}
	}
	switch r.Kind {
	case chat.KindRunStop, chat.KindRunEnd:
		return o.lose(false)
	}
	return Do{}
}

// Shut takes the news that the run is not this edge's any more. lost says that
// the store may have lost something: by a new epoch, or because a beat says that
// the attempt is not in the store. False is for a thread that is gone.
func (o *Owner) Shut(lost bool) Do {
	if o.Phase == PhaseOver {
		return Do{}
	}
	return o.lose(lost)
}

// Lost says whether a commit that found the run lost (ErrLost) also found that
// the store has lost records of it: then the run is to be restored. Otherwise
// somebody else has it, or has ended it.
func (o *Owner) Lost(v *View) bool {
	m, live := v.Meta.Runs[o.Run]
	return v.Meta.Epoch != o.Epoch || !live || m.Fence < o.Fence
}

func (o *Owner) lose(lost bool) Do {
	o.unsaved = speak(o.out) || speak(o.gather) || o.flight != nil && speak(o.flight.Entries)
	o.Phase, o.flight, o.out, o.gather = PhaseOver, nil, nil, nil
	return Do{Abort: true, Lost: lost}
}

// speak tells whether entries say anything: a number for text that is stored
// already says nothing.
func speak(entries []chat.Entry) bool {
	return slices.ContainsFunc(entries, func(e chat.Entry) bool {
		d, ok := e.Body.(*chat.DeltaBody)
		return !ok || d.Text != ""
	})
}
