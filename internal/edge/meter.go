package edge

import (
	"context"
	"errors"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Meter is told what a hub does. Its methods are called by many goroutines and
// must not block; no argument is an id or anything that people write.
type Meter interface {
	// Command is what people did: the name of the call, and what came of it.
	Command(name, outcome string, took time.Duration)
	// Journal is a call of the journal, with its result or "error".
	Journal(call, result string, took time.Duration)
	conductor.Meter
}

// outcomes are what may come of a command, in few words.
var outcomes = []struct {
	word string
	errs []error
}{
	{"unknown", []error{chat.ErrNoThread, chat.ErrUnknownRun, chat.ErrNoMessage, chat.ErrNoSubagent, identity.ErrNotFound}},
	{"limit", []error{chat.ErrTooManyRuns}},
	{"busy", []error{chat.ErrBusy, chat.ErrWaiting, conductor.ErrBusy}},
	{"late", []error{chat.ErrRunEnded, chat.ErrNotSuspended, chat.ErrDecided, chat.ErrNotWaiting}},
	{"forbidden", []error{chat.ErrForeignRun}},
	{"repeated", []error{chat.ErrDuplicateMessage, chat.ErrDuplicateRun, chat.ErrThreadExists}},
	{"invalid", []error{chat.ErrForkPoint, chat.ErrNoParent, chat.ErrParent, chat.ErrForkRole, chat.ErrReserved, chat.ErrToolName}},
	{"gone", []error{context.Canceled}},
	{"unavailable", []error{conductor.ErrUnavailable, conductor.ErrPages, context.DeadlineExceeded}},
}

// outcome is one of those words, "ok" or "error".
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	for _, o := range outcomes {
		for _, e := range o.errs {
			if errors.Is(err, e) {
				return o.word
			}
		}
	}
	return "error"
}

// meteredDesk tells a meter of what changes threads.
type meteredDesk struct {
	dialect.Desk
	m Meter
}

func (d meteredDesk) took(name string, began time.Time, err error) {
	d.m.Command(name, outcome(err), time.Since(began))
}

func (d meteredDesk) Create(ctx context.Context, p identity.Principal, t dialect.NewThread) (v dialect.Thread, err error) {
	defer func(began time.Time) { d.took("create", began, err) }(time.Now())
	return d.Desk.Create(ctx, p, t)
}

func (d meteredDesk) Delete(ctx context.Context, p identity.Principal, thread string) (err error) {
	defer func(began time.Time) { d.took("delete", began, err) }(time.Now())
	return d.Desk.Delete(ctx, p, thread)
}

func (d meteredDesk) Start(ctx context.Context, p identity.Principal, c dialect.Start) (v dialect.Started, err error) {
	defer func(began time.Time) { d.took("send", began, err) }(time.Now())
	return d.Desk.Start(ctx, p, c)
}

func (d meteredDesk) Send(ctx context.Context, p identity.Principal, c dialect.Send) (v conductor.Begun, err error) {
	defer func(began time.Time) { d.took("send", began, err) }(time.Now())
	return d.Desk.Send(ctx, p, c)
}

func (d meteredDesk) Regenerate(ctx context.Context, p identity.Principal, c dialect.Regenerate) (v conductor.Begun, err error) {
	defer func(began time.Time) { d.took("regenerate", began, err) }(time.Now())
	return d.Desk.Regenerate(ctx, p, c)
}

func (d meteredDesk) Answer(ctx context.Context, p identity.Principal, c dialect.Answer) (v dialect.Answered, err error) {
	defer func(began time.Time) { d.took("answer", began, err) }(time.Now())
	return d.Desk.Answer(ctx, p, c)
}

func (d meteredDesk) Decide(ctx context.Context, p identity.Principal, c dialect.Decision) (err error) {
	defer func(began time.Time) { d.took("answer", began, err) }(time.Now())
	return d.Desk.Decide(ctx, p, c)
}

func (d meteredDesk) Cancel(ctx context.Context, p identity.Principal, segment string, suspended bool) (err error) {
	defer func(began time.Time) { d.took("cancel", began, err) }(time.Now())
	return d.Desk.Cancel(ctx, p, segment, suspended)
}

