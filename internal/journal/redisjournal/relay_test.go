package redisjournal

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay stands before a server. It may be given another one for the
// connections to come, and may swallow what comes back on those that are there.
type relay struct {
	l  net.Listener
	wg sync.WaitGroup

	mu     sync.Mutex
	target string
	conns  map[net.Conn]*mouth
}

// mouth is one connection's way back to the client.
type mouth struct {
	net.Conn
	mu   sync.Mutex
	shut bool
}

func (m *mouth) Write(p []byte) (int, error) {
	m.mu.Lock()
	shut := m.shut
	m.mu.Unlock()
	if shut {
		return len(p), nil
	}
	return m.Conn.Write(p)
}

func newRelay(t *testing.T, target string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{l: l, target: target, conns: map[net.Conn]*mouth{}}
	r.wg.Go(r.accept)
	t.Cleanup(func() {
		l.Close()
		r.mu.Lock()
		for c := range r.conns {
			c.Close()
		}
		r.mu.Unlock()
		r.wg.Wait()
	})
	return r
}

func (r *relay) addr() string { return r.l.Addr().String() }

func (r *relay) point(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
}

// swallow drops from now on all that comes back on the present connections.
func (r *relay) swallow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.conns {
		m.mu.Lock()
		m.shut = true
		m.mu.Unlock()
	}
}

func (r *relay) accept() {
	for {
		c, err := r.l.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		target := r.target
		r.mu.Unlock()
		up, err := net.Dial("tcp", target)
		if err != nil {
			c.Close()
			continue
		}
		m := &mouth{Conn: c}
		r.mu.Lock()
		r.conns[c] = m
		r.mu.Unlock()
		r.wg.Go(func() {
			_, _ = io.Copy(up, c)
			up.Close()
		})
		r.wg.Go(func() {
			_, _ = io.Copy(m, up)
			c.Close()
			r.mu.Lock()
			delete(r.conns, c)
			r.mu.Unlock()
		})
	}
}
