package dialect

import (
	"context"
	"time"

	"github.com/parlance-gateway/parlance/internal/identity"
)

// Note is a small value that a dialect keeps beside the threads, such as a
// session: at most 60 KiB. It belongs to the principal that put it, or with
// Shared to everybody of its realm and tenant.
type Note struct {
	Kind, ID string
	Shared   bool
	Data     []byte
	// Version is what a change must name; 0 is for one that is not there.
	Version uint64
}

// Notes keeps notes on the shelf that all edges share.
type Notes interface {
	// Note returns a note of the principal's or a shared one. One that is not
	// there and one of somebody else's are chat.ErrNoThread.
	Note(ctx context.Context, p identity.Principal, kind, id string) (Note, error)
	// PutNote writes a note if it has the version that n names; ok is false if it
	// has not. A ttl of 0 keeps it for ever.
	PutNote(ctx context.Context, p identity.Principal, n Note, ttl time.Duration) (ok bool, err error)
}
