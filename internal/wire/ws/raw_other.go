//go:build !unix

package ws

import (
	"net"
	"syscall"
)

func rawConn(net.Conn) syscall.RawConn { return nil }

func writeNow(uintptr, []byte) (int, error) { return 0, nil }
