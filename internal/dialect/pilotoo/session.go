package pilotoo

import (
	"encoding/json"
	"sync"

	"golang.org/x/time/rate"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/room"
	"github.com/parlance-gateway/parlance/internal/wire/socketio"
)

// Bounds of one session.
const (
	defaultRate  = 20
	defaultBurst = 60
	// queueLimit is how many commands may wait for the one before them, and
	// queueBytes how large they may be together; one is always let in.
	// besideLimit is how many cancels and detaches run beside.
	queueLimit  = 64
	queueBytes  = 1 << 20
	besideLimit = 8
)

// session is one identified socket. Commands that speak of a thread are carried
// out in the order in which they came; a cancel or a detach runs beside them,
// so that a slow command never keeps a run from being stopped.
//
// What only a session that sends commands needs is made when the first comes:
// most sockets only watch.
type session struct {
	server *Server
	sock   *socketio.Socket
	site   dialect.Site
	conn   *dialect.Connection
	who    identity.Principal
	client string        // the principal's key, for the limit on connections
	pace   *rate.Limiter // used by the socket's reader alone

	mu      sync.Mutex
	queue   []waiting
	queued  int // bytes of queue
	beside  int // commands that run beside the queue
	working bool
	closed  bool
	views   map[string]*view
}

// limited says whether a command comes too soon after others.
func (n *session) limited() bool {
	if n.pace == nil {
		n.pace = pace(n.site.Rules())
	}
	if n.pace.AllowN(n.server.o.Now(), 1) {
		return false
	}
	n.server.o.Counts.OverCommands.Add(1)
	return true
}

// waiting is a command whose turn has not come.
type waiting struct {
	run  func()
	size int
}

// event takes a command off the wire. It does not block.
func (n *session) event(e socketio.Event) {
	reply := answer{session: n, ack: e.AckID}
	switch {
	case !n.check():
		return
	case n.limited():
		n.conn.Limited()
		reply.refuse(e.Name, &Error{CodeInvalid, "too many commands; slow down"})
		return
	case len(e.Args) != 1 || len(e.Attachments) > 0:
		n.conn.Refuse(string(CodeInvalid))
		reply.refuse(e.Name, invalid("a command is one JSON object"))
		return
	}
	run, ok := n.command(e.Name, e.Args[0], reply)
	if !ok {
		n.conn.Refuse(string(CodeInvalid))
		reply.refuse(e.Name, invalid("unknown command; see the protocol's table of messages"))
		return
	}
	if e.Name == commandCancel || e.Name == commandDetach {
		n.runBeside(e.Name, run, reply)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	size := len(e.Args[0])
	if len(n.queue) >= queueLimit || (len(n.queue) > 0 && n.queued+size > queueBytes) {
		n.conn.Limited()
		n.server.o.Counts.OverCommands.Add(1)
		reply.refuse(e.Name, &Error{CodeInvalid, "too many commands are waiting; slow down"})
		return
	}
	n.queue = append(n.queue, waiting{run, size})
	n.queued += size
	if !n.working {
		n.working = n.server.spawn(n.work)
	}
}

// spawn starts a goroutine that Close waits for; false once it was called.
func (s *Server) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		f()
	}()
	return true
}

func (n *session) runBeside(name string, run func(), reply answer) {
	n.mu.Lock()
	full := n.beside >= besideLimit
	if !full {
		n.beside++
	}
	n.mu.Unlock()
	if full {
		n.server.o.Counts.OverCommands.Add(1)
		reply.refuse(name, &Error{CodeInvalid, "too many commands are waiting; slow down"})
		return
	}
	n.server.spawn(func() {
		run()
		n.mu.Lock()
		n.beside--
		n.mu.Unlock()
	})
}

func (n *session) work() {
	for {
		n.mu.Lock()
		if len(n.queue) == 0 || n.closed {
			n.working, n.queue, n.queued = false, nil, 0
			n.mu.Unlock()
			return
		}
		next := n.queue[0]
		n.queue[0] = waiting{} // or its command would live as long as the list
		n.queue = n.queue[1:]
		n.queued -= next.size
		n.mu.Unlock()
		next.run()
	}
}

// check closes the socket of a principal that may not stay. The client is told
// not to come back by itself, since it would be refused.
func (n *session) check() bool {
	if n.site.Recheck(n.who, n.server.o.Now()) == nil {
		return true
	}
	n.sock.Disconnect(true)
	return false
}

func (n *session) close() {
	n.mu.Lock()
	n.closed = true
	views := n.views
	n.views = nil
	n.mu.Unlock()
	for _, v := range views {
		v.seat.Leave()
	}
}

// view is the session's membership of one thread.
type view struct {
	session *session
	seat    dialect.Seat
}

// Deliver implements room.Member: it only queues.
func (v *view) Deliver(encoded any) {
	for _, f := range encoded.(*Encoded).frames {
		if v.session.sock.Send(f) != nil {
			return // slow or gone: its transport is closed, Disconnect follows
		}
	}
}

// Stamp is the span of the socket's handshake.
func (v *view) Stamp() string { return v.session.conn.Stamp() }

// Close implements room.Member: the transport is closed, never the namespace,
// so that the client comes back and asks for the history again.
func (v *view) Close(why room.CloseReason) { v.session.sock.CloseTransport(string(why)) }

// answer is where a command's outcome goes: to the sender alone (PIL-025).
type answer struct {
	session *session
	ack     int64
}

// ok acknowledges success, if the sender asked for it; result is a JSON object.
func (a answer) ok(result []byte) {
	if a.ack != socketio.NoAck {
		_ = a.session.sock.SendExempt(socketio.NewAck(a.ack, result))
	}
}

// refuse tells the sender why: by protocol:error, and by its acknowledgement
// (PIL-026); for thread:messages by the acknowledgement alone, where there is
// one (PIL-158, PIL-027).
func (a answer) refuse(command string, err error) {
	e := refusal(err)
	a.session.server.report(command, err)
	if a.ack != socketio.NoAck {
		_ = a.session.sock.Ack(a.ack, failure(e))
		if command == commandMessages {
			return
		}
	}
	_ = a.session.sock.Emit(eventError, errorObject(e))
}

// failure is the ok: false branch, with the error in both readings of the
// protocol (PIL-159).
func failure(e *Error) json.RawMessage {
	b := append([]byte(`{"ok":false,"error":`), errorObject(e)...)
	b = member(b, "code", string(e.Code))
	b = member(b, "message", e.Message)
	return append(b, '}')
}

func errorObject(e *Error) []byte {
	b := append([]byte(`{"code":`), quoted(nil, string(e.Code))...)
	b = member(b, "message", e.Message)
	return append(b, '}')
}
