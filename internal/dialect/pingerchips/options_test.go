package pingerchips_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect/pingerchips"
	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/room"
)

// trim has the journal forget the records of a thread, as it does of an idle one:
// its state and the pages of older messages are all that is left.
func trim(t *testing.T, j journal.Journal, thread string) {
	t.Helper()
	key := chat.Key{Realm: "default", Thread: thread}
	snap, err := j.Load(t.Context(), journal.Load{Key: key})
	if err != nil || !snap.Exists {
		t.Fatal(err)
	}
	st := snap.State(nil)
	base, pages := st.Compact()
	if _, err := j.Trim(t.Context(), journal.Trim{Key: key, Epoch: snap.Meta.Epoch, Base: base, FirstPage: st.Chunks, Pages: pages}); err != nil {
		t.Fatal(err)
	}
}

// messagesIn is what an entry makes of the slot messages, and what it was.
func messagesIn(t *testing.T, f frame) (value, previous []string) {
	t.Helper()
	var p struct {
		Changes []changed `json:"changes"`
	}
	unmarshal(t, f.payload, &p)
	for _, c := range p.Changes {
		if c.Key == "messages" {
			var is, was []said
			unmarshal(t, c.Value, &is)
			unmarshal(t, c.Previous, &was)
			return strings.Fields(idsOf(is)), strings.Fields(idsOf(was))
		}
	}
	return nil, nil
}

// PIN-093: where it is asked for, the slot shows all messages, also those that
// the journal keeps on pages; the snapshot has the newest 50 all the same.
func TestAllMessages(t *testing.T) {
	t.Parallel()
	j := open(t)
	full := func(c *edge.Site) { c.Rules.AllMessages = true }
	w := on(t, j, full).join("t1", "ann")
	for i := range 90 {
		w.talk(fmt.Sprintf("m%02d", i), "hi")
	}
	var all []string
	for _, n := range w.ok("tree:get", `{"limit":1000}`).Nodes {
		all = append(all, n.MessageID)
	}
	trim(t, j, "t1")
	two := on(t, j, full) // which has only the newest in memory
	v := two.join("t1", "bob")
	c := newClient(t, "PIN-071")
	c.frames(v.all())
	if n := len(messagesOf(t, c)); n != 50 {
		t.Errorf("PIN-071 the snapshot has %d messages", n)
	}
	log := c.log
	n := v.count()
	first := v.talk("last", "hi")
	all = append(all, "last")
	batches := slices.DeleteFunc(slices.Clone(first), func(f frame) bool { return f.event != "batch" })
	if is, was := messagesIn(t, batches[0]); !slices.Equal(is, all) || !slices.Equal(was, all[:len(all)-1]) {
		t.Errorf("PIN-093 the slot has %d messages, had %d; there are %d", len(is), len(was), len(all))
	}
	for _, f := range v.all()[n:] {
		if f.event == "batch" {
			if err := pingerchips.Validate("batch", f.payload); err != nil {
				t.Error(err)
			}
		}
	}
	// A replay says the same, from the ring and from the journal.
	for name, s := range map[string]*site{"the same edge": two, "another edge": on(t, j, full)} {
		list := s.join("t1", "carol", after(log)).all()
		at := slices.IndexFunc(list, func(f frame) bool { return f.event == "batch" })
		if canonical(list[at].payload) != canonical(batches[0].payload) {
			t.Errorf("PIN-093 PIN-060 %s replays another entry: %.300s", name, list[at].payload)
		}
	}
	// Who does not ask for it has the window, on the same thread at the same time.
	x := on(t, j, nil).join("t1", "dave")
	list := x.talk("more", "hi")
	list = slices.DeleteFunc(slices.Clone(list), func(f frame) bool { return f.event != "batch" })
	if is, _ := messagesIn(t, list[0]); len(is) != 50 {
		t.Errorf("PIN-093 without the option the slot has %d messages", len(is))
	}
}

