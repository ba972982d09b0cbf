package chat

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestCreate(t *testing.T) {
	if _, err := opened().st.Create(Info{}); !errors.Is(err, ErrThreadExists) {
		t.Errorf("a thread that exists: %v", err)
	}
}

// inFlight is a thread of two answered questions with a run of ann's at work.
func inFlight() (h *history, run string) {
	h = opened()
	h.answered("")
	h.answered("")
	run, _ = h.start(h.message("", "ann"))
	h.active(run)
	h.says(run, "so far")
	return h, run
}

func waiting(by string, questions int) (h *history, run string, qs []string) {
	h = opened()
	h.answered("")
	run, _ = h.start(h.message("", by))
	h.active(run)
	h.says(run, "may I?")
	return h, run, h.asks(run, questions)
}

func TestStart(t *testing.T) {
	for _, c := range []struct {
		name string
		h    func() *history
		cmd  func(h *history, c *Start)
		want error
	}{
		{"PIL-043 an unknown thread", newHistory, func(*history, *Start) {}, ErrNoThread},
		{"an answered thread takes the next", func() *history { h := opened(); h.answered(""); return h }, func(_ *history, c *Start) { c.OneRun = true }, nil},
		{"PIL-035 an id that is a message", opened2, func(h *history, c *Start) { c.Message.ID = h.st.Tail[0].ID }, ErrDuplicateMessage},
		{"PIL-036 an id that is an answer", opened2, func(h *history, c *Start) { c.Message.ID = h.st.Tail[1].ID }, ErrDuplicateMessage},
		{"PIL-036 an id on a branch that is not shown", func() *history {
			h := opened2()
			h.answered(h.st.Tail[0].ID)
			return h
		}, func(h *history, c *Start) { c.Message.ID = h.st.Tail[2].ID }, ErrDuplicateMessage},
		{"PIL-036 an id in a page", paged, func(_ *history, c *Start) { c.Message.ID = "m1" }, ErrDuplicateMessage},
		{"PIL-036 the id that a live run has reserved for its answer", func() *history { h, _ := inFlight(); return h }, func(h *history, c *Start) {
			c.Message.ID = h.st.Runs[0].Answer
		}, ErrDuplicateMessage},
		{"PIL-036 the id of a live run's part", func() *history { h, _ := inFlight(); return h }, func(h *history, c *Start) {
			c.Message.ID = h.st.Runs[0].Parts[0].ID
		}, ErrDuplicateMessage},
		{"a run of that id is live", func() *history { h, _ := inFlight(); return h }, func(h *history, c *Start) { c.Run = h.st.Runs[0].ID }, ErrDuplicateRun},
		{"a run of that id has ended", opened2, func(h *history, c *Start) { c.Run = h.st.Tail[0].Run }, ErrDuplicateRun},
		{"PIL-040 a fork from what is not there", opened2, func(_ *history, c *Start) { c.Fork = "nowhere" }, ErrForkPoint},
		{"PIL-041 a fork from an answer", opened2, func(h *history, c *Start) { c.Fork = h.st.Tail[1].ID }, ErrForkRole},
		{"PIL-041 a fork from an answer in a page", paged, func(h *history, c *Start) {
			for id, n := range h.nodes {
				if n.Role == Assistant && h.st.Message(id) == nil {
					c.Fork = id
				}
			}
		}, ErrForkRole},
		{"PIL-041 a fork from itself", opened2, func(_ *history, c *Start) { c.Fork = c.Message.ID }, ErrDuplicateMessage},
		{"PIL-042 a fork on a branch no longer shown", func() *history {
			h := opened2()
			h.answered(h.st.Tail[0].ID)
			return h
		}, func(h *history, c *Start) { c.Fork = h.st.Tail[2].ID }, nil},
		{"PIL-042 a fork from a page", paged, func(_ *history, c *Start) { c.Fork = "m1" }, nil},
		{"PIL-046 a run in flight", func() *history { h, _ := inFlight(); return h }, func(_ *history, c *Start) { c.OneRun = true }, ErrBusy},
		{"PIL-046 a run in flight, where several are allowed", func() *history { h, _ := inFlight(); return h }, func(*history, *Start) {}, nil},
		{"PIL-046 a run that is being stopped is in flight", func() *history {
			h, run := inFlight()
			entries, _, _ := h.st.Stop(run, Stop{Cause: CauseUser}, "s")
			h.write(entries...)
			return h
		}, func(_ *history, c *Start) { c.OneRun = true }, ErrBusy},
		{"as many runs as are allowed", func() *history { h, _ := inFlight(); return h }, func(_ *history, c *Start) { c.MaxRuns = 1 }, ErrTooManyRuns},
		{"one run less", func() *history { h, _ := inFlight(); return h }, func(_ *history, c *Start) { c.MaxRuns = 2 }, nil},
		{"PIL-047 the sender's own run waits", func() *history { h, _, _ := waiting("ann", 1); return h }, func(_ *history, c *Start) { c.OneRun = true }, nil},
		{"PIL-047 the sender's own run waits, refuse", func() *history { h, _, _ := waiting("ann", 1); return h }, func(_ *history, c *Start) {
			c.OneRun, c.RefuseWaiting = true, true
		}, ErrWaiting},
		{"PIL-047 another's run waits", func() *history { h, _, _ := waiting("bob", 1); return h }, func(_ *history, c *Start) { c.OneRun = true }, ErrWaiting},
		{"PIL-186 the thread before the message", newHistory, func(_ *history, c *Start) { c.Fork = "nowhere" }, ErrNoThread},
		{"PIL-186 the message before the fork", opened2, func(h *history, c *Start) { c.Message.ID, c.Fork = h.st.Tail[0].ID, "nowhere" }, ErrDuplicateMessage},
		{"PIL-186 the fork before what cannot be now", func() *history { h, _ := inFlight(); return h }, func(_ *history, c *Start) { c.OneRun, c.Fork = true, "nowhere" }, ErrForkPoint},
		{"PIL-186 the message before what cannot be now", func() *history { h, _ := inFlight(); return h }, func(h *history, c *Start) {
			c.OneRun, c.Message.ID = true, h.st.Tail[0].ID
		}, ErrDuplicateMessage},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := c.h()
			cmd := h.message("", "ann")
			c.cmd(h, &cmd)
			before := written(t, h.st)
			entries, err := h.st.Start(cmd, h.lookup)
			if !errors.Is(err, c.want) || (err != nil && len(entries) > 0) {
				t.Errorf("got %v with %d entries, want %v", err, len(entries), c.want)
			}
			if written(t, h.st) != before {
				t.Error("deciding changed the state")
			}
			if err != nil {
				return
			}
			// Deciding again gives the same, as a retry must.
			again, _ := h.st.Start(cmd, h.lookup)
			for i := range again {
				a, b := &Record{Entry: entries[i]}, &Record{Entry: again[i]}
				x, _ := a.Marshal()
				y, _ := b.Marshal()
				if string(x) != string(y) {
					t.Errorf("decided\n%s\nand then\n%s", x, y)
				}
			}
			h.write(entries...)
			run := h.st.Run(cmd.Run)
			m := h.st.Message(cmd.Message.ID)
			if run == nil || run.Status != RunPending || m == nil || m.Role != User || run.Opening.ID != m.ID || run.Segment() != cmd.Segment {
				t.Errorf("PIL-048 accepted as %+v with %+v", run, m)
			}
			if n := entries[len(entries)-1]; n.Kind != KindRunPending || entries[len(entries)-2].Kind != KindMessage {
				t.Errorf("PIL-048 the message is not written with its run: %s", n.Kind)
			}
			if len(again) != len(entries) {
				t.Error("decided again in another way")
			}
		})
	}
}

