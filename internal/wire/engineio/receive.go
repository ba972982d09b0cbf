package engineio

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
)

// Close codes in use. The client does not look at them; people and proxies do.
const (
	closeNormal   = websocket.StatusNormalClosure
	closeGone     = websocket.StatusGoingAway
	closeProtocol = websocket.StatusProtocolError
	closeUTF8     = websocket.StatusInvalidFramePayloadData
	closePolicy   = websocket.StatusPolicyViolation
)

var (
	errPacket      = errors.New("engineio: invalid packet")
	errDirection   = errors.New("engineio: invalid heartbeat direction")
	errClientClose = errors.New("engineio: closed by the client")
	errUTF8        = errors.New("engineio: invalid UTF-8")
)

// ErrPanic is the error of a callback that panicked. A Handler that recovers from
// panics of its own may return it from Message.
var ErrPanic = errors.New("engineio: handler panicked")

// keepBuffer is the largest read buffer that is kept for another message.
const keepBuffer = 64 << 10

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// readMessage reads one message into memory of its own. Text is valid UTF-8. The
// caller gives what m has taken back, also after an error.
func (w *wire) readMessage(m *metered) (Message, error) {
	typ, r, err := w.ws.Reader(context.Background())
	if err != nil {
		return Message{}, err
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
		return Message{}, err
	}
	data := buf.Bytes()
	if buf.Cap() <= keepBuffer {
		data = bytes.Clone(data)
	}
	if typ == websocket.MessageText && !utf8.Valid(data) {
		return Message{}, errUTF8
	}
	return Message{Data: data, Binary: typ == websocket.MessageBinary}, nil
}

// read handles the messages of ws until it ends. It is the one goroutine an idle
// WebSocket has.
func (s *Session) read(ws *wire) {
	defer ws.end()
	for s.readOne(ws) {
	}
}

// readOne says whether ws can be read further.
func (s *Session) readOne(ws *wire) bool {
	room := metered{srv: s.srv}
	defer room.give()
	m, err := ws.readMessage(&room)
	if err != nil {
		room.give() // what was read is forgotten; to end takes its time
		s.lost(ws, err)
		return false
	}
	if err := s.receive(m); err != nil {
		s.Close(reasonOf(err), codeOf(err))
		s.await(ws)
		return false
	}
	return true
}

// lost ends the session whose WebSocket cannot be read any further.
func (s *Session) lost(ws *wire, err error) {
	switch {
	case errors.Is(err, errUTF8):
		s.Close(ReasonParseError, closeUTF8)
		s.await(ws)
	case websocket.CloseStatus(err) != -1 || errors.Is(err, io.EOF):
		s.Kill(ReasonTransportClose)
	default:
		// The library has sent the close frame that belongs to the error, except
		// to a peer that does not mask (RFC 6455 §5.1). The peer gets the time to
		// read it: closing while its bytes are unread would reset the connection.
		code := closeProtocol
		if errors.Is(err, errLarge) {
			code = websocket.StatusTryAgainLater
		}
		s.Close(ReasonTransportError, code)
		_ = ws.writeClose(code)
		_ = ws.SetReadDeadline(time.Now().Add(closeWait))
		_, _ = io.Copy(io.Discard, ws.Conn)
	}
}

// await reads on until the peer has answered our close frame, or its time is up.
func (s *Session) await(ws *wire) {
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

// receive handles one packet: a whole WebSocket message or a part of a payload.
func (s *Session) receive(m Message) error {
	s.in.Lock()
	defer s.in.Unlock()
	if m.Binary {
		return s.deliver(m)
	}
	if len(m.Data) == 0 {
		return errPacket
	}
	switch m.Data[0] {
	case '4':
		return s.deliver(Message{Data: m.Data[1:]})
	case 'b':
		b, err := base64.StdEncoding.Strict().AppendDecode(nil, m.Data[1:])
		if err != nil {
			return errPacket
		}
		return s.deliver(Message{Data: b, Binary: true})
	case '3':
		s.pong()
		return nil
	case '2':
		return errDirection
	case '1':
		return errClientClose
	case '0', '5', '6':
		return nil
	}
	return errPacket
}

func (s *Session) deliver(m Message) (err error) {
	s.mu.Lock()
	alive := s.state == open
	s.mu.Unlock()
	if !alive {
		return nil // what still arrives from a client we have left
	}
	s.busy()
	defer s.idle()
	defer s.recovered(&err)
	if err := s.srv.h.Message(s, m); err != nil {
		s.srv.o.Logger.Debug("message refused", "error", err)
		return fmt.Errorf("engineio: %w", err)
	}
	return nil
}

// recovered turns a panic of the handler into the end of one session.
func (s *Session) recovered(err *error) {
	if v := recover(); v != nil {
		s.srv.o.Logger.Error("handler panicked", "panic", v, "stack", string(debug.Stack()))
		*err = ErrPanic
	}
}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, errClientClose):
		return ReasonTransportClose
	case errors.Is(err, errPacket):
		return ReasonParseError
	case errors.Is(err, errDirection):
		return ReasonTransportError
	}
	return ReasonForcedClose
}

func codeOf(err error) websocket.StatusCode {
	switch {
	case errors.Is(err, errClientClose):
		return closeNormal
	case errors.Is(err, ErrPanic):
		return websocket.StatusInternalError
	}
	return closeProtocol
}
