package socketio

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// swarm opens n WebSockets in the main namespace; each is read by a goroutine
// with read, if given. It returns the sockets and the number of bytes received.
func swarm(b *testing.B, n int, read bool) ([]*Socket, *atomic.Int64) {
	b.Helper()
	var mu sync.Mutex
	var sockets []*Socket
	joined := make(chan struct{}, n)
	srv := NewServer(Options{QueueBytes: 64 << 20}, &hooks{connected: func(s *Socket) {
		mu.Lock()
		sockets = append(sockets, s)
		mu.Unlock()
		joined <- struct{}{}
	}})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { srv.Accept(w, r, Accept{}) }))
	var conns []net.Conn
	var readers sync.WaitGroup
	b.Cleanup(func() {
		srv.Close()
		web.Close()
		for _, c := range conns {
			c.Close()
		}
		readers.Wait()
	})
	received := new(atomic.Int64)
	for range n {
		c, err := net.Dial("tcp", strings.TrimPrefix(web.URL, "http://"))
		if err != nil {
			b.Fatal(err)
		}
		conns = append(conns, c)
		_, err = io.WriteString(c, "GET /?EIO=4&transport=websocket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		if err != nil {
			b.Fatal(err)
		}
		r := bufio.NewReaderSize(c, 512)
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 101 {
			b.Fatal(res, err)
		}
		if _, err := c.Write([]byte{0x81, 0x82, 0, 0, 0, 0, '4', '0'}); err != nil {
			b.Fatal(err)
		}
		<-joined
		if !read {
			continue
		}
		readers.Go(func() {
			buf := make([]byte, 64<<10)
			for {
				k, err := c.Read(buf)
				received.Add(int64(k))
				if err != nil {
					return
				}
			}
		})
	}
	return sockets, received
}

// BenchmarkFanOut sends one frame to all members, and counts a frame to one
// member as an operation. A burst is sent before anything is waited for, so that
// a writer finds several frames at once.
func BenchmarkFanOut(b *testing.B) {
	for _, members := range []int{1, 10, 1000} {
		for _, burst := range []int{1, 8} {
			b.Run(fmt.Sprintf("members=%d/burst=%d", members, burst), func(b *testing.B) {
				sockets, received := swarm(b, members, true)
				f := NewEvent("tick", []byte(`{"text":"`+strings.Repeat("x", 180)+`"}`))
				round := func() {
					want := received.Load() + int64(members*burst*f.Size())
					for range burst {
						for _, s := range sockets {
							if err := s.Send(f); err != nil {
								b.Fatal(err)
							}
						}
					}
					for received.Load() < want {
						runtime.Gosched()
					}
				}
				time.Sleep(50 * time.Millisecond) // the CONNECT replies, which are not counted
				for range 20 {
					round()
				}
				b.ReportAllocs()
				b.ResetTimer()
				for n := 0; n < b.N; n += members * burst {
					round()
				}
			})
		}
	}
}

// BenchmarkEncodeEvent is what an event costs once, however many get it.
func BenchmarkEncodeEvent(b *testing.B) {
	payload := []byte(`{"text":"` + strings.Repeat("x", 180) + `"}`)
	b.ReportAllocs()
	for b.Loop() {
		NewEvent("tick", payload)
	}
}

func BenchmarkParseEvent(b *testing.B) {
	m := []byte(`212["run:send",{"threadId":"t","text":"` + strings.Repeat("x", 180) + `"}]`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parse(m); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIdleSocket reports what an idle WebSocket in one namespace costs,
// with the few hundred bytes of the client's end, which is in the same process.
func BenchmarkIdleSocket(b *testing.B) {
	const n = 2000
	for b.Loop() {
		before := memory()
		swarm(b, n, false)
		after := memory()
		b.ReportMetric(float64(after.heap-before.heap)/n, "heap-B/socket")
		b.ReportMetric(float64(after.stack-before.stack)/n, "stack-B/socket")
		b.ReportMetric(float64(after.goroutines-before.goroutines)/n, "goroutines/socket")
	}
}

type usage struct{ heap, stack, goroutines int64 }

func memory() usage {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{int64(m.HeapAlloc), int64(m.StackInuse), int64(runtime.NumGoroutine())}
}
