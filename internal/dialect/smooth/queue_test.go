package smooth

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// stuck is a queue whose client does not read, until the returned end is read.
func stuck(t *testing.T) (*queue, net.Conn) {
	ours, theirs := net.Pipe()
	var wg sync.WaitGroup
	q := &queue{wire: &wire{Conn: ours, counts: new(ws.Counts)}, wg: &wg}
	t.Cleanup(func() {
		ours.Close()
		theirs.Close()
		wg.Wait()
	})
	return q, theirs
}

func TestAReaderThatStoppedIsLetGo(t *testing.T) {
	q, _ := stuck(t)
	frame := make([]byte, 1<<20)
	for n := range 10 {
		if !q.send(frame) {
			if n < 7 {
				t.Errorf("let go after %d MiB", n)
			}
			if slow := q.wire.counts.Slow.Load(); slow != 1 {
				t.Errorf("%d are counted as too slow", slow)
			}
			return
		}
	}
	t.Error("what waits for a client has no bound")
}

func TestWaitingTokensAreMerged(t *testing.T) {
	q, theirs := stuck(t)
	a, b := &turn{request: "a"}, &turn{request: "b"}
	q.send([]byte(`{"first":1}`)) // the writer waits with it
	for {
		q.mu.Lock()
		taken := len(q.items) == 0
		q.mu.Unlock()
		if taken {
			break
		}
	}
	for _, s := range []string{"Hel", "lo, ", "wörld"} {
		q.token(eventToken, a, s, 7)
	}
	q.token(eventReasoning, a, "hm", 7)
	q.token(eventToken, b, "x", 7)
	q.send([]byte(`{"last":1}`))
	var got bytes.Buffer
	buf := make([]byte, 4096)
	for !strings.Contains(got.String(), `{"last":1}`) {
		n, err := theirs.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(buf[:n])
	}
	for _, want := range []string{
		`{"type":"stream_token","requestId":"a","token":"Hello, wörld","data":{"requestId":"a","token":"Hello, wörld"},"timestamp":7}`,
		`{"type":"stream_reasoning","requestId":"a","token":"hm"`, `{"type":"stream_token","requestId":"b","token":"x"`,
	} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("SMO-027 SMO-136 %s is not in %q", want, got.String())
		}
	}
}
