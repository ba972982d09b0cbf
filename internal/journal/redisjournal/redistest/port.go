package redistest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Ports lie below those that systems give to whoever connects, so that a server
// which is down for a while finds its own free again; so do their cluster ports,
// 10,000 above. They are given out in blocks: a process that has a block listens at
// its first port as long as it lives, so that no two processes give out the same.
const (
	firstPort = 10_000
	lastPort  = 20_000
	blockSize = 50
)

var ports struct {
	sync.Mutex
	next, end int
	back      []int // from tests that are over
	// guards are the first ports of this process's blocks, which nothing closes.
	guards []net.Listener
}

// FreePort is a port that nobody uses, and that nobody else is given until the test
// is over; its cluster port is free too.
func FreePort(t testing.TB) int {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range 10_000 {
		port, ok := takePort()
		if ok && free(port) && free(port+10_000) {
			t.Cleanup(func() {
				ports.Lock()
				defer ports.Unlock()
				ports.back = append(ports.back, port)
			})
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// takePort is the next of this process's ports; it may take another block for it,
// and says no if somebody has that. Holds ports.
func takePort() (int, bool) {
	if ports.next == ports.end && len(ports.back) > 0 {
		port := ports.back[0]
		ports.back = ports.back[1:]
		return port, true
	}
	if ports.next == ports.end {
		first := firstPort + rand.IntN((lastPort-firstPort)/blockSize)*blockSize
		guard, err := listen(first)
		if err != nil {
			return 0, false
		}
		ports.guards = append(ports.guards, guard)
		ports.next, ports.end = first+1, first+blockSize
	}
	ports.next++
	return ports.next - 1, true
}

func free(port int) bool {
	l, err := listen(port)
	if err == nil {
		_ = l.Close()
	}
	return err == nil
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
}
