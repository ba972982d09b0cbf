package agui

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

const secret = "s3cret-token"

func TestRefusedAnswers(t *testing.T) {
	stream := func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream; charset=utf-8") }
	for _, c := range []struct {
		name string
		h    http.HandlerFunc
		code string
	}{
		{"PIL-131 a fault with a secret in its body", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, secret, http.StatusInternalServerError)
		}, chat.CodeAgentError},
		{"PIL-130 not available now", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, secret, http.StatusServiceUnavailable)
		}, chat.CodeAgentUnavailable},
		{"a redirect is not followed", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/agent" {
				events(`{"type":"RUN_FINISHED"}`)(w, r)
				return
			}
			http.Redirect(w, r, "/"+secret, http.StatusTemporaryRedirect)
		}, chat.CodeAgentError},
		{"no stream of events", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"type":"RUN_FINISHED"}`)
		}, chat.CodeAgentError},
		{"compressed although nobody asked", func(w http.ResponseWriter, _ *http.Request) {
			stream(w)
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, "data: {\"type\":\"RUN_FINISHED\"}\n\n")
			z.Close()
		}, chat.CodeAgentError},
		{"an event that is too long", func(w http.ResponseWriter, _ *http.Request) {
			stream(w)
			fmt.Fprintf(w, "data: %s\n\n", strings.Repeat("x", 5000))
		}, chat.CodeAgentError},
		{"a body that is too long", func(w http.ResponseWriter, _ *http.Request) {
			stream(w)
			for range 100 {
				fmt.Fprintf(w, ": %s\n", strings.Repeat("x", 900))
			}
		}, chat.CodeAgentError},
		{"headers that are too long", func(w http.ResponseWriter, _ *http.Request) {
			stream(w)
			w.Header().Set("X-Long", strings.Repeat("x", 200<<10))
			fmt.Fprint(w, "data: {\"type\":\"RUN_FINISHED\"}\n\n")
		}, chat.CodeAgentUnavailable},
		{"PIL-130 a connection that breaks", func(w http.ResponseWriter, r *http.Request) {
			stream(w)
			fmt.Fprint(w, "data: {\"type\":\"RUN_STARTED\"}\n\n")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, chat.CodeAgentTruncated},
		{"an empty body", func(w http.ResponseWriter, r *http.Request) { stream(w) }, chat.CodeAgentTruncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			a := serve(t, Config{
				Header: http.Header{"Authorization": {"Bearer " + secret}},
				Limits: agent.Limits{MaxEvent: 2000, MaxBody: 20_000},
				Log:    slog.New(slog.NewTextHandler(&log, nil)),
			}, c.h)
			_, out := fold(t.Context(), a, newCall())
			if out.Status != chat.RunError || out.Code != c.code || out.Text == "" {
				t.Errorf("got %+v, want %s", out, c.code)
			}
			if told := out.Text + out.Code; strings.Contains(told, secret) || strings.Contains(told, "127.0.0.1") {
				t.Errorf("the outcome tells %q", told)
			}
			if log.Len() == 0 || strings.Contains(log.String(), secret) {
				t.Errorf("the log has %q", log.String())
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	var log bytes.Buffer
	a, err := New(Config{URL: "http://" + l.Addr().String() + "/" + secret, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	_, out := fold(t.Context(), a, newCall())
	if out.Code != chat.CodeAgentUnavailable || strings.Contains(out.Text+log.String(), secret) {
		t.Errorf("PIL-130 PIL-131 nobody listens: got %+v", out)
	}
}

func TestTimeouts(t *testing.T) {
	for _, c := range []struct {
		name string
		h    func(w http.ResponseWriter, r *http.Request)
		l    agent.Limits
	}{
		{"PIL-130 no headers", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, agent.Limits{FirstByte: 50 * time.Millisecond}},
		{"PIL-130 headers but no byte", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, agent.Limits{FirstByte: 50 * time.Millisecond}},
		{"PIL-130 a byte and no more", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ":\n")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, agent.Limits{Idle: 50 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := serve(t, Config{Limits: c.l}, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				c.h(w, r)
			})
			if _, out := fold(t.Context(), a, newCall()); out.Code != chat.CodeAgentTimeout {
				t.Errorf("got %+v", out)
			}
		})
	}
	t.Run("the journal's own slowness is not the agent's", func(t *testing.T) {
		a := serve(t, Config{Limits: agent.Limits{Idle: 50 * time.Millisecond}}, events(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}`, `{"type":"RUN_FINISHED"}`))
		out := a.Run(t.Context(), newCall(), func(agent.Event) error {
			<-time.After(100 * time.Millisecond)
			return nil
		})
		if out.Status != chat.RunComplete {
			t.Errorf("got %+v", out)
		}
	})
}

