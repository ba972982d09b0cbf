package socketio

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"

	"github.com/parlance-gateway/parlance/internal/wire/engineio"
)

var (
	// ErrClosed says that the socket is not, or no longer, connected.
	ErrClosed = engineio.ErrClosed
	// ErrSlow says that the client did not take its frames fast enough and that
	// its transport was closed for it, so that it comes back.
	ErrSlow = engineio.ErrSlow
	// ErrNamespace says that a frame was encoded for another namespace.
	ErrNamespace = errors.New("socketio: frame of another namespace")
)

// Socket is one client in one namespace. Its methods may be called from any
// goroutine, also from callbacks, and do not block.
type Socket struct {
	// Data is the Handler's own: it may be set in Connect and is not touched here.
	Data any

	id        string
	namespace string
	conn      *conn
	live      atomic.Bool

	mu     sync.Mutex
	ctx    context.Context // nil until somebody asks
	cancel context.CancelFunc
	over   bool
}

// ID is the id the client knows itself by. Unlike the engine's it is no secret.
func (s *Socket) ID() string { return s.id }

// Namespace is "/" or another of Options.Namespaces.
func (s *Socket) Namespace() string { return s.namespace }

// Value is the Accept.Value of the handshake.
func (s *Socket) Value() any { return s.conn.eio.Value() }

// RemoteIP is the Accept.RemoteIP of the handshake.
func (s *Socket) RemoteIP() string { return s.conn.eio.RemoteIP() }

// Connected says whether the socket can be sent to.
func (s *Socket) Connected() bool { return s.live.Load() }

// Context ends when the socket leaves its namespace, before Disconnect is
// called. It is made at the first call, which is not free.
func (s *Socket) Context() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil {
		s.ctx, s.cancel = context.WithCancel(context.Background())
		if s.over {
			s.cancel()
		}
	}
	return s.ctx
}

// leave makes Send refuse and ends the context.
func (s *Socket) leave() {
	s.live.Store(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.cancel != nil {
		s.cancel()
	}
}

// Send queues f. It returns ErrClosed, ErrNamespace, or ErrSlow after closing
// the transport because the queue was full.
func (s *Socket) Send(f *Frame) error {
	switch {
	case f.namespace != s.namespace:
		return ErrNamespace
	case !s.live.Load():
		return ErrClosed
	}
	return s.conn.eio.Send(&f.packet)
}

// SendExempt is Send without counting f against the queue's bound: for an answer
// that the client asked for and whose size the caller bounds.
func (s *Socket) SendExempt(f *Frame) error {
	switch {
	case f.namespace != s.namespace:
		return ErrNamespace
	case !s.live.Load():
		return ErrClosed
	}
	return s.conn.eio.SendExempt(&f.packet)
}

// Emit sends an event to this socket alone; see NewEvent and Send.
func (s *Socket) Emit(name string, payload []byte) error {
	return s.Send(NewEventIn(s.namespace, name, payload))
}

// Ack answers the event of that id; see NewAck and Send. A client takes one
// answer to an event and ignores others.
func (s *Socket) Ack(id int64, args ...json.RawMessage) error {
	return s.Send(NewAckIn(s.namespace, id, args, nil))
}

// Disconnect takes the socket out of its namespace with a DISCONNECT packet: its
// client will not come back by itself. With closeTransport the connection is
// closed as well, after all that is queued.
func (s *Socket) Disconnect(closeTransport bool) {
	s.conn.disconnect(s)
	if closeTransport {
		s.conn.eio.Close(engineio.ReasonForcedClose, websocket.StatusNormalClosure)
	}
}

// CloseTransport closes the connection after what is queued, without a
// DISCONNECT packet: its client comes back by itself.
func (s *Socket) CloseTransport(reason string) {
	s.conn.eio.Close(reason, websocket.StatusGoingAway)
}
