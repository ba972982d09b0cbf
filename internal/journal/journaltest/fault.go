package journaltest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

var errLost = errors.New("journaltest: the answer was lost")

// faulty is a hub behind a bad line: requests are lost, answers are lost after
// the work was done, and requests arrive twice.
type faulty struct {
	journal.Journal
	mu  sync.Mutex
	rnd *rand.Rand
}

func newFaulty(j journal.Journal, seed uint64) *faulty {
	return &faulty{Journal: j, rnd: rand.New(rand.NewPCG(seed, 0))}
}

// fault draws what happens to a call: do it so often, and tell or not.
func (f *faulty) fault() (times int, tell bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.rnd.IntN(6) {
	case 0:
		return 0, false
	case 1:
		return 1, false
	case 2:
		return 2, true
	}
	return 1, true
}

func through[T any](f *faulty, call func() (T, error)) (out T, err error) {
	times, tell := f.fault()
	for range times {
		out, err = call()
	}
	if !tell {
		var none T
		return none, errLost
	}
	return out, err
}

func (f *faulty) Append(ctx context.Context, a journal.Append) (journal.Appended, error) {
	return through(f, func() (journal.Appended, error) { return f.Journal.Append(ctx, a) })
}

func (f *faulty) Commit(ctx context.Context, c journal.Commit) (journal.Committed, error) {
	return through(f, func() (journal.Committed, error) { return f.Journal.Commit(ctx, c) })
}

// again calls until there is an answer.
func again[T any](call func() (T, error)) (T, error) {
	for {
		out, err := call()
		if !errors.Is(err, errLost) {
			return out, err
		}
	}
}

// say is a person who adds a message: decides anew on each conflict, with the
// same command.
func (b *bench) say(j journal.Journal, k chat.Key, id string) error {
	cmd := command()
	for {
		s, err := j.Load(b.ctx, journal.Load{Key: k})
		if err != nil {
			return err
		}
		c := journal.Commit{
			Key: k, Command: cmd, Epoch: s.Meta.Epoch, Rev: s.Meta.Rev, Tag: tag(), Result: []byte(id),
			Entries: []chat.Entry{chat.NewEntry(chat.KindMessage, "", &chat.MessageBody{Message: message(id, chat.User)})},
		}
		res, err := again(func() (journal.Committed, error) { return j.Commit(b.ctx, c) })
		switch {
		case err != nil:
			return err
		case res.Result == journal.DoneBefore && string(res.Before) != id:
			return fmt.Errorf("%s was told of %q", id, res.Before)
		case res.Result == journal.Done || res.Result == journal.DoneBefore:
			return nil
		case res.Result != journal.Conflict:
			return fmt.Errorf("%s: %s", id, res.Result)
		}
	}
}

// stream is an owner who appends texts one after the other.
func (a *attempt) stream(j journal.Journal, texts []string) error {
	for _, text := range texts {
		w := a.write(text)
		res, err := again(func() (journal.Appended, error) { return j.Append(a.th.b.ctx, w) })
		if err != nil {
			return err
		}
		if res.Result != journal.Stored && res.Result != journal.Already {
			return fmt.Errorf("%s: %s", text, res.Result)
		}
		a.w++
	}
	return nil
}

