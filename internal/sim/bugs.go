package sim

import (
	"slices"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/room"
)

// Bug names a fault that is put into a history from outside, to see that a
// check finds it.
type Bug string

// The bugs of the store.
const (
	FenceUnchecked     Bug = "fence not checked"
	SealIgnored        Bug = "seal not checked"
	GuardIgnored       Bug = "guards not checked"
	RevisionIgnored    Bug = "revision not checked"
	CommandForgotten   Bug = "command id not kept"
	AppendTwice        Bug = "w not checked: a retried append is stored twice"
	ResetUnconditional Bug = "reset without compare-and-set"
	TrimWithoutBase    Bug = "trim without moving the base"
	LoadTrusts         Bug = "load continues without a look at the tag"
	TwoFinishers       Bug = "two ends of a run are both accepted"
	AnswerUnchecked    Bug = "answer not compared and set"
	LogReused          Bug = "log numbers used again after a restart"
	SeqReused          Bug = "envelope numbers used again after a restart"
	ImmortalOwner      Bug = "an owner's deadline never passes"
	LeaseOfEdge        Bug = "deadline of the edge, not of the run"
	DeleteByName       Bug = "delete without a look at the epoch"
)

// The bugs of an edge.
const (
	TagUnchecked         Bug = "chain of tags not checked"
	PositionIsIdentity   Bug = "position taken for identity"
	EpochUnchecked       Bug = "notices applied without a look at the epoch"
	NoJump               Bug = "no jump of positions at a reset"
	MembersStay          Bug = "members not closed at a new epoch"
	HoleNeverFilled      Bug = "a hole is never filled"
	SweepWithoutPatience Bug = "sweeper claims at once"
	OwnerIgnoresFence    Bug = "owner goes on although fenced"
	EndBeforeAcks        Bug = "owner ends before its appends are acknowledged"
	RetryAfterEvents     Bug = "agent called again after it spoke"
	IdleNeverCompared    Bug = "idle rooms are never compared with the store"
	LossNotRestored      Bug = "owner does not restore a lost run"
	DoneBeforeRefused    Bug = "a lost reply makes one's own success a failure"
)

// Bugs are all of them.
var Bugs = []Bug{
	FenceUnchecked, SealIgnored, GuardIgnored, RevisionIgnored, CommandForgotten, AppendTwice,
	ResetUnconditional, TrimWithoutBase, LoadTrusts, TwoFinishers, AnswerUnchecked, LogReused, SeqReused,
	ImmortalOwner, LeaseOfEdge, DeleteByName, TagUnchecked, PositionIsIdentity, EpochUnchecked, NoJump, MembersStay, HoleNeverFilled,
	SweepWithoutPatience, OwnerIgnoresFence, EndBeforeAcks, RetryAfterEvents, DoneBeforeRefused,
	IdleNeverCompared, LossNotRestored,
}

// appending bends an append before the store sees it.
func (b Bug) appending(l *journal.Ledger, a *journal.Append) {
	run, live := l.Meta.Runs[a.Run]
	if !live {
		return
	}
	switch b {
	case FenceUnchecked:
		if a.Fence != run.Fence {
			a.Fence, a.Owner, a.W = run.Fence, run.Owner, run.W
			a.Tag ^= run.Fence << 40
		}
	case SealIgnored:
		run.Sealed = false
		l.Meta.Runs[a.Run] = run
	case AppendTwice:
		if a.Fence == run.Fence && a.W < run.W {
			a.W = run.W
			a.Tag ^= 1 << 40
		}
	}
}

func commits(c *journal.Commit, kinds ...chat.Kind) bool {
	return slices.ContainsFunc(c.Entries, func(e chat.Entry) bool { return slices.Contains(kinds, e.Kind) })
}

