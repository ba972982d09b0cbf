package phoenix

import (
	"context"
	"errors"
	"slices"
)

var (
	// ErrClosed says that the channel is not joined yet, or no longer.
	ErrClosed = errors.New("phoenix: channel closed")
	// ErrSlow says that the client did not take its frames fast enough and that
	// its connection was broken off for it, so that it comes back.
	ErrSlow = errors.New("phoenix: client too slow")
	// ErrTopic says that a frame was encoded for another topic.
	ErrTopic = errors.New("phoenix: frame of another topic")
	// ErrUnmatched refuses a join of a topic that nobody serves.
	ErrUnmatched = errors.New("phoenix: unmatched topic")
)

type phase uint8

const (
	joining phase = iota
	joined
	over
)

// Channel is one join of one topic by one client. Its methods may be called from
// any goroutine, also from callbacks, and do not block.
type Channel struct {
	// Data is the Handler's own: it may be set in Join and is not touched here.
	Data any

	sock    *socket
	topic   string
	joinRef Ref
	head    string // of all frames of this join: [ and the join_ref

	// Guarded by sock.mu.
	phase  phase
	doom   *departure      // ended while Join ran: what to do then
	ctx    context.Context // nil until somebody asks
	cancel context.CancelFunc
}

// Topic is the topic that the client joined; any string of up to 4 KiB.
func (c *Channel) Topic() string { return c.topic }

// SocketID names the connection: 20 characters, unique and not secret.
func (c *Channel) SocketID() string { return c.sock.id }

// Value is the Accept.Value of the handshake.
func (c *Channel) Value() any { return c.sock.value }

// RemoteIP is the Accept.RemoteIP of the handshake.
func (c *Channel) RemoteIP() string { return c.sock.remoteIP }

// Joined says whether the channel can be sent to.
func (c *Channel) Joined() bool {
	c.sock.mu.Lock()
	defer c.sock.mu.Unlock()
	return c.phase == joined
}

// Context ends when the channel does, before Left is called. It is made at the
// first call, which is not free.
func (c *Channel) Context() context.Context {
	c.sock.mu.Lock()
	defer c.sock.mu.Unlock()
	if c.ctx == nil {
		c.ctx, c.cancel = context.WithCancel(context.Background())
		if c.phase == over {
			c.cancel()
		}
	}
	return c.ctx
}

// endLocked makes Send refuse and ends the context. Holds sock.mu.
func (c *Channel) endLocked() {
	c.phase = over
	if c.cancel != nil {
		c.cancel()
	}
}

// Send queues f. It returns ErrClosed, ErrTopic, or ErrSlow after breaking the
// connection off because the queue was full.
func (c *Channel) Send(f *Frame) error { return c.send(f, false) }

// SendExempt is Send against Options.AnswerBytes instead of QueueBytes: for what
// the client asked for and whose size the caller bounds, as the replay of a join.
func (c *Channel) SendExempt(f *Frame) error { return c.send(f, true) }

func (c *Channel) send(f *Frame, answer bool) error {
	if f.topic != c.topic {
		return ErrTopic
	}
	return c.queue(f.tail, answer)
}

func (c *Channel) queue(tail []byte, answer bool) error {
	c.sock.mu.Lock()
	defer c.sock.mu.Unlock()
	if c.phase != joined {
		return ErrClosed
	}
	return c.sock.sendLocked(entry{c.head, tail, answer})
}

// Push sends an event to this channel alone; see NewFrame and Send.
func (c *Channel) Push(event string, payload []byte) error {
	return c.Send(NewFrame(c.topic, event, payload))
}

// Reply answers the push of that ref. Response is a JSON object, or nil for {}; it
// is copied. Replies count against Options.AnswerBytes. A client takes one reply
// to a push and ignores others.
func (c *Channel) Reply(ref Ref, status Status, response []byte) error {
	return c.queue(replyTail(ref, c.topic, status, response), true)
}

// Close ends the channel with phx_close: its client does not join again by itself.
func (c *Channel) Close() {
	c.sock.part(c, closeTail(c.joinRef, c.topic), ReasonServerClose)
}

// Error ends the channel with phx_error: its client joins again after a second or
// more. Payload, a JSON object, or nil for {}, is given to the client's onError.
func (c *Channel) Error(payload []byte) {
	c.sock.part(c, errorTail(c.joinRef, c.topic, payload), ReasonServerError)
}

// CloseTransport closes the connection after what is queued: its client comes
// back by itself and joins all its channels again.
func (c *Channel) CloseTransport(reason string) {
	s := c.sock
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(reason, codeRestart)
}

// departure is a Left still to be called.
type departure struct {
	channel *Channel
	tail    []byte // what the client is told, if anything
	reason  string
}

// part ends a channel by the server's own word.
func (s *socket) part(c *Channel, tail []byte, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.phase == over || s.state != open:
		return
	case c.phase == joining:
		if c.doom == nil {
			c.doom = &departure{c, tail, reason}
		}
		return
	}
	s.removeLocked(c, reason)
	_ = s.sendLocked(entry{c.head, tail, false})
	if s.running {
		return // whoever runs will announce it
	}
	// The caller may hold a lock that Left needs. If the server closes, the end of
	// the connection announces it.
	s.running = true
	if !s.srv.spawn(s.finish) {
		s.running = false
	}
}

// removeLocked takes a joined channel out and has Left called. Holds s.mu.
func (s *socket) removeLocked(c *Channel, reason string) {
	c.endLocked()
	if i := slices.Index(s.channels, c); i >= 0 {
		s.channels = slices.Delete(s.channels, i, i+1)
	}
	s.left = append(s.left, departure{channel: c, reason: reason})
}

// findLocked returns the joined channel of a topic. Holds s.mu.
func (s *socket) findLocked(topic string) *Channel {
	for _, c := range s.channels {
		if c.topic == topic {
			return c
		}
	}
	return nil
}
