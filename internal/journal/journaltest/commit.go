package journaltest

import (
	"errors"
	"fmt"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

var commitCases = []testCase{
	{"the first commit makes the thread in the epoch that it brings", func(b *bench) {
		th := &thread{b: b, j: b.Hubs[0], key: key("new")}
		c := th.decision(opening())
		res := th.must(journal.Done, c)
		b.equal("epoch", res.Epoch, c.NewEpoch)
		b.equal("revision", res.Rev, journal.Rev{N: 1, Tag: c.Tag})
		b.equal("first position", res.Records[0].Pos, uint64(1))
		s := th.through(b.Hubs[1]).load()
		b.equal("exists", s.Exists, true)
		b.equal("epoch loaded", s.Meta.Epoch, c.NewEpoch)
	}},
	{"of two that make a thread one wins", func(b *bench) {
		one := &thread{b: b, j: b.Hubs[0], key: key("raced")}
		two := one.through(b.Hubs[1])
		c1, c2 := one.decision(opening()), two.decision(opening())
		one.must(journal.Done, c1)
		two.must(journal.Conflict, c2)
	}},
	{"each commit raises the revision by one and gives it its tag", func(b *bench) {
		th := b.thread()
		for range 3 {
			was := th.rev
			c := th.decision(opening())
			res := th.must(journal.Done, c)
			b.equal("revision", res.Rev, journal.Rev{N: was.N + 1, Tag: c.Tag})
			b.equal("revision loaded", th.load().Meta.Rev, res.Rev)
		}
	}},
	{"conflict: the revision is not what the writer saw", func(b *bench) {
		th := b.thread()
		other := th.through(b.Hubs[1])
		stale := other.decision(opening())
		th.must(journal.Done, th.decision(opening()))
		pos := th.load().Meta.Pos
		other.must(journal.Conflict, stale)
		forged := th.decision(opening())
		forged.Rev.Tag++
		th.must(journal.Conflict, forged)
		b.equal("position", th.load().Meta.Pos, pos)
	}},
	{"F36 done-before: a command's step happens once and its retry is told what it left", func(b *bench) {
		th := b.thread()
		c := th.decision(opening())
		c.Result = []byte(`{"run":"r1"}`)
		th.must(journal.Done, c)
		pos := th.load().Meta.Pos
		again := th.through(b.Hubs[1]).decision(opening(), opening())
		again.Command, again.Epoch, again.Rev = c.Command, th.epoch, th.rev
		for _, retry := range []journal.Commit{c, again} {
			res := th.through(b.Hubs[1]).must(journal.DoneBefore, retry)
			b.equal("what it left", string(res.Before), `{"run":"r1"}`)
		}
		b.equal("position", th.load().Meta.Pos, pos)
		next := th.decision(opening())
		next.Command = c.Command
		next.Command.Step++
		th.must(journal.Done, next)
	}},
	{"done-before for the commit that made the thread", func(b *bench) {
		th := &thread{b: b, j: b.Hubs[0], key: key("made twice")}
		c := th.decision(opening())
		th.must(journal.Done, c)
		th.must(journal.DoneBefore, c)
	}},
	{"command ids are kept for 60 s and at most 256 of them", func(b *bench) {
		th := b.thread()
		first := th.decision(opening())
		th.must(journal.Done, first)
		for range journal.KeepCommands - 1 {
			th.must(journal.Done, th.decision())
		}
		th.must(journal.DoneBefore, first)
		last := th.decision()
		th.must(journal.Done, last)
		th.must(journal.Conflict, first)
		b.Advance(journal.KeepCommandsFor - 5*time.Second)
		th.must(journal.DoneBefore, last)
		b.Advance(10 * time.Second)
		th.must(journal.Conflict, last)
	}},
	{"a guard holds only for that attempt, with nothing streamed since, and for an owner unsealed", func(b *bench) {
		for _, c := range []struct {
			name string
			bend func(*attempt) journal.Guard
			want journal.Result
		}{
			{"holds", func(a *attempt) journal.Guard { return a.guard() }, journal.Done},
			{"another fence", func(a *attempt) journal.Guard { g := a.guard(); g.Fence++; return g }, journal.Conflict},
			{"streamed since", func(a *attempt) journal.Guard { g := a.guard(); a.say("more"); return g }, journal.Conflict},
			{"fewer than thought", func(a *attempt) journal.Guard { g := a.guard(); g.W++; return g }, journal.Conflict},
			{"not live", func(a *attempt) journal.Guard { g := a.guard(); g.Run = "other"; return g }, journal.Conflict},
			{"sealed, by its owner", func(a *attempt) journal.Guard { a.seal(); return a.guard() }, journal.Conflict},
			{"sealed, from outside", func(a *attempt) journal.Guard { a.seal(); g := a.guard(); g.Owner = false; return g }, journal.Done},
			{"ended", func(a *attempt) journal.Guard { a.end(); return a.guard() }, journal.Conflict},
		} {
			th := b.thread()
			a := th.start("run", "edge-1")
			a.say("one")
			g := c.bend(a)
			d := th.decision(opening())
			d.Guards = []journal.Guard{g}
			if res := th.commit(d); res.Result != c.want {
				b.Errorf("%s: %s, want %s", c.name, res.Result, c.want)
			}
		}
	}},
	{"a guard that fails changes nothing", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		before := b.json(th.state())
		d := a.ending()
		d.Guards = []journal.Guard{{Run: "run", Fence: a.fence, W: 7}}
		th.must(journal.Conflict, d)
		b.equal("state", b.json(th.state()), before)
		_, live := th.load().Meta.Runs["run"]
		b.equal("live", live, true)
	}},
	{"F39 of two ends of a run one wins", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		c1, c2 := a.ending(), a.ending()
		th.must(journal.Done, c1)
		th.through(b.Hubs[1]).must(journal.Conflict, c2)
	}},
	{"a new run must be new, a changed one live", func(b *bench) {
		th := b.thread()
		th.start("run", "edge-1")
		again := th.decision()
		again.Runs = []journal.RunChange{{Run: "run", New: true}}
		th.must(journal.Conflict, again)
		for _, ch := range []journal.RunChange{{Run: "other"}, {Run: "other", End: true}} {
			c := th.decision()
			c.Runs = []journal.RunChange{ch}
			th.must(journal.Conflict, c)
		}
	}},
	{"a new owner is a new attempt: fence up, nothing appended in it", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		b.equal("first fence", a.fence, uint64(1))
		a.say("one", "two")
		c := th.decision(chat.NewEntry(chat.KindRunSuspended, "run", &chat.RunSuspendedBody{}))
		c.Runs = []journal.RunChange{{Run: "run", NewOwner: true, Due: 77, Agent: "other"}}
		res := th.must(journal.Done, c)
		b.equal("fences", res.Fences, map[string]uint64{"run": 2})
		m := th.load().Meta.Runs["run"]
		b.equal("meta", m, journal.RunMeta{Fence: 2, Seq: m.Seq, Due: 77, Agent: "other"})
		a.must(journal.Fenced, a.write("three"))
	}},
	{"a commit that counts is one of the attempt's records: an append knows if it is lost", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		a.say("one")
		c := th.decision(chat.NewEntry(chat.KindSubagentStart, "run", &chat.SubagentStartBody{}))
		c.Runs = []journal.RunChange{{Run: "run", Counts: true}}
		th.must(journal.Done, c)
		b.equal("w", th.load().Meta.Runs["run"].W, uint64(2))
		a.must(journal.Fenced, a.write("as if nothing had been"))
		a.w = 2
		a.say("two")
		a.w = 9
		b.equal("what the store has", a.must(journal.Gap, a.write("x")).W, uint64(3))
	}},
	{"envelopes count on through a segment and from 1 in the next", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		a.say("one")
		res := th.must(journal.Done, th.decision(
			chat.NewEntry(chat.KindInterrupt, "run", &chat.InterruptBody{Interrupt: &chat.Interrupt{ID: "q", Status: chat.InterruptOpen}}),
			chat.NewEntry(chat.KindRunSuspended, "run", &chat.RunSuspendedBody{}),
			chat.NewEntry(chat.KindRunResumed, "run", &chat.RunResumedBody{Segment: "s2"}),
		))
		var got []uint64
		for _, r := range res.Records {
			got = append(got, r.Seq)
			b.equal("w of a committed record", r.W, uint64(0))
		}
		b.equal("envelopes", got, []uint64{3, 4, 1})
		b.equal("next", a.say("two")[0].Seq, uint64(2))
	}},
	{"an end takes the run's meta away and its text stays", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		a.say("one")
		res := a.end()
		b.equal("the end's envelope", res.Records[0].Seq, uint64(3))
		s := th.load()
		b.equal("runs", len(s.Meta.Runs), 0)
		b.equal("last message", th.state().Head, "answer-run")
	}},
	{"epoch: a commit of another epoch, or to a thread that vanished", func(b *bench) {
		th := b.thread()
		c := th.decision(opening())
		c.Epoch++
		th.must(journal.WrongEpoch, c)
		gone := &thread{b: b, j: b.Hubs[0], key: key("never"), epoch: 5}
		gone.must(journal.WrongEpoch, gone.decision(opening()))
	}},
	{"ids and segments of a commit are found, and only of a commit that was done", func(b *bench) {
		th := b.thread()
		stale := th.decision(pending("lost")...)
		stale.Rev.N++
		stale.Segments = []string{"seg-lost"}
		th.must(journal.Conflict, stale)
		th.start("run", "edge-1")
		ids := []string{"question-run", chat.RunNode("run"), "question-lost", "answer-run"}
		s, err := b.Hubs[1].Load(b.ctx, journal.Load{Key: th.key, IDs: ids})
		b.no(err)
		b.equal("nodes", s.Nodes, map[string]chat.Node{"question-run": {Role: chat.User}, chat.RunNode("run"): {Run: true, Parent: "question-run"}})
		k, err := b.Hubs[1].Segment(b.ctx, "seg-run")
		b.no(err)
		b.equal("thread of the segment", k, th.key)
		if _, err := b.Hubs[1].Segment(b.ctx, "seg-lost"); !errors.Is(err, journal.ErrNotFound) {
			b.Fatalf("segment of a refused commit: %v", err)
		}
	}},
	{"limits: records, result", func(b *bench) {
		th := b.thread()
		many, long := th.decision(make([]chat.Entry, journal.MaxWrite+1)...), th.decision(opening())
		long.Result = make([]byte, journal.MaxResult+1)
		for i := range many.Entries {
			many.Entries[i] = opening()
		}
		for _, c := range []journal.Commit{many, long} {
			if res, err := th.j.Commit(b.ctx, c); !errors.Is(err, journal.ErrTooLarge) {
				b.Fatalf("got %s, %v", res.Result, err)
			}
		}
		long.Result = long.Result[1:]
		th.must(journal.Done, long)
	}},
	{"threads of other realms, tenants and ids are others", func(b *bench) {
		for i, k := range []chat.Key{
			{Realm: "a", Tenant: "b", Thread: "c"},
			{Realm: "ab", Thread: "c"},
			{Realm: "a", Thread: "bc"},
			{Realm: "a", Thread: "b:c"},
			{Realm: "a:b", Thread: "c"},
			{Realm: "", Tenant: "a", Thread: "bc"},
			{Realm: "a", Tenant: "b", Thread: "C"},
			{Realm: "a{b}", Thread: "c"},
			{Realm: "a", Thread: "{b}c"},
			{Realm: "../a", Thread: "%2e"},
			{Realm: "a", Tenant: "\x01b", Thread: "c"},
		} {
			th := &thread{b: b, j: b.Hubs[i%2], key: k}
			b.equal(fmt.Sprintf("thread %q exists", k), th.load().Exists, false)
			th.create()
		}
	}},
}
