package engineio

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func TestWebSocketPackets(t *testing.T) {
	for _, c := range []struct {
		name, send string
		code       websocket.StatusCode // 0: it stays open
		reason     string
	}{
		{"message", "4hello", 0, ""},
		{"empty message", "4", 0, ""},
		{"message with NUL", "4\x00", 0, ""},
		{"unicode", "4é😀\u2028", 0, ""},
		{"base64 in a text frame", "bAQID", 0, ""},
		{"pong unasked", "3", 0, ""},
		{"pong with data", "3junk", 0, ""},
		{"open", "0", 0, ""},
		{"upgrade", "5", 0, ""},
		{"noop", "6", 0, ""},
		{"close", "1", websocket.StatusNormalClosure, ReasonTransportClose},
		{"ping", "2", websocket.StatusProtocolError, ReasonTransportError},
		{"probe", "2probe", websocket.StatusProtocolError, ReasonTransportError},
		{"unknown type", "7", websocket.StatusProtocolError, ReasonParseError},
		{"letters", "abc", websocket.StatusProtocolError, ReasonParseError},
		{"empty frame", "", websocket.StatusProtocolError, ReasonParseError},
		{"bad base64", "bA", websocket.StatusProtocolError, ReasonParseError},
		{"invalid UTF-8", "4\xff", websocket.StatusInvalidFramePayloadData, ReasonParseError},
		{"surrogate in UTF-8", "4\xed\xa0\xbd", websocket.StatusInvalidFramePayloadData, ReasonParseError},
		{"refused by the handler", "4bad", websocket.StatusProtocolError, ReasonForcedClose},
		{"panic of the handler", "4panic", websocket.StatusInternalError, ReasonForcedClose},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, Options{}, Accept{})
			ws := s.openWS()
			ws.say(c.send)
			if c.code != 0 {
				if code, before := ws.closed(); code != c.code || before != "" {
					t.Fatalf("close code %d after %q, want %d", code, before, c.code)
				}
				s.h.wantClose(t, c.reason)
				return
			}
			switch c.send[0] {
			case '4':
				ws.expect(c.send)
			case 'b':
				ws.expect("binary:\x01\x02\x03")
			}
			ws.say("4still here")
			ws.expect("4still here")
		})
	}
}

func TestPollingRequestForWebSocketSession(t *testing.T) {
	s := serve(t, Options{}, Accept{})
	ws := s.openWS()
	var sid string
	for e := range s.eio.All() {
		sid = e.ID()
		if !e.WebSocket() {
			t.Fatal("not a WebSocket session")
		}
	}
	s.want(s.get(sid), 400, badReq)
	s.want(s.post(sid, "4x"), 400, badReq)
	ws.say("4x")
	ws.expect("4x")
}

// raw is a WebSocket whose frames are written by hand.
type raw struct {
	net.Conn
	r *bufio.Reader
	t *testing.T
}

