package phoenix

import (
	"context"
	"errors"
	"fmt"
)

// The refusals of the layer itself, in the reference's words where it has them.
const (
	reasonUnmatched = "unmatched topic"
	reasonTooMany   = "too many channels joined"
	reasonRate      = "rate limited"
	reasonCrashed   = "join crashed"
)

// join handles a phx_join. A channel of the same topic is closed first; its client
// is told after the reply to the newer one, as the reference does it.
func (s *socket) join(m *message) {
	c := &Channel{sock: s, topic: m.topic, joinRef: m.joinRef, head: headOf(m.joinRef)}
	ctx, cancel := context.WithTimeout(context.Background(), s.srv.o.JoinTimeout)
	defer cancel()
	s.mu.Lock()
	old := s.findLocked(m.topic)
	switch {
	case s.state != open:
		s.mu.Unlock()
		return
	case !s.joins.take(s.srv.clock.Now(), 2*s.srv.o.MaxChannels, s.srv.o.JoinRate):
		s.refuseLocked(m, reason(reasonRate))
		s.mu.Unlock()
		return
	case old == nil && len(s.channels) >= s.srv.o.MaxChannels:
		s.refuseLocked(m, reason(reasonTooMany))
		s.mu.Unlock()
		return
	}
	if old != nil {
		s.removeLocked(old, ReasonReplaced)
	}
	left := s.left
	s.left, s.current, s.cancel = nil, c, cancel
	s.mu.Unlock()
	for _, d := range left {
		_ = s.guard(func() { s.srv.h.Left(d.channel, d.reason) })
	}

	var response []byte
	var err error
	if s.guard(func() { response, err = s.srv.h.Join(ctx, c, m.payload) }) != nil {
		err = errPanic
	}
	if s.decided(m, c, old, response, err) && s.guard(func() { s.srv.h.Joined(c) }) != nil {
		s.crash(c)
	}
}

// decided tells the client what became of its join, and says whether it is in.
func (s *socket) decided(m *message, c, old *Channel, response []byte, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.cancel = nil, nil
	switch {
	case err != nil:
		c.endLocked()
		if s.state != open {
			return false
		}
		s.refuse(m, err)
	case s.state != open:
		s.removeLocked(c, s.reason)
		return false
	default:
		c.phase = joined
		s.channels = append(s.channels, c)
		s.insideLocked() // before the client can know
		_ = s.sendLocked(entry{c.head, replyTail(m.ref, c.topic, OK, response), true})
	}
	// Without a join_ref of its own nobody could tell which of the two it closes.
	if old != nil && old.joinRef != c.joinRef {
		_ = s.sendLocked(entry{old.head, closeTail(old.joinRef, old.topic), false})
	}
	if d := c.doom; d != nil && c.phase == joined {
		c.doom = nil
		s.removeLocked(c, d.reason)
		_ = s.sendLocked(entry{c.head, d.tail, false})
	}
	return c.phase == joined
}

// insideLocked lifts the limit that strangers have. Holds s.mu.
func (s *socket) insideLocked() {
	if s.limit == s.maxPayload {
		return
	}
	s.limit = s.maxPayload
	if s.ws != nil {
		s.ws.SetReadLimit(s.limit)
	}
}

// refuse says why a join was refused; what the client may not know is only
// logged. Holds s.mu.
func (s *socket) refuse(m *message, err error) {
	var shown *JoinError
	switch {
	case errors.As(err, &shown):
		s.refuseLocked(m, shown.Response)
	case errors.Is(err, ErrUnmatched):
		_ = s.sendLocked(entry{headOf(""), replyTail(m.ref, m.topic, Error, reason(reasonUnmatched)), false})
	default:
		if !errors.Is(err, errPanic) && !errors.Is(err, context.Canceled) {
			s.srv.o.Logger.Error("join failed", "error", fmt.Errorf("phoenix: join: %w", err))
		}
		s.refuseLocked(m, reason(reasonCrashed))
	}
}

func (s *socket) refuseLocked(m *message, response []byte) {
	_ = s.sendLocked(entry{headOf(m.joinRef), replyTail(m.ref, m.topic, Error, response), false})
}
