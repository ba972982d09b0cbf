package socketio

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/coder/websocket"

	"github.com/parlance-gateway/parlance/internal/wire/engineio"
)

var (
	errNotConnected = errors.New("packet for a namespace that was not joined")
	errConnectTwice = errors.New("second CONNECT")
)

// conn is one connection: the namespaces of one client. Callbacks of a
// connection are made by one goroutine at a time, the one that set running:
// the reader, a CONNECT that takes its time, or one that only has departures to
// announce.
type conn struct {
	srv *Server
	eio *engineio.Session

	// Of the reader alone: a packet whose attachments are still to come.
	partial *packet

	mu      sync.Mutex
	freed   sync.Cond // on mu: pending has room, or running has ended
	running bool
	pending []packet // in order, for when running ends
	weight  int64    // bytes of pending
	sockets []*Socket
	former  []string // namespaces that were left or refused
	left    []departure
	cancel  context.CancelFunc // ends the Connect that runs
	closed  bool
	reason  string
}

// departure is a Disconnect still to be called.
type departure struct {
	socket *Socket
	reason string
}

// message takes a message of the client.
func (c *conn) message(m engineio.Message) error {
	p, err := c.assemble(m)
	if err != nil || p == nil {
		return err
	}
	if !c.acquire(p) {
		return nil
	}
	return c.run(p, true)
}

// assemble parses a packet and gathers its attachments. Nothing may come between
// those; nil means that more are due.
func (c *conn) assemble(m engineio.Message) (*packet, error) {
	p := c.partial
	if !m.Binary {
		if p != nil {
			return nil, errAttachment
		}
		next, err := parse(m.Data)
		if err != nil {
			return nil, err
		}
		next.size = int64(len(m.Data))
		if next.attachments == 0 {
			return &next, nil
		}
		if next.size > c.mostBinary() {
			return nil, errAttachment
		}
		if err := placeholders(next.args, next.attachments); err != nil {
			return nil, err
		}
		c.partial = &next
		return nil, nil
	}
	if p == nil {
		return nil, errAttachment
	}
	if p.size += int64(len(m.Data)); p.size > c.mostBinary() {
		return nil, errAttachment
	}
	if p.binary = append(p.binary, m.Data); len(p.binary) < p.attachments {
		return nil, nil
	}
	c.partial = nil
	return p, nil
}

// mostBinary bounds a packet with attachments.
func (c *conn) mostBinary() int64 {
	if n := c.srv.o.AttachmentBytes; n > 0 {
		return n
	}
	return c.eio.MaxPayload()
}

// acquire makes the caller the one that calls the handler. False means that p
// was put behind what another goroutine does, or dropped with the connection.
// When enough waits it blocks, and with it the reading of the client.
func (c *conn) acquire(p *packet) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.running && !c.closed {
		if len(c.pending) < maxPending && (len(c.pending) == 0 || c.weight+p.size <= c.eio.MaxPayload()) {
			c.pending = append(c.pending, *p)
			c.weight += p.size
			return false
		}
		c.freed.Wait()
	}
	if c.closed {
		return false
	}
	c.running = true
	return true
}

// run handles p and then whatever else has come. With may it may leave the rest
// to another goroutine.
func (c *conn) run(p *packet, may bool) error {
	handed, err := c.handle(p, may)
	if handed {
		return err
	}
	c.finish()
	return err
}

// finish does what is left to do and stops being the one that calls.
func (c *conn) finish() {
	for {
		c.mu.Lock()
		if c.closed {
			for _, s := range c.sockets {
				c.left = append(c.left, departure{s, c.reason})
			}
			c.sockets, c.pending, c.weight = nil, nil, 0
		}
		if len(c.left) > 0 {
			d := c.left[0]
			c.left = c.left[1:]
			c.mu.Unlock()
			d.socket.leave()
			_ = c.guard(func() { c.srv.h.Disconnect(d.socket, d.reason) })
			continue
		}
		if len(c.pending) == 0 {
			c.left, c.pending, c.weight = nil, nil, 0
			c.running = false
			c.freed.Broadcast()
			c.mu.Unlock()
			return
		}
		p := c.pending[0]
		c.pending = c.pending[1:]
		c.weight -= p.size
		c.freed.Broadcast()
		c.mu.Unlock()
		if _, err := c.handle(&p, false); err != nil {
			c.violation(err)
		}
	}
}

