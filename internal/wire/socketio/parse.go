package socketio

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
)

// The types of packets, as the protocol numbers them.
const (
	typeConnect      = '0'
	typeDisconnect   = '1'
	typeEvent        = '2'
	typeAck          = '3'
	typeConnectError = '4'
	typeBinaryEvent  = '5'
	typeBinaryAck    = '6'
)

// maxAckDigits keeps ids exact in a client's 53-bit numbers.
const maxAckDigits = 15

var (
	errPacket     = errors.New("invalid packet")
	errAttachment = errors.New("invalid attachment")
)

// packet is a packet of a client. Its slices are parts of the message.
type packet struct {
	kind        byte
	namespace   string
	id          int64 // NoAck: none
	attachments int   // how many follow
	payload     []byte
	args        []json.RawMessage // of events, the name first, and of acks
	name        string            // of events
	binary      [][]byte
	size        int64 // bytes of the message and of binary
}

// parse reads a packet of the form <type>[<n>-][<namespace>,][<id>][JSON]. It
// takes what a client of the protocol can send and refuses all else, also where
// the reference server guesses.
func parse(b []byte) (packet, error) {
	if len(b) == 0 {
		return packet{}, errPacket
	}
	p := packet{kind: b[0], namespace: "/", id: NoAck}
	b = b[1:]
	var err error
	switch p.kind {
	case typeConnect, typeDisconnect, typeEvent, typeAck:
	case typeBinaryEvent, typeBinaryAck:
		if p.attachments, b, err = count(b); err != nil {
			return packet{}, err
		}
	default: // CONNECT_ERROR is the server's alone
		return packet{}, errPacket
	}
	if p.namespace, b, err = namespace(b); err != nil {
		return packet{}, err
	}
	if p.id, b, err = ackID(b); err != nil {
		return packet{}, err
	}
	p.payload = b
	return p, p.check()
}

// count reads the number of attachments: 1 to MaxAttachments and a dash.
func count(b []byte) (int, []byte, error) {
	digits, _, ok := bytes.Cut(b[:min(len(b), 3)], []byte{'-'})
	if !ok || len(digits) == 0 || digits[0] == '0' {
		return 0, nil, errAttachment
	}
	n, err := strconv.Atoi(string(digits))
	if err != nil || n < 1 || n > MaxAttachments {
		return 0, nil, errAttachment
	}
	return n, b[len(digits)+1:], nil
}

// namespace reads a name that begins with a slash and ends with a comma or with
// the packet. Without one the packet is of "/".
func namespace(b []byte) (string, []byte, error) {
	if len(b) == 0 || b[0] != '/' {
		return "/", b, nil
	}
	name, rest, _ := bytes.Cut(b, []byte{','})
	if len(name) > maxNamespace {
		return "", nil, errPacket
	}
	return string(name), rest, nil
}

func ackID(b []byte) (int64, []byte, error) {
	n := 0
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	switch {
	case n == 0:
		return NoAck, b, nil
	case n > maxAckDigits:
		return 0, nil, errPacket
	}
	id, err := strconv.ParseInt(string(b[:n]), 10, 64)
	if err != nil {
		return 0, nil, errPacket
	}
	return id, b[n:], nil
}

// check reads the payload as far as the packet's type demands one.
func (p *packet) check() error {
	switch p.kind {
	case typeConnect:
		if p.id != NoAck || len(p.payload) > 0 && (p.payload[0] != '{' || !json.Valid(p.payload)) {
			return errPacket
		}
	case typeDisconnect:
		if p.id != NoAck || len(p.payload) > 0 {
			return errPacket
		}
	case typeAck:
		// The reference ignores an ack that has no id or no payload; so a client
		// may have sent one.
		if len(p.payload) == 0 {
			return nil
		}
		return p.split()
	case typeBinaryAck:
		return p.split()
	case typeEvent, typeBinaryEvent:
		if err := p.split(); err != nil {
			return err
		}
		return p.event()
	}
	return nil
}

func (p *packet) split() (err error) {
	p.args, err = splitArray(p.payload)
	return err
}

// event reads the event's name: a string, or a number as some clients have it.
func (p *packet) event() error {
	if len(p.args) == 0 {
		return errPacket
	}
	raw := p.args[0]
	p.args = p.args[1:]
	switch c := raw[0]; {
	case c == '"' && bytes.IndexByte(raw, '\\') < 0:
		p.name = string(raw[1 : len(raw)-1])
	case c == '"':
		if err := json.Unmarshal(raw, &p.name); err != nil {
			return errPacket
		}
	case c == '-' || '0' <= c && c <= '9':
		p.name = string(raw)
	default:
		return errPacket
	}
	switch p.name {
	// Emitted by the library itself on either side; never sent by a client of it.
	case "connect", "connect_error", "disconnect", "disconnecting", "newListener", "removeListener":
		return errPacket
	}
	return nil
}
