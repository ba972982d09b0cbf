package phoenix

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

// wire is one WebSocket: read through the library, written past it. All writes,
// also the library's pongs and close frames, take the same lock.
type wire struct {
	net.Conn
	srv *Server
	ws  *websocket.Conn

	mu     sync.Mutex
	closed bool // a close frame was written: nothing may follow
}

// Write writes b, whole frames, in one system call where the kernel has room.
func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return len(b), nil
	}
	if len(b) > 0 && b[0] == finClose {
		w.closed = true
	}
	return w.writeLocked(b)
}

// writeBoth writes b and then the rest of its last frame, with nothing between.
func (w *wire) writeBoth(b, rest []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	if _, err := w.writeLocked(b); err != nil {
		return err
	}
	_, err := w.writeLocked(rest)
	return err
}

func (w *wire) writeLocked(b []byte) (int, error) {
	for n := 0; n < len(b); {
		// A large frame is given time by the piece, so that a slow line that
		// moves is not mistaken for a dead one.
		end := min(n+writeLimit, len(b))
		if err := w.SetWriteDeadline(time.Now().Add(w.srv.o.WriteTimeout)); err != nil {
			return n, err
		}
		m, err := w.Conn.Write(b[n:end])
		n += m
		if err != nil {
			return n, err
		}
	}
	return len(b), nil
}

// writeClose writes a close frame of RFC 6455 §5.5.1 unless one was written.
func (w *wire) writeClose(code websocket.StatusCode) error {
	_, err := w.Write([]byte{finClose, 2, byte(code >> 8), byte(code)})
	return err
}

// hijack answers 101, or an error, and takes the connection over.
func (e *Server) hijack(w http.ResponseWriter, r *http.Request) (*wire, error) {
	h := &hijacker{ResponseWriter: w, srv: e}
	ws, err := websocket.Accept(h, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the origin was checked, as for polling
		// A browser that offers it, to carry a token, fails without it.
		Subprotocols:    []string{subprotocol},
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, err
	}
	h.wire.ws = ws
	e.mu.Lock()
	e.wires[h.wire] = struct{}{}
	e.mu.Unlock()
	return h.wire, nil
}

// end closes the connection and forgets it. It is the last that its owner does.
func (w *wire) end() {
	_ = w.ws.CloseNow()
	w.srv.mu.Lock()
	delete(w.srv.wires, w)
	w.srv.mu.Unlock()
}

// abort breaks the connection off without waiting for anything. Reads and
// writes that are under way fail.
func (w *wire) abort() {
	if c, ok := w.Conn.(interface{ NetConn() net.Conn }); ok {
		_ = c.NetConn().Close()
		return
	}
	_ = w.Conn.Close()
}

// hijacker gives the library a connection of ours with small buffers. It takes
// it from the innermost writer: wrappers around that one would stay referenced
// for the life of the connection, and with them the chain that made them.
type hijacker struct {
	http.ResponseWriter
	srv  *Server
	wire *wire
}

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
	h.wire = &wire{Conn: conn, srv: h.srv}
	// The client's first frames may have come with its request. The library
	// keeps what is in the reader's buffer and drops what is merely behind it,
	// so they have to be in the buffer.
	early, _ := rw.Reader.Peek(rw.Reader.Buffered())
	br := bufio.NewReaderSize(bytes.NewReader(bytes.Clone(early)), max(readBuffer, len(early)))
	if len(early) > 0 {
		if _, err := br.Peek(len(early)); err != nil {
			conn.Close()
			return nil, nil, fmt.Errorf("hijack: early bytes: %w", err)
		}
	}
	return h.wire, bufio.NewReadWriter(br, bufio.NewWriterSize(h.wire, writeBuffer)), nil
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
