package pingerchips

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// Options are what a Server needs.
type Options struct {
	Desk   dialect.Desk
	Logger *slog.Logger
	// Counts are told what limits refuse; nil is nobody.
	Counts *ws.Counts
	// Agents takes what agents push that joined by a secret; nil knows none of
	// their events.
	Agents Agents
	// Now is the clock (default time.Now), RecheckEvery how often principals
	// are compared with the configuration in force (default 30 s).
	Now          func() time.Time
	RecheckEvery time.Duration
}

// Agents is who serves agents that dial in.
type Agents interface {
	// Join tells that an agent has joined a thread. What it is to be told is
	// given to out, which does not block; its error says that it is gone.
	Join(p identity.Principal, thread string, out func(event string, payload []byte) error) Agent
}

// Agent is an agent's place in a thread.
type Agent interface {
	// Push carries out one of an agent's pushes; known is false for an event that
	// is none of theirs. The error is a Reason or a fault.
	Push(ctx context.Context, event string, payload []byte) (known bool, err error)
	Leave()
}

// Server speaks Pingerchips for all sites of an edge. Close ends it.
type Server struct {
	o     Options
	shown snapshots
	pasts pasts

	ctx context.Context
	end context.CancelFunc
	wg  sync.WaitGroup

	mu      sync.Mutex
	members map[*member]struct{}
	clients map[string]int // sockets by client
}

// NewServer makes a server; the caller gives it to a phoenix.Server, with
// connections whose Accept.Value is a [Socket].
func NewServer(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Counts == nil {
		o.Counts = new(ws.Counts)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.RecheckEvery == 0 {
		o.RecheckEvery = 30 * time.Second
	}
	ctx, end := context.WithCancel(context.Background())
	s := &Server{o: o, ctx: ctx, end: end, members: make(map[*member]struct{}), clients: make(map[string]int)}
	s.wg.Add(1)
	go s.recheck()
	return s
}

// Close ends every command and waits for them. The sockets are the wire's.
func (s *Server) Close() {
	s.end()
	s.wg.Wait()
}

// spawn starts a goroutine that Close waits for; false once it was called.
func (s *Server) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		f()
	}()
	return true
}

// recheck lets go of members whom the configuration in force would not admit.
func (s *Server) recheck() {
	defer s.wg.Done()
	t := time.NewTicker(s.o.RecheckEvery)
	defer t.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-t.C:
		}
		s.mu.Lock()
		all := make([]*member, 0, len(s.members))
		for m := range s.members {
			all = append(all, m)
		}
		s.mu.Unlock()
		for _, m := range all {
			m.check()
		}
	}
}

// report logs a fault of ours behind a refusal; clients are told nothing of it.
func (s *Server) report(what string, err error) {
	if _, fault := refusal(err); fault && !errors.Is(err, context.Canceled) {
		s.o.Logger.Error("a command failed", "command", what, "error", err)
	}
}

// count counts a socket of a client, unless it has as many as it may.
func (s *Server) count(client string, most int) bool {
	if most == 0 {
		most = defaultConnections
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[client] >= most {
		return false
	}
	s.clients[client]++
	return true
}

func (s *Server) discount(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[client]--; s.clients[client] <= 0 {
		delete(s.clients, client)
	}
}
