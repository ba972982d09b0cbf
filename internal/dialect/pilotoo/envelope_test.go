package pilotoo

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/room"
)

// Whatever happens to a thread: each record is as many envelopes as chat
// counted, each has its schema's shape (PIL-111, PIL-148), the numbers are
// dense, blocks are closed and each segment has one terminal.
func TestEveryHistoryIsShownByTheRules(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.wander(t, 60)
		c := newClient(t)
		for i, change := range w.changes {
			n := 0
			if w.encoded[i] != nil {
				n = len(w.encoded[i].envelopes)
			}
			if n != change.Record.N {
				t.Fatalf("a %s record is %d envelopes, chat says %d", change.Record.Kind, n, change.Record.N)
			}
		}
		for _, b := range w.envelopes(0) {
			if err := validate(t, "run.event", b); err != nil {
				t.Fatalf("PIL-148 %s: %v", b, err)
			}
			c.envelope(b)
			seen[readEnvelope(t, b).Event.Type]++
		}
		live := map[string]bool{}
		for _, run := range w.state.Runs {
			if run.Status != chat.RunSuspended {
				live[run.Segment()] = true
			}
		}
		for id, s := range c.segments {
			if (s.terminal == "") != live[id] {
				t.Fatalf("PIL-130 segment %s has the terminal %q, live %v", id, s.terminal, live[id])
			}
		}
	})
	for _, event := range []string{
		runStarted, runFinished, runCancelled, runError, textStart, textContent, textEnd, toolStart, toolArgs, toolEnd, toolResult,
		interrupt, runPaused, reasonStart, reasonContent, reasonEnd, todosSnapshot, subagentStarted, subagentEnded,
	} {
		if seen[event] == 0 {
			t.Errorf("PIL-110 %s was never shown", event)
		}
	}
	if len(seen) != 19 {
		t.Errorf("PIL-110 %d types were shown, want 19", len(seen))
	}
}

// A window that joins anywhere ends up with what one has that was there from
// the start (PIL-166, PIL-167), and with what a later history says.
func TestJoinAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.wander(t, 40)
		for _, run := range w.state.Runs {
			w.finish(t, run)
		}
		last := readHistory(t, w.history(len(w.changes)))
		want := newClient(t)
		want.history(last)
		for n := 1; n <= len(w.changes); n++ {
			b := w.history(n)
			if n%8 == 0 || n == len(w.changes) {
				if err := validate(t, "thread.messages.ack", b); err != nil {
					t.Fatalf("PIL-157 %s: %v", b, err)
				}
			}
			c := newClient(t)
			c.history(readHistory(t, b))
			for _, e := range w.envelopes(n) {
				c.envelope(e)
			}
			// A fork from a branch that is shown no more brings that back (PIL-042):
			// a window that has not seen it learns of it from the next history.
			hidden := unseen(w.changes[n-1].After.Tail)
			for id, text := range want.texts {
				if !hidden[id] && c.texts[id] != text && (text != "" || len(c.texts[id]) > 0) {
					t.Fatalf("PIL-167 joined at %d: message %s is %q, want %q", n, id, c.texts[id], text)
				}
			}
			for id, call := range want.calls {
				if !hidden[id] && c.calls[id] != call {
					t.Fatalf("PIL-167 joined at %d: call %s is %q, want %q", n, id, c.calls[id], call)
				}
			}
			if c.todos != want.todos && want.todos != "" {
				t.Fatalf("PIL-122 joined at %d: todos are %s, want %s", n, c.todos, want.todos)
			}
		}
	})
}

// unseen are the ids of messages on branches that are not shown, and of their parts.
func unseen(tail []*chat.Message) map[string]bool {
	shown := chat.View(tail)
	hidden := map[string]bool{}
	for _, m := range tail {
		if slices.Contains(shown, m) {
			continue
		}
		hidden[m.ID] = true
		for _, p := range m.Parts {
			hidden[p.ID] = true
		}
	}
	return hidden
}

// What an envelope looks like, to the byte.
func TestEnvelopeBytes(t *testing.T) {
	w := newWorld(t)
	run := w.open()
	w.text(run, "a1", "Hi \"you\"")
	want := `{"v":1,"threadId":"t1","runId":"` + w.state.Run(run).Segment() + `","sequence":3,"event":{"type":"TEXT_MESSAGE_CONTENT","messageId":"a1","delta":"Hi \"you\""}}`
	if got := w.envelopes(0)[2]; string(got) != want {
		t.Errorf("PIL-135 %s\nwant    %s", got, want)
	}
}

// BenchmarkDelta is the path of every token: one encoding for all windows.
func BenchmarkDelta(b *testing.B) {
	run := &chat.Run{ID: "r", Status: chat.RunActive, Segments: []string{"019b0000-0000-7000-8000-000000000000"}}
	st := &chat.State{Runs: []*chat.Run{run}}
	c := &room.Change{Key: key, Before: st, After: st, Record: &chat.Record{
		Seq: 17, Entry: chat.NewEntry(chat.KindTextDelta, "r", &chat.DeltaBody{Part: "019b0000-0000-7000-8000-000000000001", Text: "a few words of an answer"}),
	}}
	b.ReportAllocs()
	for b.Loop() {
		if e, _ := (Variant{}).Encode(c).(*Encoded); e == nil || !bytes.Contains(e.envelopes[0], []byte("few")) {
			b.Fatal("nothing was encoded")
		}
	}
}
