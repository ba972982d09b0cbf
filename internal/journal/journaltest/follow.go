package journaltest

import (
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// follow collects the notices of a thread through a hub.
func (b *bench) follow(hub int, k chat.Key) (next func() journal.Notice, stop func()) {
	b.Helper()
	notices := make(chan journal.Notice, 4096)
	stop = b.Hubs[hub].Follow(k, func(n journal.Notice) { notices <- n })
	b.T.Cleanup(stop)
	return func() journal.Notice {
		b.Helper()
		select {
		case n := <-notices:
			return n
		case <-time.After(20 * time.Second):
			b.Fatal("no notice came")
			return journal.Notice{}
		}
	}, stop
}

// records waits until n records have come and returns them, without those that
// came before.
func (b *bench) records(next func() journal.Notice, n int) []*chat.Record {
	b.Helper()
	var out []*chat.Record
	for len(out) < n {
		out = append(out, next().Records...)
	}
	return out
}

var followCases = []testCase{
	{"the first notice is a resync; then each write of either hub comes in order, to every follower", func(b *bench) {
		th := b.thread()
		start := th.load().Meta
		var nexts []func() journal.Notice
		for hub := range b.Hubs {
			next, _ := b.follow(hub, th.key)
			b.equal("first is a resync", next().Resync, true)
			nexts = append(nexts, next)
		}
		a := th.start("run", "edge-1")
		for i := range 30 {
			th.j = b.Hubs[i%2]
			if i%10 == 9 {
				th.must(journal.Done, th.decision(opening()))
			} else {
				a.say("x", "y")
			}
		}
		n := int(th.load().Meta.Pos - start.Pos)
		for _, next := range nexts {
			b.chained(start.Pos, start.Tag, start.At, b.records(next, n))
		}
	}},
	{"a notice of a commit has the epoch and the revision", func(b *bench) {
		th := b.thread()
		next, _ := b.follow(1, th.key)
		next()
		res := th.must(journal.Done, th.decision(opening()))
		n := next()
		b.equal("epoch", n.Epoch, res.Epoch)
		b.equal("revision", n.Rev, res.Rev)
		b.equal("position", n.Records[0].Pos, res.Records[0].Pos)
		b.equal("tag", n.Records[0].Tag, res.Records[0].Tag)
	}},
	{"an owner is told of a claim, a room of a reset and of a delete", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		next, _ := b.follow(1, th.key)
		next()
		a.claim(0, "edge-2", true)
		m := th.load().Meta
		b.equal("revision after a claim", next().Rev, m.Rev)
		base := *th.state()
		base.Pos, base.Tag = base.Pos+journal.PositionJump, tag()
		q := journal.Reset{Key: th.key, Seen: journal.Cursor{Epoch: m.Epoch, Pos: m.Pos, Tag: m.Tag}, NewEpoch: tag(), Tag: tag(), Base: &base}
		_, err := th.j.Reset(b.ctx, q)
		b.no(err)
		n := next()
		b.equal("reset", n.Reset, true)
		b.equal("new epoch", n.Epoch, q.NewEpoch)
		th.epoch = q.NewEpoch
		th.delete()
		b.equal("deleted", next().Deleted, true)
	}},
	{"writes that store nothing are not told of", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		w := a.write("one")
		a.must(journal.Stored, w)
		next, _ := b.follow(0, th.key)
		next()
		a.must(journal.Already, w)
		stale := th.decision(opening())
		stale.Rev.N++
		th.must(journal.Conflict, stale)
		r := a.say("two")[0]
		b.equal("next position", next().Records[0].Pos, r.Pos)
	}},
	{"a thread's follower is not told of another thread", func(b *bench) {
		one, two := b.thread(), b.thread()
		next, _ := b.follow(1, one.key)
		next()
		two.must(journal.Done, two.decision(opening()))
		res := one.must(journal.Done, one.decision(opening()))
		b.equal("tag", next().Records[0].Tag, res.Records[0].Tag)
	}},
	{"after stop nothing comes, and stop may be called again, and from within", func(b *bench) {
		th := b.thread()
		next, stop := b.follow(0, th.key)
		next()
		called := make(chan struct{}, 64)
		var within func()
		var set sync.WaitGroup
		set.Add(1)
		within = b.Hubs[0].Follow(th.key, func(journal.Notice) {
			set.Wait()
			within()
			called <- struct{}{}
		})
		set.Done()
		<-called
		stop()
		stop()
		other, _ := b.follow(0, th.key)
		other()
		th.must(journal.Done, th.decision(opening()))
		other()
		b.equal("calls after stop", len(called), 0)
	}},
	{"R3 a slow follower keeps nobody waiting, and is told to load when it has missed something", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		fast, _ := b.follow(0, th.key)
		fast()
		entered, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		var mu sync.Mutex
		var got []journal.Notice
		caught := make(chan struct{}, 1)
		var last uint64
		stop := b.Hubs[1].Follow(th.key, func(n journal.Notice) {
			once.Do(func() { close(entered); <-release })
			mu.Lock()
			defer mu.Unlock()
			got = append(got, n)
			if k := len(n.Records); k > 0 && n.Records[k-1].Pos == last || n.Resync && last != 0 {
				select {
				case caught <- struct{}{}:
				default:
				}
			}
		})
		defer stop()
		<-entered
		for range 20 {
			for range 100 {
				a.say("x")
			}
			b.records(fast, 100)
		}
		mu.Lock()
		last = th.load().Meta.Pos
		mu.Unlock()
		close(release)
		select {
		case <-caught:
		case <-time.After(20 * time.Second):
			b.Fatal("the slow follower heard nothing more")
		}
		mu.Lock()
		defer mu.Unlock()
		// Between resyncs nothing is missing.
		var prev *chat.Record
		for _, n := range got {
			if n.Resync {
				prev = nil
			}
			for _, r := range n.Records {
				if prev != nil && (r.Pos != prev.Pos+1 || r.Prev != prev.Tag) {
					b.Fatalf("record %d follows %d without a resync", r.Pos, prev.Pos)
				}
				prev = r
			}
		}
	}},
	{"F33 what comes between a load and the first notice is in one of the two", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		var writer sync.WaitGroup
		quit := make(chan struct{})
		writer.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
				}
				w := a.write("x")
				if _, err := th.j.Append(b.ctx, w); err != nil {
					b.Error(err)
					return
				}
				a.w++
			}
		})
		for range 20 {
			next, stop := b.follow(1, th.key)
			b.equal("resync", next().Resync, true)
			reader := th.through(b.Hubs[1])
			st := reader.state()
			for range 5 {
				n := next()
				if n.Resync {
					st = reader.state()
				}
				for _, r := range n.Records {
					if r.Pos > st.Pos {
						b.chained(st.Pos, st.Tag, st.At, []*chat.Record{r})
						st = st.Apply(r)
					}
				}
			}
			stop()
		}
		close(quit)
		writer.Wait()
	}},
}