// PIN-093: a slot that shows all is bounded all the same: the newest that fit.
func TestAllMessagesAreBounded(t *testing.T) {
	t.Parallel()
	j := open(t)
	s := on(t, j, func(c *edge.Site) { c.Rules.AllMessages = true })
	w := s.join("t1", "ann")
	for i := range 60 {
		w.talk(fmt.Sprintf("m%02d", i), strings.Repeat("x", 15_000)) // and as much in each answer
	}
	trim(t, j, "t1")
	v := on(t, j, func(c *edge.Site) { c.Rules.AllMessages = true }).join("t1", "bob")
	for _, w := range []*window{w, v} {
		from := w.count()
		list := w.talk(fmt.Sprint("n", from), "hi")
		for _, f := range list {
			if f.event != "batch" {
				continue
			}
			if is, _ := messagesIn(t, f); is != nil && (len(is) < 50 || len(f.payload) > 3<<20) {
				t.Errorf("PIN-093 an entry has %d messages in %d bytes", len(is), len(f.payload))
			}
		}
	}
}

// extSlots folds the extensions as a client does that asked for them: those of a
// run go with its stream.
func extSlots(t *testing.T, list []frame) map[string]string {
	t.Helper()
	slots := map[string]string{}
	for _, f := range list {
		switch f.event {
		case "snapshot":
			var p struct {
				State map[string]jsontext.Value `json:"state"`
			}
			unmarshal(t, f.payload, &p)
			for k, v := range p.State {
				if strings.HasPrefix(k, "ext:") {
					slots[k] = canonical(v)
				}
			}
		case "ext:change":
			var p struct {
				Key   string         `json:"key"`
				Value jsontext.Value `json:"value"`
				LogID *uint64        `json:"log_id"`
			}
			unmarshal(t, f.payload, &p)
			if !strings.HasPrefix(p.Key, "ext:") || p.LogID != nil {
				t.Errorf("PIN-251 %s", f.payload)
			}
			slots[p.Key] = canonical(p.Value)
		case "run:end":
			run := read(t, f).RunID
			for k := range slots {
				if strings.HasSuffix(k, ":"+run) {
					delete(slots, k)
				}
			}
		}
	}
	return slots
}

// PIN-251: what the protocol has no form for is shown to who asks for it, beside
// the log and without touching it; to others nothing is.
func TestExtensions(t *testing.T) {
	j := open(t)
	s := on(t, j, func(c *edge.Site) { c.Rules.Extensions = true })
	plain := on(t, j, nil)
	w, p := s.join("t1", "ann"), plain.join("t1", "pat")
	w.send("m1", "words /think /tool /plan then /ask")
	list := w.after(0, "run:suspend", event("run:suspend"))
	w.after(len(list), "its change", event("change"))
	slots := extSlots(t, w.all())
	var thought string
	unmarshal(t, []byte(slots["ext:reasoning:r-m1"]), &thought)
	var tools []struct {
		ToolCallID, ToolName, Args string
		Result                     *string
	}
	if err := json.Unmarshal([]byte(slots["ext:tools:r-m1"]), &tools, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatalf("PIN-251 the calls are %s: %v", slots["ext:tools:r-m1"], err)
	}
	if thought == "" || len(tools) != 2 || tools[0].Result == nil || tools[1].Result != nil || tools[1].ToolName != "ring_bell" || !strings.Contains(tools[1].Args, "times") {
		t.Errorf("PIN-251 PIN-250 the slots are %v", slots)
	}
	if !strings.Contains(slots["ext:todos"], `"status"`) {
		t.Errorf("PIN-251 the todos are %s", slots["ext:todos"])
	}
	// Who comes in the middle has the same.
	v := s.join("t1", "eve")
	if late := extSlots(t, v.all()); fmt.Sprint(late) != fmt.Sprint(slots) {
		t.Errorf("PIN-078 PIN-251 who comes now has\n%v\nwant\n%v", late, slots)
	}
	q := read(t, list[len(list)-1])
	w.ok("tool_approval", `{"runId":"r-m1","toolCallId":`+quote(q.ToolCallID)+`,"approved":true}`)
	w.over(0, "r-m1")
	for k := range extSlots(t, w.all()) {
		if k != "ext:todos" {
			t.Errorf("PIN-251 after the run there is %s", k)
		}
	}
	// The log is the same as anybody's: the fold of one who ignores what he does not know.
	rest := slices.DeleteFunc(w.all(), func(f frame) bool { return f.event == "ext:change" })
	for i, f := range rest {
		if f.event == "snapshot" {
			var doc map[string]jsontext.Value
			unmarshal(t, f.payload, &doc)
			if strings.Contains(string(doc["state"]), "ext:") {
				t.Errorf("PIN-251 a thread without anything has %s", rest[i].payload)
			}
		}
	}
	one, two := newClient(t, "PIN-251 with"), newClient(t, "PIN-251 without")
	one.frames(rest)
	p.over(0, "r-m1")
	two.frames(p.all()) // fails at an event that it does not know
	if one.folded() != two.folded() || one.log != two.log {
		t.Errorf("PIN-251 PIN-023 with extensions there is\n%s\nwithout\n%s", one.folded(), two.folded())
	}
	w.talk("m2", "/sub")
	n := slices.IndexFunc(w.all(), func(f frame) bool {
		return f.event == "ext:change" && strings.Contains(string(f.payload), `"key":"ext:subagents:r-m2"`)
	})
	if n < 0 {
		t.Error("PIN-251 no subagent was shown")
	}
}

