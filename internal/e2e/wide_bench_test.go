package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// wide is a load: threads that are each watched through windows on two edges,
// while an agent says tokens in all of them, each at the same rate.
type wide struct {
	threads, windows int
	every            time.Duration // between the tokens of a thread
	warm, measured   time.Duration
	agent            *httptest.Server
	ready            sync.WaitGroup // runs that have begun
	begin            chan struct{}  // closed when all tokens may come
	began            time.Time
}

const tokenSize = 40 // bytes, the space behind it included

func newWide(b *testing.B) *wide {
	w := &wide{threads: 200, windows: 5, every: 20 * time.Millisecond, warm: 3 * time.Second, measured: 12 * time.Second, begin: make(chan struct{})}
	if testing.Short() {
		w.warm, w.measured = 500*time.Millisecond, time.Second
	}
	w.ready.Add(w.threads)
	w.agent = httptest.NewServer(w)
	b.Cleanup(w.agent.Close)
	return w
}

// tokens is how many an answer has.
func (w *wide) tokens() int { return int((w.warm + w.measured + w.every) / w.every) }

// ServeHTTP is the agent: a token is its number and when it was sent. Threads
// speak in turn, not all at once.
func (w *wide) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var in struct {
		ThreadID, RunID string
		Messages        []struct{ Content any }
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Messages) == 0 {
		http.Error(rw, "not a run", http.StatusBadRequest)
		return
	}
	thread, _ := strconv.Atoi(fmt.Sprint(in.Messages[len(in.Messages)-1].Content))
	rw.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(rw).Flush
	fmt.Fprintf(rw, "data: {\"type\":\"RUN_STARTED\",\"threadId\":%q,\"runId\":%q}\n\n", in.ThreadID, in.RunID)
	fmt.Fprint(rw, "data: {\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"m\",\"role\":\"assistant\"}\n\n")
	_ = flush()
	w.ready.Done()
	select {
	case <-w.begin:
	case <-r.Context().Done():
		return
	}
	offset := w.every * time.Duration(thread) / time.Duration(w.threads)
	var line []byte
	for n := range w.tokens() {
		if pause(r.Context(), time.Until(w.began.Add(offset+w.every*time.Duration(n)))); r.Context().Err() != nil {
			return
		}
		line = append(line[:0], `data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"`...)
		at := len(line)
		line = strconv.AppendInt(append(strconv.AppendInt(line, int64(n), 10), ':'), time.Now().UnixNano(), 10)
		line = append(line, ':')
		for len(line)-at < tokenSize-1 {
			line = append(line, 'x')
		}
		_, _ = rw.Write(append(line, " \"}\n\n"...))
		_ = flush()
	}
	fmt.Fprint(rw, "data: {\"type\":\"TEXT_MESSAGE_END\",\"messageId\":\"m\"}\n\n")
	fmt.Fprintf(rw, "data: {\"type\":\"RUN_FINISHED\",\"threadId\":%q,\"runId\":%q}\n\n", in.ThreadID, in.RunID)
}

// arrivals are the latencies of the tokens that came while it was measured.
type arrivals struct {
	from, to atomic.Int64 // Unix nanoseconds
	mu       sync.Mutex
	took     []time.Duration
}

// watch reads a window to the end of its run. It fails unless each token came
// once and in order.
func (a *arrivals) watch(p *pane, tokens int) error {
	next := 0
	mine := make([]time.Duration, 0, tokens)
	for {
		m, err := p.read()
		if err != nil {
			return err
		}
		now := time.Now().UnixNano()
		measured := now >= a.from.Load() && now < a.to.Load()
		switch {
		case bytes.Contains(m, []byte("RUN_FINISHED")):
			if next != tokens {
				return fmt.Errorf("a window has %d of %d tokens", next, tokens)
			}
			a.mu.Lock()
			a.took = append(a.took, mine...)
			a.mu.Unlock()
			return nil
		case bytes.Contains(m, []byte("RUN_ERROR")), bytes.Contains(m, []byte("protocol:error")):
			return fmt.Errorf("a window was told %s", m)
		}
		for _, text, ok := bytes.Cut(m, []byte(`"delta":"`)); ok; _, text, ok = bytes.Cut(text, []byte(`"delta":"`)) {
			// What waited for the journal, or for the pace, comes as one delta.
			for len(text) >= tokenSize && text[0] != '"' {
				number, rest, _ := bytes.Cut(text[:tokenSize], []byte{':'})
				stamp, _, _ := bytes.Cut(rest, []byte{':'})
				if string(number) != strconv.Itoa(next) {
					return fmt.Errorf("a window has token %s, not %d", number, next)
				}
				next++
				if sent, err := strconv.ParseInt(string(stamp), 10, 64); err == nil && measured {
					mine = append(mine, time.Duration(now-sent))
				}
				text = text[tokenSize:]
			}
		}
	}
}

