package journal

import (
	"reflect"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	epoch = 7
	began = 1_000_000 // when the ledgers of these tests were made, in ms
)

var serial uint64

// next is a tag that nobody had, with room for a write's records.
func next() uint64 {
	serial += 1 << 16
	return serial
}

func id(n uint64) (c CommandID) {
	for i := range 8 {
		c.ID[i] = byte(n >> (8 * i))
	}
	return c
}

func entry(k chat.Kind, run string, b chat.Body) chat.Entry { return chat.NewEntry(k, run, b) }

func title() chat.Entry { return entry(chat.KindThread, "", &chat.ThreadBody{}) }

func text(run, s string) chat.Entry {
	return entry(chat.KindTextDelta, run, &chat.DeltaBody{Part: "p", Text: s})
}

// decide is a commit at where the ledger is.
func decide(l *Ledger, entries ...chat.Entry) Commit {
	return Commit{Command: id(next()), Epoch: l.Meta.Epoch, Rev: l.Meta.Rev, NewEpoch: epoch, Tag: next(), Entries: entries}
}

// live is a thread with one run, "run", of owner "edge".
func live(t testing.TB) *Ledger {
	l := NewLedger()
	c := decide(l, title(), entry(chat.KindRunPending, "run", &chat.RunPendingBody{Run: &chat.Run{
		ID: "run", Parts: []*chat.Part{{ID: "p", Type: chat.PartText}},
	}}))
	c.Runs = []RunChange{{Run: "run", New: true, NewOwner: true, Owner: "edge"}}
	expect(t, "first commit", l.Commit(c, began).Result, Done)
	return l
}

func expect[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func write(l *Ledger, texts ...string) Append {
	m := l.Meta.Runs["run"]
	a := Append{Epoch: l.Meta.Epoch, Run: "run", Fence: m.Fence, W: m.W, Tag: next()}
	for _, s := range texts {
		a.Entries = append(a.Entries, text("run", s))
	}
	return a
}

// Each reason to refuse an append, and which comes first when there are two.
func TestAppendAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		bend func(*Ledger, *Append)
		want Result
	}{
		"stored":                              {func(*Ledger, *Append) {}, Stored},
		"already":                             {func(l *Ledger, a *Append) { l.Append(*a, began) }, Already},
		"already, though sealed since":        {func(l *Ledger, a *Append) { l.Append(*a, began); seal(l) }, Already},
		"same place, another write: fenced":   {func(l *Ledger, a *Append) { l.Append(*a, began); a.Tag = next() }, Fenced},
		"same write, more since: fenced":      {func(l *Ledger, a *Append) { l.Append(*a, began); l.Append(write(l, "y"), began) }, Fenced},
		"gap":                                 {func(_ *Ledger, a *Append) { a.W++ }, Gap},
		"stale fence":                         {func(_ *Ledger, a *Append) { a.Fence-- }, Fenced},
		"fence of nobody yet":                 {func(_ *Ledger, a *Append) { a.Fence++ }, Fenced},
		"sealed":                              {func(l *Ledger, _ *Append) { seal(l) }, Sealed},
		"sealed and fenced: fenced":           {func(l *Ledger, a *Append) { seal(l); a.Fence-- }, Fenced},
		"sealed with a gap: sealed":           {func(l *Ledger, a *Append) { seal(l); a.W++ }, Sealed},
		"no such run":                         {func(_ *Ledger, a *Append) { a.Run = "other" }, Ended},
		"another epoch":                       {func(_ *Ledger, a *Append) { a.Epoch++ }, WrongEpoch},
		"deleted":                             {func(l *Ledger, _ *Append) { l.Delete(l.Meta.Epoch, began) }, Deleted},
		"deleted long ago":                    {func(l *Ledger, _ *Append) { l.Delete(l.Meta.Epoch, began-Tombstone.Milliseconds()-1) }, Ended},
		"deleted and of another epoch: still": {func(l *Ledger, a *Append) { l.Delete(l.Meta.Epoch, began); a.Epoch++ }, Deleted},
	} {
		t.Run(name, func(t *testing.T) {
			l := live(t)
			a := write(l, "x")
			c.bend(l, &a)
			pos := l.Meta.Pos
			got := l.Append(a, began)
			expect(t, "answer", got.Result, c.want)
			if c.want == Stored {
				pos++
			}
			expect(t, "position", l.Meta.Pos, pos)
			expect(t, "records in the answer", len(got.Records) > 0, c.want == Stored)
		})
	}
}

