package pilotoo

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/room"
)

var key = chat.Key{Realm: "default", Thread: "t1"}

// world is a thread with its journal, and every change of it so far.
type world struct {
	t       failer
	ledger  *journal.Ledger
	state   *chat.State
	changes []room.Change
	encoded []*Encoded // of each change, nil for one that is not shown
	now     int64
	minted  int
}

func newWorld(t failer) *world {
	w := &world{t: t, ledger: journal.NewLedger(), state: &chat.State{Schema: chat.SchemaVersion}, now: 1_767_323_045_678}
	entries, err := w.state.Create(chat.Info{Owner: ann, Title: "Trip"})
	if err != nil {
		t.Fatal(err)
	}
	w.commit(entries)
	return w
}

var (
	ann = chat.Subject{Issuer: "test", ID: "ann"}
	bob = chat.Subject{Issuer: "test", ID: "bob"}
)

func (w *world) mint(prefix string) string {
	w.minted++
	return prefix + strconv.Itoa(w.minted)
}

// commit writes entries as a store does, numbers and all.
func (w *world) commit(entries []chat.Entry) {
	w.now += 7
	w.minted++
	c := journal.Commit{
		Key: key, Epoch: w.ledger.Meta.Epoch, Rev: w.ledger.Meta.Rev, NewEpoch: 1,
		Command: journal.CommandID{ID: [16]byte([]byte(fmt.Sprintf("%016d", w.minted)))}, Nodes: chat.NodesOf(entries), Tag: uint64(w.minted) << 20, Entries: entries,
	}
	for _, e := range entries {
		switch e.Kind {
		case chat.KindRunPending:
			c.Runs = append(c.Runs, journal.RunChange{Run: e.Run, New: true, NewOwner: true})
		case chat.KindRunEnd:
			c.Runs = append(c.Runs, journal.RunChange{Run: e.Run, End: true})
		}
	}
	done := w.ledger.Commit(c, w.now)
	if done.Result != journal.Done {
		w.t.Fatalf("the commit of %d entries was answered %v", len(entries), done.Result)
	}
	for _, r := range done.Records {
		change := room.Change{Key: key, Epoch: 1, Record: r, Before: w.state, After: w.state.Apply(r)}
		w.state = change.After
		w.changes = append(w.changes, change)
		e, _ := Variant{}.Encode(&change).(*Encoded)
		w.encoded = append(w.encoded, e)
	}
}

func (w *world) write(k chat.Kind, run string, b chat.Body) {
	w.commit([]chat.Entry{chat.NewEntry(k, run, b)})
}

func (w *world) lookup(id string) *chat.Node {
	if n, ok := w.ledger.Nodes[id]; ok {
		return &n
	}
	return nil
}

// say starts a run for a user's message and returns its id.
func (w *world) say(c chat.Start) string {
	if c.Message == nil {
		c.Message = &chat.Message{ID: w.mint("m")}
	}
	m := *c.Message
	m.Created, m.By = w.now, ann
	if len(m.Parts) == 0 {
		m.Parts = []*chat.Part{{ID: m.ID, Type: chat.PartText, Text: chat.Text("question " + m.ID)}}
	}
	c.Message = &m
	c.Run, c.Answer, c.Segment, c.WithdrawSegment = w.mint("run"), w.mint("a"), w.mint("s"), w.mint("s")
	c.Upstream = w.mint("u")
	if c.Origin.By.Zero() {
		c.Origin.By = ann
	}
	entries, err := w.state.Start(c, w.lookup)
	if err != nil {
		w.t.Fatalf("start: %v", err)
	}
	w.commit(entries)
	return c.Run
}

// open starts a run and lets it begin.
func (w *world) open() string {
	run := w.say(chat.Start{})
	w.write(chat.KindRunActive, run, &chat.RunActiveBody{})
	return run
}

func (w *world) text(run, part string, deltas ...string) {
	w.write(chat.KindTextStart, run, &chat.BlockBody{Part: part})
	for _, d := range deltas {
		w.write(chat.KindTextDelta, run, &chat.DeltaBody{Part: part, Text: d})
	}
	w.write(chat.KindTextEnd, run, &chat.BlockBody{Part: part})
}

// call makes a tool's call, without its result.
func (w *world) call(run, call, name, args, parent string) {
	w.write(chat.KindToolStart, run, &chat.ToolStartBody{Call: call, Name: name, Parent: parent})
	w.write(chat.KindToolArgs, run, &chat.DeltaBody{Part: call, Text: args})
	w.write(chat.KindToolEnd, run, &chat.ToolEndBody{Call: call})
}

