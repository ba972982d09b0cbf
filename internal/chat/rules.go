package chat

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// What a rule may refuse with. Each dialect words them in its own codes.
var (
	// ErrNoThread: nobody opened the thread, or it was deleted.
	ErrNoThread = errors.New("no such thread")
	// ErrThreadExists: a thread of that id is there already.
	ErrThreadExists = errors.New("the thread exists")
	// ErrDuplicateMessage: the thread has a message of that id, on any branch.
	ErrDuplicateMessage = errors.New("a message with this id already exists")
	// ErrDuplicateRun: the thread has had a run of that id.
	ErrDuplicateRun = errors.New("a run with this id already exists")
	// ErrForkPoint: the message to fork from is not in the thread.
	ErrForkPoint = errors.New("the message to fork from is not in the thread")
	// ErrNoParent: the message to hang the new one under is not in the thread.
	ErrNoParent = errors.New("the message to answer is not in the thread")
	// ErrParent: the message to make anew hangs under another one.
	ErrParent = errors.New("the message hangs under another one")
	// ErrForkRole: only a user's message can be replaced by a user's message.
	ErrForkRole = errors.New("only a user message can be replaced")
	// ErrBusy: a run is in flight and the dialect allows one.
	ErrBusy = errors.New("a run is already in flight")
	// ErrTooManyRuns: the thread has as many runs as the site allows.
	ErrTooManyRuns = errors.New("too many runs in this thread")
	// ErrWaiting: somebody else's run waits on a decision.
	ErrWaiting = errors.New("the thread waits on a decision")
	// ErrUnknownRun: the run is not there, has ended or is ending.
	ErrUnknownRun = errors.New("the run is not active")
	// ErrRunEnded: the run has ended, or is ending.
	ErrRunEnded = errors.New("the run has ended")
	// ErrNotSuspended: the run waits for nothing.
	ErrNotSuspended = errors.New("the run is not suspended")
	// ErrDecided: the decision was made already.
	ErrDecided = errors.New("the decision was made already")
	// ErrForeignRun: the run is another one's, and only own ones may be stopped.
	ErrForeignRun = errors.New("the run is somebody else's")
	// ErrReserved: the id is not free, and no message of the thread has it.
	ErrReserved = errors.New("the id is reserved")
	// ErrNoMessage: the thread has no message of that id.
	ErrNoMessage = errors.New("no such message")
	// ErrNotWaiting: the decision is unknown or was made already.
	ErrNotWaiting = errors.New("the thread is not waiting on that decision")
	// ErrToolName: a client tool has the name of a tool of the agent's own.
	ErrToolName = errors.New("a client tool has the name of one of the agent's tools")
	// ErrNoSubagent: nothing of the run can go to the background.
	ErrNoSubagent = errors.New("no running subagent call to detach")
)

// Lookup tells of ids that stand in older pages; nil for an id nobody used.
type Lookup func(id string) *Node

// Create opens a thread.
func (s *State) Create(info Info) ([]Entry, error) {
	if s.Exists {
		return nil, ErrThreadExists
	}
	return []Entry{NewEntry(KindThread, "", &ThreadBody{Info: info})}, nil
}

// Start is a user's message with the run that answers it. The ids are minted
// by the caller, once, so that deciding again gives the same ones.
type Start struct {
	Message *Message
	// Fork is the user message that this one replaces, or "". Placed says that
	// the message hangs under Parent ("" is a root), not at the end of the
	// default view.
	Fork   string
	Placed bool
	Parent string
	Run    string
	Answer string
	// Segment and WithdrawSegment are fresh segment ids; the second is used if
	// a waiting run is withdrawn (one per run, so at most the sender's first).
	Segment         string
	WithdrawSegment string
	Agent           string
	Origin          Origin
	Tools           []ClientTool
	// Upstream is a fresh thread id for the agent, taken where the branch has
	// none of its own; with SameUpstream it is always taken.
	Upstream     string
	SameUpstream bool
	Trace        string
	// OneRun refuses while another run is in flight (PIL-046); MaxRuns bounds
	// the thread's live runs.
	OneRun  bool
	MaxRuns int
	// RefuseWaiting refuses also where the sender's own run waits (PIL-047).
	RefuseWaiting bool
}

