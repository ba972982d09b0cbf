package journal

import (
	"context"
	"io"
	"time"
)

// Value is a value on the shelf.
type Value struct {
	ID      string
	Data    []byte
	Version uint64
	Owner   string
	// Expires is in Unix milliseconds; 0 is never.
	Expires int64
}

// Put is a change of the shelf.
type Put struct {
	Realm, Kind, ID string
	Data            []byte
	// Version is what the value must have now; 0 is for none.
	Version uint64
	// Owner lists the value under a name; "" is unlisted.
	Owner string
	// TTL is how long it lives; 0 is for ever.
	TTL time.Duration
}

// Shelf holds small values that belong to no thread: at most 64 KiB each.
type Shelf interface {
	// Get returns a value or ErrNotFound.
	Get(ctx context.Context, realm, kind, id string) (Value, error)
	// Put changes a value if it has the version; ok is false if it has not.
	Put(context.Context, Put) (version uint64, ok bool, err error)
	Delete(ctx context.Context, realm, kind, id string) error
	// List returns an owner's values of a kind, newest first, after the given
	// id ("" for the first page).
	List(ctx context.Context, realm, kind, owner, after string, limit int) ([]Value, error)
}

// Blobs holds what is too large for a record. Ids are minted by the caller,
// unguessable, and name nothing else.
type Blobs interface {
	// PutBlob stores at most max bytes of r; one more is ErrTooLarge.
	PutBlob(ctx context.Context, realm, id string, r io.Reader, limit int64) (int64, error)
	// OpenBlob returns ErrNotFound for one that is not there.
	OpenBlob(ctx context.Context, realm, id string) (io.ReadSeekCloser, int64, error)
	DeleteBlob(ctx context.Context, realm, id string) error
}
