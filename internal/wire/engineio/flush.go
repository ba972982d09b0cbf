package engineio

import (
	"sync"
	"time"
)

// writeLimit is how much is gathered for one write, and written at once.
const writeLimit = 64 << 10

// keepQueue is the queue memory an idle session may keep, in entries.
const keepQueue = 32

var batches = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// flush writes until nothing is queued. There is at most one per session and
// none while it is idle.
func (s *Session) flush() {
	defer s.srv.wg.Done()
	buf := batches.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= 2*writeLimit {
			*buf = (*buf)[:0]
			batches.Put(buf)
		}
	}()
	for {
		ws, queue, more := s.take()
		if !more {
			return
		}
		err := s.write(ws, queue, buf)
		if s.give(queue, err) {
			return
		}
	}
}

// take hands the whole queue to flush, which owns it until it gives it back.
func (s *Session) take() (*wire, []entry, bool) {
	s.mu.Lock()
	ws, queue := s.ws, s.queue
	if len(queue) == 0 && !s.beat.unsent {
		code := s.farewell
		if code == 0 {
			s.flushing = false
		}
		s.mu.Unlock()
		if code != 0 { // flushing stays set: nothing comes after
			_ = ws.writeClose(code)
			_ = ws.SetReadDeadline(time.Now().Add(closeWait))
		}
		return nil, nil, false
	}
	s.queue, s.spare = s.spare, nil
	s.mu.Unlock()
	return ws, queue, true
}

// write writes the packets of queue, as many at a time as fit a write, each
// time led by a ping if one is due: a full queue delays none.
func (s *Session) write(ws *wire, queue []entry, buf *[]byte) error {
	for first := true; first || len(queue) > 0; first = false {
		b, n, cost := s.lead((*buf)[:0]), 0, 0
		for n < len(queue) && (len(b) == 0 || len(b)+len(queue[n].packet.wire) <= writeLimit) {
			if len(b) == 0 && (n+1 == len(queue) || len(queue[n].packet.wire) >= writeLimit) {
				// Alone in its write: no need to copy it.
				b = queue[n].packet.wire
				cost += queue[n].cost
				n++
				break
			}
			b = append(b, queue[n].packet.wire...)
			cost += queue[n].cost
			n++
			*buf = b
		}
		if len(b) > 0 {
			if _, err := ws.Write(b); err != nil {
				return err
			}
		}
		queue = queue[n:]
		s.written(cost)
	}
	return nil
}

// lead puts a ping that is due in front.
func (s *Session) lead(b []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.beat.unsent {
		s.beat.unsent = false
		b = append(b, pingPacket.wire...)
	}
	return b
}

func (s *Session) written(cost int) {
	s.mu.Lock()
	s.queued -= cost
	s.mu.Unlock()
}

// give takes the queue's memory back and says whether flush must end.
func (s *Session) give(queue []entry, err error) bool {
	clear(queue) // packets must not be kept alive by memory that waits
	s.mu.Lock()
	defer s.mu.Unlock()
	if cap(queue) <= keepQueue {
		s.spare = queue[:0]
	}
	if err != nil {
		s.queue, s.queued, s.beat.unsent = nil, 0, false
		s.endLocked(ReasonTransportError, 0)
		s.ws.abort() // also if it was closing in order
		return true
	}
	return false
}
