package pilotoo

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/wire/socketio"
	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// Options are what a Server needs.
type Options struct {
	Desk   dialect.Desk
	Logger *slog.Logger
	// Counts are told what limits refuse; nil is nobody.
	Counts *ws.Counts
	// Now is the clock (default time.Now), RecheckEvery how often principals
	// are compared with the configuration in force (default 30 s).
	Now          func() time.Time
	RecheckEvery time.Duration
}

// Server speaks Pilotoo on Socket.IO sockets whose Accept.Value is a
// *dialect.Visit, and serves the protocol's HTTP routes. Close ends it.
type Server struct {
	o     Options
	hello *socketio.Frame

	ctx context.Context
	end context.CancelFunc
	wg  sync.WaitGroup

	mu       sync.Mutex
	sessions map[*session]struct{}
	clients  map[string]int // connections by principal

	requests paces // over HTTP
}

var _ socketio.Handler = (*Server)(nil)

// NewServer makes a server; the caller gives it to a socketio.Server.
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
	s := &Server{
		o: o, ctx: ctx, end: end, hello: socketio.NewEvent(eventHello, announcement()),
		sessions: make(map[*session]struct{}), clients: make(map[string]int),
	}
	s.wg.Add(1)
	go s.recheck()
	return s
}

// announcement is the object of protocol:hello and of GET /protocol (PIL-196).
func announcement() []byte {
	b := []byte(`{"protocol":{"major":`)
	b = strconv.AppendInt(b, Major, 10)
	b = append(b, `,"minor":`...)
	b = strconv.AppendInt(b, Minor, 10)
	b = append(b, `},"minClientMajor":`...)
	b = strconv.AppendInt(b, MinClientMajor, 10)
	return append(b, '}')
}

// Close ends every command and waits for them. The sockets are the caller's.
func (s *Server) Close() {
	s.end()
	s.wg.Wait()
}

// defaultConnections bounds one principal's sockets where Rules do not.
const defaultConnections = 50

// Connect identifies the client: by the token of the CONNECT packet, or by
// what the handshake carried (PIL-012, PIL-189).
func (s *Server) Connect(ctx context.Context, sock *socketio.Socket, auth json.RawMessage) error {
	visit, ok := sock.Value().(*dialect.Visit)
	if !ok || s.ctx.Err() != nil {
		return &socketio.ConnectError{Message: "unavailable"}
	}
	creds := visit.Creds
	if token, present, ok := authToken(auth); !ok {
		return unauthorized
	} else if present {
		creds = creds.WithToken(token)
	}
	p, err := visit.Site.Admit(ctx, creds)
	if err != nil {
		s.o.Logger.Debug("a socket was refused", "site", visit.Site.Name(), "reason", identity.Reason(err))
		visit.Connection.Denied()
		return unauthorized
	}
	n := &session{server: s, sock: sock, site: visit.Site, conn: visit.Connection, who: p, client: visit.Site.Name() + "\x00" + p.Key()}
	if s.full(n) {
		s.o.Counts.OverClient.Add(1)
		return tooMany
	}
	sock.Data = n
	return nil
}

var tooMany = &socketio.ConnectError{Message: "too many connections"}

var unauthorized = &socketio.ConnectError{Message: identity.ErrUnauthenticated.Error()}

// authToken reads {token} of the CONNECT payload; other members are the
// application's own and are left alone.
func authToken(auth json.RawMessage) (token string, present, ok bool) {
	if len(auth) == 0 {
		return "", false, true
	}
	var v struct {
		Token *string `json:"token"`
	}
	if json.Unmarshal(auth, &v) != nil {
		return "", false, false
	}
	if v.Token == nil {
		return "", false, true
	}
	return *v.Token, true, *v.Token != ""
}

// Connected announces the protocol, before anything else is sent (PIL-010).
func (s *Server) Connected(sock *socketio.Socket) {
	n := sock.Data.(*session)
	s.mu.Lock()
	s.sessions[n] = struct{}{}
	s.clients[n.client]++
	s.mu.Unlock()
	n.conn.Admitted(n.who)
	_ = sock.Send(s.hello)
}

// Event takes a command.
func (s *Server) Event(sock *socketio.Socket, e socketio.Event) {
	sock.Data.(*session).event(e)
}

// Disconnect ends what the socket watched; its runs go on (PIL-149).
func (s *Server) Disconnect(sock *socketio.Socket, _ string) {
	n := sock.Data.(*session)
	s.leave(n)
	n.close()
}

// full says whether the principal has as many connections as it may. It is
// asked before one is counted, so a burst may go over by those under way.
func (s *Server) full(n *session) bool {
	limit := n.site.Rules().ConnectionsPerClient
	if limit == 0 {
		limit = defaultConnections
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[n.client] >= limit
}

func (s *Server) leave(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, n)
	if s.clients[n.client]--; s.clients[n.client] <= 0 {
		delete(s.clients, n.client)
	}
}

// recheck closes sockets whose principal the configuration in force would not
// admit any more.
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
		s.requests.sweep(s.o.Now())
		s.mu.Lock()
		list := make([]*session, 0, len(s.sessions))
		for n := range s.sessions {
			list = append(list, n)
		}
		s.mu.Unlock()
		for _, n := range list {
			n.check()
		}
	}
}

// report logs a fault of ours behind a refusal; clients are told nothing of it.
func (s *Server) report(what string, err error) {
	if fault(err) && !errors.Is(err, context.Canceled) {
		s.o.Logger.Error("a command failed", "command", what, "error", err)
	}
}