func seal(l *Ledger) {
	c := decide(l, entry(chat.KindRunStop, "run", &chat.RunStopBody{}))
	c.Runs = []RunChange{{Run: "run", Sealed: true, Due: began + 2000}}
	l.Commit(c, began)
}

func TestNewThreadTakesNoGuardsAndOnlyNewRuns(t *testing.T) {
	for name, bend := range map[string]func(*Commit){
		"guard":           func(c *Commit) { c.Guards = []Guard{{Run: "run"}} },
		"change of a run": func(c *Commit) { c.Runs = []RunChange{{Run: "run"}} },
		"end of a run":    func(c *Commit) { c.Runs = []RunChange{{Run: "run", End: true}} },
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLedger()
			c := decide(l, title())
			bend(&c)
			expect(t, "answer", l.Commit(c, began).Result, Conflict)
			expect(t, "exists", l.Exists, false)
		})
	}
}

// A record of a run that is not live takes numbers and leaves no run behind.
func TestRecordBringsNoRunToLife(t *testing.T) {
	l := live(t)
	expect(t, "commit", l.Commit(decide(l, entry(chat.KindRunActive, "ghost", &chat.RunActiveBody{})), began).Result, Done)
	expect(t, "runs", len(l.Meta.Runs), 1)
}

// The 256th newest command is still known, the 257th is not; nor is one of
// more than a minute ago.
func TestCommandsAreBoundedByNumberAndAge(t *testing.T) {
	l := live(t)
	var done []Commit
	for range KeepCommands + 1 {
		c := decide(l)
		expect(t, "commit", l.Commit(c, began).Result, Done)
		done = append(done, c)
	}
	expect(t, "known", len(l.Commands), KeepCommands)
	expect(t, "the 257th newest", l.Commit(done[0], began).Result, Conflict)
	expect(t, "the 256th newest", l.Commit(done[1], began).Result, DoneBefore)
	edge := began + KeepCommandsFor.Milliseconds()
	expect(t, "after a minute", l.Commit(done[KeepCommands], edge).Result, DoneBefore)
	expect(t, "after more", l.Commit(done[KeepCommands], edge+1).Result, Conflict)
	expect(t, "known", len(l.Commands), 0)
}

// A clock that goes back does not take the records along.
func TestTimeNeverGoesBack(t *testing.T) {
	l := live(t)
	l.Append(write(l, "x"), began+500)
	l.Append(write(l, "y"), began-500)
	r := l.Records[len(l.Records)-1]
	expect(t, "time", r.At, int64(began+500))
}

// A commit that the owner counts is part of what a gap proves.
func TestCountedCommitRaisesW(t *testing.T) {
	l := live(t)
	l.Append(write(l, "x"), began)
	c := decide(l, entry(chat.KindRunActive, "run", &chat.RunActiveBody{}))
	c.Runs = []RunChange{{Run: "run", Counts: true}}
	expect(t, "commit", l.Commit(c, began).Result, Done)
	expect(t, "w", l.Meta.Runs["run"].W, uint64(2))
	expect(t, "append", l.Append(write(l, "y"), began).Result, Stored)
	expect(t, "w", l.Meta.Runs["run"].W, uint64(3))
}

func TestOwnersDeadline(t *testing.T) {
	l := live(t)
	until := began + OwnerDeadline.Milliseconds()
	run := func() RunMeta { return l.Meta.Runs["run"] }
	expect(t, "lapsed just before", run().Lapsed(until-1), false)
	expect(t, "lapsed", run().Lapsed(until), true)
	expect(t, "renewed by another edge", l.Renew("run", "other", 1, until), false)
	expect(t, "renewed with another fence", l.Renew("run", "edge", 2, until), false)
	expect(t, "renewed", l.Renew("run", "edge", 1, until-1), true)
	expect(t, "lapsed after a beat", run().Lapsed(until), false)
	seal(l)
	expect(t, "renewed though sealed", l.Renew("run", "edge", 1, until), false)
	c := decide(l)
	c.Runs = []RunChange{{Run: "run", NewOwner: true}}
	l.Commit(c, began)
	expect(t, "lapsed without an owner", run().Lapsed(began+time.Hour.Milliseconds()), false)
}

