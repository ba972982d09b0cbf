package chat

import "github.com/go-json-experiment/json/jsontext"

// Body is what a record says; each kind has one type. A body is immutable once
// it was handed to a journal.
type Body interface{ kind() Kind }

// Info is what is known of a thread beside its messages.
type Info struct {
	Owner   Subject `json:"owner,omitzero"`
	Title   string  `json:"title,omitempty"`
	Agent   string  `json:"agent,omitempty"`
	Created int64   `json:"created,omitzero"`
	// Task is set when the thread is a background task's own conversation.
	Task *Task `json:"task,omitempty"`

	Unknown jsontext.Value `json:",embed"`
}

// Writer says which edge committed a record, for operators: its name, and the
// fence by which it owned the run, 0 if it did not. Nothing is decided by it.
type Writer struct {
	Edge  string `json:"edge,omitempty"`
	Fence uint64 `json:"fence,omitzero"`
}

// Sign says who commits the record, unless that was said before; kinds that keep
// no writer are left as they are.
func Sign(b Body, by Writer) {
	if s, ok := b.(interface{ sign(Writer) }); ok {
		s.sign(by)
	}
}

// WriterOf is who committed a record, as far as its kind says so.
func WriterOf(b Body) Writer {
	if s, ok := b.(interface{ writer() Writer }); ok {
		return s.writer()
	}
	return Writer{}
}

func (w *Writer) sign(by Writer) {
	if *w == (Writer{}) {
		*w = by
	}
}

func (w *Writer) writer() Writer { return *w }

// The bodies, a type a kind.
type (
	// ThreadBody opens a thread or changes what is known of it.
	ThreadBody struct {
		Info Info `json:"info"`
	}
	// MessageBody appends a message to the tree.
	MessageBody struct {
		Message *Message `json:"message"`
	}
	// RunPendingBody accepts a run and names its owner in the same breath.
	RunPendingBody struct {
		Writer
		Run *Run `json:"run"`
	}
	// RunActiveBody opens the first segment: the agent is about to be called.
	RunActiveBody struct {
		Writer
	}
	// RunSuspendedBody ends a segment that waits for answers.
	RunSuspendedBody struct {
		Writer
		State jsontext.Value `json:"state,omitzero"`
	}
	// RunResumedBody opens the next segment.
	RunResumedBody struct {
		Writer
		Segment string       `json:"segment"`
		Tools   []ClientTool `json:"tools,omitempty"`
	}
	// RunDetachBody asks the owner to move subagents to the background.
	RunDetachBody struct {
		Calls []string `json:"calls"`
	}
	// RunTakenBody says that another connection shows the run from here on: the
	// one that did so before is to show nothing more of it.
	// Supports is what it can show; nil leaves that open.
	RunTakenBody struct {
		Holder   string   `json:"holder"`
		Supports []string `json:"supports"`
	}
	// RunStopBody seals the run: its owner may write no more.
	RunStopBody struct {
		Writer
		Stop Stop `json:"stop"`
	}
	// RunEndBody is the compaction: the message appended, the run final, the
	// draft gone. Message is nil for a run that never became active.
	RunEndBody struct {
		Writer
		Status  RunStatus `json:"status"`
		Cause   Cause     `json:"cause,omitempty"`
		Code    string    `json:"code,omitempty"`
		Text    string    `json:"text,omitempty"`
		Message *Message  `json:"message,omitempty"`
		// Segment is set when the end itself opens a segment, because none was
		// running (PIL-221).
		Segment string         `json:"segment,omitempty"`
		Usage   jsontext.Value `json:"usage,omitzero"`
	}
	// BlockBody begins or ends a text or reasoning block. Replaces names an
	// ended text part whose text the new one takes back (PIL-222).
	BlockBody struct {
		Part     string `json:"part"`
		Replaces string `json:"replaces,omitempty"`
	}
	// DeltaBody adds to a text or reasoning block, or to a call's arguments.
	DeltaBody struct {
		Part string `json:"part"`
		Text string `json:"text"`
	}
	// EncryptedBody keeps an agent's opaque reasoning value.
	EncryptedBody struct {
		Part  string `json:"part"`
		Value string `json:"value"`
	}
	// ToolStartBody begins a call.
	ToolStartBody struct {
		Call   string `json:"call"`
		Name   string `json:"name"`
		Parent string `json:"parent,omitempty"`
	}
	// ToolEndBody ends a call's arguments.
	ToolEndBody struct {
		Call string `json:"call"`
	}
	// ToolResultBody is a call's result.
	ToolResultBody struct {
		Call    string `json:"call"`
		Message string `json:"message"`
		Content string `json:"content"`
	}
	// InterruptBody asks a question; it comes with run.suspended in one commit.
	InterruptBody struct {
		Interrupt *Interrupt `json:"interrupt"`
	}
	// AnswerBody settles a question.
	AnswerBody struct {
		Writer
		Interrupt string          `json:"interrupt"`
		Status    InterruptStatus `json:"status"`
		Value     jsontext.Value  `json:"value,omitzero"`
		By        Subject         `json:"by,omitzero"`
	}
	// TodosBody is the whole list, each time.
	TodosBody struct {
		Todos []Todo `json:"todos"`
	}
	// StateBody is the agent's own state, whole.
	StateBody struct {
		State jsontext.Value `json:"state"`
	}
	// ActivityBody, StepBody and CustomBody are kept for dialects that show them.
	ActivityBody struct {
		ID      string         `json:"id"`
		Type    string         `json:"type"`
		Content jsontext.Value `json:"content"`
	}
	// StepBody begins or ends a named step.
	StepBody struct {
		Name string `json:"name"`
		Done bool   `json:"done,omitzero"`
	}
	// CustomBody is an agent's own event.
	CustomBody struct {
		Name  string         `json:"name"`
		Value jsontext.Value `json:"value"`
	}
	// SubagentStartBody begins a subagent's call.
	SubagentStartBody struct {
		Subagent Subagent `json:"subagent"`
	}
	// SubagentEndBody ends it within its run, or says that it goes on outside.
	SubagentEndBody struct {
		ID       string `json:"id"`
		Failed   bool   `json:"failed,omitzero"`
		Detached bool   `json:"detached,omitzero"`
	}
	// TaskBody tells of a background task's state.
	TaskBody struct {
		Task Task `json:"task"`
	}
	// UsageBody is what the agent said it used.
	UsageBody struct {
		Usage jsontext.Value `json:"usage"`
	}
	// ArchiveBody says where pages of older messages are from now on.
	ArchiveBody struct {
		Archive Archive `json:"archive"`
	}
)

