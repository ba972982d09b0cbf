package chat

// Begin is a run that an agent begins by itself: no message asked for it. The
// fields are as in Start.
type Begin struct {
	Run      string
	Answer   string
	Segment  string
	Agent    string
	Origin   Origin
	Upstream string
	Trace    string
	MaxRuns  int
}

// Begin decides on it: the run is active at once (PIN-193), so the record that
// accepts it is no entry of the log, the next one is. Its answer will hang at the
// end of the default view. The errors are ErrNoThread, ErrDuplicateRun and
// ErrTooManyRuns.
func (s *State) Begin(c Begin, lookup Lookup) ([]Entry, error) {
	switch {
	case !s.Exists:
		return nil, ErrNoThread
	case s.Run(c.Run) != nil || lookup(RunNode(c.Run)) != nil:
		return nil, ErrDuplicateRun
	case c.MaxRuns > 0 && len(s.Runs) >= c.MaxRuns:
		return nil, ErrTooManyRuns
	}
	run := &Run{
		ID: c.Run, Status: RunPending, Agent: c.Agent, Origin: c.Origin, Message: s.Head, Answer: c.Answer,
		Segments: []string{c.Segment}, Upstream: c.Upstream, Trace: c.Trace, State: s.AgentState,
	}
	if len(s.Runs) == 0 && s.Upstream != "" {
		run.Upstream = s.Upstream
	}
	accepted := NewEntry(KindRunPending, c.Run, &RunPendingBody{Run: run})
	accepted.Logged = false
	return []Entry{accepted, NewEntry(KindRunActive, c.Run, &RunActiveBody{})}, nil
}

// Awaits says that the run waits for its agent to take it up or, everything that
// it asked being settled, to go on; since is from when on, in Unix milliseconds.
func (r *Run) Awaits() (since int64, awaits bool) {
	switch {
	case r.Stop != nil:
		return 0, false
	case r.Status == RunPending:
		return r.Started, true
	case r.Status != RunSuspended || r.Open() != nil:
		return 0, false
	}
	since = r.Suspended
	for _, i := range r.Interrupts {
		since = max(since, i.Settled)
	}
	return since, true
}
