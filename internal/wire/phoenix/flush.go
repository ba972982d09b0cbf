package phoenix

import "github.com/parlance-gateway/parlance/internal/wire/ws"

// next is what the writers are to write: as many frames as fit. A frame that fills
// a write is not copied.
func (s *socket) next(buf *[]byte, err error) ws.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued -= s.writing[0]
	s.answers -= s.writing[1]
	s.writing = [2]int{}
	if err != nil {
		s.queue.Clear()
		s.queued, s.answers = 0, 0
		s.endLocked(ReasonTransport, 0)
		s.ws.Abort() // also if it was closing in order
		return ws.Batch{}
	}
	if s.queue.Len() == 0 {
		if code := s.farewell; code != 0 {
			s.farewell = 0 // nothing comes after: the connection has ended
			return ws.Batch{Conn: s.ws, B: ws.CloseFrame(code), Last: true}
		}
		s.flushing = false
		return ws.Batch{}
	}
	b, n := (*buf)[:0], 0
	var rest []byte
	for n < s.queue.Len() && rest == nil {
		e := s.queue.At(n)
		if n > 0 && len(b)+e.size() > ws.WriteLimit {
			break
		}
		n++
		queued, answers := e.account()
		s.writing[0] += queued
		s.writing[1] += answers
		b = append(ws.AppendHeader(b, ws.FinText, e.size()), e.head...)
		if len(e.tail) >= ws.WriteLimit {
			rest = e.tail
		} else {
			b = append(b, e.tail...)
		}
	}
	*buf = b
	s.queue.Drop(n)
	return ws.Batch{Conn: s.ws, B: b, Rest: rest}
}

// account is what a queued frame costs, of queued or of answers.
func (e *entry) account() (queued, answers int) {
	if e.answer {
		return 0, e.cost()
	}
	return e.cost(), 0
}

// drop takes n frames out that went another way. Holds s.mu.
func (s *socket) drop(n int) {
	for i := range n {
		queued, answers := s.queue.At(i).account()
		s.queued -= queued
		s.answers -= answers
	}
	s.queue.Drop(n)
}
