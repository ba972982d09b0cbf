//go:build unix

package ws

import (
	"errors"
	"net"
	"syscall"
)

// rawConn is how a connection can be written to without waiting, or nil. One that
// is wrapped in anything is not: what wraps it may have to see what is written.
func rawConn(c net.Conn) syscall.RawConn {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// writeNow writes what the kernel has room for.
func writeNow(fd uintptr, b []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), b)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return 0, nil
		case err != nil:
			return 0, err
		default:
			return n, nil
		}
	}
}