func TestCancelClosesTheRequest(t *testing.T) {
	gone, hook := make(chan struct{}), make(chan string, 1)
	a := serve(t, Config{CancelURL: "/stop/{threadId}", Header: http.Header{"Authorization": {"T"}}}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasPrefix(r.URL.Path, "/stop/") {
			hook <- r.URL.EscapedPath() + " " + r.Header.Get("Authorization") + " " + string(body)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m\",\"delta\":\"a\"}\n\n")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(t.Context())
	call := newCall()
	call.Upstream = "up/1"
	out := a.Run(ctx, call, func(agent.Event) error {
		cancel()
		return nil
	})
	if out.Status != chat.RunCancelled {
		t.Errorf("PIL-097 got %+v", out)
	}
	<-gone
	a.Cancel(t.Context(), call)
	if got := <-hook; got != `/stop/up%2F1 T {"threadId":"up/1","runId":"seg"}` {
		t.Errorf("the hook was told %s", got)
	}
}

func TestConnectionIsReused(t *testing.T) {
	var opened atomic.Int32
	var mu sync.Mutex
	n := 0
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n++
		late := n%2 == 0
		mu.Unlock()
		events(`{"type":"RUN_STARTED"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}`, `{"type":"RUN_FINISHED"}`)(w, r)
		if late {
			// The end of the body comes after the end of the run.
			http.NewResponseController(w).Flush()
			<-time.After(20 * time.Millisecond)
			fmt.Fprint(w, ": bye\n\n")
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	a, err := New(Config{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for range 6 {
		if _, out := fold(t.Context(), a, newCall()); out.Status != chat.RunComplete {
			t.Fatalf("got %+v", out)
		}
	}
	if opened.Load() != 1 {
		t.Errorf("six calls took %d connections", opened.Load())
	}
}

func TestServerThatKeepsItsBodyOpen(t *testing.T) {
	for name, tick := range map[string]time.Duration{"in silence": time.Hour, "and talks on": 10 * time.Millisecond} {
		a := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
			events(`{"type":"RUN_FINISHED"}`)(w, r)
			for r.Context().Err() == nil {
				http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(tick):
					fmt.Fprint(w, ":\n")
				}
			}
		})
		began := time.Now()
		if _, out := fold(t.Context(), a, newCall()); out.Status != chat.RunComplete {
			t.Errorf("%s: got %+v", name, out)
		}
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("%s: the end took %v", name, d)
		}
	}
}

func TestFraming(t *testing.T) {
	for name, end := range map[string]string{"LF": "\n", "CRLF": "\r\n"} {
		a := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "Text/Event-Stream;charset=UTF-8")
			for _, l := range []string{
				": hello", "", "id: 1", "event: message", `data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m",`, `data: "delta":"é"}`, "", "retry: 10", "",
				`data:{"type":"RUN_FINISHED"}`, // no blank line follows
			} {
				for _, b := range []byte(l + end) {
					w.Write([]byte{b})
					http.NewResponseController(w).Flush()
				}
			}
		})
		if got := seen(fold(t.Context(), a, newCall())); got != "text \"é\"\ncomplete  " {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []Config{
		{},
		{URL: "localhost:80"},
		{URL: "ftp://x/"},
		{URL: "http://x", CancelURL: "/stop"},
		{URL: "http://x", Forwarded: []byte(`[]`)},
		{URL: "http://x", Forwarded: []byte(`{`)},
		{URL: "http://x", TodosPointer: "todos"},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("accepted %+v", c)
		}
	}
}

func TestAbilities(t *testing.T) {
	for in, want := range map[int]int{0: -1, 5: 5, HistoryNone: 0} {
		a, err := New(Config{URL: "http://x", History: in, Retry: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := a.History(); got != want || !a.Retry() {
			t.Errorf("History %d: got %d", in, got)
		}
	}
	var a any = &Agent{}
	if _, ok := a.(interface {
		agent.Agent
		agent.History
		agent.Retrier
		agent.Canceller
	}); !ok {
		t.Error("an ability is missing")
	}
}
