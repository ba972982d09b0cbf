package dialect

import (
	"context"
	"time"

	"github.com/parlance-gateway/parlance/internal/identity"
)

// Visit is what an edge knows of a connection or request when it hands it to a
// dialect. A wire keeps it with the connection (for Socket.IO: Accept.Value),
// so it holds nothing of the request, and of a configuration only its Site.
type Visit struct {
	Site  Site
	Creds identity.Credentials
	// Connection notes what comes of a request that opens a socket; nil notes
	// nothing.
	Connection *Connection
}

// Ended is told by the wire when the socket is over.
func (v *Visit) Ended(reason string) { v.Connection.Ended(reason) }

// Site is the handler that admitted a visitor, as it is configured now: it
// follows the handler's name through reloads, and admits nobody once there is
// none of that name. One Site is shared by all its visitors.
type Site interface {
	Name() string
	// Admit turns credentials into a principal. Its error is
	// identity.ErrUnauthenticated.
	Admit(ctx context.Context, c identity.Credentials) (identity.Principal, error)
	// Recheck says whether a principal that was admitted may stay.
	Recheck(p identity.Principal, now time.Time) error
	// Rules are the handler's current ones for this dialect's admission.
	Rules() Rules
	// App is the application of that key, as it is configured in the handler's
	// realm now, or nil.
	App(key string) *identity.App
}

// Rules are a handler's options that a dialect obeys.
type Rules struct {
	// CommandsPerSecond and CommandBurst limit what one principal may send on
	// one connection; 0 is the default of 20 and 60.
	CommandsPerSecond float64
	CommandBurst      int
	// ConnectionsPerClient bounds the sockets of one principal; 0 is 50.
	ConnectionsPerClient int
	// RoomsPerConnection bounds the threads that one connection watches;
	// 0 is 256.
	RoomsPerConnection int
	// History bounds the messages of one answer; 0 is 1,000 (PIL-162).
	History int
	// ReplayApart replays each slot of an entry of the log as a change of its own
	// (PIN-062).
	ReplayApart bool
	// AllMessages shows all messages in their slot, not only the newest (PIN-093);
	// Extensions shows what a protocol has no form for (PIN-251).
	AllMessages bool
	Extensions  bool
	// RefuseWaiting refuses a message while the sender's own run waits.
	RefuseWaiting bool
	// AutoCreate opens a thread that a start names and nobody made (PIL-044).
	AutoCreate bool
}
