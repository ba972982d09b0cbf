package ws

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
)

// WriteLimit is how much is gathered for one write, and written at once.
const WriteLimit = 64 << 10

// closeWait is how long the peer has to answer a close frame.
const closeWait = 2 * time.Second

// ErrUTF8: a text message is not valid UTF-8.
var ErrUTF8 = errors.New("ws: invalid UTF-8")

// Conn is one WebSocket: read through the library, written past it. All writes,
// also the library's pongs and close frames, take the same lock.
type Conn struct {
	net.Conn
	group *Group
	ws    *websocket.Conn
	raw   syscall.RawConn // to write without waiting; nil where that is not possible

	mu     sync.Mutex
	closed bool // a close frame was written: nothing may follow
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.group.counts.In.Add(int64(n))
	return n, err
}

// Write writes b, whole frames, in one system call where the kernel has room.
func (c *Conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return len(b), nil
	}
	if len(b) > 0 && b[0] == finClose {
		c.closed = true
	}
	if err := c.finish(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// both writes b and then the rest of its last frame, with nothing between.
func (c *Conn) both(b, rest []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if err := c.finish(b); err != nil {
		return err
	}
	return c.finish(rest)
}

// finish writes, waiting for the kernel; c.mu is held.
func (c *Conn) finish(b []byte) error {
	for len(b) > 0 {
		// A large frame is given time by the piece, so that a slow line that
		// moves is not mistaken for a dead one.
		piece := b[:min(WriteLimit, len(b))]
		if err := c.SetWriteDeadline(time.Now().Add(c.group.writeTimeout)); err != nil {
			return err
		}
		n, err := c.Conn.Write(piece)
		c.group.counts.Out.Add(int64(n))
		if err != nil {
			return err
		}
		b = b[n:]
	}
	if c.raw == nil {
		return nil
	}
	return c.SetWriteDeadline(time.Time{}) // it would end a write that does not wait, too
}

// WriteClose writes a close frame unless one was written (RFC 6455 §5.5.1).
func (c *Conn) WriteClose(code websocket.StatusCode) error {
	_, err := c.Write(CloseFrame(code))
	return err
}

// CloseFrame is a close frame without a reason.
func CloseFrame(code websocket.StatusCode) []byte {
	return []byte{finClose, 2, byte(code >> 8), byte(code)}
}

// SetReadLimit bounds the messages that begin from now on, in bytes.
func (c *Conn) SetReadLimit(n int64) { c.ws.SetReadLimit(n) }

// Read reads one message into memory of its own; text is valid UTF-8. The caller
// gives what m has taken back, also after an error.
func (c *Conn) ReadMessage(m *Meter) (binary bool, data []byte, err error) {
	typ, r, err := c.ws.Reader(context.Background())
	if err != nil {
		return false, nil, err
	}
	if data, err = m.message(r); err != nil {
		return false, nil, err
	}
	if binary = typ == websocket.MessageBinary; !binary && !utf8.Valid(data) {
		return false, nil, ErrUTF8
	}
	return binary, data, nil
}

// Await reads on until the peer has answered our close frame, or its time is up.
func (c *Conn) Await() {
	for {
		_, r, err := c.ws.Reader(context.Background())
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			return
		}
	}
}

// Linger closes with code a connection whose reading has failed. The library has
// sent the close frame that belongs to the error, except to a peer that does not
// mask (RFC 6455 §5.1). The peer gets the time to read it: closing while its bytes
// are unread would reset the connection.
func (c *Conn) Linger(code websocket.StatusCode) {
	_ = c.WriteClose(code)
	c.hurry()
	_, _ = io.Copy(io.Discard, c.Conn)
}

// hurry bounds what the peer may still take.
func (c *Conn) hurry() { _ = c.SetReadDeadline(time.Now().Add(closeWait)) }

// Refuse closes a WebSocket that nobody uses: it reads, messages of at most limit
// bytes, until the peer has answered.
func (c *Conn) Refuse(code websocket.StatusCode, limit int64) {
	_ = c.WriteClose(code)
	c.hurry()
	c.SetReadLimit(limit)
	c.Await()
	c.End()
}

// End closes the connection and forgets it. It is the last that its owner does.
func (c *Conn) End() {
	_ = c.ws.CloseNow()
	c.group.forget(c)
}

// Abort breaks the connection off without waiting for anything. Reads and writes
// that are under way fail.
func (c *Conn) Abort() {
	if t, ok := c.Conn.(interface{ NetConn() net.Conn }); ok {
		_ = t.NetConn().Close()
		return
	}
	_ = c.Conn.Close()
}