func (*ThreadBody) kind() Kind        { return KindThread }
func (*MessageBody) kind() Kind       { return KindMessage }
func (*RunPendingBody) kind() Kind    { return KindRunPending }
func (*RunActiveBody) kind() Kind     { return KindRunActive }
func (*RunSuspendedBody) kind() Kind  { return KindRunSuspended }
func (*RunResumedBody) kind() Kind    { return KindRunResumed }
func (*RunDetachBody) kind() Kind     { return KindRunDetach }
func (*RunTakenBody) kind() Kind      { return KindRunTaken }
func (*RunStopBody) kind() Kind       { return KindRunStop }
func (*RunEndBody) kind() Kind        { return KindRunEnd }
func (*BlockBody) kind() Kind         { return KindTextStart }
func (*DeltaBody) kind() Kind         { return KindTextDelta }
func (*EncryptedBody) kind() Kind     { return KindReasoningEncrypted }
func (*ToolStartBody) kind() Kind     { return KindToolStart }
func (*ToolEndBody) kind() Kind       { return KindToolEnd }
func (*ToolResultBody) kind() Kind    { return KindToolResult }
func (*InterruptBody) kind() Kind     { return KindInterrupt }
func (*AnswerBody) kind() Kind        { return KindAnswer }
func (*TodosBody) kind() Kind         { return KindTodos }
func (*StateBody) kind() Kind         { return KindState }
func (*ActivityBody) kind() Kind      { return KindActivity }
func (*StepBody) kind() Kind          { return KindStep }
func (*CustomBody) kind() Kind        { return KindCustom }
func (*SubagentStartBody) kind() Kind { return KindSubagentStart }
func (*SubagentEndBody) kind() Kind   { return KindSubagentEnd }
func (*TaskBody) kind() Kind          { return KindTask }
func (*UsageBody) kind() Kind         { return KindUsage }
func (*ArchiveBody) kind() Kind       { return KindArchive }

// NewBody returns an empty body for the kind, or nil for an unknown kind.
func NewBody(k Kind) Body {
	switch k {
	case KindThread:
		return new(ThreadBody)
	case KindMessage:
		return new(MessageBody)
	case KindRunPending:
		return new(RunPendingBody)
	case KindRunActive:
		return new(RunActiveBody)
	case KindRunSuspended:
		return new(RunSuspendedBody)
	case KindRunResumed:
		return new(RunResumedBody)
	case KindRunDetach:
		return new(RunDetachBody)
	case KindRunStop:
		return new(RunStopBody)
	case KindRunEnd:
		return new(RunEndBody)
	case KindTextStart, KindTextEnd, KindReasoningStart, KindReasoningEnd:
		return new(BlockBody)
	case KindTextDelta, KindReasoningDelta, KindToolArgs:
		return new(DeltaBody)
	case KindReasoningEncrypted:
		return new(EncryptedBody)
	case KindToolStart:
		return new(ToolStartBody)
	case KindToolEnd:
		return new(ToolEndBody)
	case KindToolResult:
		return new(ToolResultBody)
	case KindInterrupt:
		return new(InterruptBody)
	case KindAnswer:
		return new(AnswerBody)
	case KindTodos:
		return new(TodosBody)
	case KindState:
		return new(StateBody)
	case KindActivity:
		return new(ActivityBody)
	case KindStep:
		return new(StepBody)
	case KindCustom:
		return new(CustomBody)
	case KindSubagentStart:
		return new(SubagentStartBody)
	case KindSubagentEnd:
		return new(SubagentEndBody)
	case KindTask:
		return new(TaskBody)
	case KindUsage:
		return new(UsageBody)
	case KindRunTaken:
		return new(RunTakenBody)
	case KindArchive:
		return new(ArchiveBody)
	}
	return nil
}