// violation ends the connection from a goroutine that is not its reader.
func (c *conn) violation(err error) {
	code := websocket.StatusProtocolError
	if errors.Is(err, engineio.ErrPanic) {
		code = websocket.StatusInternalError
	}
	c.eio.Close(engineio.ReasonForcedClose, code)
}

// handle does what one packet asks for. With may a CONNECT goes to a goroutine
// of its own, which then is the one that calls; handed says so.
func (c *conn) handle(p *packet, may bool) (handed bool, err error) {
	if p.kind == typeConnect {
		return c.connect(p, may)
	}
	c.mu.Lock()
	s := c.find(p.namespace)
	former := slices.Contains(c.former, p.namespace)
	c.mu.Unlock()
	switch {
	case s == nil && former:
		// Sent before the client knew that it is out.
		return false, nil
	case s == nil:
		return false, errNotConnected
	}
	switch p.kind {
	case typeDisconnect:
		c.mu.Lock()
		c.remove(s, ReasonClientDisconnect)
		c.mu.Unlock()
	case typeEvent, typeBinaryEvent:
		e := Event{Name: p.name, Args: p.args, AckID: p.id, Attachments: p.binary}
		err = c.guard(func() { c.srv.h.Event(s, e) })
	}
	// Acks are ignored: this server asks for none.
	return false, err
}

// maxOutside bounds a message of a connection that is in no namespace: all that
// it has to say is a CONNECT with its token.
const maxOutside = 64 << 10

// outside is how the connection lives while it is in no namespace: not for
// long, and without large messages, since nobody knows whose it is.
func (c *conn) outside() {
	c.eio.Limit(maxOutside)
	c.eio.SetDeadline(c.srv.o.ConnectTimeout, "connect timeout")
}

// inside lifts what outside has set.
func (c *conn) inside() {
	c.eio.Limit(c.eio.MaxPayload())
	c.eio.SetDeadline(0, "")
}

// find returns the socket in a namespace. Holds c.mu.
func (c *conn) find(namespace string) *Socket {
	for _, s := range c.sockets {
		if s.namespace == namespace {
			return s
		}
	}
	return nil
}

// remove takes s out and says whether it was in. Holds c.mu.
func (c *conn) remove(s *Socket, reason string) bool {
	i := slices.Index(c.sockets, s)
	if i < 0 {
		return false
	}
	c.sockets = slices.Delete(c.sockets, i, i+1)
	if len(c.sockets) == 0 {
		c.outside()
	}
	c.leftBehind(s.namespace)
	c.left = append(c.left, departure{s, reason})
	return true
}

// leftBehind remembers a namespace; there are no more than the server has.
// Holds c.mu.
func (c *conn) leftBehind(namespace string) {
	if !slices.Contains(c.former, namespace) {
		c.former = append(c.former, namespace)
	}
}

// disconnect is the server's own word.
func (c *conn) disconnect(s *Socket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !c.remove(s, ReasonServerDisconnect) {
		return
	}
	s.leave()
	f := plain(typeDisconnect, s.namespace, nil)
	_ = c.eio.Send(&f.packet)
	if c.running {
		return // whoever runs will announce it
	}
	// The caller may hold a lock that Disconnect needs. If the server closes,
	// the end of the connection announces it.
	c.running = true
	if !c.srv.eio.Go(c.finish) {
		c.running = false
	}
}

// close is the end of the connection.
func (c *conn) close(reason string) {
	c.mu.Lock()
	c.closed, c.reason = true, reason
	for _, s := range c.sockets {
		s.leave()
	}
	if c.cancel != nil {
		c.cancel()
	}
	c.freed.Broadcast()
	if c.running {
		c.mu.Unlock()
		return
	}
	c.running = true
	c.mu.Unlock()
	c.finish()
}

// guard calls the handler and turns a panic into an error.
func (c *conn) guard(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			c.srv.o.Logger.Error("handler panicked", "panic", v, "stack", string(debug.Stack()))
			err = engineio.ErrPanic
		}
	}()
	f()
	return nil
}
