package conductor

import (
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// PIN-250: streamed text takes log numbers at the pace of 40 ms, and for very
// long answers so seldom that changes with the text before and after stay under
// 1 MB/s.
func TestLogPaceOfLongAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		delta int
		least int // changes in ten seconds
	}{{"a short answer", 20, 190}, {"a long answer", 2_000, 10}, {"a very long answer", 20_000, 1}} {
		o := &Owner{Run: "r", Pace: 40}
		o.Start(true)
		o.Opened(true)
		text, logged, bytes := 0, 0, 0
		count := func(d Do) {
			for d.Append != nil {
				for _, e := range d.Append.Entries {
					text += len(e.Body.(*chat.DeltaBody).Text)
					if e.Logged {
						logged++
						bytes += 2 * text
					}
				}
				d = o.Appended(journal.Appended{Result: journal.Stored}, 1)
			}
		}
		for now := int64(1_000_000); now < 1_010_000; now += 10 {
			e := chat.NewEntry(chat.KindTextDelta, "r", &chat.DeltaBody{Part: "p", Text: strings.Repeat("x", c.delta)})
			count(o.Entries([]chat.Entry{e}, now, 1))
			count(o.Tick(now, 1))
		}
		if logged < c.least || logged > 251 || bytes > 12<<20 {
			t.Errorf("%s: %d changes with %d bytes in ten seconds", c.name, logged, bytes)
		}
	}
}

// PIN-195 PIL-142: text that nothing follows takes a log number on an empty
// delta; while text goes on none is written for that, and text that joins one which
// still waits for the journal is shown.
func TestNumbersOfTextThatNothingFollows(t *testing.T) {
	o := &Owner{Run: "r"}
	o.Start(true)
	o.Opened(true)
	now, text, written := int64(1_000_000), "", 0
	say := func(s string) Do {
		return o.Entries([]chat.Entry{chat.NewEntry(chat.KindTextDelta, "r", &chat.DeltaBody{Part: "p", Text: s})}, now, 1)
	}
	stored := func(d Do) {
		for d.Append != nil {
			for _, e := range d.Append.Entries {
				if e.N > 0 {
					text += e.Body.(*chat.DeltaBody).Text
				}
				written++
			}
			d = o.Appended(journal.Appended{Result: journal.Stored}, 1)
		}
	}
	for range 20 {
		stored(say("x"))
		if now += 20; o.Wake() != 0 && now >= o.Wake() {
			stored(o.Tick(now, 1))
		}
	}
	if written != 20 {
		t.Errorf("%d records of 20 deltas", written)
	}
	stored(say("y"))
	stored(say("z")) // unlogged
	flight := say("1")
	now += 1_000
	o.Tick(now, 1) // its number waits behind the append in flight
	say("2")
	stored(flight)
	if want := strings.Repeat("x", 20) + "yz12"; text != want {
		t.Errorf("shown is %q, want %q", text, want)
	}
}

// PIN-206: an attempt that is lost with text in flight was heard in vain; one that
// was about to number text that is stored was not, so nobody says that again.
func TestLostNumberIsNoLostText(t *testing.T) {
	lost := func(vain func(o *Owner, now int64) Do) bool {
		o := &Owner{Run: "r", Pace: 40}
		o.Start(true)
		o.Opened(true)
		d := o.Entries([]chat.Entry{chat.NewEntry(chat.KindTextDelta, "r", &chat.DeltaBody{Part: "p", Text: "one"})}, 0, 1)
		for d.Append != nil {
			d = o.Appended(journal.Appended{Result: journal.Stored}, 1)
		}
		if d = vain(o, 1_000); d.Append == nil {
			t.Fatal("nothing is in flight")
		}
		o.Appended(journal.Appended{Result: journal.Fenced}, 1)
		return o.unsaved
	}
	if lost(func(o *Owner, now int64) Do { return o.Tick(now, 1) }) {
		t.Error("a number counts as said")
	}
	if !lost(func(o *Owner, now int64) Do {
		o.Entries([]chat.Entry{chat.NewEntry(chat.KindTextDelta, "r", &chat.DeltaBody{Part: "p", Text: " two"})}, now, 1)
		return o.Tick(now+40, 1)
	}) {
		t.Error("text in flight does not count as said")
	}
}
