package ws

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Buffers of a WebSocket. The reader's holds most messages of a chat; the
// writer's only control frames, since messages are written past it.
const (
	readBuffer  = 512
	writeBuffer = 256
)

// Group is the connections of one server, also those on their way out.
type Group struct {
	writeTimeout time.Duration
	counts       *Counts

	mu    sync.Mutex
	conns map[*Conn]struct{}
}

// NewGroup makes a group; the time-out is for each write of up to WriteLimit. What
// is read and written is counted.
func NewGroup(writeTimeout time.Duration, counts *Counts) *Group {
	return &Group{writeTimeout: writeTimeout, counts: counts, conns: map[*Conn]struct{}{}}
}

// Len is how many connections have not ended.
func (g *Group) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns)
}

// Abort breaks all connections off.
func (g *Group) Abort() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		c.Abort()
	}
}

func (g *Group) forget(c *Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
}

// Accept answers 101, or an error, and takes the connection over; the caller has
// checked the origin. Of subprotocols the first that the client offers is taken.
func (g *Group) Accept(w http.ResponseWriter, r *http.Request, subprotocols ...string) (*Conn, error) {
	h := &hijacker{ResponseWriter: w, group: g}
	ws, err := websocket.Accept(h, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true,
		Subprotocols:       subprotocols,
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, err
	}
	h.conn.ws = ws
	g.mu.Lock()
	g.conns[h.conn] = struct{}{}
	g.mu.Unlock()
	return h.conn, nil
}

// hijacker gives the library a connection of ours with small buffers. It takes
// it from the innermost writer: wrappers around that one would stay referenced
// for the life of the connection, and with them the chain that made them.
type hijacker struct {
	http.ResponseWriter
	group *Group
	conn  *Conn
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(innermost(h.ResponseWriter)).Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("hijack: %w", err)
	}
	if err := rw.Writer.Flush(); err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("hijack: flush: %w", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("hijack: clear deadlines: %w", err)
	}
	h.conn = &Conn{Conn: conn, group: h.group, raw: rawConn(conn)}
	// The client's first frames may have come with its request. The library
	// keeps what is in the reader's buffer and drops what is merely behind it,
	// so they have to be in the buffer.
	early, _ := rw.Reader.Peek(rw.Reader.Buffered())
	br := bufio.NewReaderSize(bytes.NewReader(bytes.Clone(early)), max(readBuffer, len(early)))
	h.group.counts.In.Add(int64(len(early)))
	if len(early) > 0 {
		if _, err := br.Peek(len(early)); err != nil {
			conn.Close()
			return nil, nil, fmt.Errorf("hijack: early bytes: %w", err)
		}
	}
	return h.conn, bufio.NewReadWriter(br, bufio.NewWriterSize(h.conn, writeBuffer)), nil
}

func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		inner := u.Unwrap()
		if inner == nil {
			return w
		}
		w = inner
	}
}