func (d meteredDesk) CancelRun(ctx context.Context, p identity.Principal, thread, run string) (err error) {
	defer func(began time.Time) { d.took("cancel", began, err) }(time.Now())
	return d.Desk.CancelRun(ctx, p, thread, run)
}

// meteredJournal tells a meter of calls that load and change threads, and signs
// what this edge commits, for operators.
type meteredJournal struct {
	journal.Journal
	m    Meter
	edge string
}

func (j meteredJournal) took(call string, began time.Time, result journal.Result, err error) {
	word := result.String()
	if err != nil {
		word = "error"
	}
	j.m.Journal(call, word, time.Since(began))
}

// Append implements journal.Journal.
func (j meteredJournal) Append(ctx context.Context, a journal.Append) (v journal.Appended, err error) {
	defer func(began time.Time) { j.took("append", began, v.Result, err) }(time.Now())
	return j.Journal.Append(ctx, a)
}

// Commit implements journal.Journal.
func (j meteredJournal) Commit(ctx context.Context, c journal.Commit) (v journal.Committed, err error) {
	defer func(began time.Time) { j.took("commit", began, v.Result, err) }(time.Now())
	j.sign(c)
	return j.Journal.Commit(ctx, c)
}

// sign is done before the commit is tried first: what was stored is never changed.
func (j meteredJournal) sign(c journal.Commit) {
	for _, e := range c.Entries {
		by := chat.Writer{Edge: j.edge}
		for _, g := range c.Guards {
			if g.Run == e.Run && g.Owner {
				by.Fence = g.Fence
			}
		}
		chat.Sign(e.Body, by)
	}
}

// Load implements journal.Journal.
func (j meteredJournal) Load(ctx context.Context, l journal.Load) (v journal.Snapshot, err error) {
	defer func(began time.Time) { j.took("load", began, journal.OK, err) }(time.Now())
	return j.Journal.Load(ctx, l)
}

// Trim implements journal.Journal.
func (j meteredJournal) Trim(ctx context.Context, t journal.Trim) (v journal.Result, err error) {
	defer func(began time.Time) { j.took("trim", began, v, err) }(time.Now())
	return j.Journal.Trim(ctx, t)
}

// Reset implements journal.Journal.
func (j meteredJournal) Reset(ctx context.Context, r journal.Reset) (v journal.Result, err error) {
	defer func(began time.Time) { j.took("reset", began, v, err) }(time.Now())
	return j.Journal.Reset(ctx, r)
}

// Claim implements journal.Journal.
func (j meteredJournal) Claim(ctx context.Context, c journal.Claim) (fence uint64, rev journal.Rev, v journal.Result, err error) {
	defer func(began time.Time) { j.took("claim", began, v, err) }(time.Now())
	return j.Journal.Claim(ctx, c)
}

// Confirm implements journal.Confirmer; a store that is none has nothing to wait
// for.
func (j meteredJournal) Confirm(ctx context.Context, key chat.Key, epoch uint64, rev journal.Rev) (journal.Result, error) {
	if c, ok := j.Journal.(journal.Confirmer); ok {
		return c.Confirm(ctx, key, epoch, rev)
	}
	return journal.OK, nil
}

// FollowPromptly implements journal.Prompt, for a store that is none by Follow.
func (j meteredJournal) FollowPromptly(key chat.Key, f func(journal.Notice)) (stop func()) {
	if p, ok := j.Journal.(journal.Prompt); ok {
		return p.FollowPromptly(key, f)
	}
	return j.Follow(key, f)
}

// Speak implements journal.Speaker; a store that is none has one edge only.
func (j meteredJournal) Speak(ctx context.Context, schema int) error {
	if s, ok := j.Journal.(journal.Speaker); ok {
		return s.Speak(ctx, schema)
	}
	return nil
}

// Interface guards
var (
	_ dialect.Desk      = meteredDesk{}
	_ journal.Journal   = meteredJournal{}
	_ journal.Confirmer = meteredJournal{}
	_ journal.Prompt    = meteredJournal{}
	_ journal.Speaker   = meteredJournal{}
)
