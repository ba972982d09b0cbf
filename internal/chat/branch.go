package chat

// Regenerate is a wish for another answer in place of one: the new message will
// be a sibling of the old. Of the run that makes it the fields are as in Start.
type Regenerate struct {
	// Message is the assistant message to make anew. With Placed its parent must
	// be Parent.
	Message string
	Placed  bool
	Parent  string

	Run      string
	Answer   string
	Segment  string
	Agent    string
	Origin   Origin
	Upstream string
	Trace    string
	MaxRuns  int
}

// Regenerate decides on another answer: the entries to commit, or ErrForkPoint,
// ErrForkRole, ErrParent, ErrDuplicateRun or ErrTooManyRuns. It appends no
// message before the answer is there.
func (s *State) Regenerate(c Regenerate, lookup Lookup) ([]Entry, error) {
	if !s.Exists {
		return nil, ErrNoThread
	}
	if s.Run(c.Run) != nil || lookup(RunNode(c.Run)) != nil {
		return nil, ErrDuplicateRun
	}
	node := s.node(c.Message, lookup)
	switch {
	case node == nil || !node.Message():
		return nil, ErrForkPoint
	case node.Role != Assistant:
		return nil, ErrForkRole
	case c.Placed && c.Parent != node.Parent:
		return nil, ErrParent
	case c.MaxRuns > 0 && len(s.Runs) >= c.MaxRuns:
		return nil, ErrTooManyRuns
	}
	run := &Run{
		ID: c.Run, Status: RunPending, Agent: c.Agent, Origin: c.Origin,
		Message: node.Parent, Opening: s.Message(node.Parent), Answer: c.Answer, Regen: c.Message,
		Segments: []string{c.Segment}, Upstream: c.Upstream, Trace: c.Trace,
	}
	return []Entry{NewEntry(KindRunPending, c.Run, &RunPendingBody{Run: run})}, nil
}

// Name is what a dialect without ids for questions calls one by: what its agent
// calls it, the call that it is about, or its id where it is about none.
func (i *Interrupt) Name() string {
	if i.Alias != "" {
		return i.Alias
	}
	if i.Call != "" {
		return i.Call
	}
	return i.ID
}

// ShownQuestion is the question that a run shows, as of its newest log number, or nil.
func (r *Run) ShownQuestion() *Interrupt {
	if r.Asked == "" {
		return nil
	}
	for _, i := range r.Interrupts {
		if i.ID == r.Asked {
			return i
		}
	}
	return nil
}

// Question finds the question that a run shows by its name, if it is open;
// otherwise ErrUnknownRun, ErrNotSuspended, ErrDecided or ErrNotWaiting. The
// run's state is looked at first (PIN-174).
func (s *State) Question(run, name string, lookup Lookup) (*Interrupt, error) {
	r := s.Run(run)
	switch {
	case !s.Exists, r == nil && lookup(RunNode(run)) == nil:
		return nil, ErrUnknownRun
	case r == nil || r.Status != RunSuspended || r.Stop != nil:
		return nil, ErrNotSuspended
	}
	if i := r.ShownQuestion(); i != nil && i.Name() == name && i.Status == InterruptOpen {
		return i, nil
	}
	for _, i := range r.Interrupts {
		if i.Name() == name && i.Status != InterruptOpen && i.Segment == len(r.Segments)-1 {
			return nil, ErrDecided
		}
	}
	return nil, ErrNotWaiting
}