func TestClaimAnswers(t *testing.T) {
	lapse := began + OwnerDeadline.Milliseconds()
	for name, c := range map[string]struct {
		bend func(*Ledger, *Claim)
		now  int64
		want Result
	}{
		"owner lives":        {func(*Ledger, *Claim) {}, began, Lost},
		"owner lapsed":       {func(*Ledger, *Claim) {}, lapse, OK},
		"on purpose":         {func(_ *Ledger, c *Claim) { c.Living = true }, began, OK},
		"due":                {func(l *Ledger, c *Claim) { seal(l) }, began + 2000, OK},
		"not yet due":        {func(l *Ledger, c *Claim) { seal(l) }, began + 1999, Lost},
		"stale fence":        {func(_ *Ledger, c *Claim) { c.Fence-- }, lapse, Lost},
		"no such run":        {func(_ *Ledger, c *Claim) { c.Run = "other" }, lapse, Lost},
		"deleted":            {func(l *Ledger, _ *Claim) { l.Delete(l.Meta.Epoch, began) }, lapse, Lost},
		"again, answer lost": {func(l *Ledger, c *Claim) { l.Claim(*c, true, began) }, began, OK},
		"again, by another":  {func(l *Ledger, c *Claim) { l.Claim(*c, true, began); c.Tag = next() }, began, Lost},
		"again, decided since": {func(l *Ledger, c *Claim) {
			l.Claim(*c, true, began)
			l.Commit(decide(l), began)
		}, began, Lost},
	} {
		t.Run(name, func(t *testing.T) {
			l := live(t)
			q := Claim{Run: "run", Fence: 1, Owner: "new", Tag: next()}
			c.bend(l, &q)
			fence, rev, res := l.Claim(q, l.Meta.Runs["run"].Lapsed(c.now), c.now)
			expect(t, "answer", res, c.want)
			if c.want != OK {
				return
			}
			m := l.Meta.Runs["run"]
			expect(t, "fence", [2]uint64{fence, m.Fence}, [2]uint64{2, 2})
			expect(t, "revision", rev, Rev{N: l.Meta.Rev.N, Tag: q.Tag})
			expect(t, "owner", m.Owner, "new")
			if m.Due != 0 && m.Due <= c.now {
				t.Fatal("it is due at once: the next sweep would take it away")
			}
		})
	}
}

// Whatever was done, a ledger answers every load, and base and records are the
// state at each kept position.
func TestEveryLoadIsAnswered(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := live(t)
		states := map[uint64]*chat.State{}
		now := int64(began)
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.IntRange(0, 6).Draw(rt, "operation") {
			case 0, 1, 2:
				l.Append(write(l, "a", "b"), now)
			case 3:
				c := decide(l, title())
				if !l.Exists {
					c.Epoch, c.Rev = 0, Rev{}
				}
				l.Commit(c, now)
			case 4:
				if !l.Exists {
					continue
				}
				st := l.Base
				for _, r := range l.Records[:rapid.IntRange(0, len(l.Records)).Draw(rt, "records")] {
					st = st.Apply(r)
				}
				base, pages := st.Compact()
				l.Trim(Trim{Epoch: l.Meta.Epoch, Base: base, FirstPage: st.Chunks, Pages: pages})
			case 5:
				if rapid.IntRange(0, 4).Draw(rt, "delete") == 0 {
					l.Delete(l.Meta.Epoch, now)
					clear(states)
				}
			case 6:
				now += 10_000
			}
			for pos := max(l.Meta.Floor, 1) - 1; pos < l.Meta.Pos+3; pos++ {
				s := l.Load(Load{From: Cursor{Epoch: l.Meta.Epoch, Pos: pos, Tag: 1}}, now)
				if s.Continues || s.Behind && pos >= l.Meta.Floor {
					rt.Fatalf("a foreign tag at %d: continues %t, behind %t", pos, s.Continues, s.Behind)
				}
			}
			s := l.Load(Load{}, now)
			if !s.Exists {
				continue
			}
			st, pos, tag := s.Base, l.Meta.Floor, l.Meta.FloorTag
			for _, r := range s.Records {
				if r.Pos != pos+1 || r.Prev != tag {
					rt.Fatalf("record %d follows %d", r.Pos, pos)
				}
				pos, tag = r.Pos, r.Tag
				st = st.Clip().Apply(r)
				if was := states[pos]; was == nil {
					states[pos] = st
				} else if !reflect.DeepEqual(was.Runs, st.Runs) {
					rt.Fatalf("the state at %d has changed", pos)
				}
			}
			if pos != l.Meta.Pos || tag != l.Meta.Tag {
				rt.Fatalf("the records end at %d of %d", pos, l.Meta.Pos)
			}
		}
	})
}
