package phoenix

import (
	"sync"
	"time"
)

// writeLimit is how much is gathered for one write, and written at once.
const writeLimit = 64 << 10

// keepQueue is the queue memory an idle connection may keep, in entries.
const keepQueue = 8

var batches = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// flush writes until nothing is queued. There is at most one per connection and
// none while it is idle.
func (s *socket) flush() {
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
func (s *socket) take() (*wire, []entry, bool) {
	s.mu.Lock()
	ws, queue := s.ws, s.queue
	if len(queue) == 0 {
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

// write writes the frames of queue, as many at a time as fit a write. A frame
// that fills one is not copied.
func (s *socket) write(ws *wire, queue []entry, buf *[]byte) error {
	for len(queue) > 0 {
		b, n := (*buf)[:0], 0
		var rest []byte
		for n < len(queue) && (n == 0 || len(b)+queue[n].size() <= writeLimit) {
			e := &queue[n]
			n++
			b = append(appendHeader(b, finText, e.size()), e.head...)
			if len(e.tail) >= writeLimit {
				rest = e.tail
				break
			}
			b = append(b, e.tail...)
		}
		*buf = b
		var err error
		if rest != nil {
			err = ws.writeBoth(b, rest)
		} else {
			_, err = ws.Write(b)
		}
		if err != nil {
			return err
		}
		s.written(queue[:n])
		queue = queue[n:]
	}
	return nil
}

func (s *socket) written(frames []entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writtenLocked(frames)
}

// writtenLocked takes the frames off the queue's account. Holds s.mu.
func (s *socket) writtenLocked(frames []entry) {
	for i := range frames {
		if e := &frames[i]; e.answer {
			s.answers -= e.cost()
		} else {
			s.queued -= e.cost()
		}
	}
}

// give takes the queue's memory back and says whether flush must end.
func (s *socket) give(queue []entry, err error) bool {
	clear(queue) // frames must not be kept alive by memory that waits
	s.mu.Lock()
	defer s.mu.Unlock()
	if cap(queue) <= keepQueue {
		s.spare = queue[:0]
	}
	if err != nil {
		s.queue, s.queued, s.answers = nil, 0, 0
		s.endLocked(ReasonTransport, 0)
		s.ws.abort() // also if it was closing in order
		return true
	}
	return false
}
