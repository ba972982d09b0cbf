package smooth

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// Buffers of a WebSocket: most frames of a chat fit the reader's, and the
// writer's is for control frames, since messages are written past it.
const (
	readBuffer  = 512
	writeBuffer = 256
	// writeLimit is how much is gathered for one write, and written at once.
	writeLimit = 64 << 10
)

// The first bytes of frames (RFC 6455 §5.2): final, and text, close or ping.
const (
	frameText  = 0x81
	frameClose = 0x88
	framePing  = 0x89
)

// wire is one WebSocket: read through the library, written past it. All writes,
// also the library's pongs and close frames, take the same lock.
type wire struct {
	net.Conn
	ws     *websocket.Conn
	counts *ws.Counts
	// heard is when the client last sent a byte, in Unix nanoseconds.
	heard atomic.Int64

	mu     sync.Mutex
	closed bool // a close frame was written: nothing may follow
}

// Read implements net.Conn and notes that the client lives.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.counts.In.Add(int64(n))
	if n > 0 {
		w.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

// Write writes b, whole frames, in one system call where the kernel has room.
func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return len(b), nil
	}
	if len(b) > 0 && b[0] == frameClose {
		w.closed = true
	}
	for n := 0; n < len(b); {
		// A large frame is given time by the piece, so that a slow line that
		// moves is not mistaken for a dead one.
		end := min(n+writeLimit, len(b))
		if err := w.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return n, err
		}
		m, err := w.Conn.Write(b[n:end])
		n += m
		w.counts.Out.Add(int64(m))
		if err != nil {
			return n, err
		}
	}
	return len(b), nil
}

// header appends the head of a text frame of n bytes.
func header(b []byte, n int) []byte {
	switch {
	case n < 126:
		return append(b, frameText, byte(n))
	case n < 1<<16:
		return append(b, frameText, 126, byte(n>>8), byte(n))
	}
	return append(b, frameText, 127, 0, 0, 0, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// writeClose writes a close frame unless one was written (RFC 6455 §5.5.1).
func (w *wire) writeClose(code websocket.StatusCode, reason string) error {
	b := append([]byte{frameClose, byte(2 + len(reason)), byte(code >> 8), byte(code)}, reason...)
	_, err := w.Write(b)
	return err
}

// abort breaks the connection off without waiting for anything.
func (w *wire) abort() {
	if c, ok := w.Conn.(interface{ NetConn() net.Conn }); ok {
		_ = c.NetConn().Close()
		return
	}
	_ = w.Conn.Close()
}

// hijack answers 101, or an error, and takes the connection over.
func hijack(w http.ResponseWriter, r *http.Request, counts *ws.Counts) (*wire, error) {
	h := &hijacker{ResponseWriter: w, counts: counts}
	conn, err := websocket.Accept(h, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the origin was checked
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, err
	}
	h.wire.ws = conn
	conn.SetReadLimit(MaxFrame)
	return h.wire, nil
}

// hijacker gives the library a connection of ours with small buffers. It takes
// it from the innermost writer, so that the chain of handlers around that one
// is not kept for the life of the connection.
type hijacker struct {
	http.ResponseWriter
	counts *ws.Counts
	wire   *wire
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
	h.wire = &wire{Conn: conn, counts: h.counts}
	h.wire.heard.Store(time.Now().UnixNano())
	// The client's first frames may have come with its request; the library
	// keeps what is in the reader's buffer, so that is where they must be.
	early, _ := rw.Reader.Peek(rw.Reader.Buffered())
	h.counts.In.Add(int64(len(early)))
	var rest net.Conn = h.wire
	br := bufio.NewReaderSize(bytes.NewReader(bytes.Clone(early)), max(readBuffer, len(early)))
	if len(early) > 0 {
		if _, err := br.Peek(len(early)); err != nil {
			conn.Close()
			return nil, nil, fmt.Errorf("hijack: early bytes: %w", err)
		}
	}
	return rest, bufio.NewReadWriter(br, bufio.NewWriterSize(h.wire, writeBuffer)), nil
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
