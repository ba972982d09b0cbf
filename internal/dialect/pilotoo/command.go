package pilotoo

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// StartCommand is run:start (PIL-030).
type StartCommand struct {
	ThreadID    string
	MessageID   string
	Input       string
	Attachments []Attachment
	ClientTools []chat.ClientTool
	// ForkFrom is the user message to be replaced, or "".
	ForkFrom string
}

// ResumeCommand is run:resume: one answer to one decision (PIL-080, PIL-083).
type ResumeCommand struct {
	ThreadID    string
	InterruptID string
	// Answer is any JSON value, null included (PIL-082).
	Answer      jsontext.Value
	ClientTools []chat.ClientTool
}

// CancelCommand is run:cancel (PIL-095).
type CancelCommand struct{ RunID string }

// DetachCommand is run:detach (PIL-102).
type DetachCommand struct {
	RunID string
	// ToolCallID is the one call to move, or "" for all.
	ToolCallID string
}

// MessagesCommand is thread:messages (PIL-155).
type MessagesCommand struct{ ThreadID string }

// ParseStart reads a start command; whatever is wrong with it is an *Error.
func ParseStart(b []byte) (StartCommand, error) {
	c, err := parseStart(b)
	return c, err.orNil()
}

// ParseResume reads a resume command.
func ParseResume(b []byte) (ResumeCommand, error) {
	c, err := parseResume(b)
	return c, err.orNil()
}

// ParseCancel reads a cancel command.
func ParseCancel(b []byte) (CancelCommand, error) {
	var c CancelCommand
	o, err := readCommand(b, "runId")
	if err == nil {
		c.RunID, err = o.id("runId")
	}
	return c, err.orNil()
}

// ParseDetach reads a detach command.
func ParseDetach(b []byte) (DetachCommand, error) {
	var c DetachCommand
	o, err := readCommand(b, "runId", "toolCallId")
	if err == nil {
		c.RunID, err = o.id("runId")
	}
	if err == nil {
		c.ToolCallID, err = o.optionalID("toolCallId")
	}
	return c, err.orNil()
}

// ParseMessages reads a thread messages command.
func ParseMessages(b []byte) (MessagesCommand, error) {
	var c MessagesCommand
	o, err := readCommand(b, "threadId")
	if err == nil {
		c.ThreadID, err = o.id("threadId")
	}
	return c, err.orNil()
}

// orNil keeps a nil *Error from becoming an error that is not nil.
func (e *Error) orNil() error {
	if e == nil {
		return nil
	}
	return e
}

func readCommand(b jsontext.Value, known ...string) (object, *Error) {
	if err := checkCommand(b); err != nil {
		return object{}, err
	}
	return readObject("the command", b, known...)
}

func parseStart(b []byte) (c StartCommand, err *Error) {
	o, err := readCommand(b, "threadId", "messageId", "input", "attachments", "clientTools", "forkFromMessageId")
	if err != nil {
		return c, err
	}
	if c.ThreadID, err = o.id("threadId"); err != nil {
		return c, err
	}
	if c.MessageID, err = o.id("messageId"); err != nil {
		return c, err
	}
	if c.Input, err = o.text("input"); err != nil {
		return c, err
	}
	if n := units(c.Input); n > MaxInput {
		return c, invalid("input has %d characters, the limit is %d", n, MaxInput)
	}
	if c.ForkFrom, err = o.optionalID("forkFromMessageId"); err != nil {
		return c, err
	}
	if c.ClientTools, err = o.tools(); err != nil {
		return c, err
	}
	if c.Attachments, err = o.attachments(); err != nil {
		return c, err
	}
	if blank(c.Input) && len(c.Attachments) == 0 {
		return c, invalid("input is empty: a run needs text or at least one attachment")
	}
	return c, nil
}

func parseResume(b []byte) (c ResumeCommand, err *Error) {
	o, err := readCommand(b, "threadId", "interruptId", "answer", "clientTools")
	if err != nil {
		return c, err
	}
	if c.ThreadID, err = o.id("threadId"); err != nil {
		return c, err
	}
	if c.InterruptID, err = o.id("interruptId"); err != nil {
		return c, err
	}
	if !o.has("answer") {
		return c, invalid("the command needs answer; it may be any JSON value")
	}
	c.Answer = o.members["answer"].Clone()
	if err := c.Answer.Compact(); err != nil {
		return c, invalid("answer is not well-formed JSON")
	}
	if len(c.Answer) > MaxAnswer {
		return c, invalid("answer has %d bytes as JSON, the limit is %d", len(c.Answer), MaxAnswer)
	}
	c.ClientTools, err = o.tools()
	return c, err
}
