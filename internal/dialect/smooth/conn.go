package smooth

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/room"
)

// Bounds of one connection.
const (
	defaultRate  = 20
	defaultBurst = 60
	defaultRooms = 256
	maxHeld      = 32
	// viewLife is how long a conversation without a turn is watched on.
	viewLife = time.Minute
	// keepBuffer is the largest read buffer that is kept for another frame.
	keepBuffer = 64 << 10
)

// conn is one connection. Its actions are carried out one after the other by the
// goroutine that reads it, so a client that sends faster than it is served waits.
type conn struct {
	server    *Server
	site      dialect.Site
	conn      *dialect.Connection
	who       identity.Principal
	anonymous bool
	origin    string    // of the page that opened it, "" where none did
	client    string    // the principal's key, for the limit on connections
	id        string    // its name as the holder of a turn, which no other has
	space     uuid.UUID // the secret namespace of ids
	out       queue
	pace      *rate.Limiter
	gone      chan struct{} // closed when the connection is
	// Of the sweep alone.
	pinged  bool
	touched time.Time

	mu sync.Mutex
	// turn is the connection's one turn, mirrors are runs of others that it was
	// asked to show, by run.
	turn    *turn
	mirrors map[string]*turn
	views   map[string]*view
	held    map[string]struct{} // sessions that it uses
	closed  bool
}

func (c *conn) config() *Config {
	cfg, _ := c.server.o.Config(c.site.Name())
	return cfg
}

// busy says that a turn runs here.
func (c *conn) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn != nil
}

// working says that a turn runs here and does not wait for its person.
func (c *conn) working() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn != nil && !c.turn.waits
}

// hold notes that the connection uses a session, which keeps it active.
func (c *conn) hold(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = make(map[string]struct{})
	}
	if len(c.held) < maxHeld {
		c.held[s.ID] = struct{}{}
	}
}

