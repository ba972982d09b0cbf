package engineio

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// Server holds the sessions of one endpoint, or of several that share a
// Handler. Close must be called when it is no longer needed.
type Server struct {
	o        Options
	h        Handler
	clock    *ws.Clock[Session]
	writers  *ws.Writers[Session]
	wg       sync.WaitGroup // all goroutines, and all requests being served
	extended sync.Once
	large    ws.Memory // of large messages
	conns    *ws.Group // all WebSockets, also those on their way out

	mu       sync.RWMutex
	sessions map[string]*Session
	taken    int // sessions, and handshakes that will become one
	live     int // sessions that have not ended
	draining bool
	closed   bool
}

// NewServer starts a server that tells h about its sessions.
func NewServer(o Options, h Handler) *Server {
	e := &Server{o: o.withDefaults(), h: h, sessions: map[string]*Session{}}
	e.clock = ws.NewClock(func(s *Session) *ws.Alarm { return &s.alarm }, (*Session).tick)
	e.writers = ws.NewWriters(&e.wg, e.o.Counts, (*Session).next)
	e.large.Limit, e.conns = e.o.LargeBytes, ws.NewGroup(e.o.WriteTimeout, e.o.Counts)
	e.wg.Add(1)
	go func() {
		defer e.wg.Done()
		e.clock.Run()
	}()
	return e
}

// Sessions is the number of live sessions.
func (e *Server) Sessions() int {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.live
}

// Queued is how much waits for the clients of all sessions, in bytes as
// Options.QueueBytes counts them.
func (e *Server) Queued() int {
	n := 0
	for _, s := range e.snapshot() {
		s.mu.Lock()
		n += s.queued
		s.mu.Unlock()
	}
	return n
}

// All yields the live sessions as they are at the call.
func (e *Server) All() iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		for _, s := range e.snapshot() {
			if s.alive() && !yield(s) {
				return
			}
		}
	}
}

func (e *Server) snapshot() []*Session {
	e.mu.RLock()
	defer e.mu.RUnlock()
	all := make([]*Session, 0, len(e.sessions))
	for _, s := range e.sessions {
		all = append(all, s)
	}
	return all
}

func (s *Session) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == open
}

// Go runs f on a goroutine that Close waits for. It returns false, without
// running f, when the server is closed.
func (e *Server) Go(f func()) bool {
	if !e.enter() {
		return false
	}
	go func() {
		defer e.wg.Done()
		f()
	}()
	return true
}

// drainStep is the time between two batches of a drain.
const drainStep = 50 * time.Millisecond

// Drain refuses handshakes from now on, with 503, and closes the transports of
// all sessions in batches spread over the given time, so that clients come back
// elsewhere and not all at once. When ctx ends first it closes the rest at once
// and returns the context's error.
func (e *Server) Drain(ctx context.Context, spread time.Duration) error {
	e.mu.Lock()
	e.draining = true
	e.mu.Unlock()
	all := e.snapshot()
	steps := max(1, int(spread/drainStep))
	tick := time.NewTicker(drainStep)
	defer tick.Stop()
	for i := range steps {
		if i > 0 && ctx.Err() == nil {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		for _, s := range all[len(all)*i/steps : len(all)*(i+1)/steps] {
			s.Close(ReasonShutdown, closeGone)
		}
	}
	// A handshake that was under way at the snapshot is here by now, or sees
	// that the server drains.
	for s := range e.All() {
		s.Close(ReasonShutdown, closeGone)
	}
	return ctx.Err()
}

// Close ends all sessions at once and waits for every goroutine and callback of
// the server. It must not be called from a callback.
func (e *Server) Close() {
	e.mu.Lock()
	first := !e.closed
	e.closed, e.draining = true, true
	e.mu.Unlock()
	for _, s := range e.snapshot() {
		s.mu.Lock()
		if s.state == ending {
			s.state = closed
			e.clock.Unset(s)
			e.drop(s)
			if s.abort != nil {
				s.abort()
			}
		}
		s.endLocked(ReasonShutdown, 0)
		s.mu.Unlock()
	}
	e.conns.Abort()
	if first {
		e.clock.Stop()
	}
	e.wg.Wait()
}

func (e *Server) enter() bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		return false
	}
	e.wg.Add(1)
	return true
}

// reserve takes a place for a handshake, unless there is none.
func (e *Server) reserve() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	full := e.taken >= e.o.MaxConnections
	if full {
		e.o.Counts.OverSockets.Add(1)
	}
	if e.draining || full {
		return false
	}
	e.taken++
	return true
}

func (e *Server) unreserve() {
	e.mu.Lock()
	e.taken--
	e.mu.Unlock()
}

// begin makes the session known, in the place reserved for it. The handler is
// told first: until then nobody else can have it, or end it.
func (e *Server) begin(s *Session) {
	e.o.Counts.Opened.Add(1)
	e.mu.Lock()
	e.live++
	e.mu.Unlock()
	s.mu.Lock()
	s.start(e.clock.Now())
	s.mu.Unlock()
	var err error
	func() {
		defer s.recovered(&err)
		e.h.Open(s)
	}()
	e.mu.Lock()
	e.sessions[s.id] = s
	draining, gone := e.draining, e.closed
	e.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case gone: // Close may have looked before we were there
		s.endLocked(ReasonShutdown, 0)
	case draining: // and so may Drain
		s.endLocked(ReasonShutdown, closeGone)
	case err != nil:
		s.endLocked(ReasonForcedClose, 0)
	case s.state == closed: // in Open
		e.drop(s)
	}
}

func (e *Server) find(sid string) *Session {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.sessions[sid]
}

// drop forgets a session and frees its place. Holds s.mu.
func (e *Server) drop(s *Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sessions[s.id] == s {
		delete(e.sessions, s.id)
		e.taken--
	}
}

// ended tells the handler, which must not happen under s.mu. Holds s.mu.
func (e *Server) ended(s *Session, reason string) {
	e.mu.Lock()
	e.live--
	e.mu.Unlock()
	if s.state == closed {
		e.clock.Unset(s)
	}
	e.wg.Add(1) // never the first: whoever ends a session is counted, or holds one
	go func() {
		defer e.wg.Done()
		var err error
		defer s.recovered(&err)
		e.h.Close(s, reason)
		if v, ok := s.value.(interface{ Ended(reason string) }); ok {
			v.Ended(reason)
		}
	}()
}