// Start decides on a user's message: the entries to commit, or why not. The
// order of the checks is PIL-186.
func (s *State) Start(c Start, lookup Lookup) ([]Entry, error) {
	if !s.Exists {
		return nil, ErrNoThread
	}
	if s.Message(c.Message.ID) != nil || lookup(c.Message.ID) != nil || s.answers(c.Message.ID) || c.Fork == c.Message.ID {
		return nil, ErrDuplicateMessage
	}
	if s.Run(c.Run) != nil || lookup(RunNode(c.Run)) != nil {
		return nil, ErrDuplicateRun
	}
	m := *c.Message
	m.Role, m.Run, m.Status = User, c.Run, MessageComplete
	if c.Fork != "" {
		node := s.node(c.Fork, lookup)
		if node == nil {
			return nil, ErrForkPoint
		}
		if node.Role != User {
			return nil, ErrForkRole
		}
		m.Parent, m.ForkOf = node.Parent, c.Fork
	} else if c.Placed {
		if n := s.node(c.Parent, lookup); c.Parent != "" && (n == nil || !n.Message()) {
			return nil, ErrNoParent
		}
		m.Parent = c.Parent
	}
	entries, withdrawn, err := s.admit(c)
	if err != nil {
		return nil, err
	}
	head := s.headAfter(entries)
	if c.Fork == "" && !c.Placed {
		m.Parent = head
	}
	branches := c.Fork != "" || m.Parent != head
	run := &Run{
		ID: c.Run, Status: RunPending, Agent: c.Agent, Origin: c.Origin,
		Message: m.ID, Opening: &m, Answer: c.Answer, Segments: []string{c.Segment},
		Tools: c.Tools, Trace: c.Trace, Withdrawn: withdrawn,
	}
	concurrent := len(s.Runs) > len(endsOf(entries))
	switch {
	case c.SameUpstream, branches, concurrent, s.Upstream == "":
		run.Upstream = c.Upstream
	default:
		run.Upstream = s.Upstream
	}
	if !branches {
		run.State = s.AgentState
	}
	return append(entries,
		NewEntry(KindMessage, "", &MessageBody{Message: &m}),
		NewEntry(KindRunPending, c.Run, &RunPendingBody{Run: run})), nil
}

// admit checks the thread's live runs and withdraws the sender's waiting ones.
func (s *State) admit(c Start) (entries []Entry, withdrawn []*Interrupt, err error) {
	live := 0
	for _, r := range s.Runs {
		switch {
		case r.Status != RunSuspended || r.Stop != nil:
			if c.OneRun {
				return nil, nil, ErrBusy
			}
			live++
		case !c.OneRun:
			live++
		case c.RefuseWaiting || r.Origin.By != c.Origin.By || len(withdrawn) > 0:
			return nil, nil, ErrWaiting
		default:
			stop := Stop{Cause: CauseWithdraw, By: c.Origin.By}
			entries = append(entries, r.endSuspended(stop, c.WithdrawSegment)...)
			for _, i := range r.Interrupts {
				if i.Segment == len(r.Segments)-1 {
					// One that was answered counts as withdrawn too: nothing
					// may be done because of it.
					w := *i
					w.Status, w.Answer, w.By = InterruptWithdrawn, nil, Subject{}
					withdrawn = append(withdrawn, &w)
				}
			}
		}
	}
	if c.MaxRuns > 0 && live >= c.MaxRuns {
		return nil, nil, ErrTooManyRuns
	}
	return entries, withdrawn, nil
}

// headAfter is the head once the entries are written: a run that is withdrawn
// leaves its message there.
func (s *State) headAfter(entries []Entry) string {
	if len(entries) == 0 {
		return s.Head
	}
	st := s.Clip()
	for _, e := range entries {
		st = st.Apply(&Record{Entry: e})
	}
	return st.Head
}

func endsOf(entries []Entry) (ends []Entry) {
	for _, e := range entries {
		if e.Kind == KindRunEnd {
			ends = append(ends, e)
		}
	}
	return ends
}

