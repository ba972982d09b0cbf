package pingerchips

import (
	"errors"
	"strings"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// Reason is a refusal in the protocol's words: the reason of an error reply.
type Reason string

func (r Reason) Error() string { return string(r) }

// The reasons. Those that name something are made by functions.
const (
	badTopic       Reason = "invalid topic. Expected: chat:v1:app:{app_key}:thread:{thread_id}"
	authRequired   Reason = "auth required"
	invalidToken   Reason = "invalid token"
	invalidSecret  Reason = "invalid secret"
	appMismatch    Reason = "app_key mismatch"
	invalidAfter   Reason = "invalid after_log_id"
	invalidPayload Reason = "invalid payload"

	forbidden      Reason = "forbidden"
	notFound       Reason = "not_found"
	alreadyEnded   Reason = "already_ended"
	alreadyDecided Reason = "already_decided"
	notSuspended   Reason = "not_suspended"
	answerRequired Reason = "answer_required"
	notActive      Reason = "not_active"
	notPending     Reason = "not_pending"
	tooLarge       Reason = "content_too_large"
	invalidReason  Reason = "invalid reason"
	invalidTarget  Reason = "invalid_target"
	invalidParent  Reason = "invalid_parent"
	parentNotFound Reason = "parent_not_found"
	notSibling     Reason = "not_sibling"
	runExists      Reason = "run_exists"
	tooManyRuns    Reason = "too many runs"
	noArchive      Reason = "archive_unavailable"
	rateLimited    Reason = "rate limited"
	tooManyConns   Reason = "too many connections"
	tooManyTopics  Reason = "too many channels joined"
	// internal words every fault of ours; busy one that passes.
	internal Reason = "internal"
	busy     Reason = "busy"
)

// missing is the refusal of a push (PIN-033), missingSubscribe that of a join
// (PIN-052).
func missing(v identity.Verb) Reason { return Reason("forbidden: missing " + v.String()) }

func missingSubscribe(thread string) Reason {
	return Reason("forbidden: missing chat:subscribe:" + thread)
}

func unknownEvent(event string) Reason { return Reason(unknownPrefix + event) }

const unknownPrefix = "unknown event: "

var reasons = []struct {
	err    error
	reason Reason
}{
	{identity.ErrAuthRequired, authRequired},
	{identity.ErrInvalidToken, invalidToken},
	{identity.ErrInvalidSecret, invalidSecret},
	{identity.ErrAppMismatch, appMismatch},
	{identity.ErrClientID, invalidPayload},
	{chat.ErrNoThread, notFound},
	{chat.ErrUnknownRun, notFound},
	{chat.ErrNotWaiting, notFound},
	{chat.ErrNoMessage, notFound},
	{chat.ErrForkPoint, notFound},
	{chat.ErrForkRole, invalidTarget},
	{chat.ErrParent, invalidParent},
	{chat.ErrNoParent, parentNotFound},
	{chat.ErrDuplicateRun, runExists},
	{chat.ErrTooManyRuns, tooManyRuns},
	{chat.ErrReserved, invalidPayload},
	{chat.ErrForeignRun, forbidden},
	{chat.ErrRunEnded, alreadyEnded},
	{chat.ErrNotSuspended, notSuspended},
	{chat.ErrDecided, alreadyDecided},
	{ErrNotActive, notActive},
	{ErrNotPending, notPending},
	{conductor.ErrBusy, busy},
}

// codeOf is what a log calls an error: the protocol's reason, which names at most
// the thread; "" for none.
func codeOf(err error) string {
	if err == nil {
		return ""
	}
	reason, _ := refusal(err)
	if strings.HasPrefix(string(reason), unknownPrefix) {
		return strings.TrimSuffix(unknownPrefix, ": ")
	}
	return string(reason)
}

// named is an event as a log may call it: what a client made up is none.
func named(event string) string {
	if _, ok := commands[event]; ok {
		return event
	}
	if _, ok := agentVerbs[event]; ok {
		return event
	}
	return "unknown"
}

// refusal turns any error into what a client may be told; fault says that it is
// something of ours that failed, to be logged.
func refusal(err error) (r Reason, fault bool) {
	if errors.As(err, &r) {
		return r, r == internal
	}
	for _, k := range reasons {
		if errors.Is(err, k.err) {
			return k.reason, false
		}
	}
	if errors.Is(err, conductor.ErrPages) {
		return noArchive, true
	}
	return internal, true
}
