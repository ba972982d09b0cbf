package socketio

import (
	"encoding/json"
	"strconv"

	"github.com/parlance-gateway/parlance/internal/wire/engineio"
)

// Frame is a Socket.IO packet, encoded once for both transports. It is
// immutable: any number of sockets of its namespace may be sent it, at once and
// without copying.
type Frame struct {
	packet    engineio.Packet
	namespace string
}

// Size is the frame's length on a WebSocket, in bytes.
func (f *Frame) Size() int { return f.packet.Size() }

// NewEvent encodes an event of the main namespace. Payload is its one argument,
// valid JSON in UTF-8, or nil for none; it is copied.
func NewEvent(name string, payload []byte) *Frame { return NewEventIn("/", name, payload) }

// NewEventIn encodes an event of any namespace.
func NewEventIn(namespace, name string, payload []byte) *Frame {
	head := append(header(nil, '2', namespace, 0, NoAck), '[')
	head = appendString(head, name)
	if len(payload) == 0 {
		return encode(namespace, [][]byte{head, {']'}}, nil)
	}
	return encode(namespace, [][]byte{append(head, ','), payload, {']'}}, nil)
}

// NewBinaryEvent encodes an event whose arguments, valid JSON, refer to
// attachments by placeholders. Clients take at most MaxAttachments.
func NewBinaryEvent(namespace, name string, args []json.RawMessage, attachments [][]byte) *Frame {
	all := append([]json.RawMessage{appendString(nil, name)}, args...)
	return list('2', namespace, NoAck, all, attachments)
}

// NewAck encodes the answer to an event of the main namespace that had an id.
// Args are the arguments of the client's callback, valid JSON; they are copied.
func NewAck(id int64, args ...json.RawMessage) *Frame { return NewAckIn("/", id, args, nil) }

// NewAckIn encodes an answer in any namespace, with attachments or without.
func NewAckIn(namespace string, id int64, args []json.RawMessage, attachments [][]byte) *Frame {
	return list('3', namespace, id, args, attachments)
}

func list(kind byte, namespace string, id int64, args []json.RawMessage, attachments [][]byte) *Frame {
	if len(attachments) > 0 {
		kind += 3 // EVENT to BINARY_EVENT, ACK to BINARY_ACK
	}
	parts := make([][]byte, 0, 2*len(args)+2)
	parts = append(parts, append(header(nil, kind, namespace, len(attachments), id), '['))
	for i, a := range args {
		if i > 0 {
			parts = append(parts, []byte{','})
		}
		parts = append(parts, a)
	}
	return encode(namespace, append(parts, []byte{']'}), attachments)
}

func encode(namespace string, parts, attachments [][]byte) *Frame {
	return &Frame{packet: engineio.NewMessage(parts, attachments...), namespace: namespace}
}

// header is what stands before a packet's payload.
func header(b []byte, kind byte, namespace string, attachments int, id int64) []byte {
	b = append(b, kind)
	if attachments > 0 {
		b = append(strconv.AppendInt(b, int64(attachments), 10), '-')
	}
	if namespace != "/" {
		b = append(append(b, namespace...), ',')
	}
	if id >= 0 {
		b = strconv.AppendInt(b, id, 10)
	}
	return b
}

// plain encodes a packet whose payload is one JSON value, or none.
func plain(kind byte, namespace string, payload []byte) *Frame {
	return encode(namespace, [][]byte{header(nil, kind, namespace, 0, NoAck), payload}, nil)
}

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x80 || c == '"' || c == '\\' {
			q, _ := json.Marshal(s) // a string always has a form
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
