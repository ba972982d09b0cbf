package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// spans is a collector. Each edge sends to a path of its own: /0, /1 and so on.
type spans struct {
	t   *testing.T
	srv *httptest.Server

	mu   sync.Mutex
	list []*span
}

// span is one that an edge sent.
type span struct {
	*otlp.Span
	edge string
}

func newSpans(t *testing.T) *spans {
	s := &spans{t: t}
	s.srv = httptest.NewServer(s)
	t.Cleanup(s.srv.Close)
	return s
}

func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	var in collector.ExportTraceServiceRequest
	edge, ok := strings.CutSuffix(r.URL.Path, "/v1/traces")
	if !ok || proto.Unmarshal(b, &in) != nil {
		http.Error(w, "no spans", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range in.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, sp := range ss.Spans {
				s.list = append(s.list, &span{sp, strings.TrimPrefix(edge, "/")})
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// one is the only span of that name on the edge, below the one that is named if
// that is.
func (s *spans) one(edge, name string, below *span) *span {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*span
	var names []string
	for _, sp := range s.list {
		names = append(names, sp.Name+" of "+sp.edge)
		if sp.edge == edge && sp.Name == name && (below == nil || bytes.Equal(sp.ParentSpanId, below.SpanId)) {
			found = append(found, sp)
		}
	}
	if len(found) == 0 || len(found) > 1 && below == nil {
		s.t.Fatalf("%d spans %q of edge %s, want one; there are %q", len(found), name, edge, names)
	}
	return found[0]
}

// reaches says that one comes to the other by parents and links, over spans that
// were sent.
func (s *spans) reaches(from, to *span) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent, seen := map[string]*span{}, map[*span]bool{}
	for _, sp := range s.list {
		sent[place(sp.TraceId, sp.SpanId)] = sp
	}
	for next := []*span{from}; len(next) > 0; {
		sp := next[0]
		next = next[1:]
		if sp == to {
			return true
		}
		if sp == nil || seen[sp] {
			continue
		}
		seen[sp] = true
		next = append(next, sent[place(sp.TraceId, sp.ParentSpanId)])
		for _, l := range sp.Links {
			next = append(next, sent[place(l.TraceId, l.SpanId)])
		}
	}
	return false
}

// place is where a span is, as traceparent writes it.
func place(trace, id []byte) string { return fmt.Sprintf("%x-%x", trace, id) }

// TestSpansFollowAMessageOverEdges: what two processes send of one message hangs
// together, from the socket that it came by to the agent, and to the window at the
// other edge.
func TestSpansFollowAMessageOverEdges(t *testing.T) {
	t.Parallel()
	all, store := newSpans(t), redistest.Start(t)
	f := &fleet{t: t, bot: newBot(t)}
	for i := range 2 {
		f.join(nil, "redis "+store.URL(), "drain 3s", "drain 3s\n\t\ttracing")
		f.edges[i].env = []string{fmt.Sprintf("OTEL_EXPORTER_OTLP_ENDPOINT=%s/%d", all.srv.URL, i)}
	}
	f.start()
	cookie := browserCookie(t, f.edges[0].gateway)
	thread := newThread(t, f.edges[0].gateway, cookie)
	var panes [2]*pane
	for i, e := range f.edges {
		p, err := openPane(t.Context(), e.base, cookie)
		if err != nil {
			t.Fatal(err)
		}
		defer p.close()
		if err := p.command(1, "thread:messages", map[string]any{"threadId": thread}); err != nil {
			t.Fatal(err)
		}
		panes[i] = p
	}
	if err := panes[0].command(2, "run:start", map[string]any{"threadId": thread, "messageId": "m", "input": "n=2 d=1"}); err != nil {
		t.Fatal(err)
	}
	for _, see := range []struct {
		p    *pane
		what string
	}{{panes[1], strings.TrimSpace(word(0, 1))}, {panes[1], "RUN_FINISHED"}, {panes[0], "RUN_FINISHED"}} {
		if err := see.p.until(see.what); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range panes {
		p.close()
	}
	// An edge that ends has sent all of its spans.
	var ends sync.WaitGroup
	for _, e := range f.edges {
		ends.Go(e.stop)
	}
	ends.Wait()

	command := all.one("0", "run:start thread", nil)
	segment, call := all.one("0", "segment bot", nil), all.one("0", "invoke_agent bot", nil)
	arrival := all.one("1", "deliver thread", nil)
	for _, c := range []struct {
		what     string
		from, to *span
	}{
		{"the command to its window's handshake", command, all.one("0", "handshake pilotoo", nil)},
		{"the run to the command", all.one("0", "run bot", nil), command},
		{"the segment to the command", segment, command},
		{"the agent's call to its segment", call, segment},
		{"the agent's call to the command", call, command},
		{"the message's commit to the command", all.one("0", "commit thread", command), command},
		{"a commit of the run to the command", all.one("0", "commit thread", segment), command},
		{"what reached the second window to the command", arrival, command},
		{"what reached the second window to its handshake", arrival, all.one("1", "handshake pilotoo", nil)},
	} {
		if !all.reaches(c.from, c.to) {
			t.Errorf("no parents and links lead from %s", c.what)
		}
	}
	calls, _ := f.bot.books()
	if want := "00-" + place(call.TraceId, call.SpanId) + "-01"; len(calls) != 1 || calls[0].Above != want {
		t.Errorf("the agent saw %+v, want one call with traceparent %s", calls, want)
	}
}
