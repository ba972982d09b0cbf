package socketio

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/parlance-gateway/parlance/internal/wire/engineio"
)

// Server serves Socket.IO to any number of endpoints that share a Handler. Close
// must be called when it is no longer needed.
type Server struct {
	o   Options
	h   Handler
	eio *engineio.Server
}

// NewServer starts a server that tells h about its sockets.
func NewServer(o Options, h Handler) *Server {
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = DefaultConnectTimeout
	}
	if len(o.Namespaces) == 0 {
		o.Namespaces = []string{"/"}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, h: h}
	s.eio = engineio.NewServer(engineio.Options{
		PingInterval: o.PingInterval, PingTimeout: o.PingTimeout, UpgradeTimeout: o.UpgradeTimeout,
		WriteTimeout: o.WriteTimeout, BodyTimeout: o.BodyTimeout,
		QueueBytes: o.QueueBytes, MaxConnections: o.MaxConnections, MaxPackets: o.MaxPackets, LargeBytes: o.LargeBytes,
		Counts: o.Counts, Logger: o.Logger,
	}, engine{s})
	return s
}

// Accept serves one HTTP request: polling, preflight or WebSocket. For the last
// it takes over the connection and returns, keeping neither w nor r; a polling
// GET returns when there is something for the client.
func (s *Server) Accept(w http.ResponseWriter, r *http.Request, a Accept) { s.eio.Accept(w, r, a) }

// Sessions is the number of live connections.
func (s *Server) Sessions() int { return s.eio.Sessions() }

// Queued is how much waits for the clients of all connections, in bytes.
func (s *Server) Queued() int { return s.eio.Queued() }

// Sockets yields the connected sockets, as they are when each connection's turn
// comes. It may be used to close those whose Value is no longer good.
func (s *Server) Sockets() iter.Seq[*Socket] {
	return func(yield func(*Socket) bool) {
		for e := range s.eio.All() {
			c := e.Data.(*conn)
			c.mu.Lock()
			sockets := slices.Clone(c.sockets)
			c.mu.Unlock()
			for _, socket := range sockets {
				if !yield(socket) {
					return
				}
			}
		}
	}
}

// Drain refuses new connections and closes the transports of all others, in
// batches spread over the given time; see engineio.Server.Drain.
func (s *Server) Drain(ctx context.Context, spread time.Duration) error {
	return s.eio.Drain(ctx, spread)
}

// Close ends all connections at once and waits for every callback. It must not
// be called from one.
func (s *Server) Close() { s.eio.Close() }

// engine is the server as the layer below sees it.
type engine struct{ *Server }

func (e engine) Open(s *engineio.Session) {
	c := &conn{srv: e.Server, eio: s}
	c.freed.L = &c.mu
	s.Data = c
	c.outside()
}

func (e engine) Message(s *engineio.Session, m engineio.Message) error {
	return s.Data.(*conn).message(m)
}

func (e engine) Close(s *engineio.Session, reason string) { s.Data.(*conn).close(reason) }