func opened2() *history { h := opened(); h.answered(""); return h }

// paged has more messages than its tail holds.
func paged() *history {
	h := opened()
	for range 60 {
		h.answered("")
	}
	h.st, _ = h.st.Compact()
	return h
}

func TestForkReplaces(t *testing.T) {
	h := opened()
	m1, a1 := h.answered("")
	m2, _ := h.answered("")
	up := h.st.Upstream
	c := h.message(m2, "ann")
	run, err := h.start(c)
	if err != nil {
		t.Fatal(err)
	}
	m := h.st.Message(c.Message.ID)
	if m.Parent != a1 || m.ForkOf != m2 {
		t.Errorf("PIL-038 it hangs below %s for %s", m.Parent, m.ForkOf)
	}
	if h.st.Message(m2) == nil {
		t.Error("PIL-042 what was replaced is gone")
	}
	if r := h.st.Run(run); r.Upstream != c.Upstream || r.Upstream == up || len(r.State) > 0 {
		t.Errorf("a fork goes on upstream in %s with %s", r.Upstream, r.State)
	}
	h.active(run)
	h.end(run, RunComplete)
	if got := shown(View(h.st.Tail)); got != fmt.Sprintf("%s %s %s %s", m1, a1, c.Message.ID, c.Answer) {
		t.Errorf("PIL-039 shown is %s", got)
	}
	next := h.message("", "ann")
	run, _ = h.start(next)
	if r := h.st.Run(run); r.Upstream != c.Upstream {
		t.Errorf("the branch goes on upstream in %s, it was in %s", r.Upstream, c.Upstream)
	}
	beside := h.message("", "ann")
	other, _ := h.start(beside)
	if r := h.st.Run(other); r.Upstream != beside.Upstream {
		t.Errorf("a concurrent run shares the upstream thread %s", r.Upstream)
	}
}

