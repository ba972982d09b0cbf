package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// member is a window of the benchmarks: a bare socket, so that the process that
// measures has little to do.
type member struct {
	c *websocket.Conn
	n int // acknowledgement ids
}

// browserCookie is the identity of all members of a benchmark.
func browserCookie(b testing.TB, g *gateway) string {
	b.Helper()
	resp, err := http.Get(g.base + "/conversations")
	if err != nil {
		b.Fatal(err)
	}
	_ = resp.Body.Close()
	for _, c := range resp.Cookies() {
		if c.Name == "parlance" {
			return c.Name + "=" + c.Value
		}
	}
	b.Fatal("the gateway gave no cookie")
	return ""
}

func newThread(b testing.TB, g *gateway, cookie string) string {
	b.Helper()
	req, err := http.NewRequest(http.MethodPost, g.base+"/conversations", nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Cookie", cookie)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	var v struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil || v.ID == "" {
		b.Fatalf("no conversation: %v", err)
	}
	return v.ID
}

func join(b *testing.B, g *gateway, cookie string) *member {
	b.Helper()
	ctx := b.Context()
	c, _, err := websocket.Dial(ctx, g.base+"/socket.io/?EIO=4&transport=websocket", &websocket.DialOptions{
		HTTPHeader: http.Header{"Cookie": {cookie}},
	})
	if err != nil {
		b.Fatal(err)
	}
	c.SetReadLimit(-1)
	m := &member{c: c}
	m.until(b, func(s string) bool { return strings.HasPrefix(s, "0{") })
	m.send(b, "40")
	m.until(b, func(s string) bool { return strings.Contains(s, "protocol:hello") })
	return m
}

func (m *member) send(b *testing.B, s string) {
	if err := m.c.Write(b.Context(), websocket.MessageText, []byte(s)); err != nil {
		b.Fatal(err)
	}
}

// read returns the next packet; heartbeats are answered.
func (m *member) read(ctx context.Context) (string, error) {
	for {
		_, p, err := m.c.Read(ctx)
		if err != nil {
			return "", err
		}
		if string(p) != "2" {
			return string(p), nil
		}
		if err := m.c.Write(ctx, websocket.MessageText, []byte("3")); err != nil {
			return "", err
		}
	}
}

func (m *member) until(b *testing.B, ok func(string) bool) {
	for {
		s, err := m.read(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if ok(s) {
			return
		}
	}
}

// command sends one and waits for its acknowledgement.
func (m *member) command(b *testing.B, name string, arg any) {
	b.Helper()
	body, err := json.Marshal([]any{name, arg})
	if err != nil {
		b.Fatal(err)
	}
	m.n++
	m.send(b, fmt.Sprintf("42%d%s", m.n, body))
	prefix := fmt.Sprintf("43%d[", m.n)
	m.until(b, func(s string) bool {
		if strings.HasPrefix(s, prefix) && !strings.Contains(s, `"ok":true`) {
			b.Fatal(s)
		}
		return strings.HasPrefix(s, prefix)
	})
}

// memory is what the process holds after a collection: resident, as the system
// counts it, and live, as the runtime does (heap in use by objects, and stacks).
func (g *gateway) memory(b *testing.B) (resident, live int64) {
	b.Helper()
	resp, err := http.Get(g.admin + "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.cmd.Process.Pid))
	if err != nil {
		b.Fatalf("this benchmark needs /proc: %v", err)
	}
	number := func(text []byte, name string) int64 {
		_, rest, _ := strings.Cut(string(text), name)
		n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		return n
	}
	return number(status, "VmRSS:") << 10, number(text, "# HeapAlloc = ") + number(text, "# Stack = ")
}

// cpu is the time that the process has used.
func (g *gateway) cpu(b *testing.B) time.Duration {
	b.Helper()
	return processTime(b, g.cmd.Process.Pid)
}

// processTime is the processor time that a process has used.
func processTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatalf("this benchmark needs /proc: %v", err)
	}
	f := strings.Fields(string(stat)[strings.LastIndexByte(string(stat), ')')+1:])
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
}

// benchSite has the limits of a benchmark; agent is its agent's block.
func benchSite(agent string) string {
	return site("\t\t" + agent + "\n\t\tlimits {\n\t\t\tconnections_per_client 100000\n\t\t\truns_per_client 100000\n\t\t\tcommands_per_second 100000\n\t\t}")
}

// unpaced is a benchSite that passes each delta on as it comes.
func unpaced(agent string) string {
	return strings.Replace(benchSite(agent), "limits {", "limits {\n\t\t\tpace none", 1)
}

