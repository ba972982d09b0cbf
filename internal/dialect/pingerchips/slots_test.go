package pingerchips_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect/pingerchips"
	"github.com/parlance-gateway/parlance/internal/room"
)

// What each slot is, entry by entry, of one run (PIN-017 to PIN-020).
func TestSlotsOfARun(t *testing.T) {
	s := serve(t, nil)
	w := s.join("t1", "ann")
	w.send("m1", "some words /ask")
	list := w.after(0, "run:suspend", event("run:suspend"))
	w.after(len(list), "its change", event("change"))
	late := s.join("t1", "bob")
	var snap struct {
		State map[string]any `json:"state"`
		LogID uint64         `json:"log_id"`
	}
	unmarshal(t, late.all()[1].payload, &snap)
	if snap.State["stream:r-m1"] != "some words" {
		t.Errorf("PIN-018 PIN-074 the live stream is %v", snap.State["stream:r-m1"])
	}
	runs, _ := snap.State["runs"].(map[string]any)
	if r, _ := runs["r-m1"].(map[string]any); r["status"] != "suspended" {
		t.Errorf("PIN-019 PIN-072 the run is %v", runs)
	}
	w.ok("cancel", `{"runId":"r-m1"}`)
	w.over(0, "r-m1")
	c := newClient(t, "whole")
	began := ""
	for _, f := range w.all() {
		c.frame(f)
		if info := c.slots["run:r-m1"]; strings.Contains(info, `"status":"pending"`) {
			began = info // PIN-213
		}
	}
	if !strings.Contains(began, `"startedAt":1`) || strings.Contains(c.slots["run:r-m1"], `"startedAt":0`) {
		t.Errorf("PIN-213 a pending run is %s, later %s", began, c.slots["run:r-m1"])
	}
	if n := len(messagesOf(t, c)); n != 2 || c.log < snap.LogID || uint64(len(c.logs)) != c.log {
		t.Errorf("PIN-017 PIN-020 %d messages after %d entries, log_id %d", n, len(c.logs), c.log)
	}
}

// PIN-093 PIN-115: what a batch, a snapshot and a view show of the messages is a
// window of the newest 50.
func TestTheWindow(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	w := s.join("t1", "ann")
	for i := range 30 {
		w.talk(fmt.Sprintf("m%02d", i), "hi")
	}
	c := newClient(t, "PIN-093")
	c.frames(w.all())
	said := messagesOf(t, c)
	if len(said) != 50 || said[0].MessageID != "m05" {
		t.Errorf("PIN-093 the slot has %d messages from %s", len(said), said[0].MessageID)
	}
	n := w.count()
	w.ok("edit", `{"messageId":"m29","newMessageId":"m29b","runId":"r-m29b","text":"x"}`)
	w.over(n, "r-m29b")
	n = w.count()
	w.ok("branch:select", `{"messageId":"m29","selectedId":"m29"}`)
	list := w.after(n, "view:update", event("view:update"))
	if u := read(t, list[len(list)-1]); len(u.Messages) != 50 || u.Messages[0].MessageID != "m05" || u.Messages[48].MessageID != "m29" {
		t.Errorf("PIN-115 the view has %s", idsOf(u.Messages))
	}
}

// PIN-144: a run that ends before it began has no answer, and yet all four slots.
func TestPendingRunEnds(t *testing.T) {
	run := &chat.Run{ID: "r", Status: chat.RunPending, Message: "m", Answer: "a", Segments: []string{"s"}, Origin: chat.Origin{By: chat.Subject{ID: "ann"}}, Started: 5, Log: 1}
	m := &chat.Message{ID: "m", Role: chat.User, Run: "r", By: chat.Subject{ID: "ann"}, Status: chat.MessageComplete, Log: 1}
	before := &chat.State{Exists: true, Log: 1, Tail: []*chat.Message{m}, Head: "m", Runs: []*chat.Run{run}}
	end := run.End(chat.End{Status: chat.RunCancelled, Cause: chat.CauseUser, Segment: "s2"})
	rec := &chat.Record{Pos: 2, Log: 2, At: 9, Entry: end}
	signal, event, payload := pingerchips.Entry(&room.Change{Record: rec, Before: before, After: before.Apply(rec)})
	if string(signal) != `{"runId":"r","reason":"cancelled","endedAt":9}` || event != "batch" {
		t.Errorf("PIN-144 it ends with %s, %s", signal, event)
	}
	if err := pingerchips.Validate("batch", payload); err != nil {
		t.Error(err)
	}
	var p struct {
		Changes []changed `json:"changes"`
	}
	unmarshal(t, payload, &p)
	if keysOf(p.Changes) != "messages run:r stream:r last_message_id" {
		t.Errorf("PIN-144 PIN-089 it changes %s", keysOf(p.Changes))
	}
	for _, i := range []int{0, 3} {
		if canonical(p.Changes[i].Value) != canonical(p.Changes[i].Previous) {
			t.Errorf("PIN-144 %s changes", p.Changes[i].Key)
		}
	}
	if string(p.Changes[2].Value) != "null" || string(p.Changes[2].Previous) != "null" {
		t.Errorf("PIN-144 PIN-180 the stream is %s, was %s", p.Changes[2].Value, p.Changes[2].Previous)
	}
	if !strings.Contains(string(p.Changes[1].Value), `"status":"cancelled"`) || !strings.Contains(string(p.Changes[1].Value), `"endedAt":9`) {
		t.Errorf("PIN-144 the run is %s", p.Changes[1].Value)
	}
}

// An entry is encoded once for all, and a large one is not kept.
func TestEntriesAreShared(t *testing.T) {
	big := strings.Repeat("x", 5000)
	run := &chat.Run{ID: "r", Status: chat.RunActive, Segments: []string{"s"}, Parts: []*chat.Part{{ID: "p", Type: chat.PartText, Text: chat.Text(big)}}}
	before := &chat.State{Exists: true, Log: 3, Runs: []*chat.Run{run}}
	e := chat.NewEntry(chat.KindTextDelta, "r", &chat.DeltaBody{Part: "p", Text: "more"})
	e.Logged = true
	rec := &chat.Record{Pos: 2, Log: 4, Entry: e}
	enc := pingerchips.Variant{}.Encode(&room.Change{Record: rec, Before: before, After: before.Apply(rec)}).(*pingerchips.Encoded)
	one, two := enc.Frame("t"), enc.Frame("t")
	if one != two {
		t.Error("PIN-022 two members of a thread are sent two encodings")
	}
	if other := enc.Frame("t2"); other == one || other.Topic() != "t2" {
		t.Error("a frame of another topic")
	}
	if one.Size() < len(big) {
		t.Errorf("PIN-088 a change has %d bytes", one.Size())
	}
}
