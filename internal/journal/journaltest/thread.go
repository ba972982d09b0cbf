package journaltest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// thread is a thread as somebody who writes to it through one hub sees it.
type thread struct {
	b     *bench
	j     journal.Journal
	key   chat.Key
	epoch uint64
	rev   journal.Rev
}

// thread opens a new thread through the first hub.
func (b *bench) thread() *thread {
	b.Helper()
	th := &thread{b: b, j: b.Hubs[0], key: key(fmt.Sprintf("t-%d", rand.Uint64()))}
	th.create()
	return th
}

func key(id string) chat.Key { return chat.Key{Realm: "r", Tenant: "n", Thread: id} }

// through is the same thread, seen from a hub.
func (th *thread) through(j journal.Journal) *thread {
	c := *th
	c.j = j
	return &c
}

func (th *thread) create() {
	th.b.Helper()
	th.epoch, th.rev = 0, journal.Rev{}
	th.must(journal.Done, th.decision(opening()))
}

// delete deletes the thread as it was last seen.
func (th *thread) delete() {
	th.b.Helper()
	res, err := th.j.Delete(th.b.ctx, th.key, th.epoch)
	th.b.no(err)
	th.b.equal("delete", res, journal.OK)
}

// decision is a commit of entries at what the thread was last seen to be.
func (th *thread) decision(entries ...chat.Entry) journal.Commit {
	return journal.Commit{
		Key: th.key, Command: command(), Epoch: th.epoch, Rev: th.rev, NewEpoch: tag(),
		Tag: tag(), Entries: entries, Nodes: chat.NodesOf(entries),
	}
}

// commit makes a decision and remembers what the thread is after it.
func (th *thread) commit(c journal.Commit) journal.Committed {
	th.b.Helper()
	res, err := th.j.Commit(th.b.ctx, c)
	if err != nil {
		th.b.Fatalf("commit: %v", err)
	}
	if res.Result == journal.Done {
		th.epoch, th.rev = res.Epoch, res.Rev
	}
	return res
}

// must is commit with the result that it must have.
func (th *thread) must(want journal.Result, c journal.Commit) journal.Committed {
	th.b.Helper()
	res := th.commit(c)
	if res.Result != want {
		th.b.Fatalf("commit: %s, want %s", res.Result, want)
	}
	return res
}

// attempt is a run as its owner sees it.
type attempt struct {
	th    *thread
	run   string
	owner string
	fence uint64
	w     uint64
}

// start begins a run: the message and its run in one commit, then the first
// segment.
func (th *thread) start(run, owner string) *attempt {
	th.b.Helper()
	c := th.decision(pending(run)...)
	c.Runs = []journal.RunChange{{Run: run, New: true, NewOwner: true, Owner: owner, Agent: "helper"}}
	c.Segments = []string{"seg-" + run}
	res := th.must(journal.Done, c)
	a := &attempt{th: th, run: run, owner: owner, fence: res.Fences[run]}
	c = th.decision(chat.NewEntry(chat.KindRunActive, run, &chat.RunActiveBody{}))
	c.Guards = []journal.Guard{a.guard()}
	th.must(journal.Done, c)
	return a
}

func (a *attempt) guard() journal.Guard {
	return journal.Guard{Run: a.run, Fence: a.fence, W: a.w, Owner: true}
}

// write is the append of texts at where the owner stands.
func (a *attempt) write(texts ...string) journal.Append {
	w := journal.Append{Key: a.th.key, Epoch: a.th.epoch, Run: a.run, Fence: a.fence, W: a.w, Tag: tag()}
	for _, s := range texts {
		w.Entries = append(w.Entries, delta(a.run, s))
	}
	return w
}

// append sends a write and moves on if it was stored.
func (a *attempt) append(w journal.Append) journal.Appended {
	a.th.b.Helper()
	res, err := a.th.j.Append(a.th.b.ctx, w)
	if err != nil {
		a.th.b.Fatalf("append: %v", err)
	}
	if res.Result == journal.Stored || res.Result == journal.Already {
		a.w = w.W + uint64(len(w.Entries))
	}
	return res
}

func (a *attempt) must(want journal.Result, w journal.Append) journal.Appended {
	a.th.b.Helper()
	res := a.append(w)
	if res.Result != want {
		a.th.b.Fatalf("append: %s, want %s", res.Result, want)
	}
	return res
}

// say appends texts that must be stored.
func (a *attempt) say(texts ...string) []*chat.Record {
	a.th.b.Helper()
	return a.must(journal.Stored, a.write(texts...)).Records
}

