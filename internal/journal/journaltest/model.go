package journaltest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"pgregory.net/rapid"
)

var modelCases = []testCase{
	{"whatever two hubs do to a thread, with answers lost and calls repeated, the store does as a ledger", func(b *bench) {
		rapid.Check(b.T, func(rt *rapid.T) {
			c := *b
			c.TB = rt
			m := newModel(&c, rt)
			for range rapid.IntRange(5, 60).Draw(rt, "steps") {
				m.step()
			}
		})
	}},
}

// tick is how far time goes at once: no multiple of it is near a limit.
const tick = 3700 * time.Millisecond

// model is one thread of the store beside a ledger that is told the same.
type model struct {
	b      *bench
	rt     *rapid.T
	key    chat.Key
	ledger *journal.Ledger
	now    int64
	// reader follows the store as a room would.
	reader *chat.State
	epoch  uint64
	// appends and commits are earlier ones, to be tried again.
	appends []journal.Append
	commits []journal.Commit
	claims  []journal.Claim
	texts   int
}

func newModel(b *bench, rt *rapid.T) *model {
	m := &model{b: b, rt: rt, key: key(fmt.Sprintf("model-%d", rand.Uint64())), ledger: journal.NewLedger()}
	m.ledger.Meta.Runs = map[string]journal.RunMeta{}
	// The store's own clock is learnt from its first record.
	probe := &thread{b: b, j: b.Hubs[0], key: key(fmt.Sprintf("clock-%d", rand.Uint64()))}
	probe.create()
	m.now = probe.load().Meta.At
	return m
}

func (m *model) draw(what string, n int) int { return rapid.IntRange(0, n-1).Draw(m.rt, what) }

// often is true nine times of ten.
func (m *model) often(what string) bool { return m.draw(what, 10) > 0 }

func pick[T any](m *model, what string, from []T) T { return from[m.draw(what, len(from))] }

// twice says that the answer is lost and the call is made again.
func (m *model) twice() bool { return m.draw("answer lost", 5) == 0 }

func (m *model) hub() journal.Journal { return m.b.Hubs[m.draw("hub", 2)] }

func (m *model) step() {
	m.b.Helper()
	switch m.draw("operation", 22) {
	case 0, 1, 2, 3, 4:
		m.commit()
	case 5, 6, 7, 8, 9, 10:
		m.append()
	case 11:
		m.retry()
	case 12, 13:
		m.trim()
	case 14:
		m.claim()
	case 15:
		m.beat()
	case 16:
		if m.draw("reset or delete", 3) > 0 {
			m.reset()
		} else {
			epoch := m.ledger.Meta.Epoch
			if m.draw("the epoch of a delete", 4) == 0 {
				epoch++
			}
			got, err := m.hub().Delete(m.b.ctx, m.key, epoch)
			m.b.no(err)
			m.b.equal("delete", got, m.ledger.Delete(epoch, m.now))
		}
	case 17:
		m.restart()
	default:
		n := pick(m, "ticks", []time.Duration{1, 1, 3, 20})
		m.b.Advance(n * tick)
		m.now += (n * tick).Milliseconds()
	}
	m.look()
}

// restart stops the store, after which all owners' deadlines pass: a store may
// have ended them at once.
func (m *model) restart() {
	if m.b.Restart == nil {
		return
	}
	m.b.Hubs = m.b.Restart(m.b.T, pick(m, "stop", []Stop{Clean, Killed}))
	m.b.Advance(3 * tick)
	m.now += (3 * tick).Milliseconds()
}

var runs = []string{"run-a", "run-b", "run-c"}

func (m *model) commit() {
	meta := m.ledger.Meta
	c := journal.Commit{Key: m.key, Command: command(), Epoch: meta.Epoch, Rev: meta.Rev, NewEpoch: tag(), Tag: tag()}
	if !m.ledger.Exists {
		c.Epoch, c.Rev = 0, journal.Rev{}
		c.Entries = append(c.Entries, opening())
	}
	if !m.often("right revision") {
		c.Rev.N++
	}
	if !m.often("right epoch") {
		c.Epoch++
	}
	m.texts++
	c.Result = fmt.Appendf(nil, "%d", m.texts)
	id := pick(m, "run", runs)
	run, live := meta.Runs[id]
	if m.draw("about a run", 4) > 0 {
		m.runCommit(&c, id, run, live)
	} else {
		c.Entries = append(c.Entries, chat.NewEntry(chat.KindMessage, "", &chat.MessageBody{Message: message(fmt.Sprintf("m%d", m.texts), chat.User)}))
	}
	if live && m.draw("guarded", 2) == 0 {
		g := journal.Guard{Run: id, Fence: run.Fence, W: run.W, Owner: m.draw("by the owner", 2) == 0}
		if !m.often("right guard") {
			g.W++
		}
		c.Guards = []journal.Guard{g}
	}
	c.Nodes = chat.NodesOf(c.Entries)
	m.commits = append(m.commits, c)
	m.sendCommit(c)
}