func TestWithdrawal(t *testing.T) {
	h, run, qs := waiting("ann", 2)
	entries, _, _, err := h.st.Answer(Answer{Interrupt: qs[0], Value: jsontext.Value(`true`), Status: InterruptAnswered, Segment: "s"})
	if err != nil {
		t.Fatal(err)
	}
	h.write(entries...)
	answer := h.st.Run(run).Answer
	c := h.message("", "ann")
	c.OneRun = true
	n := len(h.recs)
	next, err := h.start(c)
	if err != nil {
		t.Fatal(err)
	}
	if a := h.recs[n].Body.(*AnswerBody); a.Interrupt != qs[1] || a.Status != InterruptWithdrawn || h.recs[n+1].Kind != KindRunEnd {
		t.Errorf("PIL-047 the open question is settled as %+v, then a %s", a, h.recs[n+1].Kind)
	}
	end := h.recs[n+1].Body.(*RunEndBody)
	if end.Status != RunCancelled || end.Cause != CauseWithdraw || end.Segment != c.WithdrawSegment || end.Message.Content() != "may I?" {
		t.Errorf("PIL-047 PIL-221 the waiting run ended as %+v", end)
	}
	r := h.st.Run(next)
	if len(r.Withdrawn) != 2 {
		t.Fatalf("PIL-047 the agent is told of %d questions", len(r.Withdrawn))
	}
	for _, w := range r.Withdrawn {
		if w.Status != InterruptWithdrawn || len(w.Answer) > 0 {
			t.Errorf("PIL-047 a question is told as %+v", w)
		}
	}
	if m := h.st.Message(c.Message.ID); m.Parent != answer || h.st.Head != m.ID {
		t.Errorf("the message hangs below %s, what was said before is %s", m.Parent, answer)
	}
	if q := h.recs[n-1]; q.Kind != KindAnswer {
		t.Errorf("the first answer was a %s", q.Kind)
	}
}

