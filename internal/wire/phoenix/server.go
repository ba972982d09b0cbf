package phoenix

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// Server serves Phoenix channels to any number of endpoints that share a Handler.
// Close must be called when it is no longer needed.
type Server struct {
	o        Options
	h        Handler
	clock    *ws.Clock[socket]
	writers  *ws.Writers[socket]
	secret   [32]byte       // signs the tokens of polling clients
	pace     *rate.Limiter  // of handshakes
	wg       sync.WaitGroup // all goroutines, and all requests being served
	extended sync.Once
	large    ws.Memory // of large frames
	conns    *ws.Group // all WebSockets, also those on their way out

	mu       sync.RWMutex
	sockets  map[*socket]struct{}
	polls    map[pollKey]*socket
	taken    int // sockets, and handshakes that will become one
	live     int // sockets that have not ended
	draining bool
	closed   bool
}

// NewServer starts a server that tells h about its channels.
func NewServer(o Options, h Handler) *Server {
	e := &Server{
		o: o.withDefaults(), h: h,
		sockets: map[*socket]struct{}{}, polls: map[pollKey]*socket{},
	}
	e.clock = ws.NewClock(func(s *socket) *ws.Alarm { return &s.alarm }, (*socket).tick)
	e.writers = ws.NewWriters(&e.wg, e.o.Counts, (*socket).next)
	e.large.Limit, e.conns = e.o.LargeBytes, ws.NewGroup(e.o.WriteTimeout, e.o.Counts)
	_, _ = rand.Read(e.secret[:]) // never fails, by its contract
	e.pace = rate.NewLimiter(rate.Limit(e.o.AcceptRate), 2*e.o.AcceptRate)
	e.wg.Add(1)
	go func() {
		defer e.wg.Done()
		e.clock.Run()
	}()
	return e
}

// Sockets is the number of live connections.
func (e *Server) Sockets() int {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.live
}

// Queued is how much waits for the clients of all connections, in bytes as
// Options.QueueBytes counts them.
func (e *Server) Queued() int {
	n := 0
	for _, s := range e.snapshot() {
		s.mu.Lock()
		n += s.queued + s.answers
		s.mu.Unlock()
	}
	return n
}

func (e *Server) snapshot() []*socket {
	e.mu.RLock()
	defer e.mu.RUnlock()
	all := make([]*socket, 0, len(e.sockets))
	for s := range e.sockets {
		all = append(all, s)
	}
	return all
}

// spawn runs f on a goroutine that Close waits for. It returns false, without
// running f, when the server is closed.
func (e *Server) spawn(f func()) bool {
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

// Drain refuses handshakes from now on, with 503, and closes all connections with
// code 1012, or 410 for polling clients, in batches spread over the given time: a
// client comes back within 10 ms of its close and without jitter, so the spread is
// what keeps all of them from arriving elsewhere at once. When ctx ends first it
// closes the rest at once and returns the context's error.
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
			s.end(ReasonShutdown, codeRestart)
		}
	}
	// A handshake that was under way at the snapshot is here by now, or sees that
	// the server drains.
	for _, s := range e.snapshot() {
		s.end(ReasonShutdown, codeRestart)
	}
	return ctx.Err()
}

// Close ends all connections at once and waits for every goroutine and callback of
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
			s.queue.Clear()
			s.kick()
			e.drop(s)
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

// reserve takes a place for a handshake, or answers 503. The body is empty: a
// polling client takes that as a reason to come back, and other text as a fault.
func (e *Server) reserve(w http.ResponseWriter) bool {
	soon := !e.pace.Allow()
	e.mu.Lock()
	over := soon || e.taken >= e.o.MaxConnections
	ok := !e.draining && !over
	if ok {
		e.taken++
	}
	e.mu.Unlock()
	if ok {
		return true
	}
	if over {
		e.o.Counts.OverSockets.Add(1)
	}
	unavailable(w)
	return false
}

func (e *Server) unreserve() {
	e.mu.Lock()
	e.taken--
	e.mu.Unlock()
}

// begin makes the socket known, in the place reserved for it.
func (e *Server) begin(s *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = e.clock.Now()
	e.o.Counts.Opened.Add(1)
	e.mu.Lock()
	e.live++
	e.sockets[s] = struct{}{}
	if s.polls {
		e.polls[s.key] = s
	}
	draining, gone := e.draining, e.closed
	e.mu.Unlock()
	e.clock.Set(s, s.seen+s.patience())
	switch {
	case gone: // Close may have looked before we were there
		s.endLocked(ReasonShutdown, 0)
	case draining: // and so may Drain
		s.endLocked(ReasonShutdown, codeRestart)
	}
}

// poll finds the connection of a polling client.
func (e *Server) poll(token string) *socket {
	key, ok := e.readToken(token)
	if !ok {
		return nil
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.polls[key]
}

// drop forgets a socket and frees its place. Holds s.mu.
func (e *Server) drop(s *socket) {
	e.clock.Unset(s)
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.sockets[s]; ok {
		delete(e.sockets, s)
		delete(e.polls, s.key)
		e.taken--
	}
}

// ended has the handler told, which must not happen under s.mu. Holds s.mu.
func (e *Server) ended(s *socket) {
	e.mu.Lock()
	e.live--
	e.mu.Unlock()
	e.wg.Add(1) // never the first: whoever ends a socket is counted, or holds one
	reason := s.reason
	go func() {
		defer e.wg.Done()
		s.depart()
		if v, ok := s.value.(interface{ Ended(reason string) }); ok {
			v.Ended(reason)
		}
	}()
}