// runCommit changes a run: begins it if it is not live, else ends it, seals
// it, gives it away, or makes it due.
func (m *model) runCommit(c *journal.Commit, id string, run journal.RunMeta, live bool) {
	owner := pick(m, "owner", []string{"edge-1", "edge-2"})
	if !live && m.often("begin") {
		for _, e := range pending(id) {
			if mb, ok := e.Body.(*chat.MessageBody); ok {
				mb.Message.ID = fmt.Sprintf("q%d", m.texts)
			}
			c.Entries = append(c.Entries, e)
		}
		c.Runs = []journal.RunChange{{Run: id, New: true, NewOwner: true, Owner: owner, Agent: "helper"}}
		return
	}
	switch m.draw("change", 5) {
	case 0:
		c.Entries = append(c.Entries, chat.Entry{Kind: chat.KindRunEnd, Run: id, N: 2, Logged: true, Body: &chat.RunEndBody{Status: chat.RunComplete}})
		c.Runs = []journal.RunChange{{Run: id, End: true}}
	case 1:
		c.Entries = append(c.Entries, chat.Entry{Kind: chat.KindRunStop, Run: id, Body: &chat.RunStopBody{}})
		c.Runs = []journal.RunChange{{Run: id, Sealed: true, Due: m.now + journal.SealDeadline.Milliseconds()}}
	case 2:
		c.Entries = append(c.Entries, chat.NewEntry(chat.KindRunSuspended, id, &chat.RunSuspendedBody{}))
		c.Runs = []journal.RunChange{{Run: id, NewOwner: true, Due: m.now + 30_000}}
	case 3:
		c.Entries = append(c.Entries, chat.NewEntry(chat.KindRunResumed, id, &chat.RunResumedBody{Segment: "s"}))
		c.Runs = []journal.RunChange{{Run: id, NewOwner: true, Owner: owner}}
	case 4:
		c.Entries = append(c.Entries, chat.NewEntry(chat.KindRunActive, id, &chat.RunActiveBody{}))
		c.Runs = []journal.RunChange{{Run: id, Counts: true}}
	}
}

func (m *model) sendCommit(c journal.Commit) {
	m.b.Helper()
	got, err := m.hub().Commit(m.b.ctx, c)
	m.b.no(err)
	want := m.ledger.Commit(c, m.now)
	if m.twice() {
		got, err = m.hub().Commit(m.b.ctx, c)
		m.b.no(err)
		want = m.ledger.Commit(c, m.now)
	}
	m.b.equal("commit", got.Result, want.Result)
	m.b.equal("commit's records", numbers(got.Records), numbers(want.Records))
	m.b.equal("commit's result of before", string(got.Before), string(want.Before))
	if got.Result == journal.Done {
		m.b.equal("epoch, revision", [2]any{got.Epoch, got.Rev}, [2]any{want.Epoch, want.Rev})
	}
	if got.Result == journal.Done || got.Result == journal.DoneBefore {
		m.b.equal("fences", maps.Collect(maps.All(got.Fences)), maps.Collect(maps.All(want.Fences)))
	}
}

func (m *model) append() {
	id := pick(m, "run", runs)
	run := m.ledger.Meta.Runs[id]
	a := journal.Append{Key: m.key, Epoch: m.ledger.Meta.Epoch, Run: id, Fence: run.Fence, W: run.W, Tag: tag()}
	if m.draw("named", 2) == 0 {
		a.Owner = pick(m, "writer", []string{"edge-1", "edge-2"})
	}
	switch m.draw("bend", 12) {
	case 0:
		a.Epoch++
	case 1:
		a.Fence++
	case 2:
		a.W++
	case 3:
		a.W -= min(a.W, 1)
	}
	for range 1 + m.draw("records", 3) {
		m.texts++
		e := delta(id, fmt.Sprintf("%d,", m.texts))
		e.Logged = m.draw("logged", 2) == 0
		a.Entries = append(a.Entries, e)
	}
	m.appends = append(m.appends, a)
	m.sendAppend(a)
}

