package phoenix

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// Close codes in use. None is 1000 for a client that should come back: published
// clients up to 1.8.15 stay away after it.
const (
	codeAway        = websocket.StatusGoingAway               // no frame for too long
	codeUnsupported = websocket.StatusUnsupportedData         // binary, or not such an array
	codeInvalid     = websocket.StatusInvalidFramePayloadData // not UTF-8, not JSON
	codeProtocol    = websocket.StatusProtocolError
	codeInternal    = websocket.StatusInternalError
	codeRestart     = websocket.StatusServiceRestart // come back: drain, CloseTransport
	codeLater       = websocket.StatusTryAgainLater
)

type state uint8

const (
	open   state = iota
	ending       // closed, but a polling client may still come for the rest
	closed
)

// socket is one client and its channels, over whichever transport it came by.
// Callbacks are made by one goroutine at a time, the one that set running: the
// reader, a join that takes its time, or one that only has departures to announce.
type socket struct {
	srv        *Server
	id         string // shown to the client
	key        pollKey
	polls      bool
	value      any
	remoteIP   string
	maxPayload int64
	alarm      ws.Alarm

	in sync.Mutex // held while the frames of one POST are handled

	mu     sync.Mutex // guards all below, and the channels' phases
	state  state
	ws     *ws.Conn // nil while polling
	poller *waiter
	bodies map[*http.ResponseController]struct{} // of the POSTs that are being read
	busy   int                                   // requests, or frames, that are being read or handled
	seen   time.Duration                         // when the client last gave a sign of life
	limit  int64                                 // of a frame, up to maxPayload
	reason string                                // why it ended

	queue    ws.Queue[entry]
	queued   int                  // cost of what is queued or being written, answers aside
	answers  int                  // the same of answers
	writing  [2]int               // what is being written of these two
	flushing bool                 // the writers have the socket
	farewell websocket.StatusCode // to be sent after the queue; 0: none

	channels []*Channel
	joins    bucket

	freed   sync.Cond // on mu: pending has room, or running has ended
	running bool
	pending []message // in order, for when running ends
	weight  int       // bytes of pending
	left    []departure
	current *Channel           // whose Join runs
	cancel  context.CancelFunc // ends it
}

func (s *socket) init(a *Accept) {
	s.id, s.value, s.remoteIP = newID(), a.Value, a.RemoteIP
	s.maxPayload, s.limit = a.MaxPayload, min(a.MaxPayload, maxOutside)
	s.freed.L = &s.mu
}

// sendLocked queues e. When the queue is full it breaks the connection off and
// returns ErrSlow: nothing is ever left out of one that lives. Holds s.mu.
func (s *socket) sendLocked(e entry) error {
	if s.state != open {
		return ErrClosed
	}
	queued, limit := &s.queued, s.srv.o.QueueBytes
	if e.answer {
		queued, limit = &s.answers, s.srv.o.AnswerBytes
	}
	cost := e.cost()
	if *queued > 0 && *queued+cost > limit {
		s.srv.o.Counts.Slow.Add(1)
		s.endLocked(ReasonSlow, 0)
		return ErrSlow
	}
	*queued += cost
	s.queue.Push(e)
	s.kick()
	return nil
}

// answer queues a frame that belongs to no channel, or to one that is over.
func (s *socket) answer(joinRef Ref, tail []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.sendLocked(entry{headOf(joinRef), tail, false})
}

// kick makes someone deliver what is queued. Holds s.mu.
func (s *socket) kick() {
	switch {
	case s.ws != nil:
		if !s.flushing {
			s.flushing = true
			s.srv.writers.Ready(s, s.ws) // the reader of s.ws is counted
		}
	case s.poller != nil:
		s.poller.wake()
	}
}

// end ends the connection: after what is queued if code is not 0, else at once.
func (s *socket) end(reason string, code websocket.StatusCode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(reason, code)
}

// endLocked is end with s.mu held; it does not wait for anything. A WebSocket is
// closed with code; a polling client is given the rest, then told to come back.
func (s *socket) endLocked(reason string, code websocket.StatusCode) {
	if s.state != open {
		return
	}
	s.state, s.reason = closed, reason
	for rc := range s.bodies {
		_ = rc.SetReadDeadline(time.Unix(1, 0))
	}
	switch {
	case s.ws != nil && code != 0:
		s.farewell = code
		s.kick()
	case s.ws != nil:
		s.ws.Abort()
	case code == 0 || s.queue.Len() == 0:
		s.queue.Clear()
		s.kick()
	default:
		s.state = ending
		s.srv.clock.Set(s, s.srv.clock.Now()+s.srv.o.PollWindow)
		s.kick()
	}
	for _, c := range s.channels {
		c.endLocked()
	}
	if s.cancel != nil {
		s.cancel()
	}
	s.freed.Broadcast()
	if s.state == closed {
		s.srv.drop(s)
	}
	s.srv.ended(s)
}

// tick does what is due: it ends a client that gave no sign of life.
func (s *socket) tick(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == ending:
		s.state = closed
		s.queue.Clear()
		s.srv.drop(s)
		return
	case s.state == closed:
		return
	case s.busy > 0 || s.poller != nil:
		s.seen = now
	}
	limit := s.patience()
	if now-s.seen < limit {
		s.srv.clock.Set(s, s.seen+limit)
		return
	}
	s.endLocked(ReasonTimeout, codeAway)
}

// patience is how long the client may be silent.
func (s *socket) patience() time.Duration {
	if s.polls {
		return s.srv.o.PollWindow + s.srv.o.PollWindow/2
	}
	return s.srv.o.IdleTimeout
}

// began and done stand around what keeps the client from being listened to.
func (s *socket) began() {
	s.mu.Lock()
	s.busy++
	s.mu.Unlock()
}

func (s *socket) done() {
	s.mu.Lock()
	s.busy--
	s.seen = s.srv.clock.Now()
	s.mu.Unlock()
}

// bucket counts the joins that a connection may still ask for.
type bucket struct {
	spent int32
	since time.Duration
}

// take says whether one more is within burst and rate a second.
func (b *bucket) take(now time.Duration, burst, rate int) bool {
	if back := (now - b.since) * time.Duration(rate) / time.Second; back > 0 {
		b.spent = max(0, b.spent-int32(min(back, 1<<30)))
		b.since = now
	}
	if int(b.spent) >= burst {
		return false
	}
	b.spent++
	return true
}
