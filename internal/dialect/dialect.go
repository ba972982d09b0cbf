// Package dialect says what a client protocol may ask of an edge. A dialect
// owns its path, its handshake, its strictness, its limits, its error words,
// its admission rules and its projection; it never talks to a journal or to an
// agent, and what it cannot express it leaves out.
package dialect

import (
	"context"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/room"
)

// Desk is what an edge does for a dialect. Each call decides access for the
// principal, in one place; what does not exist and what he may not see are the
// same error, chat.ErrNoThread or chat.ErrUnknownRun. Other errors are the
// sentinels of package chat, ErrBusy here, or faults to be reported generically.
type Desk interface {
	Threads
	Runs
	Branches
	Files
	Notes
}

// Threads opens, lists and deletes conversations, and lets members watch them.
type Threads interface {
	// Create opens a thread; an empty id is minted. A thread id that a client
	// chose must be free.
	Create(ctx context.Context, p identity.Principal, t NewThread) (Thread, error)
	Get(ctx context.Context, p identity.Principal, thread string) (Thread, error)
	// List returns the principal's own threads, newest first, after one of
	// them ("" for the first page); if that is gone, chat.ErrNoThread.
	List(ctx context.Context, p identity.Principal, after string, limit int) (threads []Thread, more bool, err error)
	// Rename gives a thread another title, which its owner's list and every dialect
	// shows from then on.
	Rename(ctx context.Context, p identity.Principal, thread, title string) error
	// Delete ends the thread's runs, then the thread.
	Delete(ctx context.Context, p identity.Principal, thread string) error
	// Join opens the thread's room and takes a seat in it, held: nothing is
	// delivered before the seat is released. The seat stands at View's state.
	Join(ctx context.Context, p identity.Principal, thread string, v room.Variant, m room.Member) (Seat, error)
	// Presence says who watches a thread, on all edges.
	Presence(ctx context.Context, p identity.Principal, thread string) (Presence, error)
	// History returns the newest messages of the default view of a state that
	// a seat showed, oldest first, at most limit.
	History(ctx context.Context, p identity.Principal, thread string, st *chat.State, limit int) ([]*chat.Message, error)
}

// Seat is a member's place in a room.
type Seat interface {
	// State is the thread at the seat's position; of a held seat it stays.
	State() *chat.State
	// Live returns the encodings of the records that belong to the current
	// segments of live runs, up to the seat's position, in order.
	// Truncated says that the room no longer has the beginning of one.
	Live() (encoded []any, truncated bool)
	// Hold stops the feed, for the time of a command; what comes meanwhile is
	// kept. Refresh moves a held seat to the newest position without delivering.
	Hold()
	Refresh()
	// Reach is Refresh to where a log number is that another edge told: it waits for
	// the journal if this one is behind.
	Reach(ctx context.Context, log uint64)
	// Release delivers what was kept, then goes on live.
	Release()
	Leave()
}

// NewThread is a thread to be opened.
type NewThread struct {
	ID    string
	Title string
	// Agent is the configured agent's name; "" is the site's first.
	Agent string
}

// Thread is what a list shows of a conversation; times are Unix milliseconds.
type Thread struct {
	ID      string
	Title   string
	Created int64
	// Agent is the configured agent's name, or "" for the site's first; a list
	// does not tell it.
	Agent string
}

// Presence is who watches a thread. Members are at most some hundred for each
// edge, Count counts those beyond too.
type Presence struct {
	Members []Present
	Count   int
}

// Present is one member, as other members may see him.
type Present struct {
	// Self says that it is the asker's own subject; others' ids are not told.
	Self    bool
	Dialect string
	// Edge is the name of the edge that he is on; Since is in Unix milliseconds.
	Edge  string
	Since int64
}

// Named is an ability of a room.Variant: to say which dialect it is of.
type Named interface{ Dialect() string }

// Runs carries out what people do to runs.
type Runs interface {
	Start(ctx context.Context, p identity.Principal, c Start) (Started, error)
	Answer(ctx context.Context, p identity.Principal, c Answer) (Answered, error)
	// Cancel stops the run that has the segment as its current one. It returns
	// when the run has ended. Where Suspended is not allowed, a paused run is
	// chat.ErrUnknownRun.
	Cancel(ctx context.Context, p identity.Principal, segment string, suspended bool) error
	// Detach moves a run's subagents, or the one of the call, out of it.
	Detach(ctx context.Context, p identity.Principal, segment, call string) error
}

// Start is a user's message to be answered. Message has its id, parts and
// attachments; the desk fills in the rest.
type Start struct {
	Thread  string
	Dialect string
	Message *chat.Message
	Fork    string
	Tools   []chat.ClientTool
	// OneRun and RefuseWaiting are the dialect's rules of admission.
	OneRun        bool
	RefuseWaiting bool
	// Origin has what the dialect wants kept with the run; the desk fills in who
	// began it and Dialect.
	Origin chat.Origin
}

// Started names what began.
type Started struct{ Run, Segment string }

// Answer settles one question. Check is called with the question before the
// commit, and again for each new decision: what it refuses leaves it open.
type Answer struct {
	Thread    string
	Interrupt string
	Value     jsontext.Value
	// Status is chat.InterruptAnswered if it is empty.
	Status chat.InterruptStatus
	Tools  []chat.ClientTool
	Check  func(*chat.Interrupt) error
	// Verified says that the dialect had the person's code checked. Where a
	// realm has a service for codes, nothing else answers a question for one.
	Verified bool
}

// Answered says what came of an answer: the new segment, if it was the last
// that the run waited for.
type Answered struct {
	Run     string
	Segment string
}

// Files keeps what a user attaches.
type Files interface {
	// PutFile stores at most limit bytes as the principal's. A file that is put
	// for a thread goes with it; one for "" stays until it is dropped.
	PutFile(ctx context.Context, p identity.Principal, thread string, f chat.Attachment, r io.Reader, limit int64) (chat.Attachment, error)
	// File finds an upload that the principal may use, or chat.ErrNoThread.
	File(ctx context.Context, p identity.Principal, id string) (chat.Attachment, error)
	// DropFile removes an upload of the principal's; messages that name it keep
	// its name only.
	DropFile(ctx context.Context, p identity.Principal, id string) error
	// OpenFile returns an upload's bytes.
	OpenFile(ctx context.Context, p identity.Principal, id string) (chat.Attachment, io.ReadSeekCloser, error)
}