func (m *model) sendAppend(a journal.Append) {
	m.b.Helper()
	got, err := m.hub().Append(m.b.ctx, a)
	m.b.no(err)
	want := m.ledger.Append(a, m.now)
	if m.twice() {
		got, err = m.hub().Append(m.b.ctx, a)
		m.b.no(err)
		want = m.ledger.Append(a, m.now)
	}
	m.b.equal("append", got.Result, want.Result)
	m.b.equal("append's records", numbers(got.Records), numbers(want.Records))
	if want.Result == journal.Gap {
		m.b.equal("what the store has", got.W, want.W)
	}
}

// retry sends an old write again, as a network that held it back does.
func (m *model) retry() {
	if n := len(m.appends); n > 0 && m.draw("append", 2) == 0 {
		m.sendAppend(m.appends[max(0, n-1-m.draw("age", 4))])
	} else if n := len(m.commits); n > 0 {
		m.sendCommit(m.commits[max(0, n-1-m.draw("age", 4))])
	}
}

func (m *model) trim() {
	if m.reader == nil {
		return
	}
	snap := m.ledger.Load(journal.Load{Key: m.key}, m.now)
	if !snap.Exists {
		return
	}
	// The base must come from the store's own records: they have its times.
	whole, err := m.hub().Load(m.b.ctx, journal.Load{Key: m.key})
	m.b.no(err)
	st := whole.Base
	for _, r := range whole.Records[:m.draw("records in the base", len(whole.Records)+1)] {
		st = st.Apply(r)
	}
	base, pages := st.Compact()
	q := journal.Trim{
		Key: m.key, Epoch: snap.Meta.Epoch, Base: base, FirstPage: st.Chunks, Pages: pages,
		Rest: pick(m, "rest", []int64{0, 1, 1 << 41}), // none, long over, far off
	}
	if !m.often("right tag") {
		c := *base
		c.Tag++
		q.Base = &c
	}
	got, err := m.hub().Trim(m.b.ctx, q)
	m.b.no(err)
	m.b.equal("trim", got, m.ledger.Trim(q))
}

func (m *model) reset() {
	if m.reader == nil || !m.ledger.Exists {
		return
	}
	st := *m.reader.Clip()
	q := journal.Reset{Key: m.key, Seen: journal.Cursor{Epoch: m.epoch, Pos: st.Pos, Tag: st.Tag}, NewEpoch: tag(), Tag: tag()}
	if !m.often("right cursor") {
		q.Seen.Tag++
	}
	st.Pos, st.Log, st.Tag = st.Pos+journal.PositionJump, st.Log+journal.PositionJump, tag()
	q.Base = &st
	got, err := m.hub().Reset(m.b.ctx, q)
	m.b.no(err)
	m.b.equal("reset", got, m.ledger.Reset(q))
	if m.twice() {
		got, err = m.hub().Reset(m.b.ctx, q)
		m.b.no(err)
		m.b.equal("reset again", got, m.ledger.Reset(q))
	}
}

func (m *model) claim() {
	id := pick(m, "run", runs)
	q := journal.Claim{
		Key: m.key, Run: id, Fence: m.ledger.Meta.Runs[id].Fence, Tag: tag(),
		Owner: pick(m, "claimant", []string{"edge-1", "edge-2"}), Living: m.draw("living", 3) == 0,
	}
	if n := len(m.claims); n > 0 && m.draw("again", 4) == 0 {
		q = m.claims[n-1]
	}
	m.claims = append(m.claims, q)
	fence, rev, res, err := m.hub().Claim(m.b.ctx, q)
	m.b.no(err)
	wantFence, wantRev, want := m.ledger.Claim(q, m.ledger.Meta.Runs[q.Run].Lapsed(m.now), m.now)
	m.b.equal("claim", res, want)
	m.b.equal("fence, revision", [2]any{fence, rev}, [2]any{wantFence, wantRev})
}

