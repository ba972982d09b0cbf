package journaltest

import (
	"errors"
	"fmt"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// trim moves the thread's floor to a state.
func (th *thread) trim(st *chat.State) journal.Result {
	th.b.Helper()
	base, pages := st.Compact()
	res, err := th.j.Trim(th.b.ctx, journal.Trim{Key: th.key, Epoch: th.epoch, Base: base, FirstPage: st.Chunks, Pages: pages})
	th.b.no(err)
	return res
}

var floorCases = []testCase{
	{"base and records are the state at every kept position", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		a.say("a", "b", "c")
		s := th.load()
		states := []*chat.State{s.Base}
		for _, r := range s.Records {
			states = append(states, states[len(states)-1].Clip().Apply(r))
		}
		for i, floor := range states[1:] {
			want := b.json(states[len(states)-1])
			b.equal("trim", th.trim(floor), journal.OK)
			got := th.load()
			b.equal("floor", [2]uint64{got.Meta.Floor, got.Meta.FloorTag}, [2]uint64{floor.Pos, floor.Tag})
			b.equal("records kept", len(got.Records), len(states)-i-2)
			st := got.Base
			for k, r := range got.Records {
				b.equal("state below", b.json(st), b.json(states[i+1+k]))
				st = st.Apply(r)
			}
			b.equal("state", b.json(st), want)
		}
	}},
	{"a live run's text may be older than the floor, and goes on", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		a.say("one ", "two ")
		b.equal("trim", th.trim(th.state()), journal.OK)
		b.equal("records", len(th.load().Records), 0)
		a.say("three")
		b.equal("text", th.state().Run("run").Part("p1").Text.String(), "one two three")
		a.end()
		b.equal("head", th.state().Head, "answer-run")
	}},
	{"a trim is compared and set: floor, epoch, tag and pages", func(b *bench) {
		th := b.thread()
		th.start("run", "edge-1").say("one")
		st := th.state()
		foreign, ahead, epoch := *st, *st, *th
		foreign.Tag++
		ahead.Pos++
		epoch.epoch++
		b.equal("foreign tag", th.trim(&foreign), journal.Lost)
		b.equal("ahead of the store", th.trim(&ahead), journal.Lost)
		b.equal("another epoch", epoch.trim(st), journal.Lost)
		pages := *st
		pages.Chunks = 3
		b.equal("pages that do not follow", th.trim(&pages), journal.Lost)
		b.equal("floor", th.load().Meta.Floor, uint64(0))
		b.equal("first", th.trim(st), journal.OK)
		b.equal("again", th.through(b.Hubs[1]).trim(st), journal.Lost)
		none := &thread{b: b, j: b.Hubs[0], key: key("none"), epoch: 1}
		b.equal("no thread", none.trim(st), journal.Lost)
	}},
	{"behind: a reader below the floor, which is no loss", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		old := a.say("one")[0]
		a.say("two")
		floor := th.state()
		b.equal("trim", th.trim(floor), journal.OK)
		s := th.loadFrom(journal.Cursor{Epoch: th.epoch, Pos: old.Pos, Tag: old.Tag})
		b.equal("behind, continues", [2]bool{s.Behind, s.Continues}, [2]bool{true, false})
		b.equal("state", b.json(s.State(nil)), b.json(floor))
		s = th.loadFrom(journal.Cursor{Epoch: th.epoch, Pos: floor.Pos, Tag: floor.Tag})
		b.equal("at the floor: behind, continues", [2]bool{s.Behind, s.Continues}, [2]bool{false, true})
		s = th.loadFrom(journal.Cursor{Epoch: th.epoch, Pos: floor.Pos, Tag: floor.Tag + 1})
		b.equal("foreign at the floor: behind, continues", [2]bool{s.Behind, s.Continues}, [2]bool{})
	}},
	{"older messages are read by page", func(b *bench) {
		th := b.thread()
		id := func(i int) string { return fmt.Sprintf("m%03d", i) }
		n := 0
		add := func(k int) {
			var entries []chat.Entry
			for range k {
				entries = append(entries, chat.NewEntry(chat.KindMessage, "", &chat.MessageBody{Message: message(id(n), chat.User)}))
				n++
			}
			th.must(journal.Done, th.decision(entries...))
		}
		for range 3 {
			add(130)
			b.equal("trim", th.trim(th.state()), journal.OK)
		}
		st := th.through(b.Hubs[1]).state()
		all, err := b.Hubs[1].Pages(b.ctx, th.key, 0, st.Chunks)
		b.no(err)
		all = append(all, st.Tail...)
		b.equal("messages", len(all), n)
		for i, m := range all {
			b.equal("message", m.ID, id(i))
		}
		part, err := b.Hubs[0].Pages(b.ctx, th.key, 1, 3)
		b.no(err)
		b.equal("pages 1 and 2", [2]string{part[0].ID, part[len(part)-1].ID}, [2]string{id(chat.ChunkSize), id(3*chat.ChunkSize - 1)})
		beyond, err := b.Hubs[0].Pages(b.ctx, th.key, st.Chunks, st.Chunks+5)
		b.no(err)
		b.equal("beyond the last", len(beyond), 0)
		s, err := b.Hubs[0].Load(b.ctx, journal.Load{Key: th.key, IDs: []string{id(0)}})
		b.no(err)
		b.equal("index of a paged message", s.Nodes, map[string]chat.Node{id(0): {Role: chat.User}})
	}},
	{"PIN-177 pages that an archive has go with the trim that says so, and no others", func(b *bench) {
		th := b.thread()
		id := func(i int) string { return fmt.Sprintf("m%04d", i) }
		n, pages := 0, 0
		more := func(k int) {
			for range k {
				var entries []chat.Entry
				for range chat.ChunkSize {
					entries = append(entries, chat.NewEntry(chat.KindMessage, "", &chat.MessageBody{Message: message(id(n), chat.User)}))
					n++
				}
				th.must(journal.Done, th.decision(entries...))
			}
			b.equal("trim", th.trim(th.state()), journal.OK)
			pages = th.state().Chunks
		}
		archive := func(first, pages int) {
			th.must(journal.Done, th.decision(chat.NewEntry(chat.KindArchive, "", &chat.ArchiveBody{Archive: chat.Archive{
				Blob: "blob", First: first, Pages: pages, Sum: "sum",
			}})))
		}
		look := func(gone int) {
			b.Helper()
			for page := range pages {
				list, err := b.Hubs[1].Pages(b.ctx, th.key, page, page+1)
				b.no(err)
				want := chat.ChunkSize
				if page < gone {
					want = 0
				}
				b.equal(fmt.Sprintf("messages of page %d", page), len(list), want)
				if want > 0 {
					b.equal("first of them", list[0].ID, id(page*chat.ChunkSize))
				}
			}
			list, err := b.Hubs[1].Pages(b.ctx, th.key, max(0, gone-1), pages)
			b.no(err)
			if gone > 0 {
				b.equal("read from a page that is not there", len(list), 0)
			}
		}
		more(6)
		archive(0, 2)
		look(0)
		b.equal("trim", th.trim(th.state()), journal.OK)
		look(2)
		more(3)
		look(2)
		archive(2, 1)
		archive(3, 2)
		b.equal("trim", th.trim(th.state()), journal.OK)
		look(5)
		if b.Restart != nil {
			b.Hubs = b.Restart(b.T, Killed)
			th.j = b.Hubs[0]
			look(5)
		}
		st := th.state()
		b.equal("archived, pages", [2]int{st.Archived(), st.Chunks}, [2]int{5, pages})
		s, err := th.j.Load(b.ctx, journal.Load{Key: th.key, IDs: []string{id(0)}})
		b.no(err)
		b.equal("index of an archived message", s.Nodes, map[string]chat.Node{id(0): {Role: chat.User}})
		th.delete()
		b.Advance(journal.Tombstone / 2)
		th.create()
		b.equal("archives of a thread made again", len(th.state().Archives), 0)
	}},
	{"a trim ends neither retries nor segments of a live run", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		w := a.write("one")
		a.must(journal.Stored, w)
		c := th.decision(opening())
		th.must(journal.Done, c)
		b.equal("trim", th.trim(th.state()), journal.OK)
		a.must(journal.Already, w)
		th.must(journal.DoneBefore, c)
		_, err := b.Hubs[1].Segment(b.ctx, "seg-run")
		b.no(err)
	}},
}

