package engineio

import (
	"net/http"
	"strconv"
	"time"
)

// noopAfter is how long a GET is held while an upgrade is going on. The client
// cannot finish the upgrade before its GET is answered, and may send another if
// the answer overtakes the probe's; so each one is released, but not at once,
// since the upgrade may complete and make it a stray.
const noopAfter = 100 * time.Millisecond

// minPayload is the least that one GET may carry.
const minPayload = 64 << 10

// poll answers a GET with what is queued, waiting for it if need be.
func (s *Session) poll(w http.ResponseWriter, r *http.Request) {
	wake, ok := s.beginPoll(w)
	if !ok {
		return
	}
	// A server's read timeout is meant for slow requests, not for this wait.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	var noop *time.Timer
	defer func() {
		if noop != nil {
			noop.Stop()
		}
	}()
	for {
		body, upgrading, done := s.payload()
		if done {
			if body == nil {
				fail(w, badRequest)
				return
			}
			s.answer(w, body)
			return
		}
		var timeout <-chan time.Time
		if upgrading {
			if noop == nil {
				noop = time.NewTimer(noopAfter)
			}
			timeout = noop.C
		}
		select {
		case <-wake:
		case <-timeout:
			if body, ok := s.release(); ok {
				s.answer(w, body)
				return
			}
			noop.Reset(noopAfter)
		case <-r.Context().Done():
			s.endPoll()
			s.Kill(ReasonTransportClose)
			return
		}
	}
}

// beginPoll makes the request the one that waits, or answers it.
func (s *Session) beginPoll(w http.ResponseWriter) (wake chan struct{}, ok bool) {
	s.mu.Lock()
	s.overdue(s.srv.clock.Now())
	switch {
	case s.state == ending:
		body := s.last()
		s.mu.Unlock()
		s.answer(w, body)
		return nil, false
	case s.state == closed:
		s.mu.Unlock()
		fail(w, unknownSession)
		return nil, false
	case s.ws != nil:
		s.mu.Unlock()
		fail(w, badRequest)
		return nil, false
	case s.poller != nil:
		s.endLocked(ReasonTransportError, 0)
		s.mu.Unlock()
		fail(w, badRequest)
		return nil, false
	}
	wake = make(chan struct{}, 1)
	s.poller = wake
	s.mu.Unlock()
	return wake, true
}

func (s *Session) endPoll() {
	s.mu.Lock()
	s.poller = nil
	s.mu.Unlock()
}

// payload takes the answer of the waiting GET, if there is one by now. A nil
// body that is done means that the client has moved to its WebSocket.
func (s *Session) payload() (body []byte, upgrading, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == closed && s.byClient:
		body = []byte("6")
	case s.state == ending:
		body = s.last()
	case s.state == closed:
		body = []byte("1")
	case s.ws != nil:
	case s.beat.unsent || s.queue.Len() > 0:
		body = s.pack()
	default:
		return nil, s.probe != nil && s.probe.answered, false
	}
	s.poller = nil
	return body, false, true
}

// release answers a GET that holds up an upgrade.
func (s *Session) release() ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != open || s.ws != nil || s.probe == nil {
		return nil, false
	}
	s.poller = nil
	return []byte("6"), true
}

// last is the answer to a GET that comes after the end: the packets left, and
// the close packet in an answer of its own. Clients act on that while they still
// decode what came with it, and would miss a DISCONNECT. Holds s.mu.
func (s *Session) last() []byte {
	body := s.pack()
	switch {
	case s.byClient:
		body = []byte("6")
	case len(body) > 0:
		return body
	default:
		body = []byte{'6', separator, '1'}
	}
	s.state = closed
	s.srv.clock.Unset(s)
	s.srv.drop(s)
	return body
}

// pack takes as many packets as one payload may hold, a ping first. Holds s.mu.
func (s *Session) pack() []byte {
	var body []byte
	if s.beat.unsent && s.state == open {
		s.beat.unsent = false
		body = append(body, '2')
	}
	limit, n := max(minPayload, int(s.maxPayload)), 0
	for n < s.queue.Len() && (n == 0 || len(body)+len(s.queue.At(n).packet.text) < limit) {
		e := s.queue.At(n)
		body = appendPacket(body, e.packet.text)
		s.queued -= e.cost
		n++
	}
	s.queue.Drop(n)
	return body
}

func appendPacket[T string | []byte](body []byte, packet T) []byte {
	if len(body) > 0 {
		body = append(body, separator)
	}
	return append(body, packet...)
}

// answer writes the payload and bounds the time that takes. A client that did
// not get it is gone: what it should have had cannot be sent again.
func (s *Session) answer(w http.ResponseWriter, body []byte) {
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(s.srv.o.WriteTimeout))
	// The next request of the connection must not inherit the deadline.
	defer func() { _ = rc.SetWriteDeadline(time.Time{}) }()
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=UTF-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	n, err := w.Write(body)
	s.srv.o.Counts.Out.Add(int64(n))
	if err != nil {
		s.Kill(ReasonTransportClose)
		return
	}
	_ = rc.Flush()
}