var faultCases = []testCase{
	{"F9 F36 F38 whatever is lost or doubled, everything is stored once, and everybody is told so", func(b *bench) {
		th := b.thread()
		owners := []*attempt{th.start("run-0", "edge-0"), th.start("run-1", "edge-1")}
		var texts []string
		for i := range 150 {
			texts = append(texts, fmt.Sprintf("%d.", i))
		}
		want := map[string]bool{"question-run-0": true, "question-run-1": true}
		var all sync.WaitGroup
		for i, a := range owners {
			all.Go(func() {
				if err := a.stream(newFaulty(b.Hubs[i], uint64(i)), texts); err != nil {
					b.Error(err)
				}
			})
		}
		for p := range 4 {
			j := newFaulty(b.Hubs[p%2], uint64(10+p))
			for n := range 12 {
				want[fmt.Sprintf("m-%d-%d", p, n)] = true
			}
			all.Go(func() {
				for n := range 12 {
					if err := b.say(j, th.key, fmt.Sprintf("m-%d-%d", p, n)); err != nil {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
		if b.Failed() {
			return
		}
		one, two := th.through(b.Hubs[0]).state(), th.through(b.Hubs[1]).state()
		b.equal("state on the other hub", b.json(two), b.json(one))
		for _, a := range owners {
			b.equal("text", one.Run(a.run).Part("p1").Text.String(), strings.Join(texts, ""))
		}
		for _, m := range one.Tail {
			if !want[m.ID] {
				b.Fatalf("message %s is there twice, or from nobody", m.ID)
			}
			delete(want, m.ID)
		}
		b.equal("messages that are missing", len(want), 0)
	}},
	{"F39 of cancels and finishes that race, one ends each run, and nothing comes after it", func(b *bench) {
		for i := range 30 {
			th := b.thread()
			a := th.start("run", "edge-1")
			own, seal := a.ending(), th.decision(chat.Entry{Kind: chat.KindRunStop, Run: "run", Body: &chat.RunStopBody{Stop: chat.Stop{Cause: chat.CauseUser}}})
			own.Guards = []journal.Guard{a.guard()}
			seal.Runs = []journal.RunChange{{Run: "run", Sealed: true}}
			write := a.write("late")
			var results [3]journal.Result
			var all sync.WaitGroup
			for n, f := range []func(journal.Journal) (journal.Result, error){
				func(j journal.Journal) (journal.Result, error) { r, err := j.Commit(b.ctx, own); return r.Result, err },
				func(j journal.Journal) (journal.Result, error) { r, err := j.Commit(b.ctx, seal); return r.Result, err },
				func(j journal.Journal) (journal.Result, error) {
					r, err := j.Append(b.ctx, write)
					return r.Result, err
				},
			} {
				all.Go(func() {
					var err error
					if results[n], err = f(b.Hubs[(i+n)%2]); err != nil {
						b.Error(err)
					}
				})
			}
			all.Wait()
			ended, sealed, stored := results[0] == journal.Done, results[1] == journal.Done, results[2] == journal.Stored
			// An append that came first shuts the owner's end out by its guard.
			if ended == sealed || ended && stored {
				b.Fatalf("end %s, seal %s, append %s", results[0], results[1], results[2])
			}
			th.state()
		}
	}},
	{"a call whose context has ended says so and leaves the thread whole", func(b *bench) {
		th := b.thread()
		a := th.start("run", "edge-1")
		dead, cancel := context.WithCancel(b.ctx)
		cancel()
		w := a.write("one")
		if res, err := th.j.Append(dead, w); err == nil && res.Result != journal.Stored {
			b.Fatalf("append: %s", res.Result)
		}
		res := a.append(w)
		if res.Result != journal.Stored && res.Result != journal.Already {
			b.Fatalf("append again: %s", res.Result)
		}
		c := th.decision(opening())
		if res, err := th.j.Commit(dead, c); err == nil && res.Result != journal.Done {
			b.Fatalf("commit: %s", res.Result)
		}
		if res := th.commit(c); res.Result != journal.Done && res.Result != journal.DoneBefore {
			b.Fatalf("commit again: %s", res.Result)
		}
		b.equal("text", th.state().Run("run").Part("p1").Text.String(), "one")
	}},
	{"a closed store says so", func(b *bench) {
		th := b.thread()
		for _, j := range b.Hubs {
			b.no(j.Ready(b.ctx))
		}
		for _, j := range b.Hubs {
			b.no(j.Close())
		}
		if _, err := b.Hubs[0].Load(b.ctx, journal.Load{Key: th.key}); !errors.Is(err, journal.ErrClosed) {
			b.Fatalf("load: %v", err)
		}
		if _, err := b.Hubs[1].Commit(b.ctx, th.decision(opening())); !errors.Is(err, journal.ErrClosed) {
			b.Fatalf("commit: %v", err)
		}
		if err := b.Hubs[0].Ready(b.ctx); !errors.Is(err, journal.ErrClosed) {
			b.Fatalf("ready: %v", err)
		}
	}},
}
