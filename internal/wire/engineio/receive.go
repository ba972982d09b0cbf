package engineio

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/coder/websocket"

	"github.com/parlance-gateway/parlance/internal/wire/ws"
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
)

// ErrPanic is the error of a callback that panicked. A Handler that recovers from
// panics of its own may return it from Message.
var ErrPanic = errors.New("engineio: handler panicked")

// read handles the messages of a connection until it ends. It is the one goroutine
// an idle WebSocket has.
func (s *Session) read(conn *ws.Conn) {
	defer conn.End()
	for s.readOne(conn) {
	}
}

// readOne says whether the connection can be read further.
func (s *Session) readOne(conn *ws.Conn) bool {
	room := ws.Meter{Memory: &s.srv.large}
	defer room.Give()
	binary, data, err := conn.ReadMessage(&room)
	if err != nil {
		room.Give() // what was read is forgotten; to end takes its time
		s.lost(conn, err)
		return false
	}
	if err := s.receive(Message{Data: data, Binary: binary}); err != nil {
		s.Close(reasonOf(err), codeOf(err))
		conn.Await()
		return false
	}
	return true
}

// lost ends the session whose WebSocket cannot be read any further.
func (s *Session) lost(conn *ws.Conn, err error) {
	switch {
	case errors.Is(err, ws.ErrUTF8):
		s.Close(ReasonParseError, closeUTF8)
		conn.Await()
	case websocket.CloseStatus(err) != -1 || errors.Is(err, io.EOF):
		s.Kill(ReasonTransportClose)
	default:
		code := closeProtocol
		if errors.Is(err, ws.ErrMemory) {
			code = websocket.StatusTryAgainLater
		}
		s.Close(ReasonTransportError, code)
		conn.Linger(code)
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