var epochCases = []testCase{
	{"reset is compared and set: of two one wins, and the numbers leap", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		a.say("one")
		st := th.state()
		m := th.load().Meta
		seen := journal.Cursor{Epoch: m.Epoch, Pos: m.Pos, Tag: m.Tag}
		resets := make([]journal.Reset, 2)
		for i := range resets {
			base := *st
			base.Pos, base.Log, base.Tag = st.Pos+journal.PositionJump, st.Log+journal.PositionJump, tag()
			resets[i] = journal.Reset{Key: th.key, Seen: seen, NewEpoch: tag(), Tag: tag(), Base: &base}
		}
		for i, want := range []journal.Result{journal.OK, journal.Lost} {
			res, err := b.Hubs[i].Reset(b.ctx, resets[i])
			b.no(err)
			b.equal("reset", res, want)
		}
		won := resets[0]
		s := th.load()
		b.equal("epoch", s.Meta.Epoch, won.NewEpoch)
		b.equal("revision", s.Meta.Rev, journal.Rev{N: m.Rev.N + 1, Tag: won.Tag})
		b.equal("state", b.json(s.State(nil)), b.json(won.Base))
		a.must(journal.WrongEpoch, a.write("two"))
		th.must(journal.WrongEpoch, th.decision(opening()))
		th.epoch, th.rev = s.Meta.Epoch, s.Meta.Rev
		r := a.say("two")[0]
		b.equal("next position", r.Pos, st.Pos+journal.PositionJump+1)
		b.equal("chained to the new base", r.Prev, won.Base.Tag)
		old := th.loadFrom(seen)
		b.equal("old cursor continues, behind", [2]bool{old.Continues, old.Behind}, [2]bool{})
		b.equal("text", th.state().Run("run").Part("p1").Text.String(), "onetwo")
	}},
	{"F9 a reset whose answer was lost has won", func(b *bench) {
		th := b.thread()
		st := *th.state()
		seen := journal.Cursor{Epoch: th.epoch, Pos: st.Pos, Tag: st.Tag}
		st.Pos, st.Tag = st.Pos+journal.PositionJump, tag()
		q := journal.Reset{Key: th.key, Seen: seen, NewEpoch: tag(), Tag: tag(), Base: &st}
		for range 2 {
			res, err := th.j.Reset(b.ctx, q)
			b.no(err)
			b.equal("reset", res, journal.OK)
		}
		b.equal("revision", th.load().Meta.Rev.N, th.rev.N+1)
	}},
	{"reset is lost for one who saw another position, tag or epoch, or goes back", func(b *bench) {
		th := b.thread()
		st := th.state()
		good := journal.Cursor{Epoch: th.epoch, Pos: st.Pos, Tag: st.Tag}
		for i, seen := range []journal.Cursor{
			{Epoch: good.Epoch + 1, Pos: good.Pos, Tag: good.Tag},
			{Epoch: good.Epoch, Pos: good.Pos + 1, Tag: good.Tag},
			{Epoch: good.Epoch, Pos: good.Pos, Tag: good.Tag + 1},
			good,
		} {
			base := *st
			if i < 3 {
				base.Pos += journal.PositionJump
			}
			res, err := th.j.Reset(b.ctx, journal.Reset{Key: th.key, Seen: seen, NewEpoch: tag(), Tag: tag(), Base: &base})
			b.no(err)
			b.equal(fmt.Sprintf("reset %d", i), res, journal.Lost)
		}
		th.must(journal.Done, th.decision(opening()))
	}},
	{"F60 delete leaves a tombstone; made again, the thread goes on higher in a new epoch", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		a.say("one")
		old := th.load().Meta
		th.delete()
		th.through(b.Hubs[1]).delete()
		s := th.through(b.Hubs[1]).loadFrom(journal.Cursor{Epoch: old.Epoch, Pos: old.Pos, Tag: old.Tag})
		b.equal("exists, deleted, continues", [3]bool{s.Exists, s.Deleted, s.Continues}, [3]bool{false, true, false})
		th.must(journal.Deleted, th.decision(opening()))
		a.must(journal.Deleted, a.write("two"))
		if _, err := th.j.Segment(b.ctx, "seg-run"); !errors.Is(err, journal.ErrNotFound) {
			b.Fatalf("segment of a deleted thread: %v", err)
		}
		b.Advance(journal.Tombstone / 2)
		th.create()
		s, err := th.j.Load(b.ctx, journal.Load{Key: th.key, IDs: []string{"question-run"}})
		b.no(err)
		b.equal("ids of the old thread", len(s.Nodes), 0)
		b.equal("runs of the old thread", len(s.Meta.Runs), 0)
		if s.Meta.Epoch == old.Epoch || s.Meta.Pos <= old.Pos+journal.PositionJump/2 || s.Meta.Log < old.Log {
			b.Fatalf("a thread made again is at %d/%d, epoch %d; it was at %d/%d, epoch %d",
				s.Meta.Pos, s.Meta.Log, s.Meta.Epoch, old.Pos, old.Log, old.Epoch)
		}
		a.must(journal.Ended, a.write("three"))
		th.start("run", "edge-1").say("new")
		th.state()
	}},
	{"a delete meant for a thread spares one that was made again, and one in another epoch", func(b *bench) {
		th := b.thread()
		lost := func(epoch uint64) {
			b.Helper()
			for _, j := range b.Hubs[:2] {
				res, err := j.Delete(b.ctx, th.key, epoch)
				b.no(err)
				b.equal("delete", res, journal.Lost)
			}
			b.equal("exists", th.load().Exists, true)
		}
		first := th.epoch
		lost(first + 1)
		th.delete()
		th.create()
		lost(first)
		st := *th.state()
		q := journal.Reset{Key: th.key, Seen: journal.Cursor{Epoch: th.epoch, Pos: st.Pos, Tag: st.Tag}, NewEpoch: tag(), Tag: tag()}
		st.Pos, st.Tag = st.Pos+journal.PositionJump, tag()
		q.Base = &st
		_, err := th.j.Reset(b.ctx, q)
		b.no(err)
		lost(th.epoch)
		th.epoch = q.NewEpoch
		th.delete()
		b.equal("exists", th.load().Exists, false)
	}},
	{"a tombstone is forgotten after 24 h", func(b *bench) {
		th := b.thread()
		th.delete()
		b.Advance(journal.Tombstone + journal.OwnerDeadline)
		b.equal("deleted", th.load().Deleted, false)
		th.must(journal.WrongEpoch, th.decision(opening()))
		th.create()
	}},
	{"a stopped store has what it had", func(b *bench) {
		if b.Restart == nil {
			return // the store outlives its hubs; nothing to prove
		}
		for _, how := range []Stop{Clean, Killed} {
			th := b.thread()
			a := th.start("run-"+how.String(), "edge-1")
			w := a.write("one", "two")
			a.must(journal.Stored, w)
			c := th.decision(opening())
			c.Result = []byte("left")
			th.must(journal.Done, c)
			b.equal("trim", th.trim(th.state()), journal.OK)
			a.say("three")
			gone := b.thread()
			gone.delete()
			before, meta := b.json(th.state()), th.load().Meta
			b.Hubs = b.Restart(b.T, how)
			th.j, gone.j = b.Hubs[0], b.Hubs[0]
			b.equal(how.String()+": state", b.json(th.state()), before)
			b.equal(how.String()+": meta", plain(th.load().Meta), plain(meta))
			b.equal(how.String()+": done before", string(th.must(journal.DoneBefore, c).Before), "left")
			b.equal(how.String()+": tombstone", gone.load().Deleted, true)
			k, err := b.Hubs[1].Segment(b.ctx, "seg-run-"+how.String())
			b.no(err)
			b.equal(how.String()+": segment", k, th.key)
			a.say("four")
			a.end()
		}
	}},
}

// plain is a meta without what a store may keep to itself: owners' deadlines,
// which a stop ends, and the size of its records.
func plain(m journal.Meta) journal.Meta {
	m.Bytes = 0
	runs := make(map[string]journal.RunMeta, len(m.Runs))
	for id, r := range m.Runs {
		r.Until = 0
		runs[id] = r
	}
	m.Runs = runs
	return m
}
