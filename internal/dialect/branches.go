package dialect

import (
	"context"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/room"
)

// Branches is what an edge does for a dialect that shows a thread's whole tree,
// whose clients mint the ids of runs, and whose threads need nobody to open
// them. Access is decided as for the rest of a Desk.
type Branches interface {
	// Open makes sure that the thread is there, if the principal may watch it by
	// a capability; else chat.ErrNoThread.
	Open(ctx context.Context, p identity.Principal, thread string) error
	// Granted is what the principal may do to a thread that a seat showed.
	Granted(p identity.Principal, thread string, st *chat.State) identity.Verbs
	// Send and Regenerate begin runs. What an equal command did before is no
	// error, and told so.
	Send(ctx context.Context, p identity.Principal, c Send) (conductor.Begun, error)
	Regenerate(ctx context.Context, p identity.Principal, c Regenerate) (conductor.Begun, error)
	// CancelRun stops a run by its own id and returns when it has ended, or
	// chat.ErrUnknownRun, ErrForeignRun or ErrRunEnded.
	CancelRun(ctx context.Context, p identity.Principal, thread, run string) error
	// Take makes a connection, by a name of the dialect's, the one that shows the
	// run that find picks of the thread as the journal has it: every edge is told,
	// in the run's own order. supports is what it can show; nil is none.
	Take(ctx context.Context, p identity.Principal, thread, holder string, supports []string, find func(*chat.State) *chat.Run) (*chat.Run, error)
	// Decide settles the question that a run shows, by its name, or
	// chat.ErrUnknownRun, ErrNotSuspended, ErrDecided or ErrNotWaiting.
	Decide(ctx context.Context, p identity.Principal, c Decision) error
	// Messages returns the messages with the ordinals [from, to) of a state that
	// a seat showed; conductor.ErrPages if older ones cannot be read.
	Messages(ctx context.Context, p identity.Principal, thread string, st *chat.State, from, to int) ([]*chat.Message, error)
	// Ordinal finds a message by its id, or chat.ErrNoMessage.
	Ordinal(ctx context.Context, p identity.Principal, thread string, st *chat.State, id string) (int, error)
	// Replay encodes what a held seat's thread had logged after a log number, up
	// to the seat's position. ok is false if it is not kept so far back.
	Replay(ctx context.Context, p identity.Principal, thread string, seat Seat, v room.Variant, after uint64) (encoded []any, ok bool, err error)
}

// Send is a user's message: Message has its id and parts, Run the id of the run
// that is to answer it. Fork is the user message that it replaces, or "";
// without one it hangs under Parent ("" is a root).
type Send struct {
	Thread, Dialect string
	Message         *chat.Message
	Run             string
	Fork            string
	Parent          string
}

// Regenerate asks for an answer anew; with Placed its parent must be Parent.
type Regenerate struct {
	Thread, Dialect string
	Message, Run    string
	Placed          bool
	Parent          string
}

// Decision settles a question; Settle may refuse, which leaves it open.
type Decision struct {
	Thread, Run, Name string
	Settle            conductor.Settle
}
