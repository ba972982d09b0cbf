package agent

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// What one run may hold. An answer that goes beyond it ends ANSWER_TOO_LONG;
// lesser things (names, side values, results) are cut or left out.
const (
	// MaxAnswer bounds text, reasoning, arguments and results of a run, in bytes.
	MaxAnswer = 4 << 20
	// MaxParts bounds the parts of a run.
	MaxParts = 10_000
	// MaxDelta is the longest delta of one record, in bytes.
	MaxDelta = 64 << 10

	maxResult    = 1 << 20
	maxEncrypted = 256 << 10
	maxValue     = 1 << 20
	maxValues    = 64 << 20 // of all side values of a segment
	maxSides     = 100_000  // side records of a segment
	maxKey       = 512      // of an agent's id, before it is hashed
	maxName      = 256
	maxTodos     = 500
	maxTodo      = 4 << 10
	maxSubagents = 1_000
	maxSteps     = 100
	maxForeign   = 10_000
	maxAsked     = 64
	maxPayload   = 256 << 10
	maxWaiting   = 64 << 10 // of text that waits for another block to end
	maxWaiters   = 16
	maxCode      = 64
	maxErrorText = 1 << 10
)

// Counts says what a Repair had to do to an agent's events.
type Counts struct {
	// Dropped events said nothing that a thread may hold; Mended ones were
	// changed, or made others necessary.
	Dropped, Mended int
}

// Repair turns whatever an agent sends in one segment into entries that keep a
// thread's rules: each block is START, CONTENT*, END under an id of its own,
// one text at a time; nothing is open when the segment ends; nothing follows
// the end. It is a step object: no clock, no I/O, not safe for concurrent use.
//
// Ids: the first text part of a run has the id of its answer, later ones
// answer-n; reasoning is answer-rn. A call keeps the agent's id where that is
// valid and free, else it is answer-cn.
type Repair struct {
	run     *chat.Run
	segment int
	begun   bool
	ended   bool
	tooLong bool
	counts  Counts

	parts int             // of the run, with those that wait
	size  int             // bytes of the run's text
	used  map[string]bool // ids of parts and subagents

	text, reasoning lane
	calls           calls
	subs            subagents
	steps           []string

	values, sides int
	state         jsontext.Value
	asked         []*chat.Interrupt
	gate          gate
}

// NewRepair makes the repair of the run's current segment; what the segments
// before wrote is taken into account. It reads run now and never later.
func NewRepair(run *chat.Run) *Repair {
	r := &Repair{
		run: run, segment: max(len(run.Segments)-1, 0),
		used: make(map[string]bool), state: run.State,
	}
	r.text = newLane(chat.KindTextStart, chat.KindTextDelta, chat.KindTextEnd, "-")
	r.reasoning = newLane(chat.KindReasoningStart, chat.KindReasoningDelta, chat.KindReasoningEnd, "-r")
	r.calls = newCalls(run, r.segment)
	r.subs.byKey = make(map[string]*subagent)
	for _, p := range run.Parts {
		r.parts++
		r.size += len(p.Text) + len(p.Result)
		r.used[p.ID] = true
		switch p.Type {
		case chat.PartText:
			r.text.next++
			r.text.adopt(p, r.segment)
		case chat.PartReasoning:
			r.reasoning.next++
			r.reasoning.adopt(p, r.segment)
		}
	}
	for _, s := range run.Subagents {
		r.used[s.ID] = true
	}
	r.subs.next = len(run.Subagents)
	return r
}

// Begin returns the entries that a resumed segment opens with: the answers of
// blocking client tools are the results of their calls (PIL-076). The first
// Event or End does it too, so that calling it is a matter of being prompt.
func (r *Repair) Begin() []chat.Entry {
	if r.begun {
		return nil
	}
	r.begun = true
	var out []chat.Entry
	for _, i := range r.run.Interrupts {
		if i.Kind != chat.InterruptClientTool || i.Status == chat.InterruptOpen {
			continue
		}
		if c := r.calls.byID[i.Call]; c != nil && !c.done {
			out = append(out, r.result(c, AnswerText(i)))
		}
	}
	return append(out, r.refusals()...)
}