// PIN-251: a long text is told ever more seldom, so that it costs no more than a
// few times its length; and no slot grows without end.
func TestExtensionsAreBounded(t *testing.T) {
	told, size := 0, 0
	for n := 1; n <= 1<<20; n++ {
		if pingerchips.Worth(n-1, n) {
			told += min(n, pingerchips.MaxExtText)
		}
		size = n
	}
	if told > 32*size {
		t.Errorf("PIN-251 %d bytes are told of a text of %d", told, size)
	}
	for n := 1; n < 32; n++ {
		if !pingerchips.Worth(n-1, n) {
			t.Errorf("PIN-251 the first words come late: %d", n)
		}
	}
	if pingerchips.Worth(100_000, 100_001) || !pingerchips.Worth(100_000, 200_000) {
		t.Error("PIN-251 a long text is told at the wrong times")
	}
	grown := &chat.Run{ID: "r", Status: chat.RunActive, Segments: []string{"s"}, Parts: []*chat.Part{{ID: "p", Type: chat.PartReasoning, Text: chat.Text(strings.Repeat("x", 100_001))}}}
	st := &chat.State{Exists: true, Runs: []*chat.Run{grown}}
	tells := func(k chat.Kind, b chat.Body) bool {
		rec := &chat.Record{Entry: chat.NewEntry(k, "r", b)}
		return pingerchips.Variant{Extensions: true}.Encode(&room.Change{Record: rec, Before: st, After: st}) != nil
	}
	if tells(chat.KindReasoningDelta, &chat.DeltaBody{Part: "p", Text: "x"}) || !tells(chat.KindReasoningEnd, &chat.BlockBody{Part: "p"}) {
		t.Error("PIN-251 a long reasoning is told in the middle, or not at its end")
	}
	long := chat.Text(strings.Repeat("é", pingerchips.MaxExtText))
	run := &chat.Run{ID: "r", Status: chat.RunActive, Segments: []string{"s"}, Parts: []*chat.Part{{ID: "p", Type: chat.PartReasoning, Text: long}}}
	for i := range 200 {
		run.Parts = append(run.Parts, &chat.Part{ID: fmt.Sprint("c", i), Type: chat.PartTool, Name: "n", Text: long[:1000], Result: "é", Done: true})
	}
	b := pingerchips.Snapshot(&chat.State{Exists: true, Runs: []*chat.Run{run}}, pingerchips.Variant{Extensions: true})
	if err := pingerchips.Validate("snapshot", b); err != nil {
		t.Error(err)
	}
	var p struct {
		State struct {
			Reasoning string           `json:"ext:reasoning:r"`
			Tools     []jsontext.Value `json:"ext:tools:r"`
		} `json:"state"`
	}
	unmarshal(t, b, &p)
	if n := len(p.State.Reasoning); n > pingerchips.MaxExtText || n < pingerchips.MaxExtText-4 || len(p.State.Tools) != pingerchips.MaxExtItems {
		t.Errorf("PIN-251 a reasoning of %d bytes, %d calls", n, len(p.State.Tools))
	}
}
