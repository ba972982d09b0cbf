package room

import "github.com/parlance-gateway/parlance/internal/chat"

// Change is one record as a room applied it, with the states around it.
type Change struct {
	Key    chat.Key
	Epoch  uint64
	Record *chat.Record
	Before *chat.State
	After  *chat.State
}

// Run is the record's run as a dialect wants to see it: after the record, or
// before it where the record ended the run. nil for a record without one.
func (c *Change) Run() *chat.Run {
	if r := c.After.Run(c.Record.Run); r != nil {
		return r
	}
	return c.Before.Run(c.Record.Run)
}

// Variant is a dialect in one of its versions: it encodes a change once for
// all members that speak it. It must be comparable and cheap to compare, since
// rooms group members by it. Encode returns nil where the dialect has nothing
// to show; it is called with no lock held that a member could need.
type Variant interface {
	Encode(c *Change) any
}

// CloseReason says why a room lets a member go. In every case the member's
// client is to come back and ask again: the dialect closes in the way that its
// client resumes from.
type CloseReason string

// The reasons.
const (
	// CloseEpoch: the store lost records and a new epoch began.
	CloseEpoch CloseReason = "epoch"
	// CloseBehind: the room itself fell behind what the journal keeps.
	CloseBehind CloseReason = "behind"
	// CloseSlow: the member held its feed for longer than the room remembers.
	CloseSlow CloseReason = "slow"
	// CloseDeleted: the thread was deleted.
	CloseDeleted CloseReason = "deleted"
	// CloseOperator: an operator closed the connection.
	CloseOperator CloseReason = "operator"
	// CloseShutdown: the edge goes away.
	CloseShutdown CloseReason = "shutdown"
)

// Member is one subscription of one connection. Both methods are called in
// order, from one goroutine at a time, and must not block or call the room. That
// may be the goroutine which carries a command out, or one which has the notices of
// all rooms to bring: no lock that Deliver takes may be held over a command.
type Member interface {
	// Deliver takes what the member's variant made of a change; it is shared
	// by all members and must not be changed.
	Deliver(encoded any)
	// Close is called at most once; nothing is delivered after it.
	Close(CloseReason)
}
