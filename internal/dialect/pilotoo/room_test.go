package pilotoo_test

import (
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/edge"
)

// transcript folds a history and what followed it into the text of each message.
func transcript(h result, list []envelope) map[string]string {
	texts := map[string]string{}
	for _, m := range h.Messages {
		texts[m.ID] = m.Content
	}
	var all []envelope
	if h.Replay != nil {
		for _, v := range h.Replay.Envelopes {
			all = append(all, envelopeOf(v))
		}
	}
	for _, e := range append(all, list...) {
		switch e.Event.Type {
		case "RUN_STARTED":
			if m := e.Event.Message; m != nil {
				texts[m.ID] = m.Content
			}
		case "TEXT_MESSAGE_START":
			texts[e.Event.MessageID] = ""
		case "TEXT_MESSAGE_CONTENT":
			texts[e.Event.MessageID] += e.Event.Delta
		}
	}
	return texts
}

// Windows that join in the middle of an answer see what one sees that was there
// from the start: nothing missed, nothing twice.
func TestJoinInTheMiddle(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	first := s.open(t, "ann")
	start := first.history(thread)
	run := first.start(thread, "m1", strings.Repeat("many words to say ", 40)+"/think /plan /tool done")
	var late []*window
	var shown []result
	for range 12 {
		w := s.open(t, "ann")
		late, shown = append(late, w), append(shown, w.history(thread))
	}
	seen := first.until("the end", of(run, "RUN_FINISHED"))
	want := transcript(start, envelopesOf(seen, ""))
	inFlight := 0
	for i, w := range late {
		h := shown[i]
		list := w.all()
		if h.Replay == nil || len(envelopesOf(list, run)) == 0 {
			if h.Replay == nil {
				continue // the run was over
			}
		}
		inFlight++
		list = w.until("the end", of(run, "RUN_FINISHED"))
		if h.Replay.Truncated {
			t.Errorf("PIL-165 window %d: a short run's replay is cut", i)
		}
		if ids(h.Messages) != "u:m1" {
			t.Errorf("PIL-176 window %d: the messages are %s", i, ids(h.Messages))
		}
		n := 0
		for _, v := range h.Replay.Envelopes {
			if e := envelopeOf(v); e.Sequence != n+1 || e.RunID != run {
				t.Fatalf("PIL-166 window %d: %s after number %d", i, v, n)
			}
			n++
		}
		acked := false
		for _, p := range list {
			acked = acked || p.kind == "ack"
			if isEvent("run:event")(p) && !acked {
				t.Fatalf("PIL-168 window %d: %s before its history", i, p.data)
			}
		}
		for _, e := range envelopesOf(list, run) {
			if e.Sequence != n+1 {
				t.Fatalf("PIL-141 PIL-167 window %d: %s after number %d", i, e.raw, n)
			}
			n++
		}
		got := transcript(h, envelopesOf(list, ""))
		for id, text := range want {
			if got[id] != text {
				t.Errorf("PIL-142 PIL-167 window %d: message %s is %q, want %q", i, id, got[id], text)
			}
		}
	}
	if inFlight == 0 {
		t.Fatal("no window came in time")
	}
	end := first.history(thread)
	for id, text := range transcript(end, nil) {
		if want[id] != text {
			t.Errorf("PIL-160 message %s is %q in the history, was %q live", id, text, want[id])
		}
	}
}

func TestSecondHistory(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w, silent := s.open(t, "ann"), s.open(t, "ann")
	for range 3 {
		w.history(thread)
	}
	run := w.start(thread, "m1", "one two three")
	h := w.history(thread)
	list := w.until("the end", of(run, "RUN_FINISHED"))
	n := 0
	for _, e := range envelopesOf(list, run) {
		// What a second history showed is not sent again.
		if e.Sequence <= n {
			t.Fatalf("PIL-175 %s came twice", e.raw)
		}
		if e.Sequence != n+1 && (h.Replay == nil || e.Sequence != len(h.Replay.Envelopes)+1) {
			t.Fatalf("PIL-175 PIL-141 %s after number %d", e.raw, n)
		}
		n = e.Sequence
	}
	for _, p := range silent.all() {
		if isEvent("run:event")(p) {
			t.Errorf("PIL-146 a window that joined nothing was shown %s", p.data)
		}
	}
}

