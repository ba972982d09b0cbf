package tracing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/parlance-gateway/parlance/internal/agent/agui"
	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/edge/tracing"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What is planted must be found in no log and no span.
const (
	question = "planted-question"
	answer   = "planted-answer"
	secret   = "planted-secret"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// world is two edges on one store, with their spans and their log.
type world struct {
	t      *testing.T
	spans  *tracetest.InMemoryExporter
	logs   *lines
	agent  *helper
	edges  [2]*node
	cookie *http.Cookie
}

// node is one edge.
type node struct {
	hub    *edge.Hub
	tracer *tracing.Tracer
	base   string
}

// lines is a log that tests can read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// called are the lines of that message.
func (l *lines) called(message string) []map[string]any {
	var list []map[string]any
	for _, line := range strings.Split(l.String(), "\n") {
		var v map[string]any
		if json.Unmarshal([]byte(line), &v) == nil && v["msg"] == message {
			list = append(list, v)
		}
	}
	return list
}

// helper is an AG-UI agent. The first calls hang, as many as it is told to.
type helper struct {
	mu      sync.Mutex
	hangs   int
	parents []string // the traceparent of each call
}

func (a *helper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct{ ThreadID, RunID string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	a.mu.Lock()
	a.parents = append(a.parents, r.Header.Get("Traceparent"))
	hang := a.hangs > 0
	a.hangs--
	a.mu.Unlock()
	if hang {
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range []string{
		`{"type":"RUN_STARTED","threadId":%q,"runId":%q}`,
		`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"` + answer + `"}`,
		`{"type":"TEXT_MESSAGE_END","messageId":"m"}`,
		`{"type":"RUN_FINISHED","threadId":%q,"runId":%q}`,
	} {
		if strings.Contains(e, "%q") {
			e = fmt.Sprintf(e, in.ThreadID, in.RunID)
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", e)
	}
}

func (a *helper) calls() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.parents...)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store := redistest.Start(t)
	w := &world{t: t, spans: tracetest.NewInMemoryExporter(), logs: new(lines), agent: new(helper)}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(w.spans))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	behind := httptest.NewServer(w.agent)
	t.Cleanup(behind.Close)
	logger := slog.New(slog.NewJSONHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, i := range []int{1, 0} { // so that the first knows of the second from its start
		name := []string{"one", "two"}[i]
		j, err := redisjournal.Open(redisjournal.Options{Addresses: []string{store.Addr()}})
		if err != nil {
			t.Fatal(err)
		}
		n := &node{tracer: tracing.New(name)}
		n.tracer.Use(provider, false)
		n.hub = edge.NewHub(j, edge.Options{Logger: logger, Name: name, Shared: true, Tracer: n.tracer})
		t.Cleanup(func() { _ = n.hub.Close() })
		a, err := agui.New(agui.Config{URL: behind.URL, Retry: true, Header: http.Header{"Authorization": {"Bearer " + secret}}})
		if err != nil {
			t.Fatal(err)
		}
		site := &edge.Site{
			Name: "test", Realm: "support", Agents: []edge.NamedAgent{{Name: "helper", Agent: a}},
			Pilotoo: &edge.Pilotoo{Path: "/socket.io/", Routes: true},
		}
		off, err := n.hub.Activate([]*edge.Site{site})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(off)
		eventually(t, "the edge's word to the others", func() bool {
			e := n.announced(name)
			return e != nil && len(e.Agents) > 0
		})
		srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if !n.hub.Serve(site, rw, r, identity.FromRequest(r)) {
				http.NotFound(rw, r)
			}
		}))
		t.Cleanup(srv.Close)
		n.base, w.edges[i] = srv.URL, n
	}
	return w
}

// announced is what an edge told the others, as this one hears it.
func (n *node) announced(name string) *journal.Edge {
	list, _ := n.hub.Edges(context.Background())
	for _, e := range list {
		if e.Name == name {
			return &e
		}
	}
	return nil
}

// thread opens a conversation and returns its id; the browser gets its cookie.
func (w *world) thread() string {
	w.t.Helper()
	for {
		req, _ := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.edges[0].base+"/conversations", nil)
		if w.cookie != nil {
			req.AddCookie(w.cookie)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			w.t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if w.cookie == nil && len(resp.Cookies()) > 0 {
			w.cookie = resp.Cookies()[0]
		}
		var v struct{ ID string }
		if json.Unmarshal(body, &v) == nil && v.ID != "" {
			return v.ID
		}
		w.t.Fatalf("no conversation: %s %s", resp.Status, body)
	}
}

// window is a bare Pilotoo client.
type window struct {
	t  *testing.T
	ws *websocket.Conn
}

func (w *world) open(n *node) *window {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	c, _, err := websocket.Dial(ctx, n.base+"/socket.io/?EIO=4&transport=websocket", &websocket.DialOptions{
		HTTPHeader: http.Header{"Cookie": {w.cookie.Name + "=" + w.cookie.Value}, "Traceparent": {forged}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.CloseNow() })
	v := &window{t: w.t, ws: c}
	v.until("0{")
	v.send("40")
	v.until("protocol:hello")
	return v
}

// forged is a traceparent that nobody is to believe.
const forged = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"

func (v *window) send(s string) {
	v.t.Helper()
	if err := v.ws.Write(v.t.Context(), websocket.MessageText, []byte(s)); err != nil {
		v.t.Fatal(err)
	}
}

// until reads until a packet that holds what is named.
func (v *window) until(what string) string {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), patience)
	defer cancel()
	for {
		_, p, err := v.ws.Read(ctx)
		if err != nil {
			v.t.Fatalf("%q did not come: %v", what, err)
		}
		if strings.Contains(string(p), what) {
			return string(p)
		}
		if string(p) == "2" {
			v.send("3")
		}
	}
}

// ask sends a command and returns its acknowledgement.
func (v *window) ask(name string, arg any) string {
	v.t.Helper()
	b, err := json.Marshal([]any{name, arg})
	if err != nil {
		v.t.Fatal(err)
	}
	v.send("427" + string(b))
	return v.until("437[")
}

// eventually waits until ok, and fails with what is missing.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}
