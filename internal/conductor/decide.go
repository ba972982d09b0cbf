package conductor

import (
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// ErrLost: the run is not this owner's any more.
var ErrLost = errors.New("the run is owned by another attempt")

// ErrSealLost: the run is live and not sealed, although its seal was
// acknowledged: the store lost it, and the run is to be stopped once more.
var ErrSealLost = errors.New("the store lost the seal of the run")

// DecideStart accepts a user's message: the run is written with it, owned and with
// its answer's id, so that an acknowledged send cannot lose its run. Without a
// boot id it is nobody's and due at once, for an edge that has its agent.
func DecideStart(c chat.Start, boot string) func(*View) (Plan, error) {
	return func(v *View) (Plan, error) {
		entries, err := v.State.Start(c, v.Lookup)
		if err != nil {
			return Plan{}, err
		}
		p := Plan{Entries: entries, Segments: []string{c.Segment}}
		for _, e := range entries {
			switch e.Kind {
			case chat.KindRunEnd:
				p.Runs = append(p.Runs, journal.RunChange{Run: e.Run, End: true})
				p.Guards = append(p.Guards, guard(v, e.Run, false))
				p.Segments = append(p.Segments, c.WithdrawSegment)
			case chat.KindRunPending:
				change := journal.RunChange{Run: e.Run, New: true, NewOwner: true, Owner: boot, Agent: c.Agent}
				if boot == "" {
					change.Due = atOnce(v)
				}
				p.Runs = append(p.Runs, change)
			}
		}
		return p, nil
	}
}

// guard is a guard on the run as the view has it.
func guard(v *View, run string, owner bool) journal.Guard {
	m := v.Meta.Runs[run]
	return journal.Guard{Run: run, Fence: m.Fence, W: m.W, Owner: owner}
}

// DecideAnswer settles one question; with the last one the run gets its next
// owner, or, without a boot id, is due at once for an edge that has its agent.
func DecideAnswer(c chat.Answer, boot string, check func(*chat.Interrupt) error, into *Resumption) func(*View) (Plan, error) {
	return func(v *View) (Plan, error) {
		*into = Resumption{}
		if check != nil && v.State.Exists {
			if _, i := v.State.RunOfInterrupt(c.Interrupt); i != nil && i.Status == chat.InterruptOpen {
				if err := check(i); err != nil {
					return Plan{}, err
				}
			}
		}
		entries, run, resumed, err := v.State.Answer(c)
		if err != nil {
			return Plan{}, err
		}
		into.Run = run.ID
		p := Plan{Entries: entries, Guards: []journal.Guard{guard(v, run.ID, false)}}
		if resumed {
			into.Segment = c.Segment
			p.Runs = []journal.RunChange{{Run: run.ID, NewOwner: true, Owner: boot}}
			if boot == "" {
				p.Runs[0].Due = atOnce(v)
			}
			p.Segments = []string{c.Segment}
			p.Result = []byte(c.Segment)
			return p, nil
		}
		// What is due next is the earliest of the questions that are left.
		p.Runs = []journal.RunChange{{Run: run.ID, Due: nextDeadline(run.Interrupts, c.Interrupt)}}
		return p, nil
	}
}

// nextDeadline is the earliest deadline of the open questions but one, or 0.
func nextDeadline(questions []*chat.Interrupt, but string) int64 {
	due := int64(0)
	for _, i := range questions {
		if i.Status == chat.InterruptOpen && i.ID != but && i.Deadline != 0 && (due == 0 || i.Deadline < due) {
			due = i.Deadline
		}
	}
	return due
}

// Resumption says what an answer led to: Segment is "" while further questions
// are open.
type Resumption struct {
	Run, Segment string
	// awaited is the agent that goes on with the run by itself, or "".
	awaited string
}

// DecideStop seals a run, or ends it at once where it is suspended. ended tells
// which. suspended allows the second.
func DecideStop(find func(*chat.State) *chat.Run, s chat.Stop, segment string, suspended bool, run *string, ended *bool) func(*View) (Plan, error) {
	return func(v *View) (Plan, error) {
		if !v.State.Exists {
			return Plan{}, chat.ErrNoThread
		}
		r := find(v.State)
		if r == nil || (r.Status == chat.RunSuspended && !suspended) {
			return Plan{}, chat.ErrUnknownRun
		}
		*run = r.ID
		entries, end, err := v.State.Stop(r.ID, s, segment)
		if err != nil {
			return Plan{}, err
		}
		*ended = end
		if end {
			return Plan{
				Entries: entries, Guards: []journal.Guard{guard(v, r.ID, false)},
				Runs: []journal.RunChange{{Run: r.ID, End: true}}, Segments: []string{segment},
				Result: []byte(r.ID),
			}, nil
		}
		return Plan{
			Entries: entries, Result: []byte(r.ID),
			Runs: []journal.RunChange{{Run: r.ID, Sealed: true, Due: v.Meta.At + journal.SealDeadline.Milliseconds()}},
		}, nil
	}
}

// DecideEndSealed ends a run that was sealed, whoever sealed it. A run that is gone
// was ended by somebody else, which is as good.
func DecideEndSealed(run string, at int64) func(*View) (Plan, error) {
	return func(v *View) (Plan, error) {
		r := v.State.Run(run)
		if r == nil {
			return Plan{}, nil
		}
		if r.Stop == nil {
			return Plan{}, ErrSealLost
		}
		return Plan{
			Entries: []chat.Entry{r.EndSealed(at)},
			Guards:  []journal.Guard{guard(v, run, false)},
			Runs:    []journal.RunChange{{Run: run, End: true}},
		}, nil
	}
}

// DecideDetach asks a run's owner to let subagents go.
func DecideDetach(segment, call string, run *string) func(*View) (Plan, error) {
	return func(v *View) (Plan, error) {
		if !v.State.Exists {
			return Plan{}, chat.ErrNoThread
		}
		r := v.State.RunOfSegment(segment)
		if r == nil || r.Segment() != segment {
			return Plan{}, chat.ErrUnknownRun
		}
		*run = r.ID
		entries, err := v.State.Detach(r.ID, call)
		if err != nil {
			return Plan{}, err
		}
		return Plan{Entries: entries, Guards: []journal.Guard{guard(v, r.ID, true)}, Runs: []journal.RunChange{{Run: r.ID, Due: v.Meta.Runs[r.ID].Due}}}, nil
	}
}

// DecideTaken says that nobody need look at a run that was due, since the attempt
// of that number has it. Where another has it nothing is written.
func DecideTaken(run string, fence uint64) func(*View) (Plan, error) {
	return func(v *View) (Plan, error) {
		m, r := v.Meta.Runs[run], v.State.Run(run)
		if m.Fence != fence || m.Sealed || r == nil || r.Stop != nil {
			return Plan{}, nil
		}
		return Plan{
			Guards: []journal.Guard{guard(v, run, true)},
			Runs:   []journal.RunChange{{Run: run}},
		}, nil
	}
}

// errStreamed: the run cannot be started again by another edge.
var errStreamed = errors.New("the run has said something")

// owned returns the run if this attempt still owns it.
func owned(v *View, o *Owner) (*chat.Run, error) {
	m, ok := v.Meta.Runs[o.Run]
	r := v.State.Run(o.Run)
	if !ok || r == nil || v.Meta.Epoch != o.Epoch || m.Fence != o.Fence || (o.Boot != "" && m.Owner != o.Boot) || m.Sealed || r.Stop != nil {
		return nil, ErrLost
	}
	return r, nil
}

// DecideOpen opens the first segment, right before the agent is called.
func DecideOpen(o *Owner) func(*View) (Plan, error) {
	return func(v *View) (Plan, error) {
		r, err := owned(v, o)
		if err != nil {
			return Plan{}, err
		}
		if r.Status != chat.RunPending {
			return Plan{}, ErrLost
		}
		return Plan{
			Entries: []chat.Entry{chat.NewEntry(chat.KindRunActive, o.Run, &chat.RunActiveBody{})},
			Guards:  []journal.Guard{{Run: o.Run, Fence: o.Fence, W: 0, Owner: true}},
			Runs:    []journal.RunChange{{Run: o.Run, Counts: true}},
		}, nil
	}
}

// DecideFinish is the owner's own end of its segment: the run ends, or it asks its
// questions and is suspended, in one commit. unasked is as Options.Unasked, or nil:
// what nobody is asked is due at once.
func DecideFinish(o *Owner, now int64, unasked func(*chat.Run, *chat.Interrupt) (chat.InterruptStatus, jsontext.Value)) func(*View) (Plan, error) {
	return func(v *View) (Plan, error) {
		r, err := owned(v, o)
		if err != nil {
			return Plan{}, err
		}
		out := o.Outcome()
		g := []journal.Guard{{Run: o.Run, Fence: o.Fence, W: o.W(), Owner: true}}
		if out.Status != chat.RunSuspended {
			return Plan{
				Entries: []chat.Entry{r.End(endOf(out, now))}, Guards: g,
				Runs: []journal.RunChange{{Run: o.Run, End: true}},
			}, nil
		}
		p := Plan{Guards: g}
		due := int64(0)
		for _, i := range out.Interrupts {
			c := *i
			c.Status, c.Segment = chat.InterruptOpen, len(r.Segments)-1
			if unasked != nil {
				if status, value := unasked(r, &c); status != "" {
					c.Unasked, c.Otherwise, c.Deadline = status, value, now
				}
			}
			if c.Deadline != 0 && (due == 0 || c.Deadline < due) {
				due = c.Deadline
			}
			p.Entries = append(p.Entries, chat.NewEntry(chat.KindInterrupt, o.Run, &chat.InterruptBody{Interrupt: &c}))
		}
		p.Entries = append(p.Entries, chat.NewEntry(chat.KindRunSuspended, o.Run, &chat.RunSuspendedBody{State: out.State}))
		p.Runs = []journal.RunChange{{Run: o.Run, NewOwner: true, Owner: "", Due: due}}
		return p, nil
	}
}

func endOf(out *agent.Outcome, now int64) chat.End {
	e := chat.End{Status: out.Status, Code: out.Code, Text: out.Text, Usage: out.Usage, At: now}
	switch out.Status {
	case chat.RunCancelled:
		e.Cause = chat.CauseAgent
	case chat.RunComplete, chat.RunError:
	default:
		e.Status, e.Code = chat.RunError, chat.CodeAgentError
	}
	return e
}

// DecideEndLost ends a claimed run whose owner was lost.
func DecideEndLost(run string, fence uint64, s chat.Stop, segment string, now int64) func(*View) (Plan, error) {
	return func(v *View) (Plan, error) {
		m, ok := v.Meta.Runs[run]
		r := v.State.Run(run)
		if !ok || r == nil || m.Fence != fence {
			return Plan{}, nil
		}
		why := s
		if r.Stop != nil {
			why = *r.Stop
		}
		p := Plan{Guards: []journal.Guard{guard(v, run, false)}, Runs: []journal.RunChange{{Run: run, End: true}}}
		if r.Status == chat.RunSuspended {
			entries, _, err := v.State.Stop(run, why, segment)
			if err != nil {
				return Plan{}, err
			}
			p.Entries, p.Segments = entries, []string{segment}
			return p, nil
		}
		r2 := *r
		r2.Stop = &why
		p.Entries = []chat.Entry{r2.EndSealed(now)}
		return p, nil
	}
}

// Held is what an owner still has of its run when the store lost some of it.
type Held struct {
	Run *chat.Run
	// Born is that of the thread: a thread made again has none of its runs.
	Born uint64
	// Boot and Fence name the attempt.
	Boot  string
	Fence uint64
}

// DecideRestore ends a run after the store lost part of it, with the whole text
// that its owner still holds. What is left of the run decides the form: its end
// only, or the question, the run and its end together. A run that has ended or
// is sealed, or that a later attempt or another edge owns, is left alone: so an
// owner that lost its run may always ask, and need not know why it lost it.
func DecideRestore(h Held, now int64) func(*View) (Plan, error) {
	return func(v *View) (Plan, error) {
		if !v.State.Exists {
			return Plan{}, chat.ErrNoThread
		}
		if v.State.Born != h.Born {
			return Plan{}, nil
		}
		id := h.Run.ID
		stop := chat.Stop{Cause: chat.CauseLogLost}
		held := *h.Run
		held.Stop = &stop
		r := v.State.Run(id)
		if r == nil {
			if v.Lookup(chat.RunNode(id)) != nil || v.Lookup(held.Answer) != nil {
				return Plan{}, nil
			}
			return v.restoreWhole(&held, now), nil
		}
		if m := v.Meta.Runs[id]; r.Stop != nil || m.Fence > h.Fence || (m.Fence == h.Fence && m.Owner != h.Boot) {
			return Plan{}, nil
		}
		if !slices.Contains(h.Run.Segments, r.Segment()) {
			// It was resumed once more after the loss, perhaps with the very
			// same fence and by this edge.
			return Plan{}, nil
		}
		held.Status, held.Segments = r.Status, r.Segments
		end := r.End(chat.End{Status: chat.RunError, Cause: chat.CauseLogLost, Code: chat.CodeLogLost, Text: lostText, At: now, Segment: h.Run.Segment()})
		end.Body.(*chat.RunEndBody).Message = held.Answered(now)
		return Plan{
			Entries: []chat.Entry{end},
			Guards:  []journal.Guard{guard(v, id, false)},
			Runs:    []journal.RunChange{{Run: id, End: true}},
		}, nil
	}
}

const lostText = "part of the log was lost"

func (v *View) restoreWhole(held *chat.Run, now int64) Plan {
	var p Plan
	if held.Opening != nil && v.State.Message(held.Message) == nil && v.Lookup(held.Message) == nil {
		p.Entries = append(p.Entries, chat.NewEntry(chat.KindMessage, "", &chat.MessageBody{Message: held.Opening}))
	}
	fresh := &chat.Run{
		ID: held.ID, Status: chat.RunPending, Agent: held.Agent, Origin: held.Origin, Message: held.Message,
		Opening: held.Opening, Answer: held.Answer, Upstream: held.Upstream, Segments: held.Segments,
	}
	end := fresh.End(chat.End{Status: chat.RunError, Cause: chat.CauseLogLost, Code: chat.CodeLogLost, Text: lostText, At: now})
	end.Body.(*chat.RunEndBody).Message = held.Answered(now)
	p.Entries = append(p.Entries, chat.NewEntry(chat.KindRunPending, held.ID, &chat.RunPendingBody{Run: fresh}), end)
	p.Runs = []journal.RunChange{{Run: held.ID, New: true, End: true}}
	p.Segments = held.Segments
	return p
}
