package chat

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func (h *history) place(parent string) (string, error) {
	c := h.message("", "ann")
	c.Placed, c.Parent = true, parent
	_, err := h.start(c)
	return c.Message.ID, err
}

func TestAMessageIsPlaced(t *testing.T) {
	h := opened()
	m1, a1 := h.answered("")
	m2, a2 := h.answered("")
	for name, c := range map[string]struct {
		parent string
		err    error
	}{
		"PIN-129 a root":                 {"", nil},
		"PIN-129 under an older answer":  {a1, nil},
		"PIN-129 under a question":       {m2, nil},
		"PIN-129 under nothing":          {"m-unknown", ErrNoParent},
		"PIN-129 a run is no message":    {RunNode(h.st.Message(a1).Run), ErrNoParent},
		"PIN-129 a part is no message":   {h.st.Message(a1).Parts[0].ID, ErrNoParent},
		"PIN-129 under the newest":       {a2, nil},
		"PIN-129 under the first of all": {m1, nil},
	} {
		id, err := h.place(c.parent)
		if err != c.err {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
		if m := h.st.Message(id); err == nil && (m.Parent != c.parent || m.ForkOf != "") {
			t.Errorf("%s: placed as %+v", name, m)
		}
	}
}

// A branch that begins elsewhere than at the end has an agent's thread of its
// own, and nothing of the state that the end left.
func TestAPlacedMessageBranchesForTheAgent(t *testing.T) {
	h := opened()
	_, a1 := h.answered("")
	_, a2 := h.answered("")
	known := h.st.Upstream
	h.st.AgentState = []byte(`{"n":1}`)
	id, _ := h.place(a1)
	run := h.st.Runs[0]
	if run.Message != id || run.Upstream == known || run.State != nil {
		t.Errorf("a branch runs as %+v", run)
	}
	h.end(run.ID, RunComplete)
	h.st.Head = a2
	if _, err := h.place(a2); err != nil || h.st.Runs[0].State == nil {
		t.Errorf("the end runs as %+v", h.st.Runs[0])
	}
}

func TestAnAnswerIsMadeAnew(t *testing.T) {
	h := opened()
	m, a := h.answered("")
	ask := Regenerate{Message: a, Run: "again", Answer: "b", Segment: "s", Origin: Origin{By: Subject{ID: "bob"}}}
	for name, c := range map[string]struct {
		change func(*Regenerate)
		err    error
	}{
		"PIN-155 an unknown target":      {func(c *Regenerate) { c.Message = "nothing" }, ErrForkPoint},
		"PIN-155 a part of a message":    {func(c *Regenerate) { c.Message = h.st.Message(a).Parts[0].ID }, ErrForkPoint},
		"PIN-155 a user's message":       {func(c *Regenerate) { c.Message = m }, ErrForkRole},
		"PIN-155 another parent":         {func(c *Regenerate) { c.Placed, c.Parent = true, a }, ErrParent},
		"PIN-155 the root as its parent": {func(c *Regenerate) { c.Placed = true }, ErrParent},
		"PIN-156 a run of that id":       {func(c *Regenerate) { c.Run = h.st.Message(a).Run }, ErrDuplicateRun},
		"PIN-155 its parent":             {func(c *Regenerate) { c.Placed, c.Parent = true, m }, nil},
	} {
		q := ask
		c.change(&q)
		entries, err := h.st.Regenerate(q, h.lookup)
		if err != c.err {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
		if err == nil && (len(entries) != 1 || entries[0].Kind != KindRunPending) {
			t.Errorf("PIN-094 %s: %d entries", name, len(entries))
		}
	}
	entries, _ := h.st.Regenerate(ask, h.lookup)
	h.write(entries...)
	full := ask
	full.Run, full.MaxRuns = "third", 1
	if _, err := h.st.Regenerate(full, h.lookup); err != ErrTooManyRuns {
		t.Errorf("PIN-131 one run too many: %v", err)
	}
	h.active("again")
	h.says("again", "other words")
	h.end("again", RunComplete)
	old, made := h.st.Message(a), h.st.Message("b")
	if old == nil || made.Parent != m || made.ForkOf != a || made.Regen != a || made.By.ID != "bob" {
		t.Errorf("PIN-153 PIN-157 PIN-217 the new answer is %+v", made)
	}
	if got := shown(View(h.st.Tail)); got != m+" b" || h.st.Head != "b" {
		t.Errorf("PIN-233 the default view is %s", got)
	}
	if n := h.lookup(RunNode("again")); n.ForkOf != a || n.Parent != m || n.By.ID != "bob" {
		t.Errorf("PIN-156 PIN-141 the index says of the run %+v", n)
	}
}

// What was asked on a branch that is not shown stays there when it is answered.
func TestAHiddenBranchStaysHidden(t *testing.T) {
	h := opened()
	m, a := h.answered("")
	h.answered(m)
	head := h.st.Head
	id, err := h.place(a)
	if err != nil || h.st.Head != head || !h.st.Runs[0].Hidden {
		t.Fatalf("%v: %s at the end, the run is %+v", err, h.st.Head, h.st.Runs[0])
	}
	h.active(h.st.Runs[0].ID)
	h.end(h.st.Runs[0].ID, RunComplete)
	if h.st.Head != head || h.st.Last() == id {
		t.Errorf("the end of the view is %s, the newest message %s", h.st.Head, h.st.Last())
	}
}

// PIN-078 PIN-252: whatever a log number does not show changes nothing that a
// reader of the log sees.
func TestWhatTheLogShows(t *testing.T) {
	type seen struct {
		status   RunStatus
		text     string
		question string
	}
	look := func(st *State) map[string]seen {
		out := map[string]seen{}
		for _, r := range st.Runs {
			var parts []string
			for _, p := range r.Shown {
				parts = append(parts, p.String())
			}
			s := seen{status: r.Status, text: strings.Join(parts, PartBreak)}
			s.question = r.Asked
			out[r.ID] = s
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		h := opened()
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			h.step(t)
		}
		st := &State{Schema: SchemaVersion}
		for _, r := range h.recs {
			next := st.Apply(r)
			if run := next.Run(r.Run); run != nil && r.Log != 0 {
				m := Message{Parts: run.Parts}
				if got := look(next)[run.ID].text; got != m.Content() {
					t.Fatalf("PIN-088 log %d shows %q of %q", r.Log, got, m.Content())
				}
				if i := run.Open(); (run.Asked != "") != (run.Status == RunSuspended) || (i != nil && run.Status == RunSuspended && i.ID != run.Asked) {
					t.Fatalf("PIN-252 log %d of a run that is %s shows the question %q", r.Log, run.Status, run.Asked)
				}
			}
			if r.Log == 0 {
				was, is := look(st), look(next)
				for id, v := range was {
					if is[id] != v {
						t.Fatalf("PIN-078 a %s without a log number turns %v into %v", r.Kind, v, is[id])
					}
				}
			}
			st = next
		}
	})
}

// PIN-126 PIN-073: a message remembers its log number, and what became of its run.
func TestMessagesRememberTheirRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := opened()
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			h.step(t)
		}
		st := &State{Schema: SchemaVersion}
		logs, ended := map[string]uint64{}, map[string]RunStatus{}
		for _, r := range h.recs {
			st = st.Apply(r)
			switch b := r.Body.(type) {
			case *RunPendingBody:
				if b.Run.Regen == "" {
					logs[b.Run.Message] = r.Log
				}
			case *RunEndBody:
				ended[r.Run] = b.Status
				if b.Message != nil {
					logs[b.Message.ID] = r.Log
				}
			}
		}
		for i, m := range st.Tail {
			if m.Log != logs[m.ID] || (i > 0 && m.Log <= st.Tail[i-1].Log) {
				t.Fatalf("PIN-123 %s has log %d, was appended by %d", m.ID, m.Log, logs[m.ID])
			}
			status, over := ended[m.Run]
			if over != (m.Ran != nil) || (over && (m.Ran.Status != status || m.Ran.Ended == 0 || m.Ran.Started == 0)) {
				t.Fatalf("PIN-073 of the run of %s it says %+v, it ended as %q", m.ID, m.Ran, status)
			}
		}
		if !st.Forked && slices.ContainsFunc(st.Tail, func(m *Message) bool { return m.ForkOf != "" }) {
			t.Fatal("a fork is not noted")
		}
		if st.Count() != len(st.Tail) || (st.Count() > 0 && st.Last() != st.Tail[len(st.Tail)-1].ID) {
			t.Fatalf("%d messages, the last is %s", st.Count(), st.Last())
		}
	})
}
