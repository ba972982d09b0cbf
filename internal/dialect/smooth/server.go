package smooth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// Options are what a Server needs.
type Options struct {
	Desk   dialect.Desk
	Logger *slog.Logger
	// Config is what the site of that name is configured to do now, and its
	// realm; nil for one that does not speak this dialect any more.
	Config func(site string) (c *Config, realm string)
	// Secret is the key of a realm that ids are hidden with.
	Secret func(ctx context.Context, realm string) ([]byte, error)
	// MaxConnections bounds the connections (default 100,000).
	MaxConnections int
	// Counts are told what the connections do; nil is nobody.
	Counts *ws.Counts
	// Now is the clock (default time.Now), SweepEvery how often connections are
	// looked at (default 15 s).
	Now        func() time.Time
	SweepEvery time.Duration
}

// Server serves the protocol's WebSockets. Close ends it.
type Server struct {
	o   Options
	ctx context.Context
	end context.CancelFunc
	wg  sync.WaitGroup

	mu       sync.Mutex
	draining bool
	count    int
	conns    map[*conn]struct{}
	clients  map[string]int // connections by principal
	turns    map[string]*turn
}

// NewServer makes a server.
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
	if o.SweepEvery == 0 {
		o.SweepEvery = 15 * time.Second
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 100_000
	}
	ctx, end := context.WithCancel(context.Background())
	s := &Server{
		o: o, ctx: ctx, end: end,
		conns: make(map[*conn]struct{}), clients: make(map[string]int), turns: make(map[string]*turn),
	}
	s.wg.Add(1)
	go s.sweep()
	return s
}

func (s *Server) now() int64 { return s.o.Now().UnixMilli() }

// defaultConnections bounds one principal's connections where Rules do not.
const defaultConnections = 50

// anonymous is the issuer of who is nobody in particular.
const anonymous = "smooth-anonymous"

// Accept serves a request to the endpoint: it takes over a WebSocket and
// returns, keeping neither w nor r. origins decides on an Origin header; nil
// admits the request's own host.
func (s *Server) Accept(w http.ResponseWriter, r *http.Request, v *dialect.Visit, origins func(string, *http.Request) bool) {
	w.Header().Set("Cache-Control", "no-store")
	cfg, realm := s.o.Config(v.Site.Name())
	switch {
	case cfg == nil:
		http.NotFound(w, r)
		return
	case !headerHas(r.Header, "Upgrade", "websocket"):
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		http.Error(w, "this is a WebSocket endpoint", http.StatusUpgradeRequired)
		return
	case !originAllowed(r, origins):
		http.Error(w, "origin not allowed", http.StatusForbidden)
		return
	}
	c := &conn{server: s, site: v.Site, conn: v.Connection, id: uuid.NewString(), origin: r.Header.Get("Origin"), gone: make(chan struct{})}
	creds := v.Creds
	if token := r.URL.Query().Get("token"); token != "" {
		creds = creds.WithToken(token)
	}
	who, err := v.Site.Admit(r.Context(), creds)
	if err != nil {
		s.o.Logger.Debug("a connection is nobody's", "site", v.Site.Name(), "reason", identity.Reason(err))
		if !cfg.Anonymous {
			http.Error(w, identity.ErrUnauthenticated.Error(), http.StatusUnauthorized)
			return
		}
		c.anonymous = true
		who = identity.Principal{
			Realm: realm, Subject: identity.Subject{Issuer: anonymous, ID: v.Site.Name()},
			Caps: identity.OwnThreads(identity.UserVerbs),
		}
	}
	c.who, c.client = who, v.Site.Name()+"\x00"+who.Key()
	if c.anonymous {
		c.client += "\x00" + v.Creds.RemoteIP
	}
	ctx, cancel := context.WithTimeout(r.Context(), spaceTimeout)
	secret, err := s.o.Secret(ctx, realm)
	cancel()
	if err != nil {
		s.report("connect", err)
		unavailable(w)
		return
	}
	c.space = uuid.NewSHA1(uuid.NameSpaceOID, secret)
	if !s.enter(c) {
		unavailable(w)
		return
	}
	if c.out.wire, err = hijack(w, r, s.o.Counts); err != nil {
		s.leave(c)
		return
	}
	c.conn.Admitted(c.who)
	s.begin(c)
}

