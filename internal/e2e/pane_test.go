package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// pane is a window that costs next to nothing: it reads what servers may send
// (RFC 6455: no masks; nothing was negotiated, so no extensions) into one
// buffer, and never reads and writes at once.
type pane struct {
	c   net.Conn
	in  *bufio.Reader
	buf []byte
}

// openPane connects to Pilotoo's namespace.
func openPane(ctx context.Context, base, cookie string) (*pane, error) {
	host := strings.TrimPrefix(base, "http://")
	c, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	p := &pane{c: c, in: bufio.NewReaderSize(c, 4096)}
	if err := p.greet(host, cookie); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *pane) close() { _ = p.c.Close() }

func (p *pane) greet(host, cookie string) error {
	// Nobody stands between this client and the server, so the key may be known.
	_, err := fmt.Fprintf(p.c, "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nCookie: %s\r\n\r\n", host, cookie)
	if err != nil {
		return err
	}
	resp, err := http.ReadResponse(p.in, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("no socket: %s", resp.Status)
	}
	if err := p.write("40"); err != nil {
		return err
	}
	return p.until("protocol:hello")
}

// until reads to a packet that has the word.
func (p *pane) until(word string) error {
	_ = p.c.SetReadDeadline(time.Now().Add(30 * time.Second))
	defer p.c.SetReadDeadline(time.Time{})
	for {
		m, err := p.read()
		if err != nil {
			return err
		}
		if bytes.Contains(m, []byte(word)) {
			if bytes.Contains(m, []byte(`"ok":false`)) {
				return fmt.Errorf("refused: %s", m)
			}
			return nil
		}
	}
}

// command sends one and waits for its acknowledgement; n is its number.
func (p *pane) command(n int, name string, arg any) error {
	body, err := json.Marshal([]any{name, arg})
	if err != nil {
		return err
	}
	if err := p.write(fmt.Sprintf("42%d%s", n, body)); err != nil {
		return err
	}
	return p.until(fmt.Sprintf("43%d[", n))
}

// read returns the next packet, which is valid until the next call; heartbeats
// are answered.
func (p *pane) read() ([]byte, error) {
	for {
		var head [2]byte
		if _, err := io.ReadFull(p.in, head[:]); err != nil {
			return nil, err
		}
		size, wide := uint64(head[1]), 0
		switch size {
		case 126:
			size, wide = 0, 2
		case 127:
			size, wide = 0, 8
		}
		for range wide {
			c, err := p.in.ReadByte()
			if err != nil {
				return nil, err
			}
			size = size<<8 | uint64(c)
		}
		if head[0]&0x70 != 0 || head[1]&0x80 != 0 || size > 16<<20 {
			return nil, errors.New("not a frame that a server may send")
		}
		if uint64(cap(p.buf)) < size {
			p.buf = make([]byte, size)
		}
		p.buf = p.buf[:size]
		if _, err := io.ReadFull(p.in, p.buf); err != nil {
			return nil, err
		}
		switch {
		case head[0] == 0x81 && string(p.buf) == "2":
			if err := p.write("3"); err != nil {
				return nil, err
			}
		case head[0] == 0x81:
			return p.buf, nil
		case head[0] == 0x88:
			return nil, fmt.Errorf("the server closed: %q", p.buf)
		default:
			return nil, fmt.Errorf("a frame begins with %#x", head[0])
		}
	}
}

// write sends a packet with a mask of zeros.
func (p *pane) write(s string) error {
	if len(s) >= 1<<16 {
		return errors.New("too long for a command")
	}
	b := []byte{0x81, 0x80 | 126, byte(len(s) >> 8), byte(len(s)), 0, 0, 0, 0}
	if len(s) < 126 {
		b = []byte{0x81, 0x80 | byte(len(s)), 0, 0, 0, 0}
	}
	_, err := p.c.Write(append(b, s...))
	return err
}
