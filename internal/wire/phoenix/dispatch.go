package phoenix

import (
	"errors"
	"runtime/debug"
)

// maxPending bounds the frames that wait for a join to be decided.
const maxPending = 256

// errPanic is the error of a callback that panicked.
var errPanic = errors.New("phoenix: handler panicked")

// receive takes one frame of the client, whose memory is given away.
func (s *socket) receive(b []byte) error {
	m, err := parse(b)
	if err != nil {
		return err
	}
	if m.topic == topicPhoenix && m.event == eventHeartbeat {
		// Also while a join takes its time: it is the line that is being asked.
		s.answer(m.joinRef, replyTail(m.ref, topicPhoenix, OK, nil))
		return nil
	}
	if s.acquire(&m) {
		s.process(&m)
	}
	return nil
}

// acquire makes the caller the one that calls the handler. False means that m was
// put behind what another goroutine does, or dropped with the connection. When
// enough waits it blocks, and with it the reading of the client.
func (s *socket) acquire(m *message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveUp(m)
	for s.running && s.state == open {
		if len(s.pending) < maxPending && (len(s.pending) == 0 || int64(s.weight+m.size) <= s.maxPayload) {
			s.pending = append(s.pending, *m)
			s.weight += m.size
			return false
		}
		s.freed.Wait()
	}
	if s.state != open {
		return false
	}
	s.running = true
	return true
}

// giveUp ends the Join that runs if m says that its client does not wait for it
// any more. Holds s.mu.
func (s *socket) giveUp(m *message) {
	c := s.current
	if c == nil || c.topic != m.topic {
		return
	}
	if m.event == eventJoin || m.event == eventLeave && (m.joinRef == "" || m.joinRef == c.joinRef) {
		s.cancel()
	}
}

// process handles m and then whatever else has come. A join goes on on a
// goroutine of its own, which then is the one that calls, so that the reader
// answers heartbeats and notices the client's leaving.
func (s *socket) process(m *message) {
	if m.event == eventJoin {
		job := *m
		if s.srv.spawn(func() {
			s.join(&job)
			s.finish()
		}) {
			return
		}
	} else {
		s.handle(m)
	}
	s.finish()
}

// finish does what is left to do and stops being the one that calls.
func (s *socket) finish() {
	for {
		s.mu.Lock()
		if s.state != open {
			for len(s.channels) > 0 {
				s.removeLocked(s.channels[0], s.reason)
			}
			s.pending, s.weight = nil, 0
		}
		if len(s.left) > 0 {
			d := s.left[0]
			s.left = s.left[1:]
			s.mu.Unlock()
			_ = s.guard(func() { s.srv.h.Left(d.channel, d.reason) })
			continue
		}
		if len(s.pending) == 0 {
			s.left, s.pending, s.weight = nil, nil, 0
			s.running = false
			s.freed.Broadcast()
			s.mu.Unlock()
			return
		}
		m := s.pending[0]
		s.pending = s.pending[1:]
		s.weight -= m.size
		s.freed.Broadcast()
		s.mu.Unlock()
		if m.event == eventJoin {
			s.join(&m)
		} else {
			s.handle(&m)
		}
	}
}

// handle does what one frame other than a join asks for.
func (s *socket) handle(m *message) {
	s.mu.Lock()
	c := s.findLocked(m.topic)
	if c != nil && m.joinRef != "" && m.joinRef != c.joinRef {
		s.mu.Unlock()
		return // sent before the client knew of its newer join
	}
	switch {
	case m.event == eventLeave:
		s.leaveLocked(c, m)
		s.mu.Unlock()
	case c == nil:
		s.mu.Unlock()
		s.answer("", replyTail(m.ref, m.topic, Error, reason("unmatched topic")))
	default:
		s.mu.Unlock()
		p := Push{Ref: m.ref, Event: m.event, Payload: m.payload}
		if s.guard(func() { s.srv.h.In(c, p) }) != nil {
			s.crash(c)
		}
	}
}

// leaveLocked is a phx_leave; to leave what was not joined is no fault. Holds s.mu.
func (s *socket) leaveLocked(c *Channel, m *message) {
	joinRef := m.joinRef
	if c != nil {
		joinRef = c.joinRef
		s.removeLocked(c, ReasonLeave)
	}
	head := headOf(joinRef)
	_ = s.sendLocked(entry{head, replyTail(m.ref, m.topic, OK, nil), false})
	if c != nil {
		_ = s.sendLocked(entry{head, closeTail(joinRef, m.topic), false})
	}
}

var crashed = []byte(`{"reason":"channel_crash"}`)

// crash ends one channel whose callback panicked.
func (s *socket) crash(c *Channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.phase != joined {
		return
	}
	s.removeLocked(c, ReasonCrash)
	_ = s.sendLocked(entry{c.head, errorTail(c.joinRef, c.topic, crashed), false})
}

// guard calls the handler and turns a panic into an error.
func (s *socket) guard(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.srv.o.Logger.Error("handler panicked", "panic", v, "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	f()
	return nil
}

// depart has the end of the connection announced, by whoever calls callbacks.
func (s *socket) depart() {
	s.mu.Lock()
	if s.running {
		s.mu.Unlock()
		return
	}
	s.running = true
	s.mu.Unlock()
	s.finish()
}
