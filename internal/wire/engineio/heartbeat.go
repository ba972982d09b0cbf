package engineio

import "time"

// heartbeat holds absolute times, in the clock's terms: a request that comes
// after the pong was due finds the session dead even if no tick has said so.
type heartbeat struct {
	pingAt   time.Duration
	pongBy   time.Duration
	sent     bool // the ping of pingAt was queued
	unsent   bool // and not written yet
	limit    time.Duration
	reason   string        // why limit ends the session
	busyFrom time.Duration // since when the handler runs; 0: it does not
}

// start begins a beat at the given time. Holds s.mu.
func (s *Session) start(now time.Duration) {
	s.beat.pingAt = now + s.srv.o.PingInterval
	s.beat.pongBy = s.beat.pingAt + s.srv.o.PingTimeout
	s.beat.sent, s.beat.unsent = false, false
	s.schedule()
}

// schedule puts the next thing to do on the clock. Holds s.mu.
func (s *Session) schedule() {
	at := s.beat.pingAt
	if s.beat.sent {
		at = s.beat.pongBy
		if s.beat.busyFrom != 0 { // ask again when the handler may be done
			at = max(at, s.srv.clock.Now()+s.srv.o.PingTimeout/4)
		}
	}
	if s.beat.limit != 0 {
		at = min(at, s.beat.limit)
	}
	s.srv.clock.Set(s, at)
}

// tick does what is due.
func (s *Session) tick(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case closed:
		return
	case ending:
		s.state = closed
		s.queue.Clear()
		s.srv.drop(s)
		return
	}
	if s.overdue(now); s.state != open {
		return
	}
	if !s.beat.sent && now >= s.beat.pingAt {
		s.beat.sent, s.beat.unsent = true, true
		s.kick()
	}
	s.schedule()
}

// overdue ends an open session whose time is up. Holds s.mu.
func (s *Session) overdue(now time.Duration) {
	switch b := &s.beat; {
	case s.state != open:
	case b.limit != 0 && now >= b.limit:
		s.endLocked(b.reason, closeGone)
	case b.busyFrom == 0 && now >= b.pongBy:
		s.endLocked(ReasonPingTimeout, 0)
	}
}

// pong is the client's answer to a ping; any number of them is welcome.
func (s *Session) pong() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == open {
		s.start(s.srv.clock.Now())
	}
}

// SetDeadline ends the session d from now with the given reason; 0 lifts it.
func (s *Session) SetDeadline(d time.Duration, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != open {
		return
	}
	s.beat.limit, s.beat.reason = 0, ""
	if d > 0 {
		s.beat.limit, s.beat.reason = s.srv.clock.Now()+d, reason
	}
	s.schedule()
}

// busy stops the pong's clock while the handler keeps the client from being
// read, and idle starts it again.
func (s *Session) busy() {
	s.mu.Lock()
	s.beat.busyFrom = max(1, s.srv.clock.Now())
	s.mu.Unlock()
}

func (s *Session) idle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, now := &s.beat, s.srv.clock.Now()
	from := max(b.busyFrom, b.pingAt) // nothing was owed before the ping
	b.busyFrom = 0
	if now > from && s.state == open {
		b.pongBy += now - from
		s.schedule()
	}
}
