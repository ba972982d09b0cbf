package smooth

import (
	"context"
	"errors"
	"fmt"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
)

// Code is a code of the protocol's errors (SMO-127).
type Code string

// The codes that this package answers with.
const (
	CodeInvalid        Code = "VALIDATION_ERROR"
	CodeUnsupported    Code = "UNSUPPORTED_ACTION"
	CodeNoSession      Code = "SESSION_NOT_FOUND"
	CodeBusy           Code = "TURN_IN_PROGRESS"
	CodeNoConfirmation Code = "NO_PENDING_CONFIRMATION"
	CodeNoInteraction  Code = "NO_PENDING_INTERACTION"
	CodeMismatch       Code = "INTERACTION_MISMATCH"
	CodeNoSkill        Code = "SKILL_NOT_FOUND"
	CodeNoModel        Code = "MODEL_NOT_ALLOWED"
	CodeNoAgent        Code = "AGENT_NOT_FOUND"
	CodeForbiddenAgent Code = "AGENT_NOT_AUTHORIZED"
	CodeNoConversation Code = "CONVERSATION_NOT_FOUND"
	CodeAgent          Code = "AGENT_ERROR"
	CodeUnavailable    Code = "LLM_UNAVAILABLE"
	CodeStorage        Code = "STORAGE_ERROR"
	CodeInternal       Code = "INTERNAL_ERROR"
	CodeRate           Code = "RATE_LIMITED"
	CodeOrigin         Code = "ORIGIN_NOT_ALLOWED"
	CodeAuthContext    Code = "AUTH_CONTEXT_INVALID"
)

// Error is a refusal as a client is told of it.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

func (e *Error) object() []byte {
	b := quoted([]byte(`{"code":`), string(e.Code))
	return append(member(b, "message", e.Message), '}')
}

func invalid(format string, args ...any) *Error {
	return &Error{CodeInvalid, fmt.Sprintf(format, args...)}
}

var (
	errNoSession      = &Error{CodeNoSession, "There is no such session."}
	errBusy           = &Error{CodeBusy, "A turn is already in progress on this connection."}
	errNoConfirmation = &Error{CodeNoConfirmation, "Nothing waits for a confirmation in this session."}
	errNoInteraction  = &Error{CodeNoInteraction, "Nothing waits for an interaction in this session."}
)

// codeOf is what a log calls an error: a code of the protocol, "" for none.
func codeOf(err error) string {
	if err == nil {
		return ""
	}
	return string(refusal(err).Code)
}

// fault says that an error is ours, not the client's.
func fault(err error) bool {
	_, told := errors.AsType[*Error](err)
	return err != nil && !told && refusalOf(err) == nil
}

// refusal words an error for a client: no inner detail (SMO-128).
func refusal(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e := refusalOf(err); e != nil {
		return e
	}
	if errors.Is(err, conductor.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, conductor.ErrPages) {
		return &Error{CodeStorage, "The conversation cannot be reached just now; try again."}
	}
	return &Error{CodeInternal, "Something went wrong; try again."}
}

func refusalOf(err error) *Error {
	switch {
	case errors.Is(err, chat.ErrNoThread), errors.Is(err, chat.ErrUnknownRun):
		return errNoSession
	case errors.Is(err, chat.ErrBusy), errors.Is(err, chat.ErrWaiting):
		return errBusy
	case errors.Is(err, chat.ErrTooManyRuns):
		return &Error{CodeRate, "Too many turns are running."}
	case errors.Is(err, conductor.ErrBusy):
		return &Error{CodeStorage, "The conversation is busy; try again."}
	}
	return nil
}
