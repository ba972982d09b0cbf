package phoenix

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
)

// keepBuffer is the largest read buffer that is kept for another frame.
const keepBuffer = 64 << 10

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// readFrame reads one frame into memory of its own. The caller gives what m has
// taken back, also after an error.
func (w *wire) readFrame(m *metered) ([]byte, error) {
	typ, r, err := w.ws.Reader(context.Background())
	if err != nil {
		return nil, err
	}
	if typ != websocket.MessageText {
		_, _ = io.Copy(io.Discard, r) // what follows can only be read after it
		return nil, errBinary
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= keepBuffer {
			buf.Reset()
			buffers.Put(buf)
		}
	}()
	m.r = r
	if _, err := buf.ReadFrom(m); err != nil {
		return nil, err
	}
	data := buf.Bytes()
	if buf.Cap() <= keepBuffer {
		data = bytes.Clone(data)
	}
	if !utf8.Valid(data) {
		return nil, errUTF8
	}
	return data, nil
}

// read handles the frames of ws until it ends. It is the one goroutine an idle
// connection has.
func (s *socket) read(ws *wire) {
	defer ws.end()
	for s.readOne(ws) {
	}
}

// readOne says whether ws can be read further.
func (s *socket) readOne(ws *wire) bool {
	room := metered{srv: s.srv}
	defer room.give()
	b, err := ws.readFrame(&room)
	if err == nil {
		s.began()
		err = s.receive(b)
		s.done()
	}
	if err == nil {
		return true
	}
	room.give() // what was read is forgotten; to end takes its time
	s.lost(ws, err)
	return false
}

// lost ends the connection whose frame was refused, or that can't be read further.
func (s *socket) lost(ws *wire, err error) {
	reason, code := verdict(err)
	switch {
	case websocket.CloseStatus(err) != -1 || errors.Is(err, io.EOF):
		s.end(ReasonTransport, 0)
	case reason == ReasonMalformed:
		s.end(reason, code)
		s.await(ws)
	default:
		// The library has sent the close frame that belongs to the error, except
		// to a peer that does not mask (RFC 6455 §5.1). The peer gets the time to
		// read it: closing while its bytes are unread would reset the connection.
		s.end(reason, code)
		_ = ws.writeClose(code)
		_ = ws.SetReadDeadline(time.Now().Add(closeWait))
		_, _ = io.Copy(io.Discard, ws.Conn)
	}
}

// verdict says what becomes of a connection after err.
func verdict(err error) (string, websocket.StatusCode) {
	switch {
	case errors.Is(err, errBinary), errors.Is(err, errFrame):
		return ReasonMalformed, codeUnsupported
	case errors.Is(err, errJSON), errors.Is(err, errUTF8):
		return ReasonMalformed, codeInvalid
	case errors.Is(err, errLarge):
		return ReasonTooLarge, codeLater
	case errors.Is(err, errTooLarge), errors.Is(err, errFrames), errors.Is(err, websocket.ErrMessageTooBig):
		return ReasonTooLarge, websocket.StatusMessageTooBig
	}
	return ReasonTransport, codeProtocol
}

// await reads on until the peer has answered our close frame, or its time is up.
func (s *socket) await(ws *wire) {
	for {
		_, r, err := ws.ws.Reader(context.Background())
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			return
		}
	}
}
