package chat

// Logged says whether a record of the kind writes a slot and so takes a log
// number. A delta decides for itself (the run's pace); a message takes none
// beside its run.pending, which has it for both.
func Logged(k Kind) bool {
	switch k {
	case KindRunPending, KindRunActive, KindRunSuspended, KindRunResumed, KindRunEnd:
		return true
	}
	return false
}

// Envelopes says how many Pilotoo envelopes a record of the kind is, for the
// kinds where that does not depend on the run: PIL-110, with RUN_PAUSED and
// RUN_FINISHED for a suspension (PIL-120).
func Envelopes(k Kind) int {
	switch k {
	case KindRunActive, KindRunResumed, KindInterrupt,
		KindTextStart, KindTextDelta, KindTextEnd,
		KindReasoningStart, KindReasoningDelta, KindReasoningEnd,
		KindToolStart, KindToolArgs, KindToolEnd, KindToolResult,
		KindTodos, KindSubagentStart, KindSubagentEnd:
		return 1
	case KindRunSuspended:
		return 2
	}
	return 0
}

// Closers lists what a run has open, in the order in which it was opened: what
// a dialect that shows blocks must close before it shows the end (PIL-099).
type Closers struct {
	Parts     []*Part
	Subagents []Subagent
}

// Closers returns what the run has open.
func (r *Run) Closers() Closers {
	var c Closers
	for _, p := range r.Parts {
		if p.Open {
			c.Parts = append(c.Parts, p)
		}
	}
	for _, s := range r.Subagents {
		if s.Running {
			c.Subagents = append(c.Subagents, s)
		}
	}
	return c
}

// endEnvelopes says how many envelopes a run's end is and whether it opens a
// segment: an active run closes its blocks and ends; one that has no segment
// on the wire is shown as one that began and ended (PIL-221).
func (r *Run) endEnvelopes() (n int, opens bool) {
	if r.Status != RunActive {
		return 2, true
	}
	c := r.Closers()
	return len(c.Parts) + len(c.Subagents) + 1, false
}

// NewEntry makes an entry with the numbers its kind asks for. Ends of runs are
// made by the rules, since their number depends on the run.
func NewEntry(k Kind, run string, b Body) Entry {
	return Entry{
		Kind: k, Run: run, Body: b,
		N: Envelopes(k), Logged: Logged(k),
		Opens: k == KindRunActive || k == KindRunResumed,
	}
}