func TestAnswer(t *testing.T) {
	give := func(h *history, id string) ([]Entry, bool, error) {
		entries, _, resumed, err := h.st.Answer(Answer{Interrupt: id, Value: jsontext.Value(`1`), Status: InterruptAnswered, Segment: "next", By: Subject{ID: "bob"}})
		return entries, resumed, err
	}
	t.Run("PIL-085 an unknown thread", func(t *testing.T) {
		if _, _, err := give(newHistory(), "i"); !errors.Is(err, ErrNoThread) {
			t.Error(err)
		}
	})
	t.Run("PIL-084 an unknown decision", func(t *testing.T) {
		h, _, _ := waiting("ann", 1)
		if _, _, err := give(h, "i"); !errors.Is(err, ErrNotWaiting) {
			t.Error(err)
		}
	})
	for _, standing := range []bool{false, true} {
		t.Run(fmt.Sprintf("PIL-070 SMO-158 tools of a segment, standing for the whole run: %v", standing), func(t *testing.T) {
			h := opened()
			c := h.message("", "ann")
			c.Tools, c.Origin.Standing = []ClientTool{{Name: "x"}}, standing
			run, err := h.start(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, tools := range [][]ClientTool{nil, {{Name: "y"}}} {
				q := h.asks(run, 1)
				entries, _, _, err := h.st.Answer(Answer{Interrupt: q[0], Status: InterruptAnswered, Segment: h.id("s"), Tools: tools})
				if err != nil {
					t.Fatal(err)
				}
				h.write(entries...)
				want := tools
				if tools == nil && standing {
					want = c.Tools
				}
				if got := h.st.Run(run).Tools; !reflect.DeepEqual(got, want) {
					t.Errorf("after an answer with %v it has %v", tools, got)
				}
			}
		})
	}
	t.Run("PIL-083 PIL-086 PIL-087 PIL-088 two decisions", func(t *testing.T) {
		h, run, qs := waiting("ann", 2)
		entries, resumed, err := give(h, qs[1])
		if err != nil || resumed || len(entries) != 1 {
			t.Fatalf("PIL-087 the first answer: %v %v %d", err, resumed, len(entries))
		}
		h.write(entries...)
		r := h.st.Run(run)
		if r.Status != RunSuspended || r.Open().ID != qs[0] {
			t.Errorf("PIL-087 after it the run is %s and waits on %+v", r.Status, r.Open())
		}
		if _, _, err := give(h, qs[1]); !errors.Is(err, ErrNotWaiting) {
			t.Errorf("PIL-084 PIL-089 answered again: %v", err)
		}
		old := r.Segment()
		entries, resumed, err = give(h, qs[0])
		if err != nil || !resumed {
			t.Fatalf("PIL-087 the last answer: %v", err)
		}
		h.write(entries...)
		r = h.st.Run(run)
		last := h.recs[len(h.recs)-1]
		if r.Status != RunActive || r.Segment() != "next" || r.Segment() == old || last.Kind != KindRunResumed || last.Seq != 1 || last.N != 1 {
			t.Errorf("PIL-088 resumed as %s in %s, by a %s that is envelope %d", r.Status, r.Segment(), last.Kind, last.Seq)
		}
		if r.Interrupts[0].By.ID != "bob" || string(r.Interrupts[0].Answer) != "1" || r.Interrupts[0].Status != InterruptAnswered {
			t.Errorf("PIL-083 the decision is %+v", r.Interrupts[0])
		}
		if _, _, err := give(h, qs[0]); !errors.Is(err, ErrNotWaiting) {
			t.Errorf("PIL-084 answered after all: %v", err)
		}
	})
	t.Run("PIL-071 the tools of an answer replace those of the segment", func(t *testing.T) {
		h, run, qs := waiting("ann", 1)
		entries, _, _, _ := h.st.Answer(Answer{Interrupt: qs[0], Status: InterruptAnswered, Segment: "next", Tools: []ClientTool{{Name: "draw"}}})
		h.write(entries...)
		if got := h.st.Run(run).Tools; len(got) != 1 || got[0].Name != "draw" {
			t.Errorf("%v", got)
		}
		h.asks(run, 1)
		if got := h.st.Run(run).Tools; got != nil {
			t.Errorf("PIL-070 %v are kept over a pause", got)
		}
	})
	t.Run("PIL-084 a run that has ended", func(t *testing.T) {
		h, run, qs := waiting("ann", 1)
		entries, ended, _ := h.st.Stop(run, Stop{Cause: CauseUser}, "s")
		if !ended {
			t.Error("a suspended run is sealed")
		}
		h.write(entries...)
		if _, _, err := give(h, qs[0]); !errors.Is(err, ErrNotWaiting) {
			t.Error(err)
		}
	})
}

func TestStop(t *testing.T) {
	by := Subject{ID: "bob"}
	for _, c := range []struct {
		name   string
		stop   Stop
		status RunStatus
		code   string
	}{
		{"PIL-097 a person", Stop{Cause: CauseUser, By: by}, RunCancelled, ""},
		{"a withdrawal", Stop{Cause: CauseWithdraw}, RunCancelled, ""},
		{"a delete", Stop{Cause: CauseDeleted}, RunCancelled, ""},
		{"a time-out", Stop{Cause: CauseTimeout}, RunCancelled, CodeRunTimeout},
		{"PIL-130 a lost edge", Stop{Cause: CauseEdgeLost}, RunError, CodeEdgeLost},
		{"a lost log", Stop{Cause: CauseLogLost}, RunError, CodeLogLost},
		{"a restart", Stop{Cause: CauseShutdown}, RunError, CodeShutdown},
		{"an agent", Stop{Cause: CauseAgent, Code: "THEIRS", Message: "m"}, RunError, "THEIRS"},
		{"an agent without a word", Stop{Cause: CauseAgent}, RunError, CodeAgentError},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, run := inFlight()
			h.write(NewEntry(KindTextStart, run, &BlockBody{Part: "open"}), NewEntry(KindTextDelta, run, &DeltaBody{Part: "open", Text: "half"}),
				NewEntry(KindSubagentStart, run, &SubagentStartBody{Subagent: Subagent{ID: "sub"}}))
			entries, ended, err := h.st.Stop(run, c.stop, "s")
			if err != nil || ended || len(entries) != 1 || entries[0].Kind != KindRunStop || entries[0].N != 0 {
				t.Fatalf("sealed by %v, ended %v, %v", entries, ended, err)
			}
			h.write(entries...)
			if _, _, err := h.st.Stop(run, c.stop, "s"); !errors.Is(err, ErrUnknownRun) {
				t.Errorf("PIL-096 stopped again: %v", err)
			}
			e := h.st.Run(run).EndSealed(77)
			if e.N != 3 || e.Opens || !e.Logged {
				t.Errorf("PIL-099 with two things open the end is %d envelopes", e.N)
			}
			h.write(e)
			end := e.Body.(*RunEndBody)
			if end.Status != c.status || end.Code != c.code || end.Cause != c.stop.Cause || (c.code != "") != (end.Text != "" || c.code == CodeAgentError) {
				t.Errorf("ended as %+v", end)
			}
			m := h.st.Message(end.Message.ID)
			if m == nil || m.Content() != "so far\n\nhalf" || m.Created != 77 || m.Parts[1].Open {
				t.Errorf("PIL-098 the transcript has %+v", m)
			}
			if h.st.Run(run) != nil || h.st.Head != m.ID {
				t.Error("the run is still there")
			}
			if _, _, err := h.st.Stop(run, c.stop, "s"); !errors.Is(err, ErrUnknownRun) {
				t.Errorf("PIL-096 stopped after the end: %v", err)
			}
		})
	}
	t.Run("PIL-221 while it waits", func(t *testing.T) {
		h, run, qs := waiting("ann", 2)
		entries, ended, err := h.st.Stop(run, Stop{Cause: CauseUser, By: by}, "seg")
		if err != nil || !ended || len(entries) != 3 {
			t.Fatalf("%v %v %d", err, ended, len(entries))
		}
		for i, q := range qs {
			if a := entries[i].Body.(*AnswerBody); a.Interrupt != q || a.Status != InterruptWithdrawn || a.By != by {
				t.Errorf("the question is %+v", a)
			}
		}
		e := entries[2]
		if b := e.Body.(*RunEndBody); e.N != 2 || !e.Opens || b.Segment != "seg" || b.Message.Content() != "may I?" {
			t.Errorf("ended as %d envelopes, %+v", e.N, b)
		}
	})
	t.Run("before its agent was called", func(t *testing.T) {
		h := opened()
		run, _ := h.start(h.message("", "ann"))
		entries, ended, err := h.st.Stop(run, Stop{Cause: CauseUser}, "s")
		if err != nil || ended {
			t.Fatal(err, ended)
		}
		h.write(entries...)
		e := h.st.Run(run).EndSealed(1)
		if e.N != 2 || !e.Opens || e.Body.(*RunEndBody).Message != nil {
			t.Errorf("ended as %d envelopes with %+v", e.N, e.Body)
		}
		head := h.st.Head
		if h.write(e); h.st.Head != head {
			t.Error("the head moved without a message")
		}
	})
}

