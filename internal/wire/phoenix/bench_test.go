package phoenix

import (
	"bufio"
	"context"
	"encoding/json"
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

	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// swarm opens n WebSockets that have joined the room; each is read by a goroutine
// with read. It returns the channels and the number of bytes received.
func swarm(b *testing.B, n int, read bool) ([]*Channel, *atomic.Int64) {
	b.Helper()
	h := newHooks()
	joined := make(chan *Channel, n)
	h.joined = func(c *Channel) { joined <- c }
	srv := NewServer(Options{QueueBytes: 64 << 20, AcceptRate: 1 << 20}, h)
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
	channels := make([]*Channel, 0, n)
	for range n {
		c, err := net.Dial("tcp", strings.TrimPrefix(web.URL, "http://"))
		if err != nil {
			b.Fatal(err)
		}
		conns = append(conns, c)
		_, err = io.WriteString(c, "GET "+wsPath+" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		if err != nil {
			b.Fatal(err)
		}
		r := bufio.NewReaderSize(c, 512)
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 101 {
			b.Fatal(res, err)
		}
		if _, err := c.Write(append([]byte{0x81, 0x80 | byte(len(joinRoom)), 0, 0, 0, 0}, joinRoom...)); err != nil {
			b.Fatal(err)
		}
		channels = append(channels, <-joined)
		// The reply: what follows is counted.
		reply := replyTail(`"1"`, room, OK, nil)
		if _, err := io.ReadFull(r, make([]byte, ws.HeaderSize(len(reply)+4)+len(reply)+4)); err != nil {
			b.Fatal(err)
		}
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
	return channels, received
}

// BenchmarkFanOut sends one frame to all members, and counts a frame to one
// member as an operation. A burst is sent before anything is waited for, so that
// a writer finds several frames at once.
func BenchmarkFanOut(b *testing.B) {
	for _, members := range []int{1, 10, 1000} {
		for _, burst := range []int{1, 8} {
			b.Run(fmt.Sprintf("members=%d/burst=%d", members, burst), func(b *testing.B) {
				channels, received := swarm(b, members, true)
				f := NewFrame(room, "change", []byte(`{"text":"`+strings.Repeat("x", 180)+`"}`))
				size := len(f.tail) + 4
				size += ws.HeaderSize(size)
				round := func() {
					want := received.Load() + int64(members*burst*size)
					for range burst {
						for _, c := range channels {
							if err := c.Send(f); err != nil {
								b.Fatal(err)
							}
						}
					}
					for received.Load() < want {
						runtime.Gosched()
					}
				}
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

// BenchmarkNewFrame is what a push costs once, however many get it.
func BenchmarkNewFrame(b *testing.B) {
	for _, size := range []int{180, 50_000} {
		b.Run(fmt.Sprintf("payload=%d", size), func(b *testing.B) {
			payload := []byte(`{"text":"` + strings.Repeat("x", size) + `"}`)
			b.ReportAllocs()
			for b.Loop() {
				NewFrame(room, "change", payload)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	m := []byte(`["1","7","chat:v1:app:pk:thread:t","send",{"text":"` + strings.Repeat("x", 180) + `"}]`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parse(m); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPush is a push of a client, with its reply, past the line.
func BenchmarkPush(b *testing.B) {
	h := newHooks()
	reply := []byte(`{"status":"ok"}`)
	h.in = func(c *Channel, p Push) { _ = c.Reply(p.Ref, OK, reply) }
	h.join = func(context.Context, *Channel, json.RawMessage) ([]byte, error) { return nil, nil }
	srv := NewServer(Options{QueueBytes: 1 << 30, AnswerBytes: 1 << 30}, h)
	b.Cleanup(srv.Close)
	s := &socket{srv: srv, polls: true, key: newPollKey()}
	s.init(&Accept{MaxPayload: 1 << 20})
	srv.taken++
	srv.begin(s)
	m, err := parse([]byte(joinRoom))
	if err != nil {
		b.Fatal(err)
	}
	s.join(&m)
	frame := []byte(`["1","7","room:a","send",{"text":"` + strings.Repeat("x", 180) + `"}]`)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.receive(frame); err != nil {
			b.Fatal(err)
		}
		s.mu.Lock()
		s.drop(s.queue.Len())
		s.mu.Unlock()
	}
}

// BenchmarkIdleSocket reports what an idle WebSocket with one channel costs, with
// the few hundred bytes of the client's end, which is in the same process.
func BenchmarkIdleSocket(b *testing.B) {
	const n = 2000
	for b.Loop() {
		before := memory()
		channels, _ := swarm(b, n, false)
		after := memory()
		runtime.KeepAlive(channels)
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
