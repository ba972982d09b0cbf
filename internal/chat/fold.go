package chat

import "slices"

// Apply folds one record into the state and returns the new state. The caller
// has checked that r follows s (position and tag); Apply does not look.
//
// A record about a run that the state does not have changes only the numbers:
// the stores refuse such records, so they can only come from a broken journal,
// and a reader that goes on is better than one that dies.
func (s *State) Apply(r *Record) *State {
	n := *s
	n.Schema = SchemaVersion
	n.Pos, n.Tag, n.At = r.Pos, r.Tag, r.At
	if r.Log > n.Log {
		n.Log = r.Log
	}
	switch b := r.Body.(type) {
	case *ThreadBody:
		if !n.Exists {
			n.Born = r.Tag
		}
		n.Exists, n.Info = true, b.Info
	case *MessageBody:
		n.append(b.Message)
	case *RunPendingBody:
		run := *b.Run
		run.SegmentPos, run.Log, run.Started = r.Pos, r.Log, r.At
		run.Hidden = n.hides(run.Message)
		n.Runs = append(clip(n.Runs), &run)
		n.logMessage(&run)
		if run.Message == n.Head {
			n.Upstream = run.Upstream
		}
	case *TodosBody:
		n.Todos = b.Todos
		n.touch(r, func(*Run) {})
	case *TaskBody:
		n.setTask(b.Task)
	case *ArchiveBody:
		n.archive(b.Archive)
	case *RunEndBody:
		n.end(r, b)
	default:
		n.touch(r, func(run *Run) { run.apply(r, r.Body) })
	}
	return &n
}

func (s *State) append(m *Message) {
	s.Tail = append(s.Tail, m)
	s.Forked = s.Forked || m.ForkOf != ""
	view := View(s.Tail)
	if len(view) > 0 {
		s.Head = view[len(view)-1].ID
	}
	if m.ForkOf != "" {
		s.hide(view)
	}
}

// logMessage gives the message that came with a run the run's log number: the
// two are one entry of the log.
func (s *State) logMessage(run *Run) {
	i := len(s.Tail) - 1
	if i < 0 || run.Regen != "" || s.Tail[i].ID != run.Message || s.Tail[i].Log != 0 {
		return
	}
	m := *s.Tail[i]
	m.Log = run.Log
	s.Tail = append(slices.Clone(s.Tail[:i]), &m)
}

// hides says that a message is in the tail and not in the default view.
func (s *State) hides(id string) bool {
	if !s.Forked || id == s.Head {
		return false
	}
	is := func(m *Message) bool { return m.ID == id }
	return slices.ContainsFunc(s.Tail, is) && !slices.ContainsFunc(View(s.Tail), is)
}

// hide notes which live runs answer a message that is not shown: when they end,
// that message may be too far back to tell.
func (s *State) hide(view []*Message) {
	for i, run := range s.Runs {
		is := func(m *Message) bool { return m.ID == run.Message }
		if !slices.ContainsFunc(s.Tail, is) || slices.ContainsFunc(view, is) != run.Hidden {
			continue
		}
		c := *run
		c.Hidden = !c.Hidden
		s.Runs = slices.Clone(s.Runs)
		s.Runs[i] = &c
	}
}

// touch replaces the record's run by a changed copy.
func (s *State) touch(r *Record, change func(*Run)) {
	i := slices.IndexFunc(s.Runs, func(x *Run) bool { return x.ID == r.Run })
	if i < 0 {
		return
	}
	run := *s.Runs[i]
	if r.Opens {
		run.SegmentPos = r.Pos
	}
	if r.N > 0 {
		run.LastSeq = r.Seq + uint64(r.N) - 1
	}
	run.Streamed = run.Streamed || r.Kind.Streams()
	change(&run)
	if r.Log != 0 {
		run.show()
	}
	s.Runs = slices.Clone(s.Runs)
	s.Runs[i] = &run
}

// show notes what a dialect that shows one text and one question of a run shows
// of it as of a log number. A question that was answered last stays.
func (run *Run) show() {
	run.Shown = texts(run.Parts)
	if i := run.Open(); run.Status != RunSuspended {
		run.Asked = ""
	} else if i != nil {
		run.Asked = i.ID
	}
}

func (s *State) end(r *Record, b *RunEndBody) {
	i := slices.IndexFunc(s.Runs, func(x *Run) bool { return x.ID == r.Run })
	if i < 0 {
		return
	}
	if st := s.Runs[i].State; len(st) > 0 {
		s.AgentState = st
	}
	run, head := s.Runs[i], s.Head
	s.Runs = slices.Delete(slices.Clone(s.Runs), i, i+1)
	ran := &Ran{Status: b.Status, By: run.Origin.By, Log: run.Log, Started: run.Started, Ended: r.At}
	s.remember(run.ID, ran)
	if b.Message != nil {
		m := *b.Message
		m.Log, m.Ran = r.Log, ran
		if s.append(&m); run.Hidden {
			s.Head = head
		}
	}
}