// pause ends a segment with questions.
func (w *world) pause(run string, questions ...*chat.Interrupt) {
	var entries []chat.Entry
	for _, i := range questions {
		i.Status, i.Segment = chat.InterruptOpen, len(w.state.Run(run).Segments)-1
		entries = append(entries, chat.NewEntry(chat.KindInterrupt, run, &chat.InterruptBody{Interrupt: i}))
	}
	w.commit(append(entries, chat.NewEntry(chat.KindRunSuspended, run, &chat.RunSuspendedBody{})))
}

func (w *world) answer(interrupt, value string) {
	entries, _, _, err := w.state.Answer(chat.Answer{
		Interrupt: interrupt, Value: jsontext.Value(value), By: bob, Status: chat.InterruptAnswered, Segment: w.mint("s"),
	})
	if err != nil {
		w.t.Fatalf("answer: %v", err)
	}
	w.commit(entries)
}

// stop ends a run from outside, sealing it first where it is at work.
func (w *world) stop(run string, cause chat.Cause) {
	entries, ended, err := w.state.Stop(run, chat.Stop{Cause: cause, By: bob}, w.mint("s"))
	if err != nil {
		w.t.Fatalf("stop: %v", err)
	}
	w.commit(entries)
	if !ended {
		w.commit([]chat.Entry{w.state.Run(run).EndSealed(w.now)})
	}
}

func (w *world) end(run string, e chat.End) {
	e.Segment = w.mint("s")
	w.commit([]chat.Entry{w.state.Run(run).End(e)})
}

// envelopes are all that was shown after the first from changes.
func (w *world) envelopes(from int) (list [][]byte) {
	for _, e := range w.encoded[from:] {
		if e != nil {
			list = append(list, e.envelopes...)
		}
	}
	return list
}

// history is the answer to thread:messages after the first n changes.
func (w *world) history(n int) []byte {
	st := w.changes[n-1].After
	h := &history{state: st, messages: chat.View(st.Tail), limit: DefaultHistory}
	for i := range n {
		run := st.Run(w.changes[i].Record.Run)
		if run != nil && run.Status == chat.RunActive && w.changes[i].Record.Pos >= run.SegmentPos && w.encoded[i] != nil {
			h.live = append(h.live, w.encoded[i])
		}
	}
	return h.append(nil)
}

// wander lets random but valid things happen to the thread.
func (w *world) wander(t *rapid.T, steps int) {
	for range steps {
		w.step(t)
	}
}

func (w *world) step(t *rapid.T) {
	if len(w.state.Runs) == 0 || (len(w.state.Runs) < 3 && rapid.IntRange(0, 19).Draw(t, "start") == 0) {
		w.begin(t)
		return
	}
	run := rapid.SampledFrom(w.state.Runs).Draw(t, "run")
	switch run.Status {
	case chat.RunPending:
		if rapid.IntRange(0, 9).Draw(t, "early") == 0 {
			w.finish(t, run)
			return
		}
		w.write(chat.KindRunActive, run.ID, &chat.RunActiveBody{})
	case chat.RunSuspended:
		if rapid.IntRange(0, 3).Draw(t, "withdraw") == 0 {
			w.stop(run.ID, rapid.SampledFrom(causes).Draw(t, "cause"))
			return
		}
		w.answer(run.Open().ID, `true`)
	default:
		w.work(t, run)
	}
}

var causes = []chat.Cause{chat.CauseUser, chat.CauseTimeout, chat.CauseEdgeLost, chat.CauseLogLost, chat.CauseShutdown, chat.CauseDeleted, chat.CauseAgent}

func (w *world) begin(t *rapid.T) {
	var c chat.Start
	var users []string
	for _, m := range w.state.Tail {
		if m.Role == chat.User {
			users = append(users, m.ID)
		}
	}
	if len(users) > 0 && len(w.state.Runs) == 0 && rapid.IntRange(0, 3).Draw(t, "fork") == 0 {
		c.Fork = rapid.SampledFrom(users).Draw(t, "point")
	}
	w.say(c)
}

// finish ends a run in any way.
func (w *world) finish(t *rapid.T, run *chat.Run) {
	switch rapid.IntRange(0, 3).Draw(t, "end") {
	case 0:
		w.stop(run.ID, rapid.SampledFrom(causes).Draw(t, "cause"))
	case 1:
		w.end(run.ID, chat.End{Status: chat.RunError, Code: "MODEL_GONE", Text: "the model went away"})
	case 2:
		w.end(run.ID, chat.End{Status: chat.RunCancelled, Cause: chat.CauseAgent})
	default:
		w.end(run.ID, chat.End{Status: chat.RunComplete})
	}
}
