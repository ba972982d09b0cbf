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
