// Package agent says what answers a run, and keeps what any agent sends within
// the rules of a thread: agents break rules, clients never see it (Repair).
package agent

import (
	"context"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// Call is one segment of work for an agent.
type Call struct {
	Key     chat.Key
	Run     string
	Segment string
	Origin  chat.Origin
	// Upstream is the thread id that the agent knows the branch by.
	Upstream string
	// Messages is the branch up to and with the message to answer, oldest
	// first, as much of it as the agent's History asks for.
	Messages []*chat.Message
	// Draft is what earlier segments of this run wrote, and an earlier attempt at
	// this one.
	Draft []*chat.Part
	// Answers settles the questions of the segment before, in the order in
	// which they were asked; Withdrawn are questions of an earlier run that
	// nobody will answer.
	Answers   []*chat.Interrupt
	Withdrawn []*chat.Interrupt
	Tools     []chat.ClientTool
	State     jsontext.Value
	// Open returns an attachment's bytes.
	Open func(ctx context.Context, id string) (io.ReadCloser, error)
	// Traceparent continues the caller's trace (W3C), or is "".
	Traceparent string
}

// Resumed says that the call continues a paused run.
func (c *Call) Resumed() bool { return len(c.Answers) > 0 }

// Agent answers. Run returns when the answer has ended; it calls emit in
// order, from one goroutine at a time, and stops soon after emit fails or the
// context ends. emit blocks while the journal is behind. One Agent serves many
// calls at once. A failure is an Outcome, with text that a client may read.
type Agent interface {
	Run(ctx context.Context, call *Call, emit func(Event) error) Outcome
}

// History is an ability: how many of the branch's messages a call should
// carry. Without it all travel.
type History interface {
	// History returns the number, or -1 for all; the message to answer always
	// travels.
	History() int
}

// Toolbox is an ability: to tell the names of the agent's own tools, so that no
// window declares one of the same name (PIL-075).
type Toolbox interface {
	Tools() []string
}

// Retrier is an ability: a run whose edge was lost before its first event may
// be started again.
type Retrier interface{ Retry() bool }

// Canceller is an ability: to be told that a run was stopped, beside having
// its call's context ended.
type Canceller interface {
	Cancel(ctx context.Context, call *Call)
}

// Inbound is an ability: the agent dials in. A run of it belongs to no edge until
// the agent takes it up, and then to the one through which the agent spoke last;
// it outlives that edge. The agent says itself when it goes on with a run that it
// suspended.
type Inbound interface {
	// Wakes says whether the agent can be told that a run waits for it.
	Wakes() bool
	// Wake tells it so, and tries again for a while as long as waits says that the
	// run does. It blocks.
	Wake(ctx context.Context, key chat.Key, run string, waits func(context.Context) bool) error
}

// Detacher is an ability: a subagent's tool call may leave its run and go on
// as a run of its own. Detach returns what goes on, with a title for people;
// the agent then ends the subagent in the parent run, as detached, by itself.
type Detacher interface {
	Detach(ctx context.Context, call *Call, toolCall string) (rest Agent, title string, err error)
}

// Event is what an agent said, before it is repaired. Which fields count
// depends on the kind, a streaming one or KindInterrupt.
type Event struct {
	Kind chat.Kind
	// ID is the block, call, activity or subagent; Parent the block that a
	// call follows, or the call that a subagent serves.
	ID     string
	Parent string
	// Name is a tool's, subagent's, step's or event's name.
	Name string
	// Text is a delta, a result's content or an encrypted value.
	Text string
	// Subagent says which subagent's work this is; "" is the agent's own.
	Subagent string
	Todos    []chat.Todo
	// Value is a state, activity, custom value or usage.
	Value jsontext.Value
	// Rewrite says of a text delta that Text is all of the block's text, in
	// place of what the agent had said of it before; of a text's start that the
	// block stands in place of the last text of an earlier segment.
	Rewrite bool
	// Failed and Detached belong to the end of a subagent, Done to a step's.
	Failed, Detached, Done bool
	// TaskID and Child name the background task of a subagent, where known.
	TaskID, Child string
}

// Outcome is how a call ended.
type Outcome struct {
	// Status is complete, cancelled, error, or suspended with Interrupts.
	Status     chat.RunStatus
	Interrupts []*chat.Interrupt
	// Code and Text go to clients: no inner detail, no secret.
	Code  string
	Text  string
	State jsontext.Value
	Usage jsontext.Value
}

// Failed is an outcome with a code and a text for people.
func Failed(code, text string) Outcome {
	return Outcome{Status: chat.RunError, Code: code, Text: text}
}