// committing bends a commit before the store sees it.
func (b Bug) committing(l *journal.Ledger, c *journal.Commit) {
	if !l.Exists || c.Epoch != l.Meta.Epoch {
		return
	}
	switch b {
	case GuardIgnored:
		c.Guards = nil
	case RevisionIgnored:
		c.Rev = l.Meta.Rev
	case CommandForgotten:
		l.Commands = nil
	case TwoFinishers:
		if commits(c, chat.KindRunEnd) {
			c.Rev, c.Guards = l.Meta.Rev, nil
			for i := range c.Runs {
				if _, live := l.Meta.Runs[c.Runs[i].Run]; !live {
					c.Runs[i].New = true
				}
			}
		}
	case AnswerUnchecked:
		if commits(c, chat.KindAnswer) && !commits(c, chat.KindRunEnd) {
			c.Rev, c.Guards = l.Meta.Rev, nil
		}
	}
}

// loading bends a load before the store sees it.
func (b Bug) loading(l *journal.Ledger, q *journal.Load) {
	if b != LoadTrusts || !l.Exists || q.From.Epoch != l.Meta.Epoch || q.From.Pos <= l.Meta.Floor {
		return
	}
	q.From.Pos = min(q.From.Pos, l.Meta.Pos)
	if q.From.Pos > l.Meta.Floor {
		q.From.Tag = l.Records[q.From.Pos-l.Meta.Floor-1].Tag
	}
}

// trimming carries a trim out in its own way and says so.
func (b Bug) trimming(l *journal.Ledger, q *journal.Trim) bool {
	if b != TrimWithoutBase || !l.Exists || q.Epoch != l.Meta.Epoch || q.Base.Pos <= l.Meta.Floor || q.Base.Pos > l.Meta.Pos {
		return false
	}
	l.Records = slices.Clone(l.Records[q.Base.Pos-l.Meta.Floor:])
	l.Meta.Floor, l.Meta.FloorTag = q.Base.Pos, q.Base.Tag
	return true
}

// resetting bends a reset before the store sees it.
func (b Bug) resetting(l *journal.Ledger, q *journal.Reset) {
	switch b {
	case ResetUnconditional:
		q.Seen = journal.Cursor{Epoch: l.Meta.Epoch, Pos: l.Meta.Pos, Tag: l.Meta.Tag}
	case NoJump:
		base := *q.Base
		base.Pos, base.Log = q.Seen.Pos+1, base.Log-journal.PositionJump+1
		q.Base = &base
	}
}

// beating is the end of a beat.
func (b Bug) beating(s *store, boot string) {
	if b != LeaseOfEdge {
		return
	}
	for _, t := range s.threads {
		for id, m := range t.l.Meta.Runs {
			if m.Owner == boot {
				m.Until = s.w.now + journal.OwnerDeadline.Milliseconds()
				t.l.Meta.Runs[id] = m
			}
		}
	}
}

// restarted is the end of an outage.
func (b Bug) restarted(s *store) {
	for _, t := range s.threads {
		if !t.l.Exists {
			continue
		}
		switch b {
		case LogReused:
			t.l.Meta.Log -= min(t.l.Meta.Log, 2)
		case SeqReused:
			for id, m := range t.l.Meta.Runs {
				m.Seq -= min(m.Seq, 1)
				t.l.Meta.Runs[id] = m
			}
		}
	}
}

// noticing bends a notice before the sequencer sees it.
func (b Bug) noticing(q *room.Sequencer, n journal.Notice) journal.Notice {
	if !q.Ready {
		return n
	}
	switch b {
	case EpochUnchecked:
		if len(n.Records) > 0 {
			n.Epoch = q.Epoch
		}
	case TagUnchecked, PositionIsIdentity:
		if n.Epoch != q.Epoch {
			return n
		}
		recs, pos, tag := []*chat.Record(nil), q.State.Pos, q.State.Tag
		for _, r := range n.Records {
			switch {
			case b == PositionIsIdentity && r.Pos <= q.State.Pos:
				continue // "an echo"
			case r.Pos == pos+1:
				c := *r
				c.Prev = tag
				r, pos, tag = &c, c.Pos, c.Tag
			}
			recs = append(recs, r)
		}
		n.Records = recs
	}
	return n
}

// finishing ends an agent's call for its owner.
func (b Bug) finishing(a *attempt, out agent.Outcome) conductor.Do {
	do := a.o.Finish(out, a.p.now(), a.p.e.w.random())
	if b == EndBeforeAcks {
		do.End, do.Append = true, nil
	}
	return do
}
