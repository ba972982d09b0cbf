package conductor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// ErrUnavailable: the journal did not answer in time; whether the command was
// carried out is not known, and it may be sent again.
var ErrUnavailable = errors.New("the journal does not answer")

// Pauses between tries of a call that had no answer.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// done is what came of a command.
type done struct {
	View *View
	journal.Committed
	// runs are what the commit changed; written says that there was one, and above
	// is the span around it.
	runs    []journal.RunChange
	written bool
	above   string
}

// outcome is what a commit's span ends with.
func (d *done) outcome() string {
	if !d.written {
		return "unchanged"
	}
	return d.Result.String()
}

// owner is the edge that the commit gave the run to.
func (d *done) owner(run string) string {
	for _, ch := range d.runs {
		if ch.Run == run {
			return ch.Owner
		}
	}
	return ""
}

// carry carries a command out: it loads, decides and commits until the store
// has said what became of it. The context bounds the whole of it.
func (c *Conductor) carry(ctx context.Context, cmd *Command) (done, error) {
	if c.o.Tracer == nil {
		return c.carried(ctx, cmd, noSpan{}, "")
	}
	above := c.stamp(ctx)
	ctx, span := c.begin(ctx, Work{Kind: WorkCommit, Key: cmd.Key})
	d, err := c.carried(ctx, cmd, span, above)
	if d.written {
		c.drawEntries(ctx, span, cmd.Key, d.View.State, cmd.commit.Entries)
	}
	span.End(d.outcome(), err)
	return d, err
}

// carried is carry within its span; above is what runs that begin keep of the
// one around it.
func (c *Conductor) carried(ctx context.Context, cmd *Command, span Span, above string) (done, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.CommandTimeout)
	defer cancel()
	noted(ctx, cmd.Key.Thread, "")
	if st, cur := c.rooms.Peek(cmd.Key); st != nil && cmd.commit == nil {
		cmd.From, cmd.FromState = cur, st
	}
	ask, pause := cmd.Unknown(), firstPause
	confirmer, confirms := c.j.(journal.Confirmer)
	for !ask.Done || ask.Seen && confirms {
		var err error
		switch {
		case ask.Done:
			var res journal.Result
			if res, err = confirmer.Confirm(ctx, cmd.Key, cmd.View.Meta.Epoch, cmd.View.Meta.Rev); err == nil {
				ask = cmd.Confirmed(ask, res)
			}
		case ask.Load != nil:
			var snap journal.Snapshot
			if snap, err = c.j.Load(ctx, *ask.Load); err == nil {
				ask = cmd.Loaded(snap, c.o.Random()>>1, c.o.Random()>>1|1)
				if ask.Commit != nil && above != "" {
					stampRuns(above, ask.Commit.Entries)
				}
			}
		case ask.Commit != nil:
			var res journal.Committed
			if res, err = c.j.Commit(ctx, *ask.Commit); err == nil {
				if ask = cmd.Committed(res); !ask.Done {
					span.Event("retry", res.Result.String())
				}
			}
		}
		if err == nil {
			continue
		}
		if errors.Is(err, journal.ErrClosed) || errors.Is(err, journal.ErrTooLarge) {
			return done{}, err
		}
		span.Event("retry", "no answer")
		if !sleep(ctx, &pause) {
			return done{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		ask = cmd.Unknown()
	}
	if ask.Err != nil {
		return done{View: cmd.View}, ask.Err
	}
	out := done{View: cmd.View, Committed: ask.Committed}
	if cmd.commit != nil {
		out.runs, out.written, out.above = cmd.commit.Runs, true, above
		c.tellEnds(cmd.Key, cmd.View.State, cmd.commit.Entries)
		c.logEnds(cmd.Key, cmd.View.State, cmd.commit.Entries)
		c.meterEnds(cmd.View.State, cmd.commit.Entries)
	}
	if ask.Committed.Epoch != 0 {
		// Also of a command that was done before: its reply was lost, and what it
		// said must never be missing later.
		c.rooms.Acknowledged(cmd.Key, journal.Notice{
			Epoch: ask.Committed.Epoch, Rev: ask.Committed.Rev, Records: ask.Committed.Records,
		})
	}
	return out, nil
}

// carryOn carries a command of an owner out for as long as it takes: an outage
// or a busy thread ends nobody's run. A write whose outcome is not known yet is
// sent again as it was.
func (c *Conductor) carryOn(ctx context.Context, cmd *Command) (d done, err error) {
	pause, waits := firstPause, outage{what: "the journal keeps a run waiting"}
	for {
		d, err = c.carry(ctx, cmd)
		if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrBusy) {
			if !errors.Is(err, journal.ErrClosed) {
				waits.note(c.o.Logger, nil, "realm", cmd.Key.Realm)
			}
			return d, err
		}
		if !sleep(ctx, &pause) {
			return d, err
		}
		cmd.tries = 0
		waits.note(c.o.Logger, err, "realm", cmd.Key.Realm)
	}
}

// sleep waits for a growing while; false if the context ended.
func sleep(ctx context.Context, pause *time.Duration) bool {
	t := time.NewTimer(*pause)
	defer t.Stop()
	*pause = min(2**pause, lastPause)
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// after is the state after a commit that this very call made.
func (d *done) after() *chat.State {
	st := d.View.State.Clip() // a room may be folding from it as well
	if st.Pos == 0 && len(d.Records) > 0 && d.Records[0].Pos > 1 {
		// A thread made again goes on above its old positions.
		c := *st
		c.Pos = d.Records[0].Pos - 1
		st = &c
	}
	for _, r := range d.Records {
		st = st.Apply(r)
	}
	return st
}

func newCommand() journal.CommandID { return journal.CommandID{ID: uuid.New()} }

// NewSegment mints a segment id.
func NewSegment() string { return uuid.NewString() }

// NewID mints an id of a thread, message, run or interrupt. It is unguessable
// and rises with time.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }
