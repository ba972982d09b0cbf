package pilotoo

import (
	"errors"
	"fmt"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Code is one of the protocol's five error codes; there is no sixth (PIL-180).
type Code string

// The codes of protocol:error and of a failed acknowledgement.
const (
	CodeInvalid      Code = "INVALID_COMMAND"
	CodeUnknownRun   Code = "UNKNOWN_RUN"
	CodeDuplicate    Code = "DUPLICATE_MESSAGE"
	CodeConversation Code = "CONVERSATION_NOT_FOUND"
	CodeForkPoint    Code = "FORK_POINT_NOT_FOUND"
)

// Error is a refusal as a client is told it: the message is for people and
// holds no inner detail (PIL-131).
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// invalid refuses a command that failed validation (PIL-181).
func invalid(format string, args ...any) *Error {
	return &Error{CodeInvalid, fmt.Sprintf(format, args...)}
}

type refusalText struct {
	err  error
	code Code
	text string
}

// refusals words what the rules of package chat refuse with. The rules check
// in the order of PIL-186, so that the first error is the one to report.
var refusals = []refusalText{
	{chat.ErrNoThread, CodeConversation, "the conversation does not exist"},
	{chat.ErrDuplicateMessage, CodeDuplicate, "a message with this id already exists in the conversation"},
	{chat.ErrForkPoint, CodeForkPoint, "the message to fork from is not in the conversation"},
	{chat.ErrUnknownRun, CodeUnknownRun, "the run is not active"},
	{chat.ErrNotWaiting, CodeUnknownRun, "the conversation is not waiting on that decision"},
	{chat.ErrForkRole, CodeInvalid, "only a user message can be replaced"},
	{chat.ErrBusy, CodeInvalid, "a run is already in flight"},
	{chat.ErrTooManyRuns, CodeInvalid, "too many runs at once"},
	{chat.ErrWaiting, CodeInvalid, "the conversation waits on a decision"},
	{chat.ErrToolName, CodeInvalid, "a client tool has the name of one of the agent's own tools"},
	{chat.ErrNoSubagent, CodeInvalid, "the run has no such running subagent call"},
	{chat.ErrThreadExists, CodeInvalid, "a conversation with this id already exists"},
	{journal.ErrNoBlobs, CodeInvalid, "attachments cannot be kept here: all edges need one storage (Caddy's option storage)"},
}

// notNow words everything that no code fits: faults of ours, lost connections,
// limits (PIL-187).
const notNow = "the command cannot be accepted now; try again later"

// refusal turns any error into what a client may be told. An error that is not
// in the table is a fault of ours and becomes notNow; the caller logs it.
func refusal(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return &Error{r.code, r.text}
		}
	}
	return &Error{CodeInvalid, notNow}
}

// codeOf is what a log calls an error: a code of the protocol, FAILED for a fault
// of ours, "" for none.
func codeOf(err error) string {
	switch {
	case err == nil:
		return ""
	case fault(err):
		return "FAILED"
	}
	return string(refusal(err).Code)
}

// fault says that err is not a refusal but something of ours that failed.
func fault(err error) bool {
	e := refusal(err)
	return e.Code == CodeInvalid && e.Message == notNow
}
