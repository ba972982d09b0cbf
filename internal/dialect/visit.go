package dialect

import (
	"context"
	"time"

	"github.com/parlance-gateway/parlance/internal/identity"
)

// Visit is what an edge knows of a connection or request when it hands it to a
// dialect. A wire keeps it with the connection (for Socket.IO: Accept.Value),
// so it holds nothing of the request, and nothing of a configuration but Site.
type Visit struct {
	// Site names the handler that admitted the visitor; Rules follows the
	// handler of that name through reloads.
	Site  string
	Creds identity.Credentials
	// Admit turns credentials into a principal, under the handler's current
	// configuration. Its error is identity.ErrUnauthenticated.
	Admit func(ctx context.Context, c identity.Credentials) (identity.Principal, error)
	// Recheck says whether a principal that was admitted may stay.
	Recheck func(p identity.Principal, now time.Time) error
	// Rules are the handler's current ones for this dialect's admission.
	Rules func() Rules
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
	// RefuseWaiting refuses a message while the sender's own run waits.
	RefuseWaiting bool
	// AutoCreate opens a thread that a start names and nobody made (PIL-044).
	AutoCreate bool
}
