package phoenix

import (
	"errors"
	"io"
)

// errLarge: the large frames that are being read already take all the memory
// that they may have together.
var errLarge = errors.New("phoenix: no memory for another large frame")

// metered reads a frame. What goes beyond keepBuffer is taken from what the
// server has for large frames, twice, since the buffer that it is read into
// grows by doubling. The reader gives it back when the frame was handled.
//
// Nobody waits for memory: those who hold some could all be waiting for more.
type metered struct {
	r    io.Reader
	srv  *Server
	read int64
	held int64
}

// Read implements io.Reader; its error is errLarge where there is no memory.
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.read += int64(n)
	if m.read <= keepBuffer || n == 0 {
		return n, err
	}
	cost := 2 * int64(n)
	if m.srv.large.Add(cost) > m.srv.o.LargeBytes {
		m.srv.large.Add(-cost)
		return n, errLarge
	}
	m.held += cost
	return n, err
}

// give returns what the frame has taken.
func (m *metered) give() {
	if m.held != 0 {
		m.srv.large.Add(-m.held)
		m.held = 0
	}
}