// remember notes with a run's question what became of the run. A question that
// is further back than the tail is not shown with its run any more.
func (s *State) remember(run string, ran *Ran) {
	i := slices.IndexFunc(s.Tail, func(m *Message) bool { return m.Run == run })
	if i < 0 {
		return
	}
	m := *s.Tail[i]
	m.Ran = ran
	s.Tail = slices.Clone(s.Tail)
	s.Tail[i] = &m
}

func (s *State) setTask(t Task) {
	if s.Info.Task != nil && s.Info.Task.ID == t.ID {
		s.Info.Task = &t
		return
	}
	tasks := slices.Clone(s.Tasks)
	i := slices.IndexFunc(tasks, func(x Task) bool { return x.ID == t.ID })
	switch {
	case i >= 0:
		tasks[i] = t
	case len(tasks) >= maxTasks:
		tasks = append(tasks[1:], t)
	default:
		tasks = append(tasks, t)
	}
	s.Tasks = tasks
}

// maxTasks bounds how many background tasks a thread remembers; the oldest go.
const maxTasks = 64

func (run *Run) apply(r *Record, body Body) {
	switch b := body.(type) {
	case *RunActiveBody:
		run.Status, run.Started = RunActive, r.At
		if run.Log == 0 {
			run.Log = r.Log
		}
	case *RunSuspendedBody:
		run.Status, run.Suspended = RunSuspended, r.At
		run.Drafted = len(run.Parts)
		if !run.Origin.Standing {
			run.Tools = nil
		}
		if len(b.State) > 0 {
			run.State = b.State
		}
	case *RunResumedBody:
		run.Status, run.Streamed = RunActive, false
		run.Segments = append(clip(run.Segments), b.Segment)
		if len(b.Tools) > 0 || !run.Origin.Standing {
			run.Tools = b.Tools
		}
	case *RunStopBody:
		stop := b.Stop
		run.Stop = &stop
	case *RunTakenBody:
		if run.Holder = b.Holder; b.Supports != nil {
			run.Origin.Supports = b.Supports
		}
	case *RunDetachBody:
		run.Detach = append(clip(run.Detach), b.Calls...)
	case *InterruptBody:
		run.Interrupts = append(clip(run.Interrupts), b.Interrupt)
	case *AnswerBody:
		run.answer(b, r.At)
	case *StateBody:
		run.State = b.State
	case *UsageBody:
		run.Usage = b.Usage
	case *CustomBody:
		run.remark(b)
	case *SubagentStartBody:
		sub := b.Subagent
		sub.Running = true
		run.Subagents = append(clip(run.Subagents), sub)
	case *SubagentEndBody:
		run.endSubagent(b)
	default:
		run.applyPart(r, body)
	}
}

func (run *Run) answer(b *AnswerBody, at int64) {
	i := slices.IndexFunc(run.Interrupts, func(x *Interrupt) bool { return x.ID == b.Interrupt })
	if i < 0 {
		return
	}
	c := *run.Interrupts[i]
	c.Status, c.Answer, c.By, c.Settled = b.Status, b.Value, b.By, at
	run.Interrupts = slices.Clone(run.Interrupts)
	run.Interrupts[i] = &c
}

func (run *Run) endSubagent(b *SubagentEndBody) {
	i := slices.IndexFunc(run.Subagents, func(x Subagent) bool { return x.ID == b.ID })
	if i < 0 {
		return
	}
	run.Subagents = slices.Clone(run.Subagents)
	run.Subagents[i].Running = false
	call := run.Subagents[i].Call
	run.Detach = slices.DeleteFunc(slices.Clone(run.Detach), func(x string) bool { return x == call })
}

func (run *Run) applyPart(r *Record, body Body) {
	segment := len(run.Segments) - 1
	switch b := body.(type) {
	case *BlockBody:
		switch r.Kind {
		case KindTextStart:
			if b.Replaces != "" {
				run.change(b.Replaces, func(p *Part) { p.Text = nil })
			}
			run.begin(&Part{ID: b.Part, Type: PartText, Open: true, Segment: segment})
		case KindReasoningStart:
			run.begin(&Part{ID: b.Part, Type: PartReasoning, Open: true, Segment: segment})
		default:
			run.change(b.Part, func(p *Part) { p.Open = false })
		}
	case *DeltaBody:
		run.change(b.Part, func(p *Part) { p.Text = append(p.Text, b.Text...) })
	case *EncryptedBody:
		run.change(b.Part, func(p *Part) { p.Encrypted = b.Value })
	case *ToolStartBody:
		run.begin(&Part{ID: b.Call, Type: PartTool, Name: b.Name, Parent: b.Parent, Open: true, Segment: segment})
	case *ToolEndBody:
		run.change(b.Call, func(p *Part) { p.Open = false })
	case *ToolResultBody:
		run.change(b.Call, func(p *Part) { p.ResultID, p.Result, p.Done = b.Message, b.Content, true })
	}
}

func (run *Run) begin(p *Part) { run.Parts = append(clip(run.Parts), p) }

func (run *Run) change(id string, f func(*Part)) {
	for i := len(run.Parts) - 1; i >= 0; i-- {
		if run.Parts[i].ID != id {
			continue
		}
		p := *run.Parts[i]
		f(&p)
		run.Parts = slices.Clone(run.Parts)
		run.Parts[i] = &p
		return
	}
}