func (s *site) raw(query string, early ...byte) *raw {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	req := fmt.Sprintf("GET /?%s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", query)
	if _, err := conn.Write(append([]byte(req), early...)); err != nil {
		s.t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != 101 {
		s.t.Fatalf("%v %v", res, err)
	}
	return &raw{conn, r, s.t}
}

// masked encodes a client's frame.
func masked(first byte, payload string) []byte {
	b := []byte{first, 0x80 | byte(len(payload))}
	switch {
	case len(payload) > 0xffff:
		b[1] = 0x80 | 127
		b = binary.BigEndian.AppendUint64(b, uint64(len(payload)))
	case len(payload) > 125:
		b[1] = 0x80 | 126
		b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
	}
	key := [4]byte{1, 2, 3, 4}
	b = append(b, key[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^key[i%4])
	}
	return b
}

// frame reads a server's frame.
func (c *raw) frame() (first byte, payload string, err error) {
	var h [2]byte
	if _, err := io.ReadFull(c.r, h[:]); err != nil {
		return 0, "", err
	}
	n := uint64(h[1])
	var ext [8]byte
	switch n {
	case 126:
		_, err = io.ReadFull(c.r, ext[6:])
		n = binary.BigEndian.Uint64(ext[:])
	case 127:
		_, err = io.ReadFull(c.r, ext[:])
		n = binary.BigEndian.Uint64(ext[:])
	}
	if err != nil {
		return 0, "", err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(c.r, b)
	return h[0], string(b), err
}

func (c *raw) expect(first byte, payload string) {
	c.t.Helper()
	f, p, err := c.frame()
	if err != nil || f != first || p != payload {
		c.t.Fatalf("got %#x %.100q %v, want %#x %.100q", f, p, err, first, payload)
	}
}

// TestFrames holds the server to RFC 6455, §5.1 to §5.5 and §8.1.
func TestFrames(t *testing.T) {
	closeWith := func(code websocket.StatusCode) string { return string([]byte{byte(code >> 8), byte(code)}) }
	protocol := closeWith(websocket.StatusProtocolError)
	for _, c := range []struct {
		name  string
		bytes []byte
		want  []string // first byte and payload of each answer; of a close the code
	}{
		{"fragments of one byte with a ping between", cat(masked(0x01, "4"), masked(0x00, "a"), masked(0x89, "p"), masked(0x80, "b")), []string{"\x8ap", "\x814ab"}},
		{"character split across fragments", cat(masked(0x01, "4\xf0\x9f"), masked(0x80, "\x98\x80")), []string{"\x814😀"}},
		{"empty fragments", cat(masked(0x01, ""), masked(0x00, "4x"), masked(0x80, "")), []string{"\x814x"}},
		{"two messages in one segment", cat(masked(0x81, "4a"), masked(0x81, "4b")), []string{"\x814a", "\x814b"}},
		{"payload of 126 bytes", masked(0x81, "4"+strings.Repeat("x", 125)), []string{"\x814" + strings.Repeat("x", 125)}},
		{"payload of 65,536 bytes", masked(0x81, "4"+strings.Repeat("x", 65535)), []string{"\x814" + strings.Repeat("x", 65535)}},
		{"close is answered with its code", masked(0x88, closeWith(4001)), []string{"\x88" + closeWith(4001)}},
		{"unmasked frame", []byte{0x81, 2, '4', 'x'}, []string{"\x88" + protocol}},
		{"reserved bit", masked(0xc1, "4x"), []string{"\x88" + protocol}},
		{"unknown opcode", masked(0x83, "4x"), []string{"\x88" + protocol}},
		{"control frame of 126 bytes", masked(0x89, strings.Repeat("x", 126)), []string{"\x88" + protocol}},
		{"control frame in fragments", masked(0x09, "x"), []string{"\x88" + protocol}},
		{"continuation of nothing", masked(0x80, "4x"), []string{"\x88" + protocol}},
		{"text within a text", cat(masked(0x01, "4"), masked(0x81, "4x")), []string{"\x88" + protocol}},
		{"close of one byte", masked(0x88, "x"), []string{"\x88" + protocol}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, Options{}, Accept{})
			ws := s.raw("EIO=4&transport=websocket")
			if _, p, err := ws.frame(); err != nil || p[0] != '0' {
				t.Fatalf("%q %v", p, err)
			}
			if _, err := ws.Write(c.bytes); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				first, payload, err := ws.frame()
				if err != nil {
					t.Fatal(err)
				}
				if first == 0x88 {
					payload = payload[:2] // the text is the library's
				}
				if got := string([]byte{first}) + payload; got != want {
					t.Fatalf("got %.100q, want %.100q", got, want)
				}
			}
			if last := c.want[len(c.want)-1]; last[0] == 0x88 {
				ws.Conn.(*net.TCPConn).CloseWrite()
				if rest, err := io.ReadAll(ws.r); err != nil || len(rest) > 0 {
					t.Fatalf("after the close: %q %v", rest, err)
				}
			}
		})
	}
}

func cat(all ...[]byte) (b []byte) {
	for _, p := range all {
		b = append(b, p...)
	}
	return b
}

// TestEarlyFrames sends frames in the same segment as the request: they sit in
// the HTTP server's buffer when the connection is taken over.
func TestEarlyFrames(t *testing.T) {
	s := serve(t, Options{}, Accept{})
	long := "4" + strings.Repeat("y", 3000)
	ws := s.raw("EIO=4&transport=websocket", cat(masked(0x81, "4early"), masked(0x81, long))...)
	if _, p, err := ws.frame(); err != nil || p[0] != '0' {
		t.Fatalf("%q %v", p, err)
	}
	ws.expect(0x81, "4early")
	ws.expect(0x81, long)

	sid := s.open()
	up := s.raw("EIO=4&transport=websocket&sid="+sid, cat(masked(0x81, "2probe"), masked(0x81, "5"), masked(0x81, "4x"))...)
	up.expect(0x81, "3probe")
	up.expect(0x81, "4x")
}

// TestHalfOpen has the peer vanish without a word at several points.
func TestHalfOpen(t *testing.T) {
	s := serve(t, Options{PingInterval: 30 * time.Millisecond, PingTimeout: 30 * time.Millisecond, UpgradeTimeout: 30 * time.Millisecond}, Accept{})
	ws := s.raw("EIO=4&transport=websocket")
	_, _ = ws.Write(masked(0x01, "4half a mess")) // and nothing more
	s.h.wantClose(t, ReasonPingTimeout)

	sid := s.open()
	s.raw("EIO=4&transport=websocket&sid=" + sid) // never probes
	s.h.wantClose(t, ReasonPingTimeout)
	if n := s.eio.Sessions(); n != 0 {
		t.Fatalf("%d sessions left", n)
	}
	s.until("connections to be forgotten", func() bool {
		s.eio.mu.RLock()
		defer s.eio.mu.RUnlock()
		return s.eio.conns.Len() == 0 && s.eio.taken == 0 && len(s.eio.sessions) == 0
	})
}