func TestDetachRule(t *testing.T) {
	make := func() (*history, string) {
		h, run := inFlight()
		for _, id := range []string{"a", "b", "c"} {
			h.write(NewEntry(KindSubagentStart, run, &SubagentStartBody{Subagent: Subagent{ID: id, Call: "call-" + id}}))
		}
		h.write(NewEntry(KindSubagentEnd, run, &SubagentEndBody{ID: "c"}))
		return h, run
	}
	for _, c := range []struct {
		name, call string
		want       []string
		err        error
	}{
		{"PIL-103 without a call all of them", "", []string{"call-a", "call-b"}, nil},
		{"PIL-103 with a call only that", "call-b", []string{"call-b"}, nil},
		{"PIL-105 a call that is none", "call-x", nil, ErrNoSubagent},
		{"PIL-105 a call that has finished", "call-c", nil, ErrNoSubagent},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, run := make()
			entries, err := h.st.Detach(run, c.call)
			if !errors.Is(err, c.err) {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			if got := entries[0].Body.(*RunDetachBody).Calls; !slices.Equal(got, c.want) || entries[0].N != 0 {
				t.Errorf("got %v", got)
			}
			h.write(entries...)
			h.write(NewEntry(KindSubagentEnd, run, &SubagentEndBody{ID: "b", Detached: true}))
			if got := h.st.Run(run).Detach; slices.Contains(got, "call-b") {
				t.Errorf("still asked for after it went: %v", got)
			}
		})
	}
	t.Run("PIL-104 a run that is not active", func(t *testing.T) {
		h, run := make()
		if _, err := h.st.Detach("other", ""); !errors.Is(err, ErrUnknownRun) {
			t.Error(err)
		}
		entries, _, _ := h.st.Stop(run, Stop{Cause: CauseUser}, "s")
		h.write(entries...)
		if _, err := h.st.Detach(run, ""); !errors.Is(err, ErrUnknownRun) {
			t.Errorf("while it is being stopped: %v", err)
		}
		w, waitingRun, _ := waiting("ann", 1)
		if _, err := w.st.Detach(waitingRun, ""); !errors.Is(err, ErrUnknownRun) {
			t.Errorf("while it waits: %v", err)
		}
	})
	t.Run("PIL-105 a run without any", func(t *testing.T) {
		h, run := inFlight()
		if _, err := h.st.Detach(run, ""); !errors.Is(err, ErrNoSubagent) {
			t.Error(err)
		}
	})
}