// seal and end are the two commits of an end from outside.
func (a *attempt) seal() journal.Committed {
	a.th.b.Helper()
	c := a.th.decision(chat.Entry{Kind: chat.KindRunStop, Run: a.run, Body: &chat.RunStopBody{Stop: chat.Stop{Cause: chat.CauseUser}}})
	c.Runs = []journal.RunChange{{Run: a.run, Sealed: true}}
	return a.th.must(journal.Done, c)
}

func (a *attempt) end() journal.Committed {
	a.th.b.Helper()
	return a.th.must(journal.Done, a.ending())
}

func (a *attempt) ending() journal.Commit {
	c := a.th.decision(chat.Entry{
		Kind: chat.KindRunEnd, Run: a.run, Logged: true, N: 1,
		Body: &chat.RunEndBody{Status: chat.RunComplete, Message: message("answer-"+a.run, chat.Assistant)},
	})
	c.Runs = []journal.RunChange{{Run: a.run, End: true}}
	return c
}

func opening() chat.Entry {
	return chat.NewEntry(chat.KindThread, "", &chat.ThreadBody{Info: chat.Info{Title: "a thread"}})
}

func message(id string, role chat.Role) *chat.Message {
	return &chat.Message{
		ID: id, Role: role, Status: chat.MessageComplete,
		Parts: []*chat.Part{{ID: "p-" + id, Type: chat.PartText, Text: chat.Text("text of " + id)}},
	}
}

func pending(run string) []chat.Entry {
	m := message("question-"+run, chat.User)
	return []chat.Entry{
		chat.NewEntry(chat.KindMessage, "", &chat.MessageBody{Message: m}),
		chat.NewEntry(chat.KindRunPending, run, &chat.RunPendingBody{Run: &chat.Run{
			ID: run, Status: chat.RunPending, Agent: "helper", Message: m.ID, Answer: "answer-" + run, Segments: []string{"seg-" + run},
			Parts: []*chat.Part{{ID: "p1", Type: chat.PartText, Open: true}},
		}}),
	}
}

func delta(run, text string) chat.Entry {
	return chat.NewEntry(chat.KindTextDelta, run, &chat.DeltaBody{Part: "p1", Text: text})
}

// tag draws a write's tag or an epoch.
func tag() uint64 { return rand.Uint64()>>1 + 1 }

func command() (c journal.CommandID) {
	binary.LittleEndian.PutUint64(c.ID[:], rand.Uint64())
	binary.LittleEndian.PutUint64(c.ID[8:], rand.Uint64())
	return c
}

// load reads the whole thread.
func (th *thread) load() journal.Snapshot {
	th.b.Helper()
	return th.loadFrom(journal.Cursor{})
}

func (th *thread) loadFrom(c journal.Cursor) journal.Snapshot {
	th.b.Helper()
	s, err := th.j.Load(th.b.ctx, journal.Load{Key: th.key, From: c})
	if err != nil {
		th.b.Fatalf("load: %v", err)
	}
	return s
}

// state folds the whole thread and checks its chain on the way.
func (th *thread) state() *chat.State {
	th.b.Helper()
	s := th.load()
	th.b.chained(s.Base.Pos, s.Base.Tag, s.Base.At, s.Records)
	st := s.State(nil)
	th.b.equal("position of the state", st.Pos, s.Meta.Pos)
	th.b.equal("tag of the state", st.Tag, s.Meta.Tag)
	th.b.equal("log number of the state", st.Log, s.Meta.Log)
	return st
}

// chained checks that records follow pos and one another: dense, chained, and
// never back in time; log numbers dense over those that have one.
func (b *bench) chained(pos, tag uint64, at int64, records []*chat.Record) {
	b.Helper()
	log := uint64(0)
	for _, r := range records {
		switch {
		case r.Pos != pos+1:
			b.Fatalf("record %d follows %d", r.Pos, pos)
		case r.Prev != tag:
			b.Fatalf("record %d does not name the one before it", r.Pos)
		case r.At < at:
			b.Fatalf("record %d goes back in time", r.Pos)
		case r.Logged != (r.Log != 0) || (log != 0 && r.Log != 0 && r.Log != log+1):
			b.Fatalf("record %d has log number %d after %d", r.Pos, r.Log, log)
		}
		pos, tag, at = r.Pos, r.Tag, r.At
		if r.Log != 0 {
			log = r.Log
		}
	}
}

// json is a state in a form that can be compared.
func (b *bench) json(s *chat.State) string {
	b.Helper()
	raw, err := s.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	return string(raw)
}

func (b *bench) equal(what string, got, want any) {
	b.Helper()
	if !reflect.DeepEqual(got, want) {
		b.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// no fails on an error.
func (b *bench) no(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