func (m *model) beat() {
	boot := pick(m, "edge", []string{"edge-1", "edge-2"})
	if m.draw("leave", 4) == 0 {
		m.b.no(m.hub().Leave(m.b.ctx, boot))
		for id, r := range m.ledger.Meta.Runs {
			if r.Owner == boot {
				r.Until = 0
				m.ledger.Meta.Runs[id] = r
			}
		}
		return
	}
	var owned, want []journal.Owned
	for _, id := range runs {
		o := journal.Owned{Key: m.key, Run: id, Fence: m.ledger.Meta.Runs[id].Fence}
		if !m.often("right fence") {
			o.Fence++
		}
		owned = append(owned, o)
		if !m.ledger.Renew(id, boot, o.Fence, m.now) {
			want = append(want, o)
		}
	}
	got, err := m.hub().Beat(m.b.ctx, boot, owned)
	m.b.no(err)
	m.b.equal("lost", got, want)
}

// look compares what both hubs have with the ledger, and with a reader who has
// followed from the start.
func (m *model) look() {
	m.b.Helper()
	var from journal.Cursor
	if m.reader != nil {
		from = journal.Cursor{Epoch: m.epoch, Pos: m.reader.Pos, Tag: m.reader.Tag}
	}
	want := m.ledger.Load(journal.Load{Key: m.key, From: from}, m.now)
	got, err := m.hub().Load(m.b.ctx, journal.Load{Key: m.key, From: from})
	m.b.no(err)
	m.same(got, want)
	whole, err := m.hub().Load(m.b.ctx, journal.Load{Key: m.key})
	m.b.no(err)
	m.same(whole, m.ledger.Load(journal.Load{Key: m.key}, m.now))
	m.due()
	if !got.Exists {
		m.reader = nil
		return
	}
	m.b.chained(whole.Base.Pos, whole.Base.Tag, whole.Base.At, whole.Records)
	behind := got.Behind && m.epoch == got.Meta.Epoch && got.Meta.Floor <= got.Meta.Pos
	if got.Continues {
		m.reader = got.State(m.reader)
		if m.reader.Chunks == whole.Base.Chunks {
			m.b.equal("reader's state", m.b.json(m.reader), m.b.json(whole.State(nil)))
		}
	} else if m.reader != nil && !behind && m.epoch == got.Meta.Epoch {
		m.b.Fatalf("a reader at %d is told of a loss", m.reader.Pos)
	} else {
		m.reader = got.State(nil)
	}
	m.epoch = got.Meta.Epoch
}

func (m *model) same(got, want journal.Snapshot) {
	m.b.Helper()
	m.b.equal("exists, deleted, continues, behind",
		[4]bool{got.Exists, got.Deleted, got.Continues, got.Behind},
		[4]bool{want.Exists, want.Deleted, want.Continues, want.Behind})
	if !want.Exists {
		return
	}
	g, w := plain(got.Meta), plain(want.Meta)
	g.At, w.At = 0, 0
	for id, run := range g.Runs {
		// A claim gives the due that follows by the store's own clock, which runs
		// on meanwhile, and may be another server's.
		if due := w.Runs[id].Due; due != 0 && run.Due > due-tick.Milliseconds()/2 && run.Due < due+tick.Milliseconds()/2 {
			run.Due = due
			g.Runs[id] = run
		}
	}
	m.b.equal("meta", g, w)
	m.b.equal("records", numbers(got.Records), numbers(want.Records))
	if !want.Continues {
		m.b.equal("base", [3]uint64{got.Base.Pos, got.Base.Log, got.Base.Tag}, [3]uint64{want.Base.Pos, want.Base.Log, want.Base.Tag})
	}
}

func (m *model) due() {
	m.b.Helper()
	items, err := m.hub().Due(m.b.ctx, 10_000)
	m.b.no(err)
	var got, want []string
	for _, d := range items {
		if d.Key == m.key && d.Run != "" {
			got = append(got, fmt.Sprint(d.Run, d.Lapsed, d.Meta.Fence))
		}
	}
	for id, r := range m.ledger.Meta.Runs {
		if r.Lapsed(m.now) || r.Due != 0 && r.Due <= m.now {
			want = append(want, fmt.Sprint(id, r.Lapsed(m.now), r.Fence))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	m.b.equal("due", got, want)
	if l := m.ledger; len(l.Records)+len(l.Meta.Runs) == 0 {
		listed := slices.ContainsFunc(items, func(d journal.DueItem) bool { return d.Key == m.key && d.Run == "" })
		m.b.equal("rest is over", listed, l.Rest != 0 && l.Rest <= m.now)
	}
}

// numbers are what a store gives to records, their times aside.
func numbers(records []*chat.Record) (out [][7]any) {
	for _, r := range records {
		out = append(out, [7]any{r.Pos, r.Log, r.Seq, r.W, r.Tag, r.Prev, r.Kind})
	}
	return out
}
