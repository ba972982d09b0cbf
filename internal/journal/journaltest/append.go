package journaltest

import (
	"errors"
	"strings"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

var appendCases = []testCase{
	{"the store numbers: positions dense, tags chained, log and envelopes counted", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		w := a.write("one", "two", "three")
		w.Entries[1].Logged = true
		recs := a.must(journal.Stored, w).Records
		b.equal("records", len(recs), 3)
		b.Advance(5)
		recs = append(recs, a.say("four")...)
		s := th.load()
		b.chained(recs[0].Pos-1, recs[0].Prev, 0, recs)
		for i, r := range recs {
			b.equal("w", r.W, uint64(i))
			b.equal("envelope", r.Seq, uint64(i+2)) // the run's start is the first
			if i < 3 {
				b.equal("tag", r.Tag, journal.ChainTag(r.Prev, w.Tag+uint64(i)))
			}
		}
		b.equal("log of the second", recs[1].Log, s.Meta.Log)
		m := s.Meta.Runs["run"]
		b.equal("run's w", m.W, uint64(4))
		b.equal("run's envelopes", m.Seq, uint64(5))
		b.equal("thread's position", s.Meta.Pos, recs[3].Pos)
		b.equal("text", th.state().Run("run").Part("p1").Text.String(), "onetwothreefour")
	}},
	{"an append raises no revision, so streaming starves no commit", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		rev := th.load().Meta.Rev
		a.say("one")
		b.equal("revision", th.load().Meta.Rev, rev)
		th.must(journal.Done, th.decision(opening()))
	}},
	{"F9 the same append again is already there and stores nothing", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		w := a.write("one", "two")
		a.must(journal.Stored, w)
		pos := th.load().Meta.Pos
		for _, j := range b.Hubs {
			res, err := j.Append(b.ctx, w)
			b.no(err)
			b.equal("answer", res.Result, journal.Already)
			b.equal("records in the answer", len(res.Records), 0)
		}
		b.equal("position", th.load().Meta.Pos, pos)
	}},
	{"already also for a run that was sealed in between", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		w := a.write("one")
		a.must(journal.Stored, w)
		a.seal()
		a.must(journal.Already, w)
	}},
	{"gap: the store has fewer records of the attempt than the owner was told", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		a.say("one", "two")
		a.w = 5
		res := a.must(journal.Gap, a.write("six"))
		b.equal("what the store has", res.W, uint64(2))
	}},
	{"F23 fenced: another attempt owns the run", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		_, _, res, err := b.Hubs[1].Claim(b.ctx, journal.Claim{Key: th.key, Run: "run", Fence: a.fence, Owner: "edge-2", Living: true, Tag: tag()})
		b.no(err)
		b.equal("claim", res, journal.OK)
		pos := th.load().Meta.Pos
		a.must(journal.Fenced, a.write("one"))
		b.equal("position", th.load().Meta.Pos, pos)
	}},
	{"fenced: another edge holds the same fence, as it may after a loss", func(b *bench) {
		a := b.thread().start("run", "edge-1")
		w := a.write("one")
		w.Owner = "edge-2"
		a.must(journal.Fenced, w)
		w.Owner = "edge-1"
		a.must(journal.Stored, w)
	}},
	{"fenced: somebody else wrote as the same attempt", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		late := a.write("late")
		a.say("one")
		res, err := th.j.Append(b.ctx, late)
		b.no(err)
		b.equal("answer", res.Result, journal.Fenced)
	}},
	{"sealed: a run that is being ended from outside accepts nothing", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		a.say("one")
		a.seal()
		text := b.json(th.state())
		a.must(journal.Sealed, a.write("two"))
		b.equal("state", b.json(th.state()), text)
	}},
	{"ended: a run that is not live accepts nothing", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		a.say("one")
		a.end()
		a.must(journal.Ended, a.write("two"))
		a.run = "never"
		a.must(journal.Ended, a.write("two"))
		a.th = &thread{b: b, j: th.j, key: key("nobody made it"), epoch: 1}
		a.must(journal.Ended, a.write("two"))
	}},
	{"epoch: an append of another epoch", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		w := a.write("one")
		w.Epoch++
		a.must(journal.WrongEpoch, w)
	}},
	{"deleted: an append to a deleted thread", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		th.delete()
		a.must(journal.Deleted, a.write("one"))
	}},
	{"F50 a write over a limit is refused whole and changes nothing", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		before := b.json(th.state())
		many := a.write(make([]string, journal.MaxWrite+1)...)
		large := a.write("small", strings.Repeat("x", journal.MaxRecord))
		for _, w := range []journal.Append{many, large} {
			if res, err := th.j.Append(b.ctx, w); !errors.Is(err, journal.ErrTooLarge) {
				b.Fatalf("got %s, %v", res.Result, err)
			}
		}
		b.equal("state", b.json(th.state()), before)
		a.say("goes on")
	}},
	{"only what streams is appended, and only to the run it is of", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		state, other, none := a.write("x"), a.write("x"), a.write()
		state.Entries[0] = chat.NewEntry(chat.KindRunActive, "run", &chat.RunActiveBody{})
		other.Entries[0].Run = "other"
		for _, w := range []journal.Append{state, other, none} {
			if res, err := th.j.Append(b.ctx, w); err == nil {
				b.Fatalf("got %s", res.Result)
			}
		}
	}},
}