// read handles the client's frames until the connection ends.
func (c *conn) read() {
	defer c.server.leave(c)
	defer func() { c.conn.Ended(c.out.ended()) }()
	defer c.out.wire.ws.CloseNow() //nolint:errcheck // it is over
	defer c.close()
	for c.readOne() {
	}
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (c *conn) readOne() bool {
	typ, r, err := c.out.wire.ws.Reader(context.Background())
	if err != nil {
		return false
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= keepBuffer {
			buf.Reset()
			buffers.Put(buf)
		}
	}()
	if _, err := buf.ReadFrom(r); err != nil {
		// The library has sent the close frame of a frame that is too large. The
		// client gets the time to read it.
		_ = c.out.wire.SetReadDeadline(time.Now().Add(2 * time.Second))
		_, _ = io.Copy(io.Discard, c.out.wire.Conn)
		return false
	}
	if typ == websocket.MessageBinary {
		c.refuse("binary", "", invalid("Binary frames are not supported; send JSON text frames."))
		return true
	}
	c.frame(buf.Bytes())
	return true
}

// refuse answers a frame that was not carried out. It never ends a turn, even if
// the frame had the turn's requestId (SMO-126).
func (c *conn) refuse(action, request string, err error) {
	c.server.report(action, err)
	c.out.send(failure(request, refusal(err), c.server.now()))
}

// check closes the connection of a principal that may not stay.
func (c *conn) check() bool {
	if c.anonymous {
		if cfg := c.config(); cfg != nil && cfg.Anonymous {
			return true
		}
	} else if c.site.Recheck(c.who, c.server.o.Now()) == nil {
		return true
	}
	c.out.close(websocket.StatusPolicyViolation, "not authorized any more")
	return false
}

// look does what is due now and then.
func (c *conn) look() {
	if !c.check() {
		return
	}
	now := c.server.o.Now()
	quiet := now.UnixNano() - c.out.wire.heard.Load()
	switch {
	case quiet < int64(silence):
		c.pinged = false
	case !c.pinged:
		c.pinged = true
		c.server.spawn(func(context.Context) { _, _ = c.out.wire.Write([]byte{framePing, 0}) })
	case quiet >= int64(2*silence):
		c.out.wire.abort()
		return
	}
	var idle []*view
	c.mu.Lock()
	for id, v := range c.views {
		if v.users == 0 && !v.watch && !c.showsLocked(id) && now.Sub(v.used) > viewLife {
			delete(c.views, id)
			idle = append(idle, v)
		}
	}
	held := make([]string, 0, len(c.held))
	for id := range c.held {
		held = append(held, id)
	}
	c.mu.Unlock()
	for _, v := range idle {
		v.seat.Leave()
	}
	if len(held) > 0 && now.Sub(c.touched) > touchAfter {
		c.touched = now
		c.server.spawn(func(ctx context.Context) {
			for _, id := range held {
				_, _ = c.session(ctx, id) // looking at it is using it
			}
		})
	}
}

func (c *conn) showsLocked(thread string) bool {
	return c.turn != nil && c.turn.thread == thread
}

// close ends what the connection watched. Its turn goes on, unless the site
// stops such turns (SMO-159, SMO-169).
func (c *conn) close() {
	c.mu.Lock()
	c.closed = true
	t, views := c.turn, c.views
	c.turn, c.views = nil, nil
	for _, m := range c.mirrors {
		m.stopTimers()
	}
	c.mirrors = nil
	if t != nil {
		t.stopTimers()
	}
	c.mu.Unlock()
	close(c.gone)
	for _, v := range views {
		v.seat.Leave()
	}
	if t == nil {
		return
	}
	c.server.forget(t)
	if cfg := c.config(); cfg != nil && cfg.CancelOnDisconnect {
		c.server.spawn(func(ctx context.Context) {
			if err := c.server.o.Desk.CancelRun(ctx, c.who, t.thread, t.run); err != nil && !errors.Is(err, chat.ErrRunEnded) {
				c.server.report("disconnect", err)
			}
		})
	}
}

// view is the connection's membership of one thread.
type view struct {
	conn   *conn
	thread string
	seat   dialect.Seat
	// Guarded by conn.mu.
	users int
	used  time.Time
	watch bool // runs of others are shown too
	// supports are the capabilities that were declared when it was opened.
	supports []string
}

// view returns the connection's view of a thread with its feed held, joined anew
// where it was none. The caller calls done with it.
func (c *conn) view(ctx context.Context, thread string) (*view, error) {
	limit := c.site.Rules().RoomsPerConnection
	if limit == 0 {
		limit = defaultRooms
	}
	var old *view
	c.mu.Lock()
	v := c.views[thread]
	if v != nil {
		v.users++
		v.used = c.server.o.Now()
	} else if len(c.views) >= limit {
		if old = c.idlestLocked(); old != nil {
			delete(c.views, old.thread)
		}
	}
	full := len(c.views) >= limit
	c.mu.Unlock()
	if old != nil {
		old.seat.Leave()
	}
	switch {
	case v != nil:
		v.seat.Hold()
		return v, nil
	case full:
		c.server.o.Counts.OverRooms.Add(1)
		return nil, &Error{CodeRate, "This connection has too many conversations open."}
	}
	v = &view{conn: c, thread: thread, users: 1, used: c.server.o.Now()}
	seat, err := c.server.o.Desk.Join(ctx, c.who, thread, Variant{}, v)
	if err != nil {
		return nil, err
	}
	v.seat = seat
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.views == nil {
		c.views = make(map[string]*view)
	}
	c.views[thread] = v
	return v, nil
}

// idlestLocked is the view that can be left first, or nil. Holds c.mu.
func (c *conn) idlestLocked() *view {
	var old *view
	for _, v := range c.views {
		if v.users == 0 && !v.watch && !c.showsLocked(v.thread) && (old == nil || v.used.Before(old.used)) {
			old = v
		}
	}
	return old
}

// done lets the feed of a view go on.
func (v *view) done() {
	v.seat.Release()
	v.conn.mu.Lock()
	v.users--
	v.conn.mu.Unlock()
}

// Deliver implements room.Member: it only queues.
func (v *view) Deliver(encoded any) {
	e, ok := encoded.(*Encoded)
	if !ok {
		return
	}
	c := v.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := e.rec.Body.(*chat.RunTakenBody); ok {
		c.taken(e.run.ID, b.Holder)
		return
	}
	if t := c.shows(v, e.run); t != nil {
		t.show(e)
	}
}

// taken frees the slot of a turn that another connection shows from here on,
// which may be on another edge (SMO-159). What others took over before this
// connection did is history. Holds c.mu.
func (c *conn) taken(run, holder string) {
	t := c.turn
	switch {
	case t == nil || t.run != run:
	case holder == c.id:
		t.awaited = false
	case !t.awaited:
		c.turn = nil
		t.stopTimers()
		c.server.forget(t)
	}
}

// shows finds the turn that a run is shown as. Holds c.mu.
func (c *conn) shows(v *view, run *chat.Run) *turn {
	switch {
	case c.closed:
		return nil
	case c.turn != nil && c.turn.run == run.ID:
		return c.turn
	case !v.watch:
		return nil
	}
	t := c.mirrors[run.ID]
	if t == nil && len(c.mirrors) < defaultRooms {
		if c.mirrors == nil {
			c.mirrors = make(map[string]*turn)
		}
		t = &turn{conn: c, request: "run:" + run.ID, run: run.ID, thread: v.thread, stream: true, mirror: true, supports: v.supports, done: make(chan struct{})}
		c.mirrors[run.ID] = t
	}
	return t
}

// Stamp is the span of the connection's handshake.
func (v *view) Stamp() string { return v.conn.conn.Stamp() }

// Close implements room.Member: the connection ends, so that the client comes
// back and asks for its session.
func (v *view) Close(why room.CloseReason) {
	if why == room.CloseShutdown {
		v.conn.out.close(websocket.StatusGoingAway, "the server goes away")
		return
	}
	v.conn.out.close(websocket.StatusServiceRestart, "come back")
}
