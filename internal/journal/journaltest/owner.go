package journaltest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal"
)

func (b *bench) beat(hub int, boot string, owned ...journal.Owned) []journal.Owned {
	b.Helper()
	lost, err := b.Hubs[hub].Beat(b.ctx, boot, owned)
	b.no(err)
	return lost
}

// beat renews the owner's deadline and must not have lost the run.
func (a *attempt) beat(hub int) {
	a.th.b.Helper()
	lost := a.th.b.beat(hub, a.owner, journal.Owned{Key: a.th.key, Run: a.run, Fence: a.fence})
	a.th.b.equal("lost", len(lost), 0)
}

// due lists what is due of runs, as "run" or "run lapsed".
func (b *bench) due(hub int) []string {
	b.Helper()
	items, err := b.Hubs[hub].Due(b.ctx, 1000)
	b.no(err)
	var out []string
	for _, d := range items {
		if d.Run == "" {
			continue
		}
		s := d.Run
		if d.Lapsed {
			s += " lapsed"
		}
		out = append(out, s)
	}
	return out
}

func (a *attempt) claim(hub int, owner string, living bool) (uint64, journal.Result) {
	b := a.th.b
	b.Helper()
	fence, _, res, err := b.Hubs[hub].Claim(b.ctx, journal.Claim{Key: a.th.key, Run: a.run, Fence: a.fence, Owner: owner, Living: living, Tag: tag()})
	b.no(err)
	return fence, res
}

