package journal

import (
	"maps"
	"math/bits"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// Ledger is one thread as a store must keep it: the rules of every write, pure
// and in one place. The file journal holds its threads so; a store that has to
// run its rules elsewhere (a script in Redis) is held to the same by the
// contract suite. A Ledger is not safe for concurrent use.
type Ledger struct {
	Meta Meta
	// Exists is false before the first commit and after a delete.
	Exists bool
	// Tombstone is when a delete is forgotten, in Unix milliseconds.
	Tombstone int64
	Base      *chat.State
	Records   []*chat.Record
	Pages     [][]*chat.Message
	Nodes     map[string]chat.Node
	Commands  []Command
	// Rest is when somebody must look at the thread again if it has neither
	// records nor live runs, in Unix milliseconds; 0 is never.
	Rest int64
}

// Command is a step that was committed, for its own retry.
type Command struct {
	ID     CommandID
	At     int64
	Result []byte
}

// NewLedger returns the ledger of a thread that nobody has made.
func NewLedger() *Ledger {
	return &Ledger{Base: &chat.State{Schema: chat.SchemaVersion}, Nodes: map[string]chat.Node{}}
}

// buried says that a tombstone stands at now.
func (l *Ledger) buried(now int64) bool { return !l.Exists && l.Tombstone > now }

// Append decides on an append and carries it out.
func (l *Ledger) Append(a Append, now int64) Appended {
	switch {
	case l.buried(now):
		return Appended{Result: Deleted}
	case !l.Exists:
		return Appended{Result: Ended}
	case a.Epoch != l.Meta.Epoch:
		return Appended{Result: WrongEpoch}
	}
	run, live := l.Meta.Runs[a.Run]
	switch {
	case !live:
		return Appended{Result: Ended}
	case run.Fence != a.Fence, a.Owner != "" && a.Owner != run.Owner:
		return Appended{Result: Fenced}
	case run.W == a.W+uint64(len(a.Entries)) && run.WTag == a.Tag:
		return Appended{Result: Already}
	case run.Sealed:
		return Appended{Result: Sealed}
	case run.W < a.W:
		return Appended{Result: Gap, W: run.W}
	case run.W > a.W:
		// Somebody else wrote as this attempt: it is not ours any more.
		return Appended{Result: Fenced}
	}
	recs := l.number(a.Entries, a.Tag, now, run.W)
	run = l.Meta.Runs[a.Run]
	run.W += uint64(len(a.Entries))
	run.WTag = a.Tag
	l.Meta.Runs[a.Run] = run
	return Appended{Result: Stored, Records: recs}
}

// Commit decides on a commit and carries it out.
func (l *Ledger) Commit(c Commit, now int64) Committed {
	l.Forget(now)
	for _, k := range l.Commands {
		if k.ID == c.Command {
			return Committed{Result: DoneBefore, Before: k.Result, Epoch: l.Meta.Epoch, Rev: l.Meta.Rev, Fences: l.stillOwned(c.Runs)}
		}
	}
	switch {
	case l.buried(now) && (c.Epoch != 0 || c.NewEpoch == l.Meta.Epoch):
		// The second is the very commit that made the thread, sent again.
		return Committed{Result: Deleted}
	case !l.Exists && c.Epoch == 0:
		if len(c.Guards) > 0 || !opens(c.Runs) {
			return Committed{Result: Conflict}
		}
		l.open(c)
	case !l.Exists:
		return Committed{Result: WrongEpoch}
	case c.Epoch == 0:
		return Committed{Result: Conflict}
	case c.Epoch != l.Meta.Epoch:
		return Committed{Result: WrongEpoch}
	case c.Rev != l.Meta.Rev || !l.holds(c.Guards) || !l.fits(c.Runs):
		return Committed{Result: Conflict}
	}
	fences := l.changeRuns(c.Runs, now)
	recs := l.number(c.Entries, c.Tag, now, 0)
	for _, ch := range c.Runs {
		if ch.End {
			delete(l.Meta.Runs, ch.Run)
		}
	}
	maps.Copy(l.Nodes, c.Nodes)
	l.Meta.Rev = Rev{N: l.Meta.Rev.N + 1, Tag: c.Tag}
	if n := len(l.Commands) - KeepCommands + 1; n > 0 {
		l.Commands = l.Commands[n:]
	}
	l.Commands = append(l.Commands, Command{ID: c.Command, At: now, Result: c.Result})
	return Committed{Result: Done, Records: recs, Epoch: l.Meta.Epoch, Rev: l.Meta.Rev, Fences: fences}
}

// open begins a thread. One that was deleted goes on above its old positions,
// so that no old cursor means anything in it.
func (l *Ledger) open(c Commit) {
	l.Exists, l.Tombstone, l.Rest = true, 0, 0
	pos, log := l.Meta.Pos, l.Meta.Log
	if pos > 0 {
		pos, log = pos+PositionJump, log+PositionJump
	}
	l.Meta = Meta{Epoch: c.NewEpoch, Rev: l.Meta.Rev, Pos: pos, Log: log, At: l.Meta.At, Floor: pos, Runs: map[string]RunMeta{}}
	l.Base = &chat.State{Schema: chat.SchemaVersion, Pos: pos, Log: log, At: l.Meta.At}
	l.Records, l.Pages, l.Nodes = nil, nil, map[string]chat.Node{}
}

// Forget drops the commands that are older than KeepCommandsFor. Commit does
// so itself; a store may do it where an idle thread ought to cost less.
func (l *Ledger) Forget(now int64) {
	drop := 0
	for drop < len(l.Commands) && l.Commands[drop].At+KeepCommandsFor.Milliseconds() < now {
		drop++
	}
	l.Commands = l.Commands[drop:]
}

func (l *Ledger) holds(guards []Guard) bool {
	for _, g := range guards {
		run, live := l.Meta.Runs[g.Run]
		if !live || run.Fence != g.Fence || run.W != g.W || (g.Owner && run.Sealed) {
			return false
		}
	}
	return true
}

func (l *Ledger) fits(changes []RunChange) bool {
	for _, ch := range changes {
		if _, live := l.Meta.Runs[ch.Run]; live == ch.New {
			return false
		}
	}
	return true
}

// opens says that the changes fit a thread that has no runs yet.
func opens(changes []RunChange) bool {
	for _, ch := range changes {
		if !ch.New {
			return false
		}
	}
	return true
}

func (l *Ledger) changeRuns(changes []RunChange, now int64) map[string]uint64 {
	fences := map[string]uint64{}
	for _, ch := range changes {
		run := l.Meta.Runs[ch.Run]
		if ch.End {
			continue
		}
		if ch.NewOwner {
			run.Fence++
			run.take(ch.Owner, now)
			fences[ch.Run] = run.Fence
		}
		if ch.Counts {
			run.W++
		}
		if ch.Agent != "" {
			run.Agent = ch.Agent
		}
		run.Sealed, run.Due = ch.Sealed, ch.Due
		l.Meta.Runs[ch.Run] = run
	}
	return fences
}

// stillOwned are the fences of those runs that a commit gave to an owner who
// has them yet.
func (l *Ledger) stillOwned(changes []RunChange) map[string]uint64 {
	fences := map[string]uint64{}
	for _, ch := range changes {
		if run, live := l.Meta.Runs[ch.Run]; live && ch.NewOwner && run.Owner == ch.Owner {
			fences[ch.Run] = run.Fence
		}
	}
	return fences
}

// take begins an attempt of owner's at the run.
func (m *RunMeta) take(owner string, now int64) {
	m.Owner, m.W, m.WTag, m.Until = owner, 0, 0, 0
	if owner != "" {
		m.Until = now + OwnerDeadline.Milliseconds()
	}
}

// Renew moves an attempt's deadline: an edge does so for each run that it
// owns, with each beat. False says that the run is not the owner's any more,
// or that it is sealed.
func (l *Ledger) Renew(run, owner string, fence uint64, now int64) bool {
	m, live := l.Meta.Runs[run]
	if !l.Exists || !live || m.Owner != owner || m.Fence != fence || m.Sealed {
		return false
	}
	m.Until = now + OwnerDeadline.Milliseconds()
	l.Meta.Runs[run] = m
	return true
}

// number turns entries into records behind the newest one.
func (l *Ledger) number(entries []chat.Entry, tag uint64, now int64, w uint64) []*chat.Record {
	m := &l.Meta
	m.At = max(m.At, now)
	recs := make([]*chat.Record, len(entries))
	for i, e := range entries {
		r := &chat.Record{Pos: m.Pos + 1, At: m.At, Tag: ChainTag(m.Tag, tag+uint64(i)), Prev: m.Tag, Entry: e}
		if e.Kind.Streams() {
			r.W = w + uint64(i)
		}
		if e.Logged {
			m.Log++
			r.Log = m.Log
		}
		if e.N > 0 {
			run, live := m.Runs[e.Run]
			if e.Opens {
				run.Seq = 0
			}
			r.Seq = run.Seq + 1
			run.Seq += uint64(e.N)
			if live { // a record must not bring a run to life
				m.Runs[e.Run] = run
			}
		}
		m.Pos, m.Tag = r.Pos, r.Tag
		recs[i] = r
	}
	l.Records = append(l.Records, recs...)
	return recs
}

// ChainTag is the tag of a record, made of the tag before it and of what its write
// says. So one tag is one history: a write that was lost and is tried again gets
// another tag behind another record, although it may get its old position.
func ChainTag(prev, tag uint64) uint64 { return bits.RotateLeft64(prev, 1) ^ tag }

// Load answers a load; the snapshot shares the ledger's slices.
func (l *Ledger) Load(q Load, now int64) Snapshot {
	s := Snapshot{Exists: l.Exists, Deleted: l.buried(now), Meta: l.Meta}
	s.Meta.Runs = maps.Clone(l.Meta.Runs)
	if !l.Exists {
		return s
	}
	if len(q.IDs) > 0 {
		s.Nodes = make(map[string]chat.Node, len(q.IDs))
		for _, id := range q.IDs {
			if n, ok := l.Nodes[id]; ok {
				s.Nodes[id] = n
			}
		}
	}
	if q.From.Epoch == l.Meta.Epoch && q.From.Epoch != 0 {
		if q.From.Pos < l.Meta.Floor {
			s.Behind = true
		} else if at, ok := l.tagAt(q.From.Pos); ok && at == q.From.Tag {
			s.Continues = true
			n := len(l.Records) - int(l.Meta.Pos-q.From.Pos)
			s.Records = l.Records[n:len(l.Records):len(l.Records)]
			return s
		}
	}
	s.Base = l.Base.Clip()
	s.Records = l.Records[:len(l.Records):len(l.Records)]
	return s
}

// tagAt is the tag of the kept record at pos, or of the base.
func (l *Ledger) tagAt(pos uint64) (uint64, bool) {
	if pos == l.Meta.Floor {
		return l.Meta.FloorTag, true
	}
	if pos < l.Meta.Floor || pos > l.Meta.Pos {
		return 0, false
	}
	return l.Records[pos-l.Meta.Floor-1].Tag, true
}

// Trim moves the floor, or only the end of the thread's rest.
func (l *Ledger) Trim(t Trim) Result {
	if !l.Exists || t.Epoch != l.Meta.Epoch || t.Base.Pos < l.Meta.Floor {
		return Lost
	}
	if tag, ok := l.tagAt(t.Base.Pos); !ok || tag != t.Base.Tag || t.FirstPage != len(l.Pages) {
		return Lost
	}
	rests := t.Base.Pos == l.Meta.Pos && len(l.Meta.Runs) == 0
	if t.Base.Pos == l.Meta.Floor {
		if t.Rest == 0 || !rests || len(t.Pages) > 0 {
			return Lost
		}
		l.Rest = t.Rest
		return OK
	}
	l.Rest = 0
	if rests {
		l.Rest = t.Rest
	}
	l.Records = append([]*chat.Record(nil), l.Records[t.Base.Pos-l.Meta.Floor:]...)
	l.Meta.Floor, l.Meta.FloorTag, l.Base = t.Base.Pos, t.Base.Tag, t.Base
	l.Pages = append(l.Pages[:t.FirstPage:t.FirstPage], t.Pages...)
	for i := range min(t.Base.Archived(), len(l.Pages)) {
		l.Pages[i] = nil
	}
	return OK
}

// Reset begins a new epoch at the base that the resetter gives. The winner is
// told so again if its answer was lost.
func (l *Ledger) Reset(r Reset) Result {
	m := &l.Meta
	if l.Exists && r.NewEpoch == m.Epoch {
		return OK
	}
	if !l.Exists || r.Seen != (Cursor{Epoch: m.Epoch, Pos: m.Pos, Tag: m.Tag}) || r.Base.Pos <= m.Pos {
		return Lost
	}
	m.Epoch = r.NewEpoch
	m.Pos, m.Log, m.Tag = r.Base.Pos, r.Base.Log, r.Base.Tag
	m.Floor, m.FloorTag = m.Pos, m.Tag
	m.Rev = Rev{N: m.Rev.N + 1, Tag: r.Tag}
	l.Base, l.Records, l.Rest = r.Base, nil, 0
	return OK
}

// Claim gives a run to a new owner. lapsed says that the present owner's
// deadline has passed. The winner is told so again if its answer was lost, as
// long as nothing was decided since.
func (l *Ledger) Claim(c Claim, lapsed bool, now int64) (fence uint64, rev Rev, res Result) {
	run, live := l.Meta.Runs[c.Run]
	if l.Exists && live && run.Fence == c.Fence+1 && run.Owner == c.Owner && l.Meta.Rev.Tag == c.Tag {
		return run.Fence, l.Meta.Rev, OK
	}
	due := run.Due != 0 && run.Due <= now
	if !l.Exists || !live || run.Fence != c.Fence || !(lapsed || due || c.Living) {
		return 0, Rev{}, Lost
	}
	run.Fence++
	run.take(c.Owner, now)
	if due {
		run.Due = now + SealDeadline.Milliseconds()
	}
	l.Meta.Runs[c.Run] = run
	l.Meta.Rev = Rev{N: l.Meta.Rev.N + 1, Tag: c.Tag}
	return run.Fence, l.Meta.Rev, OK
}

// Delete leaves a tombstone, where the thread is in the epoch that the caller
// saw: one that was made again since is not the one that he meant.
func (l *Ledger) Delete(epoch uint64, now int64) Result {
	switch {
	case !l.Exists:
		return OK
	case epoch != l.Meta.Epoch:
		return Lost
	}
	l.Exists, l.Tombstone, l.Rest = false, now+Tombstone.Milliseconds(), 0
	l.Base = &chat.State{Schema: chat.SchemaVersion}
	// The commands stay: one that is tried again must not make the thread anew.
	l.Records, l.Pages, l.Nodes = nil, nil, map[string]chat.Node{}
	l.Meta.Runs = nil
	return OK
}
