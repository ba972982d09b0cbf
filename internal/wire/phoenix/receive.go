package phoenix

import (
	"errors"
	"io"

	"github.com/coder/websocket"

	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// read handles the frames of a connection until it ends. It is the one goroutine an
// idle connection has.
func (s *socket) read(conn *ws.Conn) {
	defer conn.End()
	for s.readOne(conn) {
	}
}

// readOne says whether the connection can be read further.
func (s *socket) readOne(conn *ws.Conn) bool {
	room := ws.Meter{Memory: &s.srv.large}
	defer room.Give()
	binary, b, err := conn.ReadMessage(&room)
	switch {
	case err == nil && binary:
		err = errBinary
	case err == nil:
		s.began()
		err = s.receive(b)
		s.done()
	}
	if err == nil {
		return true
	}
	room.Give() // what was read is forgotten; to end takes its time
	s.lost(conn, err)
	return false
}

// lost ends the connection whose frame was refused, or that can't be read further.
func (s *socket) lost(conn *ws.Conn, err error) {
	reason, code := verdict(err)
	switch {
	case websocket.CloseStatus(err) != -1 || errors.Is(err, io.EOF):
		s.end(ReasonTransport, 0)
	case reason == ReasonMalformed:
		s.end(reason, code)
		conn.Await()
	default:
		s.end(reason, code)
		conn.Linger(code)
	}
}

// verdict says what becomes of a connection after err.
func verdict(err error) (string, websocket.StatusCode) {
	switch {
	case errors.Is(err, errBinary), errors.Is(err, errFrame):
		return ReasonMalformed, codeUnsupported
	case errors.Is(err, errJSON), errors.Is(err, ws.ErrUTF8):
		return ReasonMalformed, codeInvalid
	case errors.Is(err, ws.ErrMemory):
		return ReasonTooLarge, codeLater
	case errors.Is(err, errTooLarge), errors.Is(err, errFrames), errors.Is(err, websocket.ErrMessageTooBig):
		return ReasonTooLarge, websocket.StatusMessageTooBig
	}
	return ReasonTransport, codeProtocol
}