var ownerCases = []testCase{
	{"F53 a run is claimed only after its owner's deadline, by one of two", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		_, res := a.claim(1, "edge-2", false)
		b.equal("while the owner lives", res, journal.Lost)
		b.Advance(journal.OwnerDeadline / 2)
		a.beat(0)
		b.Advance(journal.OwnerDeadline * 3 / 4)
		_, res = a.claim(1, "edge-2", false)
		b.equal("after it beat again", res, journal.Lost)
		b.equal("due", len(b.due(1)), 0)
		b.Advance(journal.OwnerDeadline)
		b.equal("due", b.due(1), []string{"run lapsed"})
		rev := th.load().Meta.Rev
		fence, res := a.claim(1, "edge-2", false)
		b.equal("after the deadline", res, journal.OK)
		b.equal("fence", fence, a.fence+1)
		_, res = a.claim(0, "edge-3", false)
		b.equal("the second", res, journal.Lost)
		m := th.load().Meta
		b.equal("revision", m.Rev.N, rev.N+1)
		b.equal("owner", m.Runs["run"].Owner, "edge-2")
		b.equal("w", m.Runs["run"].W, uint64(0))
		a.must(journal.Fenced, a.write("zombie"))
	}},
	{"of many claims at once one wins", func(b *bench) {
		a := b.thread().start("run", "edge-1")
		b.Advance(2 * journal.OwnerDeadline)
		wins := make(chan string, 16)
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				owner := fmt.Sprintf("sweeper-%d", i)
				if _, _, res, err := b.Hubs[i%2].Claim(b.ctx, journal.Claim{Key: a.th.key, Run: "run", Fence: a.fence, Owner: owner, Tag: tag()}); err == nil && res == journal.OK {
					wins <- owner
				}
			})
		}
		all.Wait()
		b.equal("winners", len(wins), 1)
		b.equal("owner", a.th.load().Meta.Runs["run"].Owner, <-wins)
	}},
	{"F9 a claim whose answer was lost has won", func(b *bench) {
		a := b.thread().start("run", "edge-1")
		q := journal.Claim{Key: a.th.key, Run: "run", Fence: a.fence, Owner: "edge-2", Living: true, Tag: tag()}
		for range 2 {
			fence, rev, res, err := b.Hubs[1].Claim(b.ctx, q)
			b.no(err)
			b.equal("claim", res, journal.OK)
			b.equal("fence", fence, a.fence+1)
			b.equal("revision", rev, a.th.load().Meta.Rev)
		}
	}},
	{"a living owner is overtaken only on purpose, and a stale fence never", func(b *bench) {
		a := b.thread().start("run", "edge-1")
		_, res := a.claim(1, "edge-2", true)
		b.equal("claim", res, journal.OK)
		_, res = a.claim(1, "edge-3", true)
		b.equal("claim with the old fence", res, journal.Lost)
		a.run = "other"
		_, res = a.claim(1, "edge-3", true)
		b.equal("claim of no run", res, journal.Lost)
	}},
	{"a claim that raised the revision makes other decisions look again", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		c := a.ending()
		a.claim(1, "edge-2", true)
		th.must(journal.Conflict, c)
	}},
	{"beat returns what the edge no longer owns, and what is sealed", func(b *bench) {
		th := b.thread()
		kept, taken, sealed, ended := th.start("kept", "edge-1"), th.start("taken", "edge-1"), th.start("sealed", "edge-1"), th.start("ended", "edge-1")
		taken.claim(1, "edge-2", true)
		th.rev = th.load().Meta.Rev
		sealed.seal()
		ended.end()
		var owned []journal.Owned
		for _, a := range []*attempt{kept, taken, sealed, ended} {
			owned = append(owned, journal.Owned{Key: th.key, Run: a.run, Fence: a.fence})
		}
		owned = append(owned, journal.Owned{Key: key("none"), Run: "x", Fence: 1})
		var got []string
		for _, o := range b.beat(0, "edge-1", owned...) {
			got = append(got, o.Run)
		}
		slices.Sort(got)
		b.equal("lost", got, []string{"ended", "sealed", "taken", "x"})
	}},
	{"a beat keeps the runs that it names, and no others of its edge", func(b *bench) {
		th := b.thread()
		named := th.start("named", "edge-1")
		th.start("forgotten", "edge-1")
		b.Advance(journal.OwnerDeadline / 2)
		named.beat(1)
		b.Advance(journal.OwnerDeadline * 3 / 4)
		b.equal("due", b.due(0), []string{"forgotten lapsed"})
		b.Advance(journal.OwnerDeadline / 2)
		named.beat(0) // late, but nobody has claimed it
		b.equal("due after a late beat", b.due(1), []string{"forgotten lapsed"})
	}},
	{"a run that is due is listed and may be claimed although its owner lives", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		c := th.decision()
		c.Runs = []journal.RunChange{{Run: "run", Due: th.load().Meta.At + journal.SealDeadline.Milliseconds()}}
		th.must(journal.Done, c)
		b.equal("due before", len(b.due(0)), 0)
		_, res := a.claim(1, "edge-2", false)
		b.equal("claim before", res, journal.Lost)
		b.Advance(journal.SealDeadline + time.Second)
		b.equal("due", b.due(1), []string{"run"})
		_, res = a.claim(1, "edge-2", false)
		b.equal("claim", res, journal.OK)
		b.equal("due after the claim", len(b.due(1)), 0)
	}},
	{"a suspended run has no owner to lapse", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		c := th.decision()
		c.Runs = []journal.RunChange{{Run: "run", NewOwner: true}}
		a.fence = th.must(journal.Done, c).Fences["run"]
		b.Advance(100 * journal.OwnerDeadline)
		b.equal("due", len(b.due(0)), 0)
		_, res := a.claim(1, "edge-2", false)
		b.equal("claim", res, journal.Lost)
	}},
	{"an edge that leaves gives up its runs at once", func(b *bench) {
		a := b.thread().start("run", "edge-1")
		b.equal("due before", len(b.due(1)), 0)
		b.no(b.Hubs[0].Leave(b.ctx, "edge-1"))
		b.equal("due", b.due(1), []string{"run lapsed"})
		_, res := a.claim(1, "edge-2", false)
		b.equal("claim", res, journal.OK)
	}},
	{"the longest overdue come first, and no more than asked for", func(b *bench) {
		th := b.thread()
		now := th.load().Meta.At
		for _, ms := range []int64{300, 100, 200} {
			run := fmt.Sprintf("run-%d", ms)
			th.start(run, "edge-1")
			c := th.decision()
			c.Runs = []journal.RunChange{{Run: run, Due: now + ms}}
			th.must(journal.Done, c)
		}
		b.Advance(journal.OwnerDeadline / 2)
		b.equal("due", b.due(0), []string{"run-100", "run-200", "run-300"})
		items, err := b.Hubs[1].Due(b.ctx, 2)
		b.no(err)
		b.equal("items", len(items), 2)
		b.equal("first", items[0].Run, "run-100")
		b.equal("agent", items[0].Meta.Agent, "helper")
		b.equal("key", items[0].Key, th.key)
	}},
	{"an ended or deleted run is due to nobody", func(b *bench) {
		th, gone := b.thread(), b.thread()
		th.start("run", "edge-1").end()
		gone.start("gone", "edge-1")
		gone.delete()
		b.Advance(2 * journal.OwnerDeadline)
		b.equal("due", len(b.due(0)), 0)
	}},
	{"F22 the runs of a stopped store's edges may be claimed within the deadline", func(b *bench) {
		if b.Restart == nil {
			return // the store outlives its hubs; nothing to prove
		}
		a := b.thread().start("run", "edge-1")
		a.say("one")
		b.Hubs = b.Restart(b.T, Killed)
		a.th.j = b.Hubs[0]
		b.Advance(journal.OwnerDeadline + time.Second)
		b.equal("due", b.due(0), []string{"run lapsed"})
		_, res := a.claim(0, "edge-2", false)
		b.equal("claim", res, journal.OK)
	}},
	{"an idle thread is due for a trim, and no more after it", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		b.Advance(25 * time.Hour)
		b.equal("threads due while a run is live", b.idle(), 0)
		a.end()
		b.equal("threads due at once", b.idle(), 0)
		b.Advance(25 * time.Hour)
		b.equal("threads due", b.idle(), 1)
		b.equal("trim", th.trim(th.state()), journal.OK)
		b.equal("threads due after the trim", b.idle(), 0)
	}},
	{"a thread that rests is due when its rest is over, unless somebody writes", func(b *bench) {
		th := b.thread()
		rest := func(at int64) journal.Result {
			b.Helper()
			st := th.state()
			base, pages := st.Compact()
			res, err := th.j.Trim(b.ctx, journal.Trim{
				Key: th.key, Epoch: th.epoch, Base: base, FirstPage: st.Chunks, Pages: pages, Rest: at,
			})
			b.no(err)
			return res
		}
		now := th.load().Meta.At
		hour := time.Hour.Milliseconds()
		b.equal("trim", rest(now+hour), journal.OK)
		b.equal("due while it rests", b.idle(), 0)
		b.Advance(2 * time.Hour)
		b.equal("due", b.idle(), 1)
		b.equal("rest longer", rest(now+4*hour), journal.OK)
		b.equal("due while it rests longer", b.idle(), 0)
		if b.Restart != nil {
			b.Hubs = b.Restart(b.T, Clean)
			th.j = b.Hubs[0]
			b.equal("due after a restart", b.idle(), 0)
		}
		b.Advance(3 * time.Hour)
		b.equal("due later", b.idle(), 1)
		th.must(journal.Done, th.decision())
		b.equal("due after a commit of nothing", b.idle(), 1)
		st := th.state()
		a := th.start("run", "edge-1")
		b.equal("due while a run is live", b.idle(), 0)
		res, err := th.j.Trim(b.ctx, journal.Trim{Key: th.key, Epoch: th.epoch, Base: st, FirstPage: st.Chunks, Rest: now})
		b.no(err)
		b.equal("rest of what was written to", res, journal.Lost)
		b.equal("trim with a live run", rest(now), journal.OK)
		b.equal("rest with a live run", rest(now), journal.Lost)
		b.equal("due with a live run", b.idle(), 0)
		a.end()
		b.equal("due at once after its end", b.idle(), 0)
		b.equal("trim without a rest", rest(0), journal.OK)
		b.Advance(25 * time.Hour)
		b.equal("due without a rest", b.idle(), 0)
		b.equal("rest again", rest(now), journal.OK)
		b.equal("due again", b.idle(), 1)
		th.delete()
		b.equal("due when deleted", b.idle(), 0)
	}},
}

func (b *bench) idle() int {
	b.Helper()
	items, err := b.Hubs[0].Due(b.ctx, 1000)
	b.no(err)
	n := 0
	for _, d := range items {
		if d.Run == "" {
			n++
		}
	}
	return n
}
