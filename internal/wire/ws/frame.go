package ws

import "encoding/binary"

// The first bytes of frames (RFC 6455 §5.2), with FIN set: a server of ours never
// fragments.
const (
	FinText   = 0x80 | 0x1
	FinBinary = 0x80 | 0x2
	finClose  = 0x80 | 0x8
)

// HeaderSize is the length of the head of an unmasked frame of n bytes.
func HeaderSize(n int) int {
	switch {
	case n < 126:
		return 2
	case n <= 0xffff:
		return 4
	}
	return 10
}

// AppendHeader appends that head; first is one of the constants.
func AppendHeader(b []byte, first byte, n int) []byte {
	switch HeaderSize(n) {
	case 2:
		return append(b, first, byte(n))
	case 4:
		return binary.BigEndian.AppendUint16(append(b, first, 126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(b, first, 127), uint64(n))
}