// Event repairs one event. Nothing comes back for one that is dropped, waits,
// or follows the end.
func (r *Repair) Event(ev Event) []chat.Entry {
	if r.ended || r.tooLong || r.gate.halted {
		r.counts.Dropped++
		return nil
	}
	out := r.Begin()
	switch ev.Kind {
	case chat.KindTextStart, chat.KindTextDelta, chat.KindTextEnd:
		return append(out, r.block(&r.text, ev)...)
	case chat.KindReasoningStart, chat.KindReasoningDelta, chat.KindReasoningEnd:
		return append(out, r.block(&r.reasoning, ev)...)
	case chat.KindReasoningEncrypted:
		return append(out, r.encrypted(ev)...)
	case chat.KindToolStart, chat.KindToolArgs, chat.KindToolEnd, chat.KindToolResult:
		return append(out, r.call(ev)...)
	case chat.KindInterrupt:
		r.ask(ev)
		return out
	}
	return append(out, r.side(ev)...)
}

// Full says that the answer is longer than it may be: the agent's call may be
// ended, nothing that it says counts any more, and End will say so.
func (r *Repair) Full() bool { return r.tooLong }

// Counts returns what was dropped and mended so far.
func (r *Repair) Counts() Counts { return r.counts }

// AgentCall returns the agent's own id for a call of this segment that the
// thread knows by id.
func (r *Repair) AgentCall(id string) string {
	if c := r.calls.byID[id]; c != nil {
		return c.agent
	}
	return id
}

// End closes what is open and returns the outcome as it may be committed:
// interrupts with ids, kinds and payloads, texts within bounds. A complete
// outcome that leaves calls of blocking client tools behind is a suspended one.
// Only the first End counts; the entries go before the commit.
func (r *Repair) End(o Outcome) ([]chat.Entry, Outcome) {
	if r.ended {
		return nil, o
	}
	out := r.Begin()
	r.ended = true
	o = r.settle(o)
	out = append(out, r.endLane(&r.text)...)
	out = append(out, r.endLane(&r.reasoning)...)
	out = append(out, r.endCalls(o.Status != chat.RunComplete && o.Status != chat.RunSuspended)...)
	out = append(out, r.endSteps()...)
	out = append(out, r.endSubagents(o.Status)...)
	o = r.pause(o)
	if r.tooLong && o.Status != chat.RunError {
		o = r.settle(o)
	}
	if st, ok := cleanValue(o.State, maxValue); ok && string(st) != string(r.state) {
		o.State = st
		out = append(out, r.entry(chat.KindState, &chat.StateBody{State: st}))
	} else if !ok {
		o.State = nil
	}
	o.Usage = joinUsage(r.run.Usage, o.Usage)
	if o.Status == chat.RunSuspended && len(o.Usage) > 0 {
		out = append(out, r.entry(chat.KindUsage, &chat.UsageBody{Usage: o.Usage}))
	}
	return out, o
}

// settle makes an outcome one of the four that there are.
func (r *Repair) settle(o Outcome) Outcome {
	if r.gate.halted && !r.tooLong { // its call was ended, which it may word as it likes
		return Outcome{Status: chat.RunSuspended, State: o.State, Usage: o.Usage}
	}
	if r.tooLong {
		o.Status, o.Code, o.Text = chat.RunError, chat.CodeAnswerTooLong, "the answer is longer than it may be"
	}
	switch o.Status {
	case chat.RunComplete, chat.RunSuspended, chat.RunCancelled, chat.RunError:
	default:
		o.Status = chat.RunError
	}
	if o.Status == chat.RunError {
		o.Code = cleanName(o.Code, maxCode)
		if o.Code == "" {
			o.Code = chat.CodeAgentError
		}
		if o.Text = cleanText(o.Text, maxErrorText); o.Text == "" {
			o.Text = "the agent failed"
		}
	}
	if o.Status == chat.RunCancelled || o.Status == chat.RunError {
		o.Interrupts = nil
	}
	return o
}

func (r *Repair) entry(k chat.Kind, b chat.Body) chat.Entry { return chat.NewEntry(k, r.run.ID, b) }

// part takes a place for one more part; false when there are too many.
func (r *Repair) part() bool {
	if r.parts >= MaxParts {
		r.tooLong = true
		return false
	}
	r.parts++
	return true
}

// take cuts text to what the run may still hold.
func (r *Repair) take(text string) string {
	if left := MaxAnswer - r.size; len(text) > left {
		r.tooLong = true
		text = cut(text, left)
	}
	r.size += len(text)
	return text
}
