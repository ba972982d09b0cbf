package journaltest

import (
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

var loadCases = []testCase{
	{"a thread that nobody made", func(b *bench) {
		s := (&thread{b: b, j: b.Hubs[0], key: key("none")}).load()
		b.equal("exists, deleted", [2]bool{s.Exists, s.Deleted}, [2]bool{})
	}},
	{"a reader goes on from each position that is kept", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		states := []*chat.State{th.state()}
		for _, r := range a.say("a", "b", "c", "d") {
			states = append(states, states[len(states)-1].Apply(r))
		}
		whole := b.json(th.state())
		for _, st := range states {
			s := th.through(b.Hubs[1]).loadFrom(journal.Cursor{Epoch: th.epoch, Pos: st.Pos, Tag: st.Tag})
			b.equal("continues", s.Continues, true)
			b.chained(st.Pos, st.Tag, st.At, s.Records)
			b.equal("state", b.json(s.State(st.Clip())), whole)
		}
	}},
	{"a new thread is continued from nothing", func(b *bench) {
		th := b.thread()
		s := th.loadFrom(journal.Cursor{Epoch: th.epoch})
		b.equal("continues", s.Continues, true)
		b.equal("records", len(s.Records), 1)
	}},
	{"a foreign tag, or a position that the store never gave, is not continued: proof of loss", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		r := a.say("one")[0]
		whole := b.json(th.state())
		for _, c := range []journal.Cursor{
			{Epoch: th.epoch, Pos: r.Pos, Tag: r.Tag + 1},
			{Epoch: th.epoch, Pos: r.Pos + 1, Tag: r.Tag},
			{Epoch: th.epoch, Pos: 0, Tag: 9},
		} {
			s := th.loadFrom(c)
			b.equal("continues, behind", [2]bool{s.Continues, s.Behind}, [2]bool{})
			b.equal("state", b.json(s.State(nil)), whole)
		}
	}},
	{"a reader of another epoch gets the whole", func(b *bench) {
		th := b.thread()
		m := th.load().Meta
		s := th.loadFrom(journal.Cursor{Epoch: th.epoch + 1, Pos: m.Pos, Tag: m.Tag})
		b.equal("continues, behind", [2]bool{s.Continues, s.Behind}, [2]bool{})
		b.equal("base", s.Base != nil, true)
	}},
	{"what was loaded stays what it was", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		a.say("one")
		s := th.load()
		st := s.State(nil)
		before, records := b.json(st), len(s.Records)
		a.say("two", "three")
		a.seal()
		b.equal("state", b.json(st), before)
		b.equal("records", len(s.Records), records)
		b.equal("sealed in the snapshot", s.Meta.Runs["run"].Sealed, false)
	}},
	{"what one hub was told of, the other loads", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		for i := range 20 {
			th.j = b.Hubs[i%2]
			r := a.say("x")[0]
			b.equal("position", th.through(b.Hubs[1-i%2]).load().Meta.Pos, r.Pos)
		}
	}},
}
