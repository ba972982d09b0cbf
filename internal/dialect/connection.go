package dialect

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// Trail is a connection's place in traces.
type Trail interface {
	// Stamp is the span of its handshake, as W3C traceparent, or "".
	Stamp() string
	// Command begins a command's span, whose Stamp is returned; done ends it, with
	// what is known of the command and the code that it was refused with, if it was.
	Command(ctx context.Context, name string) (below context.Context, stamp string, done func(thread, run, code string))
}

// Connection is a socket as its edge's log knows it: one line when it ends, and
// one for each of its commands that is refused. It holds nothing that a client
// wrote. A nil Connection notes nothing, so a dialect need not ask.
type Connection struct {
	dialect, realm, edge string // said in each line
	logger               *slog.Logger
	began                time.Time
	trail                Trail // or nil

	mu                         sync.Mutex
	principal                  string // the pseudonym of the first that was admitted
	admitted, denied           int
	commands, refused, limited int
	over                       bool
}

// NewConnection is a connection that begins now.
func NewConnection(dialect, realm, edge string, l *slog.Logger) *Connection {
	return &Connection{dialect: dialect, realm: realm, edge: edge, logger: l, began: time.Now()}
}

// Follow draws the connection's commands as spans; it is called before the first.
func (c *Connection) Follow(t Trail) { c.trail = t }

// Stamp is the span of the connection's handshake, as W3C traceparent, or "".
func (c *Connection) Stamp() string {
	if c == nil || c.trail == nil {
		return ""
	}
	return c.trail.Stamp()
}

// Admitted notes who is at the other end. A connection that joins in several
// names has its first in the log.
func (c *Connection) Admitted(p identity.Principal) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.admitted++; c.admitted == 1 {
		c.principal = p.Hash()
	}
}

// Denied notes that somebody was not admitted.
func (c *Connection) Denied() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied++
}

// Limited notes something that came too soon, or was too much: there may be
// many, so they are counted and not told one by one.
func (c *Connection) Limited() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limited++
}

// Ended is told once that the connection is over, and why, in one of the wire's
// own few words.
func (c *Connection) Ended(reason string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	outcome := "served"
	switch {
	case c.admitted == 0 && c.denied > 0:
		outcome = "denied"
	case c.admitted == 0:
		outcome = "anonymous" // it never said who it is
	}
	c.logger.LogAttrs(context.Background(), slog.LevelInfo, "connection ended",
		slog.String("realm", c.realm), slog.String("dialect", c.dialect), slog.String("edge", c.edge),
		slog.String("principal", c.principal), slog.String("trace_id", conductor.TraceID(c.Stamp())),
		slog.String("outcome", outcome), slog.String("reason", reason),
		slog.Int("admitted", c.admitted), slog.Int("denied", c.denied),
		slog.Int("commands", c.commands), slog.Int("refused", c.refused), slog.Int("limited", c.limited),
		slog.Duration("duration", time.Since(c.began)))
}

// Command is a command of a connection's client while it is carried out. Nil is
// one of a connection that notes nothing.
type Command struct {
	conn  *Connection
	name  string
	began time.Time
	note  *conductor.Note
	stamp string
	done  func(thread, run, code string) // ends its span, or nil
}

// Begin notes a command: name is one of the dialect's own words, never a
// client's. It is carried out with the context that is returned.
func (c *Connection) Begin(ctx context.Context, name string) (context.Context, *Command) {
	if c == nil {
		return ctx, nil
	}
	c.mu.Lock()
	c.commands++
	c.mu.Unlock()
	m := &Command{conn: c, name: name, began: time.Now(), note: new(conductor.Note)}
	if c.trail != nil {
		ctx, m.stamp, m.done = c.trail.Command(ctx, name)
	}
	return conductor.WithNote(ctx, m.note), m
}

// Refuse notes something that is refused before it is a command; code is as for
// [Command.Done].
func (c *Connection) Refuse(code string) {
	_, m := c.Begin(context.Background(), "unknown")
	m.Done(code)
}

// Done ends it. code is "" for one that was carried out, else the word that
// the dialect refuses it with, which holds nothing of what the client wrote.
func (m *Command) Done(code string) {
	if m == nil {
		return
	}
	if m.done != nil {
		m.done(m.note.Thread, m.note.Run, code)
	}
	if code == "" {
		return
	}
	c := m.conn
	c.mu.Lock()
	c.refused++
	principal := c.principal
	c.mu.Unlock()
	c.logger.LogAttrs(context.Background(), slog.LevelInfo, "command refused",
		slog.String("realm", c.realm), slog.String("thread", m.note.Thread), slog.String("run", m.note.Run),
		slog.String("principal", principal), slog.String("dialect", c.dialect), slog.String("edge", c.edge), slog.String("trace_id", conductor.TraceID(m.stamp)),
		slog.String("command", m.name), slog.String("outcome", code), slog.Duration("duration", time.Since(m.began)))
}
