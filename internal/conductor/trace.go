package conductor

import (
	"context"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// Tracer draws what a conductor does as spans. Its methods are called by many
// goroutines and must not block.
type Tracer interface {
	// Stamp is what a run's records keep of the context's span, so that whoever has
	// the run later can say where it began: a W3C traceparent, or "" for none.
	Stamp(ctx context.Context) string
	// Begin begins a span. What is done with the context that is returned is below
	// it.
	Begin(ctx context.Context, w Work) (context.Context, Span)
	// Content says that spans may hold what people and agents say.
	Content() bool
}

// Work is what a span is about.
type Work struct {
	Kind WorkKind
	Key  chat.Key
	// Run is the run as it was, or nil; Entries are those of a commit.
	Run     *chat.Run
	Entries []chat.Entry
	// Above is the Stamp of the span above, where the context has none. The span is
	// linked with that of the run's first record if it is of another trace.
	Above string
	// Fence is the number of the attempt.
	Fence uint64
	// Call is what an agent is given.
	Call *agent.Call
	// Since is when a run began, in Unix milliseconds: its span ends as it begins.
	Since int64
}

// WorkKind names a piece of work.
type WorkKind string

// The pieces: a commit to a thread, a run as a whole, an attempt at a segment of
// a run, a call of an agent, and taking over a run that another edge had.
const (
	WorkCommit  WorkKind = "commit"
	WorkRun     WorkKind = "run"
	WorkSegment WorkKind = "segment"
	WorkCall    WorkKind = "call"
	WorkClaim   WorkKind = "claim"
)

// Span is work that has begun. Its methods must not block.
type Span interface {
	// Event notes something that happened on the way; about is one word, or "".
	Event(name, about string)
	// Link ties it to a Stamp; one of "" is left out.
	Link(stamp string)
	// First is the agent's first word.
	First()
	// Said is what a run has said, for a Tracer with Content.
	Said(parts []*chat.Part)
	// Stamp is as that of Tracer.
	Stamp() string
	// End ends it, once. An outcome is one word; err, if it is not nil, says that it failed.
	End(outcome string, err error)
}

// noSpan is that of a conductor without a tracer.
type noSpan struct{}

func (noSpan) Event(string, string) {}
func (noSpan) Link(string)          {}
func (noSpan) First()               {}
func (noSpan) Said([]*chat.Part)    {}
func (noSpan) Stamp() string        { return "" }
func (noSpan) End(string, error)    {}

// begin begins a span, or nothing without a tracer.
func (c *Conductor) begin(ctx context.Context, w Work) (context.Context, Span) {
	if c.o.Tracer == nil {
		return ctx, noSpan{}
	}
	return c.o.Tracer.Begin(ctx, w)
}

// stamp is what records keep of the context's span.
func (c *Conductor) stamp(ctx context.Context) string {
	if c.o.Tracer == nil {
		return ""
	}
	return c.o.Tracer.Stamp(ctx)
}

// stampRuns writes into the runs that a commit begins where they began.
func stampRuns(above string, entries []chat.Entry) {
	for _, e := range entries {
		if b, ok := e.Body.(*chat.RunPendingBody); ok && b.Run != nil && b.Run.Trace == "" {
			b.Run.Trace = above
		}
	}
}

// drawEntries notes on a commit's span what it wrote of runs, and draws the runs
// that it ended.
func (c *Conductor) drawEntries(ctx context.Context, span Span, key chat.Key, st *chat.State, entries []chat.Entry) {
	for _, e := range entries {
		switch b := e.Body.(type) {
		case *chat.InterruptBody:
			span.Event("interrupt", "")
		case *chat.AnswerBody:
			span.Event("answer", string(b.Status))
		case *chat.RunStopBody:
			span.Event("seal", string(b.Stop.Cause))
		case *chat.RunEndBody:
			if r := runOf(e.Run, st, entries); r != nil {
				_, whole := c.o.Tracer.Begin(ctx, Work{Kind: WorkRun, Key: key, Run: r, Above: r.Trace, Since: r.Started})
				reason := string(b.Cause)
				if reason == "" {
					reason = known(b.Code)
				}
				if reason != "" {
					whole.Event("end", reason)
				}
				whole.End(string(b.Status), nil)
			}
		}
	}
}

// endSpan ends an attempt's span when it has let the run go.
func (r *runner) endSpan() {
	outcome := "let go"
	if out := r.owner.Outcome(); out != nil {
		outcome = string(out.Status)
	}
	if r.c.o.Tracer != nil && r.c.o.Tracer.Content() {
		if held := r.held.run(r.own.ID); held != nil {
			r.span.Said(held.Parts)
		}
	}
	r.span.End(outcome, nil)
}