// pair starts two edges on one Redis.
func (w *wide) pair(b *testing.B, pace string) (edges [2]*gateway, server *redistest.Server) {
	server = redistest.Start(b, "appendonly no")
	conf := strings.NewReplacer(`journal file "DIR"`, "journal redis "+server.URL(), "limits {", "limits {\n\t\t\tpace "+pace).
		Replace(benchSite("agent load agui " + w.agent.URL))
	dir := b.TempDir()
	for i := range edges {
		g := &gateway{t: b, dir: dir}
		g.base, g.admin = fmt.Sprintf("http://127.0.0.1:%d", redistest.FreePort(b)), fmt.Sprintf("http://127.0.0.1:%d", redistest.FreePort(b))
		g.conf = b.TempDir() + "/Caddyfile"
		g.configure(conf)
		g.run()
		b.Cleanup(g.stop)
		edges[i] = g
	}
	ctx, cancel := context.WithTimeout(b.Context(), 60*time.Second)
	defer cancel()
	for _, g := range edges {
		for (&edge{gateway: g}).unready() != "" {
			if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
				b.Fatalf("an edge is not ready:\n%s", g.log)
			}
		}
	}
	return edges, server
}

// BenchmarkWide is 200 threads with five windows each over two edges, and 50
// tokens a second in each: 50,000 deliveries a second if they keep up. It
// reports the time from the agent's byte to the window's frame and, for each
// million tokens delivered, the processor time of the edges, of Redis and of
// this load. A token that is lost or comes twice fails it.
func BenchmarkWide(b *testing.B) {
	for _, pace := range []string{"none", "40ms"} {
		b.Run("pace="+pace, func(b *testing.B) {
			for b.Loop() {
				newWide(b).measure(b, pace)
			}
		})
	}
}

func (w *wide) measure(b *testing.B, pace string) {
	edges, server := w.pair(b, pace)
	cookie := browserCookie(b, edges[0])
	var a arrivals
	ended := make(chan error, w.threads*w.windows)
	for t := range w.threads {
		thread := newThread(b, edges[t%2], cookie)
		for i := range w.windows {
			p, err := openPane(b.Context(), edges[(t+i)%2].base, cookie)
			if err == nil {
				err = p.command(1, "thread:messages", map[string]string{"threadId": thread})
			}
			if err == nil && i == w.windows-1 {
				err = p.command(2, "run:start", map[string]string{"threadId": thread, "messageId": "m", "input": strconv.Itoa(t)})
			}
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(p.close)
			go func() { ended <- a.watch(p, w.tokens()) }()
		}
	}
	w.ready.Wait()
	used := func() (list [3]time.Duration) {
		list[0] = processTime(b, edges[0].cmd.Process.Pid) + processTime(b, edges[1].cmd.Process.Pid)
		list[1], list[2] = processTime(b, server.Pid()), processTime(b, os.Getpid())
		return list
	}
	w.began = time.Now()
	a.from.Store(w.began.Add(w.warm).UnixNano())
	a.to.Store(w.began.Add(w.warm + w.measured).UnixNano())
	close(w.begin)
	pause(b.Context(), w.warm)
	before := used()
	pause(b.Context(), time.Until(w.began.Add(w.warm+w.measured)))
	after := used()
	var failed []error
	for range cap(ended) {
		failed = append(failed, <-ended)
	}
	if err := errors.Join(failed...); err != nil {
		b.Fatalf("%.2000s", err.Error())
	}
	slices.Sort(a.took)
	at := func(q float64) float64 {
		return float64(a.took[int(q*float64(len(a.took)-1))].Microseconds()) / 1000
	}
	million := float64(len(a.took)) / 1e6
	b.ReportMetric(float64(len(a.took))/w.measured.Seconds(), "delivered/s")
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	for i, unit := range []string{"edges-cpu-s/M", "redis-cpu-s/M", "load-cpu-s/M"} {
		b.ReportMetric((after[i]-before[i]).Seconds()/million, unit)
	}
}
