package conductor

import (
	"errors"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// maxDecisions is how often a command decides anew before it is busy.
const maxDecisions = 16

// ErrBusy: the thread changed too often under a command; it may be sent again.
var ErrBusy = errors.New("the thread is busy, try again")

// View is a thread as a decision sees it.
type View struct {
	State *chat.State
	Meta  journal.Meta
	nodes map[string]chat.Node
}

// Lookup tells of the ids that the command named.
func (v *View) Lookup(id string) *chat.Node {
	if n, ok := v.nodes[id]; ok {
		return &n
	}
	return nil
}

// Plan is what a decision wants committed. A plan without entries and
// changes of runs is a success that needs no write.
type Plan struct {
	Entries  []chat.Entry
	Guards   []journal.Guard
	Runs     []journal.RunChange
	Segments []string
	Result   []byte
}

// Command commits one decision: load, decide, commit, and decide again while
// others were faster. A write whose outcome is unknown is sent again unchanged
// until the store says what became of it.
type Command struct {
	ID  journal.CommandID
	Key chat.Key
	// IDs are looked up in the thread's index for Decide.
	IDs    []string
	Decide func(v *View) (Plan, error)
	// From and FromState are where a load may begin: what a room has.
	From      journal.Cursor
	FromState *chat.State

	// View is what the last decision saw.
	View   *View
	commit *journal.Commit
	tries  int
}

// Ask is what a command needs next: a load, a commit, or nothing (Done).
type Ask struct {
	Load   *journal.Load
	Commit *journal.Commit
	// Done ends the command: Err is why it was refused, or nil.
	Done bool
	Err  error
	// Seen says that nothing was committed: what is told is true of View, if that
	// is there to stay (journal.Confirmer).
	Seen      bool
	Committed journal.Committed
}

// Begin asks for the first load.
func (c *Command) Begin() Ask {
	return Ask{Load: &journal.Load{Key: c.Key, From: c.From, IDs: c.IDs}}
}

// Loaded decides on what the store has. tag and epoch are fresh random numbers.
func (c *Command) Loaded(snap journal.Snapshot, tag, epoch uint64) Ask {
	if c.From.Epoch != 0 && !snap.Continues && snap.Meta.Epoch == c.From.Epoch && !snap.Behind {
		// The room's own history is not the store's: only a load from the
		// beginning is safe to decide on. The room will find out by itself.
		c.From, c.FromState = journal.Cursor{}, nil
	}
	st := snap.State(c.FromState)
	if was := c.View; was != nil && was.State.Exists && was.State.Born != st.Born {
		// The thread that was decided on is gone, one of the same id is another.
		return Ask{Done: true, Err: chat.ErrNoThread}
	}
	c.View = &View{State: st, Meta: snap.Meta, nodes: snap.Nodes}
	if !snap.Exists {
		c.View.State = &chat.State{Schema: chat.SchemaVersion}
		c.View.Meta.Epoch, c.View.Meta.Rev = 0, journal.Rev{}
	}
	plan, err := c.Decide(c.View)
	if err != nil || len(plan.Entries)+len(plan.Runs) == 0 {
		return Ask{Done: true, Err: err, Seen: snap.Exists}
	}
	c.commit = &journal.Commit{
		Key: c.Key, Command: c.ID, Epoch: c.View.Meta.Epoch, Rev: c.View.Meta.Rev, NewEpoch: epoch,
		Guards: plan.Guards, Tag: tag, Entries: plan.Entries, Runs: plan.Runs,
		Nodes: chat.NodesOf(plan.Entries), Segments: plan.Segments, Result: plan.Result,
	}
	return Ask{Commit: c.commit}
}

// Committed takes the store's answer.
func (c *Command) Committed(r journal.Committed) Ask {
	switch r.Result {
	case journal.Done, journal.DoneBefore:
		return Ask{Done: true, Committed: r}
	case journal.Deleted:
		return Ask{Done: true, Err: chat.ErrNoThread}
	}
	return c.anew()
}

// Confirmed takes what the store says of the revision that was seen.
func (c *Command) Confirmed(a Ask, r journal.Result) Ask {
	if r == journal.Lost {
		return c.anew()
	}
	a.Seen = false
	return a
}

// anew decides once more, on what the store has by now.
func (c *Command) anew() Ask {
	if c.tries++; c.tries >= maxDecisions {
		return Ask{Done: true, Err: ErrBusy}
	}
	c.commit = nil
	c.From, c.FromState = journal.Cursor{}, nil
	return c.Begin()
}

// Unknown asks for the same again: the shell calls it after a pause when a
// load or a commit had no answer.
func (c *Command) Unknown() Ask {
	if c.commit != nil {
		return Ask{Commit: c.commit}
	}
	return c.Begin()
}