// BenchmarkIdleSocket reports what an idle socket costs in a whole Caddy.
func BenchmarkIdleSocket(b *testing.B) {
	const sockets = 5000
	for b.Loop() {
		g := start(b, benchSite("agent echo echo"))
		cookie := browserCookie(b, g)
		for range 100 {
			join(b, g, cookie)
		}
		resident, live := g.memory(b)
		for range sockets {
			join(b, g, cookie)
		}
		residentAfter, liveAfter := g.memory(b)
		defer b.ReportMetric(float64(residentAfter-resident)/sockets/1024, "resident-KiB/socket")
		defer b.ReportMetric(float64(liveAfter-live)/sockets/1024, "live-KiB/socket")
		g.stop()
	}
}

// BenchmarkEnvelope reports the gateway's CPU time for each envelope that it
// delivers to a member, by the number of members of the thread.
func BenchmarkEnvelope(b *testing.B) {
	for _, members := range []int{1, 10, 1000} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			for b.Loop() {
				perEnvelope := measureEnvelopes(b, members)
				defer b.ReportMetric(perEnvelope, "µs/envelope")
			}
		})
	}
}

func measureEnvelopes(b *testing.B, members int) float64 {
	g := start(b, unpaced("agent echo echo {\n\t\t\tdelay 1ms\n\t\t}"))
	defer g.stop()
	cookie := browserCookie(b, g)
	thread := newThread(b, g, cookie)
	list := make([]*member, members)
	for i := range list {
		list[i] = join(b, g, cookie)
		list[i].command(b, "thread:messages", map[string]string{"threadId": thread})
	}
	words := strings.TrimSpace(strings.Repeat("word ", 3000))
	before := g.cpu(b)
	counts := make([]int, members)
	var wg sync.WaitGroup
	for i, m := range list {
		wg.Go(func() {
			for {
				s, err := m.read(b.Context())
				if err != nil {
					return
				}
				if strings.Contains(s, "run:event") {
					counts[i]++
				}
				if strings.Contains(s, "RUN_FINISHED") {
					return
				}
			}
		})
	}
	body, _ := json.Marshal([]any{"run:start", map[string]string{"threadId": thread, "messageId": "m", "input": words}})
	list[0].send(b, "42"+string(body))
	wg.Wait()
	used, total := g.cpu(b)-before, 0
	for _, n := range counts {
		total += n
	}
	return float64(used.Microseconds()) / float64(total)
}

// BenchmarkLatency reports the time from an agent's byte to a client's frame,
// at 50 tokens a second in each of 200 threads.
func BenchmarkLatency(b *testing.B) {
	const threads, tokens, pace = 200, 250, 20 * time.Millisecond
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ ThreadID, RunID string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(format string, args ...any) {
			fmt.Fprintf(w, "data: "+format+"\n\n", args...)
			_ = http.NewResponseController(w).Flush()
		}
		say(`{"type":"RUN_STARTED","threadId":%q,"runId":%q}`, in.ThreadID, in.RunID)
		say(`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`)
		t := time.NewTicker(pace)
		defer t.Stop()
		for range tokens {
			<-t.C
			say(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"%d "}`, time.Now().UnixNano())
		}
		say(`{"type":"TEXT_MESSAGE_END","messageId":"m"}`)
		say(`{"type":"RUN_FINISHED","threadId":%q,"runId":%q}`, in.ThreadID, in.RunID)
	}))
	defer agent.Close()
	for b.Loop() {
		g := start(b, unpaced("agent load agui "+agent.URL))
		cookie := browserCookie(b, g)
		var mu sync.Mutex
		var all []time.Duration
		var wg sync.WaitGroup
		for range threads {
			m := join(b, g, cookie)
			thread := newThread(b, g, cookie)
			m.command(b, "thread:messages", map[string]string{"threadId": thread})
			body, _ := json.Marshal([]any{"run:start", map[string]string{"threadId": thread, "messageId": "m", "input": "go"}})
			wg.Go(func() {
				m.send(b, "42"+string(body))
				var mine []time.Duration
				for {
					s, err := m.read(b.Context())
					now := time.Now().UnixNano()
					if err != nil || strings.Contains(s, "RUN_FINISHED") || strings.Contains(s, "RUN_ERROR") || strings.Contains(s, "protocol:error") {
						break
					}
					if _, rest, ok := strings.Cut(s, `"delta":"`); ok {
						// What waited for the journal comes as one frame.
						for token := range strings.FieldsSeq(rest[:strings.IndexByte(rest, '"')]) {
							sent, _ := strconv.ParseInt(token, 10, 64)
							mine = append(mine, time.Duration(now-sent))
						}
					}
				}
				mu.Lock()
				all = append(all, mine...)
				mu.Unlock()
			})
		}
		wg.Wait()
		if len(all) < threads*tokens*9/10 {
			b.Fatalf("%d of %d tokens came", len(all), threads*tokens)
		}
		slices.Sort(all)
		at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000 }
		defer func() {
			b.ReportMetric(at(0.5), "p50-ms")
			b.ReportMetric(at(0.99), "p99-ms")
		}()
		g.stop()
	}
}
