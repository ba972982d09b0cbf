package journal

import (
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
)

const now = 1_000_000

func creation(id byte) Commit {
	return Commit{
		Command: CommandID{ID: [16]byte{id}}, NewEpoch: 7, Tag: uint64(id) << 32,
		Entries: []chat.Entry{chat.NewEntry(chat.KindThread, "", &chat.ThreadBody{})},
	}
}

// begun is a thread with a run that edge a owns.
func begun(t *testing.T) (*Ledger, Commit) {
	t.Helper()
	l := NewLedger()
	made := l.Commit(creation(1), now)
	c := Commit{
		Command: CommandID{ID: [16]byte{2}}, Epoch: made.Epoch, Rev: made.Rev, Tag: 2 << 32,
		Entries: []chat.Entry{chat.NewEntry(chat.KindRunPending, "r", &chat.RunPendingBody{Run: &chat.Run{ID: "r"}})},
		Runs:    []RunChange{{Run: "r", New: true, NewOwner: true, Owner: "a"}},
	}
	if r := l.Commit(c, now); r.Result != Done || r.Fences["r"] != 1 {
		t.Fatalf("run.pending: %+v", r)
	}
	return l, c
}

func delta(owner string, w, tag uint64) Append {
	return Append{
		Epoch: 7, Run: "r", Owner: owner, Fence: 1, W: w, Tag: tag,
		Entries: []chat.Entry{chat.NewEntry(chat.KindTextDelta, "r", &chat.DeltaBody{Part: "p", Text: "x"})},
	}
}

// TestOneTagIsOneHistory: an append that is lost and tried again behind another
// record gets its old position, and must not be taken for what was there.
func TestOneTagIsOneHistory(t *testing.T) {
	last := func(first uint64) *chat.Record {
		l, _ := begun(t)
		l.Append(delta("a", 0, first), now)
		return l.Append(delta("a", 1, 9<<32), now).Records[0]
	}
	a, b := last(3<<32), last(4<<32)
	if a.Pos != b.Pos || a.Tag == b.Tag {
		t.Errorf("one write behind two histories is %d %x and %d %x", a.Pos, a.Tag, b.Pos, b.Tag)
	}
}

func TestAnEqualFenceOfAnotherOwnerIsFenced(t *testing.T) {
	l, _ := begun(t)
	if r := l.Append(delta("b", 0, 3<<32), now); r.Result != Fenced {
		t.Errorf("an append by another edge: %v", r.Result)
	}
}

func TestALostOpeningIsAGap(t *testing.T) {
	l, _ := begun(t)
	if r := l.Append(delta("a", 1, 3<<32), now); r.Result != Gap || r.W != 0 {
		t.Errorf("an append behind an opening that the store has not: %+v", r)
	}
	open := Commit{
		Command: CommandID{ID: [16]byte{3}}, Epoch: 7, Rev: l.Meta.Rev, Tag: 3 << 32, Guards: []Guard{{Run: "r", Fence: 1, Owner: true}},
		Entries: []chat.Entry{chat.NewEntry(chat.KindRunActive, "r", &chat.RunActiveBody{})}, Runs: []RunChange{{Run: "r", Counts: true}},
	}
	if r := l.Commit(open, now); r.Result != Done {
		t.Fatalf("run.active: %v", r.Result)
	}
	if r := l.Append(delta("a", 1, 4<<32), now); r.Result != Stored {
		t.Errorf("an append behind the opening: %v", r.Result)
	}
}

func TestALostReplyTellsWhoStillOwns(t *testing.T) {
	l, c := begun(t)
	if r := l.Commit(c, now); r.Result != DoneBefore || r.Fences["r"] != 1 {
		t.Errorf("tried again: %+v", r)
	}
	l.Claim(Claim{Run: "r", Fence: 1, Owner: "b", Tag: 5 << 32}, true, now)
	if r := l.Commit(c, now); r.Result != DoneBefore || len(r.Fences) != 0 {
		t.Errorf("tried again after another took the run: %+v", r)
	}
}

func TestADeletedThreadIsNotMadeByItsOldCommit(t *testing.T) {
	l, _ := begun(t)
	l.Delete(l.Meta.Epoch, now)
	if r := l.Commit(creation(1), now); r.Result != DoneBefore || l.Exists {
		t.Errorf("soon: %v", r.Result)
	}
	later := int64(now + 2*KeepCommandsFor.Milliseconds())
	if r := l.Commit(creation(1), later); r.Result != Deleted || l.Exists {
		t.Errorf("when its id is forgotten: %v", r.Result)
	}
	other := creation(9)
	other.NewEpoch = 8
	if r := l.Commit(other, later); r.Result != Done || l.Meta.Pos <= PositionJump {
		t.Errorf("another one: %v at %d", r.Result, l.Meta.Pos)
	}
}

func TestARunLapsesThatItsLivingOwnerDoesNotName(t *testing.T) {
	l, _ := begun(t)
	if l.Meta.Runs["r"].Lapsed(now) {
		t.Error("a new run is lapsed")
	}
	later := int64(now + OwnerDeadline.Milliseconds())
	if !l.Meta.Runs["r"].Lapsed(later) {
		t.Error("a run that nobody renewed has not lapsed")
	}
	if l.Renew("r", "b", 1, later) || l.Renew("r", "a", 2, later) || !l.Renew("r", "a", 1, later) || l.Meta.Runs["r"].Lapsed(later) {
		t.Error("only the attempt that owns the run renews it")
	}
}
