package engineio

import (
	"encoding/base64"

	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// separator stands between the packets of a polling payload.
const separator = 0x1e

// entryOverhead is what a queued packet costs beside its bytes.
const entryOverhead = 32

// Packet is one message, or several that must stay together, encoded once for
// both transports. It is immutable: any number of sessions may send it at once.
type Packet struct {
	wire []byte // whole WebSocket frames, as a server sends them
	text []byte // the same for a polling payload
}

// NewMessage encodes a text message, the concatenation of parts, followed by
// binary messages between which nothing else will be sent. It copies all bytes.
// The text must be valid UTF-8 without the byte 0x1e.
func NewMessage(parts [][]byte, attachments ...[]byte) Packet {
	n := 1
	for _, p := range parts {
		n += len(p)
	}
	size := ws.HeaderSize(n) + n
	for _, a := range attachments {
		size += ws.HeaderSize(len(a)) + len(a)
	}
	b := ws.AppendHeader(make([]byte, 0, size), ws.FinText, n)
	head := len(b)
	b = append(b, '4')
	for _, p := range parts {
		b = append(b, p...)
	}
	text := b[head:len(b):len(b)]
	if len(attachments) == 0 {
		return Packet{wire: b, text: text}
	}
	text = append([]byte(nil), text...)
	for _, a := range attachments {
		b = append(ws.AppendHeader(b, ws.FinBinary, len(a)), a...)
		text = append(text, separator, 'b')
		text = base64.StdEncoding.AppendEncode(text, a)
	}
	return Packet{wire: b, text: text}
}

// NewBinary encodes one binary message.
func NewBinary(data []byte) Packet {
	b := make([]byte, 0, ws.HeaderSize(len(data))+len(data))
	b = append(ws.AppendHeader(b, ws.FinBinary, len(data)), data...)
	text := base64.StdEncoding.AppendEncode([]byte{'b'}, data)
	return Packet{wire: b, text: text}
}

// Size is the packet's length on a WebSocket, in bytes.
func (p *Packet) Size() int { return len(p.wire) }

// Text is the packet as a polling payload has it. It must not be changed.
func (p *Packet) Text() []byte { return p.text }

func (p *Packet) cost() int { return len(p.wire) + entryOverhead }

// control encodes a packet of another type than message.
func control(s string) Packet {
	b := ws.AppendHeader(make([]byte, 0, ws.HeaderSize(len(s))+len(s)), ws.FinText, len(s))
	head := len(b)
	b = append(b, s...)
	return Packet{wire: b, text: b[head:]}
}

var pingPacket = control("2")
