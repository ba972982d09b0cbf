package engineio

import "github.com/parlance-gateway/parlance/internal/wire/ws"

// next is what the writers are to write: as many packets as fit, led by a ping if
// one is due, so that a full queue delays none.
func (s *Session) next(buf *[]byte, err error) ws.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued -= s.writing
	s.writing = 0
	if err != nil {
		s.queue.Clear()
		s.queued, s.beat.unsent = 0, false
		s.endLocked(ReasonTransportError, 0)
		s.ws.Abort() // also if it was closing in order
		return ws.Batch{}
	}
	b := (*buf)[:0]
	if s.beat.unsent {
		s.beat.unsent = false
		b = append(b, pingPacket.wire...)
	}
	if s.queue.Len() == 0 && len(b) == 0 {
		if code := s.farewell; code != 0 {
			s.farewell = 0 // nothing comes after: the session has ended
			return ws.Batch{Conn: s.ws, B: ws.CloseFrame(code), Last: true}
		}
		s.flushing = false
		return ws.Batch{}
	}
	n := 0
	for n < s.queue.Len() {
		e := s.queue.At(n)
		if len(b) > 0 && len(b)+len(e.packet.wire) > ws.WriteLimit {
			break
		}
		n++
		s.writing += e.cost
		if len(b) == 0 && (n == s.queue.Len() || len(e.packet.wire) >= ws.WriteLimit) {
			b = e.packet.wire // alone in its write: no need to copy it
			break
		}
		b = append(b, e.packet.wire...)
		*buf = b
	}
	s.queue.Drop(n)
	return ws.Batch{Conn: s.ws, B: b}
}