func (s *State) node(id string, lookup Lookup) *Node {
	if m := s.Message(id); m != nil {
		return &Node{Role: m.Role, Parent: m.Parent, ForkOf: m.ForkOf}
	}
	return lookup(id)
}

// answers says whether a live run has reserved the id for its answer.
func (s *State) answers(id string) bool {
	for _, r := range s.Runs {
		if r.Answer == id || r.Part(id) != nil {
			return true
		}
	}
	return false
}

// Answer is a decision on one open interrupt.
type Answer struct {
	Interrupt string
	Value     jsontext.Value
	By        Subject
	// Status is InterruptAnswered, or another final one (declined, expired).
	Status InterruptStatus
	// Segment and Tools are those of the segment that follows the last answer.
	Segment string
	Tools   []ClientTool
	// Held leaves the run suspended also after the last answer: its agent will
	// say when it goes on (PIN-173).
	Held bool
}

// Answer decides on an answer: the first one wins. Resumed says that it was
// the last that the run waited for, so that the commit must name an owner.
func (s *State) Answer(c Answer) (entries []Entry, run *Run, resumed bool, err error) {
	if !s.Exists {
		return nil, nil, false, ErrNoThread
	}
	run, i := s.RunOfInterrupt(c.Interrupt)
	if i == nil || i.Status != InterruptOpen || run.Status != RunSuspended || run.Stop != nil {
		return nil, nil, false, ErrNotWaiting
	}
	entries = []Entry{NewEntry(KindAnswer, run.ID, &AnswerBody{Interrupt: i.ID, Status: c.Status, Value: c.Value, By: c.By})}
	for _, o := range run.Interrupts {
		if o.Status == InterruptOpen && o.ID != i.ID {
			// A dialect that shows one question at a time shows another one now.
			entries[0].Logged = run.Open() == i
			return entries, run, false, nil
		}
	}
	if c.Held {
		return entries, run, false, nil
	}
	entries = append(entries, NewEntry(KindRunResumed, run.ID, &RunResumedBody{Segment: c.Segment, Tools: c.Tools}))
	return entries, run, true, nil
}

// Resume decides that a suspended run goes on because its agent says so.
// Questions that nobody has answered are withdrawn. segment is fresh.
func (s *State) Resume(run, segment string) ([]Entry, error) {
	r := s.Run(run)
	switch {
	case r == nil || r.Stop != nil:
		return nil, ErrUnknownRun
	case r.Status != RunSuspended:
		return nil, ErrNotSuspended
	}
	var entries []Entry
	for _, i := range r.Interrupts {
		if i.Status == InterruptOpen {
			entries = append(entries, NewEntry(KindAnswer, r.ID, &AnswerBody{Interrupt: i.ID, Status: InterruptWithdrawn}))
		}
	}
	return append(entries, NewEntry(KindRunResumed, r.ID, &RunResumedBody{Segment: segment})), nil
}

// Take decides that another connection, which can show what supports says, shows a
// run from now on.
func (s *State) Take(run, holder string, supports []string) ([]Entry, error) {
	if r := s.Run(run); r == nil || r.Stop != nil {
		return nil, ErrUnknownRun
	}
	return []Entry{NewEntry(KindRunTaken, run, &RunTakenBody{Holder: holder, Supports: append([]string{}, supports...)})}, nil
}

// Stop decides on the end of a run from outside. A run at work is sealed
// first, and its end follows in a commit of its own; a suspended one has no
// owner to seal out and ends at once (ended). segment is fresh, for that case.
func (s *State) Stop(run string, stop Stop, segment string) (entries []Entry, ended bool, err error) {
	r := s.Run(run)
	if r == nil || r.Stop != nil {
		return nil, false, ErrUnknownRun
	}
	if r.Status == RunSuspended {
		return r.endSuspended(stop, segment), true, nil
	}
	return []Entry{NewEntry(KindRunStop, r.ID, &RunStopBody{Stop: stop})}, false, nil
}