// A run does not need the window that began it.
func TestRunOutlivesItsWindow(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w, other := s.open(t, "ann"), s.open(t, "ann")
	other.history(thread)
	run := w.start(thread, "m1", strings.Repeat("word ", 50))
	w.close()
	other.until("PIL-149 the end", of(run, "RUN_FINISHED"))
	back := s.open(t, "ann") // PIL-015
	if h := back.history(thread); len(h.Messages) != 2 || len(h.Messages[1].Content) < 200 {
		t.Errorf("PIL-149 %s", h.raw)
	}
}

// PIL-048, PIL-176: when a run is shown to begin, its question is in the
// history.
func TestQuestionIsKeptFirst(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w, other := s.open(t, "ann"), s.open(t, "ann")
	run := w.start(thread, "m1", "/slow")
	w.until("RUN_STARTED", of(run, "RUN_STARTED"))
	h := other.history(thread)
	if ids(h.Messages) != "u:m1" || h.Replay == nil {
		t.Errorf("PIL-048 PIL-176 %s", h.raw)
	}
	first := envelopeOf(h.Replay.Envelopes[0])
	if first.Event.Message == nil || first.Event.Message.ID != "m1" {
		t.Errorf("PIL-176 %s", first.raw)
	}
	if len(run) != 36 || strings.Count(run, "-") != 4 {
		t.Errorf("PIL-037 the run's id is %s", run)
	}
	w.call("run:cancel", `{"runId":`+quote(run)+`}`)
}

// Runs of another dialect are shown as any other, and so is what happens to
// them there.
func TestRunsOfOtherDialects(t *testing.T) {
	s := serve(t, nil)
	desk, ann := s.hub.Desk(), person("ann")
	thread := s.thread(t, "ann")
	w := s.open(t, "ann")
	w.history(thread)
	say := func(id, text string) dialect.Started {
		m := &chat.Message{ID: id, Role: chat.User, Parts: []*chat.Part{{ID: id, Type: chat.PartText, Text: chat.Text(text)}}}
		r, err := desk.Start(t.Context(), ann, dialect.Start{Thread: thread, Dialect: "other", Message: m})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := say("o1", "one two")
	list := envelopesOf(w.until("the end", of(r.Segment, "RUN_FINISHED")), r.Segment)
	if list[0].Event.Type != "RUN_STARTED" || list[0].Sequence != 1 || list[0].Event.Message.ID != "o1" || !strings.Contains(types(list), "TEXT_MESSAGE_CONTENT") {
		t.Errorf("PIL-220 %s", types(list))
	}
	w.refuses("PIL-036 an id of another dialect", "run:start", startJSON(thread, "o1", ""), "DUPLICATE_MESSAGE")

	r = say("o2", "/ask")
	list = envelopesOf(w.until("the pause", of(r.Segment, "RUN_FINISHED")), r.Segment)
	asked := list[len(list)-3].Event.InterruptID
	a, err := desk.Answer(t.Context(), ann, dialect.Answer{Thread: thread, Interrupt: asked, Value: []byte(`true`)})
	if err != nil {
		t.Fatal(err)
	}
	w.until("PIL-221 the next segment", of(a.Segment, "RUN_FINISHED"))
	if h := w.history(thread); h.PendingInterrupt != nil {
		t.Errorf("PIL-221 %s", h.raw)
	}

	r = say("o3", "/ask")
	w.until("the pause", of(r.Segment, "RUN_FINISHED"))
	from := w.count()
	if err := desk.Cancel(t.Context(), ann, r.Segment, true); err != nil {
		t.Fatal(err)
	}
	list = envelopesOf(w.after(from, "RUN_CANCELLED", shows("RUN_CANCELLED")), "")
	if types(list) != "RUN_STARTED RUN_CANCELLED" || list[0].RunID == r.Segment {
		t.Errorf("PIL-221 %s", types(list))
	}
}

// PIL-162: a history has the newest messages, up to the limit.
func TestHistoryIsBounded(t *testing.T) {
	s := serve(t, func(c *edge.Site) { c.Rules.History = 3 })
	thread := s.thread(t, "ann")
	w := s.open(t, "ann")
	for _, id := range []string{"m1", "m2", "m3"} {
		w.finish(thread, id, "hi")
	}
	h := w.history(thread)
	if len(h.Messages) != 3 || h.Messages[1].ID != "m3" {
		t.Errorf("PIL-162 %s", ids(h.Messages))
	}
}
