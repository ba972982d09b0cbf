package engineio

import (
	"errors"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

var (
	// ErrClosed says that the session has ended.
	ErrClosed = errors.New("engineio: session closed")
	// ErrSlow says that the client did not take its packets fast enough and that
	// the session was closed for it.
	ErrSlow = errors.New("engineio: client too slow")
)

type state uint8

const (
	open   state = iota
	ending       // closed, but a polling client may still come for the rest
	closed
)

// How long an ended polling session is kept for the client's next GET: the
// shorter time is for a close packet that overtakes the GET sent before it.
const (
	lingerServer = 30 * time.Second
	lingerClient = time.Second
)

// Session is one client, over whatever transport it currently uses. Its methods
// may be called from any goroutine and do not block.
type Session struct {
	// Data is the Handler's own; it is set in Open and not touched here.
	Data any

	srv        *Server
	id         string
	value      any
	remoteIP   string
	maxPayload int64
	alarm      ws.Alarm

	in sync.Mutex // held while one inbound packet is handled

	mu       sync.Mutex // guards all below
	state    state
	limit    int64         // of a message, up to maxPayload
	byClient bool          // the client sent the close packet
	ws       *ws.Conn      // nil while polling
	probe    *probe        // a WebSocket that wants to take over
	probes   int           // how many have tried
	poller   chan struct{} // not nil while a GET waits
	posting  bool
	abort    func() // ends the reading of the POST's body

	queue    ws.Queue[entry]
	queued   int                  // cost of what is queued or being written
	writing  int                  // cost of what is being written
	flushing bool                 // the writers have the session
	farewell websocket.StatusCode // to be sent after the queue; 0: none

	beat heartbeat
}

type entry struct {
	packet *Packet
	cost   int
}

// ID is the session's id. It is a bearer secret of the client: whoever knows it
// can speak as that client, so it is not to be shown to anyone else.
func (s *Session) ID() string { return s.id }

// Value is the Accept.Value of the handshake.
func (s *Session) Value() any { return s.value }

// RemoteIP is the Accept.RemoteIP of the handshake.
func (s *Session) RemoteIP() string { return s.remoteIP }

// MaxPayload is the largest message the client may send, in bytes.
func (s *Session) MaxPayload() int64 { return s.maxPayload }

// Limit bounds the messages that the client begins from now on, in bytes, if n
// is less than MaxPayload: for one that has not said yet who it is.
func (s *Session) Limit(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = min(n, s.maxPayload)
	if s.ws != nil {
		s.ws.SetReadLimit(s.limit)
	}
}

// WebSocket says whether the session has left polling.
func (s *Session) WebSocket() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ws != nil
}

// Send queues p. When the queue is full it closes the session and returns
// ErrSlow: nothing is ever left out of a session that lives.
func (s *Session) Send(p *Packet) error { return s.send(p, p.cost()) }

// SendExempt queues p in its turn without counting it against the queue's
// bound, for answers whose size the client has asked for and expects.
func (s *Session) SendExempt(p *Packet) error { return s.send(p, 0) }

func (s *Session) send(p *Packet, cost int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != open {
		return ErrClosed
	}
	if cost > 0 && s.queued > 0 && s.queued+cost > s.srv.o.QueueBytes {
		s.srv.o.Counts.Slow.Add(1)
		s.endLocked(ReasonSlow, 0)
		return ErrSlow
	}
	s.queued += cost
	s.queue.Push(entry{p, cost})
	s.kick()
	return nil
}

// kick makes someone deliver what is queued. Holds s.mu.
func (s *Session) kick() {
	switch {
	case s.ws != nil:
		if !s.flushing {
			s.flushing = true
			s.srv.writers.Ready(s, s.ws) // the reader of s.ws is counted
		}
	case s.poller != nil:
		select {
		case s.poller <- struct{}{}:
		default:
		}
	}
}

// Close ends the session after what is queued. A WebSocket is then closed with
// code; a polling client is given the rest and a close packet.
func (s *Session) Close(reason string, code websocket.StatusCode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(reason, code)
}

// Kill ends the session at once; what is queued is lost.
func (s *Session) Kill(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(reason, 0)
}

// endLocked ends an open session: in order if code is not 0, else at once. It is
// called with s.mu held and does not wait for anything.
func (s *Session) endLocked(reason string, code websocket.StatusCode) {
	if s.state != open {
		return
	}
	s.state = closed
	if s.abort != nil && code == 0 {
		s.abort() // else the client hears of the end with its packets, by its GET
	}
	if p := s.probe; p != nil && p.conn != nil {
		p.conn.Abort()
	}
	switch {
	case s.ws != nil && code != 0:
		s.farewell = code
		s.kick()
	case s.ws != nil:
		s.ws.Abort()
	case code == 0 || s.poller != nil && s.queue.Len() == 0:
		s.queue.Clear()
		s.kick()
	default:
		s.linger()
		s.kick()
	}
	if s.state == closed {
		s.srv.drop(s)
	}
	s.srv.ended(s, reason)
}

// linger keeps the ended session for the GETs that fetch the rest. Holds s.mu.
func (s *Session) linger() {
	s.state = ending
	wait := lingerServer
	if s.byClient {
		wait = lingerClient
		s.queue.Clear()
	}
	s.srv.clock.Set(s, s.srv.clock.Now()+wait)
}