func (r *Run) endSuspended(stop Stop, segment string) []Entry {
	var entries []Entry
	for _, i := range r.Interrupts {
		if i.Status == InterruptOpen {
			entries = append(entries, NewEntry(KindAnswer, r.ID, &AnswerBody{Interrupt: i.ID, Status: InterruptWithdrawn, By: stop.By}))
		}
	}
	status, code, text := stop.outcome()
	return append(entries, r.End(End{Status: status, Cause: stop.Cause, Code: code, Text: text, Segment: segment}))
}

// outcome says how a run that was stopped for a reason ends: a person's stop
// is no fault (PIL-097), a lost edge is, and a time-out is a cancel that the
// dialects word as an error (C16).
func (p Stop) outcome() (RunStatus, string, string) {
	switch p.Cause {
	case CauseUser, CauseWithdraw, CauseDeleted:
		return RunCancelled, "", ""
	case CauseTimeout:
		return RunCancelled, CodeRunTimeout, "the run took longer than it may"
	case CauseEdgeLost:
		return RunError, CodeEdgeLost, "the server that ran this was lost"
	case CauseLogLost:
		return RunError, CodeLogLost, "part of the log was lost"
	case CauseShutdown:
		return RunError, CodeShutdown, "the gateway was restarted"
	}
	if p.Code == "" {
		return RunError, CodeAgentError, p.Message
	}
	return RunError, p.Code, p.Message
}

// End is how a run ends.
type End struct {
	Status RunStatus
	Cause  Cause
	Code   string
	Text   string
	// Segment is a fresh id, used if the run is suspended.
	Segment string
	Usage   jsontext.Value
	// At is the message's time in Unix milliseconds; 0 takes the run's start.
	At int64
}

// End makes the entry that ends the run: the compaction. The message holds
// whatever had streamed (PIL-098); a run that never became active has none.
func (r *Run) End(e End) Entry {
	b := &RunEndBody{Status: e.Status, Cause: e.Cause, Code: e.Code, Text: e.Text, Usage: e.Usage}
	if r.Status != RunPending {
		b.Message = r.message(e)
	}
	if r.Status == RunSuspended {
		b.Segment = e.Segment
	}
	n, opens := r.endEnvelopes()
	return Entry{Kind: KindRunEnd, Run: r.ID, N: n, Opens: opens, Logged: true, Body: b}
}

// EndSealed makes the entry that ends a sealed run for the reason it was
// sealed for.
func (r *Run) EndSealed(at int64) Entry {
	status, code, text := r.Stop.outcome()
	return r.End(End{Status: status, Cause: r.Stop.Cause, Code: code, Text: text, At: at})
}

// Answered makes the message of a run that ended in an error, with the parts
// that it has.
func (r *Run) Answered(at int64) *Message { return r.message(End{Status: RunError, At: at}) }

func (r *Run) message(e End) *Message {
	m := &Message{
		ID: r.Answer, Role: Assistant, Parent: r.Message, ForkOf: r.Regen, Regen: r.Regen, Run: r.ID, By: r.Origin.By,
		Status: MessageComplete, Created: r.Started, Parts: make([]*Part, len(r.Parts)),
	}
	if e.At != 0 {
		m.Created = e.At
	}
	switch e.Status {
	case RunCancelled:
		m.Status = MessageCancelled
	case RunError:
		m.Status = MessageError
	}
	for i, p := range r.Parts {
		q := *p
		q.Open, q.Text = false, clip(q.Text)
		m.Parts[i] = &q
	}
	return m
}

// Detach decides which of a run's subagents go to the background: all of
// them, or only the one of the call.
func (s *State) Detach(run, call string) ([]Entry, error) {
	r := s.Run(run)
	if r == nil || r.Status != RunActive || r.Stop != nil {
		return nil, ErrUnknownRun
	}
	var calls []string
	for _, sub := range r.Subagents {
		if sub.Running && (call == "" || sub.Call == call) {
			calls = append(calls, sub.Call)
		}
	}
	if len(calls) == 0 {
		return nil, ErrNoSubagent
	}
	return []Entry{NewEntry(KindRunDetach, r.ID, &RunDetachBody{Calls: calls})}, nil
}
