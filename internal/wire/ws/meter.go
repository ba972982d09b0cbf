package ws

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// KeepBuffer is the largest read buffer that is kept for another message.
const KeepBuffer = 64 << 10

// ErrMemory: the large messages that are being read already take all the memory
// that they may have together.
var ErrMemory = errors.New("ws: no memory for another large message")

// Memory bounds that of all messages over KeepBuffer which are being read or
// handled, in bytes.
type Memory struct {
	Limit int64
	used  atomic.Int64
}

// Used is how much is taken.
func (m *Memory) Used() int64 { return m.used.Load() }

// Meter reads a message. What goes beyond KeepBuffer is taken from Memory, twice,
// since the buffer that it is read into grows by doubling. The reader gives it
// back when the message was handled.
//
// Nobody waits for memory: those who hold some could all be waiting for more.
type Meter struct {
	Memory *Memory
	R      io.Reader
	read   int64
	held   int64
}

// Read implements io.Reader; its error is ErrMemory where there is none.
func (m *Meter) Read(p []byte) (int, error) {
	n, err := m.R.Read(p)
	m.read += int64(n)
	if m.read <= KeepBuffer || n == 0 {
		return n, err
	}
	cost := 2 * int64(n)
	if m.Memory.used.Add(cost) > m.Memory.Limit {
		m.Memory.used.Add(-cost)
		return n, ErrMemory
	}
	m.held += cost
	return n, err
}

// Give returns what the message has taken.
func (m *Meter) Give() {
	if m.held != 0 {
		m.Memory.used.Add(-m.held)
		m.held = 0
	}
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// message reads all of r into memory of its own.
func (m *Meter) message(r io.Reader) ([]byte, error) {
	buf := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= KeepBuffer {
			buf.Reset()
			buffers.Put(buf)
		}
	}()
	m.R = r
	if _, err := buf.ReadFrom(m); err != nil {
		return nil, err
	}
	if data := buf.Bytes(); buf.Cap() > KeepBuffer {
		return data, nil
	}
	return bytes.Clone(buf.Bytes()), nil
}