// begin lets a connection be seen and read.
func (s *Server) begin(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	s.o.Counts.Opened.Add(1)
	if s.ctx.Err() != nil {
		c.out.wire.abort()
	}
	go c.read()
}

func unavailable(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	http.Error(w, "try again later", http.StatusServiceUnavailable)
}

// enter counts a connection before it is one, and its leave is still to come;
// false if there is no room for it.
func (s *Server) enter(c *conn) bool {
	limit := c.site.Rules().ConnectionsPerClient
	if limit == 0 {
		limit = defaultConnections
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil, s.draining:
		return false
	case s.count >= s.o.MaxConnections:
		s.o.Counts.OverSockets.Add(1)
		return false
	case s.clients[c.client] >= limit:
		s.o.Counts.OverClient.Add(1)
		return false
	}
	s.count++
	s.clients[c.client]++
	s.wg.Add(1)
	c.out.wg = &s.wg
	return true
}

func (s *Server) leave(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.count--
	if s.clients[c.client]--; s.clients[c.client] <= 0 {
		delete(s.clients, c.client)
	}
	s.mu.Unlock()
	s.wg.Done()
}

// spawn starts a goroutine that Close waits for.
func (s *Server) spawn(f func(ctx context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		ctx, cancel := context.WithTimeout(s.ctx, commandTimeout)
		defer cancel()
		s.report("background", safely(func() error { f(ctx); return nil }))
	}()
}

// Queued is how much waits for the clients of all connections, in bytes.
func (s *Server) Queued() int {
	n := 0
	for _, c := range s.list() {
		c.out.mu.Lock()
		n += c.out.bytes
		c.out.mu.Unlock()
	}
	return n
}

// Connections is how many there are.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *Server) list() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		list = append(list, c)
	}
	return list
}

// sweep looks after connections: who may not stay, who is silent, and what is
// watched for nothing.
func (s *Server) sweep() {
	defer s.wg.Done()
	t := time.NewTicker(s.o.SweepEvery)
	defer t.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-t.C:
		}
		for _, c := range s.list() {
			c.look()
		}
	}
}

// Drain lets nobody in, and closes the connections over the spread, each once
// its turn has ended or waits for its person, which it does without a process
// too; when ctx ends, those that are left. Frames are answered all the while.
func (s *Server) Drain(ctx context.Context, spread time.Duration) {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	left := s.list()
	step := 20 * time.Millisecond
	share := 1
	if spread > 0 {
		share += int(int64(len(left)) * int64(step) / int64(spread))
	} else {
		share += len(left)
	}
	t := time.NewTicker(step)
	defer t.Stop()
	for len(left) > 0 && ctx.Err() == nil {
		kept := left[:0]
		for n, c := range left {
			if n >= share || c.working() {
				kept = append(kept, c)
				continue
			}
			c.out.close(websocket.StatusGoingAway, "the server goes away")
		}
		left = kept
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	for _, c := range left {
		c.out.close(websocket.StatusGoingAway, "the server goes away")
	}
	// What was said last gets a moment to leave.
	for end := time.Now().Add(farewell); s.Connections() > 0 && time.Now().Before(end); {
		<-t.C
	}
}

// Close ends everything and waits for it.
func (s *Server) Close() {
	s.mu.Lock()
	s.end()
	s.draining = true
	s.mu.Unlock()
	for _, c := range s.list() {
		c.out.wire.abort()
	}
	s.wg.Wait()
}

// report logs a fault of ours behind a refusal; clients are told nothing of it.
func (s *Server) report(what string, err error) {
	if fault(err) && !errors.Is(err, context.Canceled) {
		s.o.Logger.Error("an action failed", "action", what, "error", err)
	}
}
