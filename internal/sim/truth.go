package sim

import (
	"slices"
	"strings"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// record: the store numbers densely, chains by tag and takes only what the
// rules allow, measured against the truth before the record.
func (k *checker) record(t *thread, r *chat.Record) {
	st, w := t.truth, k.w
	switch {
	case r.Pos != st.Pos+1:
		w.fail("store: position %d follows %d", r.Pos, st.Pos)
	case r.Prev != st.Tag:
		w.fail("store: record %d is not chained to the one before it", r.Pos)
	case r.At < st.At:
		w.fail("store: time goes backwards at record %d", r.Pos)
	case r.Logged != (r.Log != 0) || (r.Logged && r.Log != st.Log+1):
		w.fail("store: log number %d follows %d", r.Log, st.Log)
	case r.N > 0 && r.Seq != nextSeq(st, r):
		w.fail("seq: the store gave %s envelope %d, expected %d", r.Run, r.Seq, nextSeq(st, r))
	case t.epochs[r.Tag] != 0 && !t.lost[r.Tag]:
		w.fail("store: a tag was given twice")
	}
	if why := k.forbidden(t, st, r); why != "" {
		w.fail("rules: %s of %s on %s: %s", r.Kind, r.Run, t.key.Thread, why)
	}
}

// forbidden says why a record may not follow, or "".
func (k *checker) forbidden(t *thread, st *chat.State, r *chat.Record) string {
	run := st.Run(r.Run)
	switch b := r.Body.(type) {
	case *chat.ThreadBody:
		return reason(st.Exists, "the thread is there already")
	case *chat.MessageBody:
		return reason(st.Message(b.Message.ID) != nil, "the message is there already")
	case *chat.RunPendingBody:
		return reason(run != nil || t.hasEnded(r.Run), "the run was there already")
	}
	switch {
	case run == nil:
		return "one terminal: the run is not live"
	case run.Stop != nil && r.Kind != chat.KindRunEnd:
		return "the run is sealed"
	case r.Kind.Streams():
		return reason(run.Status != chat.RunActive, "the run is "+string(run.Status))
	}
	switch b := r.Body.(type) {
	case *chat.RunActiveBody:
		return reason(run.Status != chat.RunPending, "the run is "+string(run.Status))
	case *chat.RunSuspendedBody, *chat.InterruptBody, *chat.RunDetachBody:
		return reason(run.Status != chat.RunActive, "the run is "+string(run.Status))
	case *chat.AnswerBody:
		_, i := st.RunOfInterrupt(b.Interrupt)
		return reason(i == nil || i.Status != chat.InterruptOpen || run.Status != chat.RunSuspended, "one winner: the question is not open")
	case *chat.RunResumedBody:
		return reason(run.Status != chat.RunSuspended || run.Open() != nil, "the run is not ready to go on")
	case *chat.RunEndBody:
		t.ended[r.Run] = r.Tag
		return k.ending(st, run, b)
	}
	return ""
}

func reason(bad bool, why string) string {
	if bad {
		return why
	}
	return ""
}

// ending: a sealed run ends for the reason that it was sealed for, and a
// run's message has what its agent said: all of it where it completed.
func (k *checker) ending(st *chat.State, run *chat.Run, b *chat.RunEndBody) string {
	if run.Stop != nil && b.Cause != run.Stop.Cause && b.Cause != chat.CauseLogLost {
		return "one winner: sealed for " + string(run.Stop.Cause) + ", ended for " + string(b.Cause)
	}
	k.w.count("end " + string(b.Status) + " " + string(b.Cause) + " " + b.Code)
	if b.Message == nil {
		return ""
	}
	if st.Message(b.Message.ID) != nil {
		return "the answer is there already"
	}
	for _, p := range run.Parts {
		i := slices.IndexFunc(b.Message.Parts, func(q *chat.Part) bool { return q.ID == p.ID })
		if i < 0 || !strings.HasPrefix(string(b.Message.Parts[i].Text), string(p.Text)) {
			return "text: the message lacks some of what was shown of " + p.ID
		}
	}
	for _, p := range b.Message.Parts {
		said := k.spoken[p.ID]
		if !strings.HasPrefix(said, string(p.Text)) || (b.Status == chat.RunComplete && said != string(p.Text)) {
			return "text: the message has " + string(p.Text) + " where the agent said " + said
		}
	}
	return ""
}

// ledger: what a store keeps beside the records agrees with them.
func (k *checker) ledger(t *thread) {
	m, w := &t.l.Meta, k.w
	switch {
	case m.Pos != t.truth.Pos || m.Tag != t.truth.Tag || m.Log != t.truth.Log:
		w.fail("store: the head of %s is not its newest record's", t.key.Thread)
	case uint64(len(t.l.Records)) != m.Pos-m.Floor:
		w.fail("store: %s keeps %d records from %d to %d", t.key.Thread, len(t.l.Records), m.Floor, m.Pos)
	case len(m.Runs) != len(t.truth.Runs):
		w.fail("store: %s has %d live runs and %d in its records", t.key.Thread, len(m.Runs), len(t.truth.Runs))
	case len(t.l.Commands) > journal.KeepCommands:
		w.fail("bounds: %s keeps %d commands", t.key.Thread, len(t.l.Commands))
	case m.Floor != t.l.Base.Pos || m.FloorTag != t.l.Base.Tag:
		w.fail("store: the base of %s is not at its floor", t.key.Thread)
	}
	for _, r := range t.truth.Runs {
		if x, ok := m.Runs[r.ID]; !ok || x.Seq != r.LastSeq || x.Sealed != (r.Stop != nil) {
			w.fail("store: what it keeps of %s is not what its records say: %+v", r.ID, x)
		}
	}
}

// thread: base and records fold to the truth.
func (k *checker) thread(t *thread) {
	if !t.l.Exists {
		return
	}
	snap := t.l.Load(journal.Load{}, k.w.now)
	if diff := differ(snap.State(nil), t.truth); diff != "" {
		k.w.fail("fold: base and records of %s do not fold to the truth: %s", t.key.Thread, diff)
	}
}

func (k *checker) trimmed(t *thread) {
	k.ledger(t)
	k.thread(t)
}

// reset: a new epoch begins with what the store still has, beyond any number
// that the room which begins it has shown.
func (k *checker) reset(t *thread, seen *chat.State, q journal.Reset, shown uint64) {
	if diff := differInContent(q.Base, seen); diff != "" {
		k.w.fail("reset: the new epoch of %s begins with something else than the store had: %s", t.key.Thread, diff)
	}
	if t.losses == 0 {
		k.w.fail("reset: a new epoch of %s although nothing was lost", t.key.Thread)
	}
	if q.Base.Pos <= shown || q.Base.Log <= seen.Log {
		k.w.fail("reset: the new epoch of %s begins at %d, but %d was shown", t.key.Thread, q.Base.Pos, shown)
	}
}