func TestValidID(t *testing.T) {
	long := func(s string, n int) (out string) {
		for range n {
			out += s
		}
		return out
	}
	for _, c := range []struct {
		name string
		id   string
		want bool
	}{
		{"PIL-007 empty", "", false},
		{"PIL-007 one character", "x", true},
		{"PIL-007 128 characters", long("x", 128), true},
		{"PIL-007 129 characters", long("x", 129), false},
		{"PIL-007 128 characters of four bytes", long("😀", 128), true},
		{"PIL-007 129 characters of four bytes", long("😀", 129), false},
		{"PIL-007 no UUID", "any thing/at:all", true},
		{"PIL-007 a control character", "a\nb", false},
		{"PIL-007 a delete", "a\x7fb", false},
		{"PIL-007 a C1 control", "a\u0085b", false},
		{"PIL-007 a null", "a\x00b", false},
		{"no UTF-8", "a\xff", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ValidID(c.id); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestMessageContent(t *testing.T) {
	m := &Message{Parts: []*Part{
		{Type: PartReasoning, Text: Text("hm")},
		{Type: PartText, Text: Text("a")},
		{Type: PartTool, Text: Text("{}")},
		{Type: PartText},
		{Type: PartText, Text: Text("b")},
	}}
	if got := m.Content(); got != "a\n\nb" {
		t.Errorf("%q", got)
	}
	for _, c := range []struct {
		m    Message
		want bool
	}{
		{Message{}, true},
		{Message{Parts: []*Part{{Type: PartText}}}, true},
		{Message{Parts: []*Part{{Type: PartTool}}}, false},
		{Message{Attachments: []Attachment{{ID: "f"}}}, false},
	} {
		if c.m.Empty() != c.want {
			t.Errorf("%+v", c.m)
		}
	}
}
