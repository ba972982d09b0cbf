package edge

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/room"
)

func (d desk) Open(ctx context.Context, p identity.Principal, thread string) error {
	return d.h.conductor.Open(ctx, p, thread)
}

func (d desk) Granted(p identity.Principal, thread string, st *chat.State) identity.Verbs {
	return conductor.Granted(p, conductor.Key(p, thread), st)
}

func (d desk) Send(ctx context.Context, p identity.Principal, c dialect.Send) (conductor.Begun, error) {
	return d.h.conductor.Send(ctx, p, c.Thread, chat.Start{
		Message: c.Message, Run: c.Run, Fork: c.Fork, Placed: c.Fork == "", Parent: c.Parent,
		Origin: chat.Origin{Dialect: c.Dialect},
	})
}

func (d desk) Regenerate(ctx context.Context, p identity.Principal, c dialect.Regenerate) (conductor.Begun, error) {
	return d.h.conductor.Regenerate(ctx, p, c.Thread, chat.Regenerate{
		Message: c.Message, Run: c.Run, Placed: c.Placed, Parent: c.Parent,
		Origin: chat.Origin{Dialect: c.Dialect},
	})
}

func (d desk) CancelRun(ctx context.Context, p identity.Principal, thread, run string) error {
	return d.h.conductor.CancelRun(ctx, p, thread, run)
}

func (d desk) Take(ctx context.Context, p identity.Principal, thread, holder string, supports []string, find func(*chat.State) *chat.Run) (*chat.Run, error) {
	return d.h.conductor.Take(ctx, p, thread, holder, supports, find)
}

func (d desk) Decide(ctx context.Context, p identity.Principal, c dialect.Decision) error {
	settle := func(q *chat.Interrupt) (chat.InterruptStatus, jsontext.Value, error) {
		status, value, err := c.Settle(q)
		if err == nil && status == chat.InterruptAnswered && d.needsCode(p, q) {
			err = chat.ErrNotWaiting
		}
		return status, value, err
	}
	return d.h.conductor.DecideQuestion(ctx, p, c.Thread, c.Run, c.Name, settle)
}

func (d desk) Messages(ctx context.Context, p identity.Principal, thread string, st *chat.State, from, to int) ([]*chat.Message, error) {
	key := conductor.Key(p, thread)
	if err := conductor.Allow(p, identity.Subscribe, key, st, chat.Subject{}); err != nil {
		return nil, err
	}
	return d.h.conductor.Messages(ctx, key, st, from, to)
}

func (d desk) Ordinal(ctx context.Context, p identity.Principal, thread string, st *chat.State, id string) (int, error) {
	key := conductor.Key(p, thread)
	if err := conductor.Allow(p, identity.Subscribe, key, st, chat.Subject{}); err != nil {
		return 0, err
	}
	return d.h.conductor.Ordinal(ctx, key, st, id)
}

func (d desk) Replay(ctx context.Context, p identity.Principal, thread string, s dialect.Seat, v room.Variant, after uint64) ([]any, bool, error) {
	key := conductor.Key(p, thread)
	seat, ok := s.(*room.Seat)
	if !ok {
		return nil, false, errors.New("the seat is of no room of this edge")
	}
	if err := conductor.Allow(p, identity.Subscribe, key, seat.State(), chat.Subject{}); err != nil {
		return nil, false, err
	}
	if enc, ok := seat.Since(after); ok {
		return enc, true, nil
	}
	snap, err := d.h.journal.Load(ctx, journal.Load{Key: key})
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", conductor.ErrUnavailable, err)
	}
	enc, ok := seat.Replay(snap, after)
	return enc, ok, nil
}
