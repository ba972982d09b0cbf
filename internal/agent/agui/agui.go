// Package agui lets an AG-UI endpoint answer: it posts what the thread holds
// as a RunAgentInput and reads the stream of events that comes back, of AG-UI
// 1.0 and of the 0.x generation. What the agent means is translated here; that
// it keeps the rules of a thread is agent.Repair's work.
package agui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// HistoryNone sends only the message to answer: for agents that keep the
// conversation themselves, by its thread id.
const HistoryNone = -1

// DefaultTodos is where todos are looked for in an agent's state, and the type
// of the activity that is a list of todos.
const (
	DefaultTodosPointer  = "/todos"
	DefaultTodosActivity = "todos"
)

// DefaultMaxAttachments bounds the attachments of one request, in bytes.
const DefaultMaxAttachments = 48 << 20

// Config says where an agent is and how to speak with it. The zero value of a
// field is its default; only URL must be given.
type Config struct {
	URL string
	// Tools are the names of the agent's own tools, which no window may declare.
	Tools []string
	// Confirm are patterns of the endpoint's tools, and of clients', whose calls
	// wait for a person's approval.
	Confirm agent.Patterns
	// Header goes with every request; it may hold secrets.
	Header http.Header
	// Limits are those of a call; see their own defaults.
	Limits agent.Limits
	// History is how many messages travel: 0 all, n the last n, HistoryNone
	// the message to answer. With a limit, what this run has written already
	// does not travel either when it goes on.
	History int
	// Legacy speaks 0.x from the first request on: no protocolVersion, images
	// in the old form, no reasoning. Otherwise the agent's own first answer
	// tells what it speaks.
	Legacy bool
	// TodosPointer is the JSON pointer of the todos in the agent's state,
	// TodosActivity the activity type that is a list of them; "-" is none.
	TodosPointer, TodosActivity string
	// CancelURL is told, by POST of {"threadId","runId"}, that a run was
	// stopped; {threadId} in it stands for the thread's id. "" tells nobody
	// beyond the closed connection.
	CancelURL string
	// MaxAttachments bounds the bytes sent with one request; older ones are
	// left out first.
	MaxAttachments int64
	// Forwarded is an object sent as forwardedProps.
	Forwarded jsontext.Value
	// Retry allows a second attempt when an edge was lost before the first event.
	Retry bool
	// Log is told why calls fail, without addresses, headers or bodies; nil
	// discards.
	Log *slog.Logger
}

// Agent is an AG-UI endpoint. Its abilities: History, Retrier, Toolbox, Gated,
// Canceller.
type Agent struct {
	cfg  Config
	up   *agent.Upstream
	peer atomic.Int32 // the major version that the endpoint spoke last
}

// What is known of the other side's generation.
const (
	peerUnknown int32 = iota
	peerOld           // 0.x
	peerOne           // 1.x
)

// New checks the configuration and makes the agent.
func New(c Config) (*Agent, error) {
	if !webAddress(c.URL) {
		return nil, errors.New("agui: the agent's address must be an http or https URL")
	}
	if c.CancelURL != "" && !webAddress(strings.ReplaceAll(c.CancelURL, "{threadId}", "x")) {
		return nil, errors.New("agui: the address of the cancel hook must be an http or https URL")
	}
	if len(c.Forwarded) == 0 {
		c.Forwarded = jsontext.Value("{}")
	}
	if c.Forwarded.Kind() != '{' || !c.Forwarded.IsValid() {
		return nil, errors.New("agui: what is forwarded must be a JSON object")
	}
	if c.TodosPointer == "" {
		c.TodosPointer = DefaultTodosPointer
	}
	if c.TodosActivity == "" {
		c.TodosActivity = DefaultTodosActivity
	}
	if c.TodosPointer != "-" {
		if _, err := pointer(c.TodosPointer); err != nil {
			return nil, errors.New(`agui: where the todos are must be a JSON pointer such as "/todos"`)
		}
	}
	if c.MaxAttachments <= 0 {
		c.MaxAttachments = DefaultMaxAttachments
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	a := &Agent{cfg: c, up: agent.NewUpstream(c.URL, c.Header, c.Limits, c.Log)}
	if c.Legacy {
		a.peer.Store(peerOld)
	}
	return a, nil
}

func webAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// Close closes idle connections; calls at work go on.
func (a *Agent) Close() { a.up.Close() }

// History says how many messages a call should carry.
func (a *Agent) History() int {
	switch {
	case a.cfg.History == 0:
		return -1
	case a.cfg.History < 0:
		return 0
	}
	return a.cfg.History
}

// Tools are the names of the endpoint's own tools.
func (a *Agent) Tools() []string { return a.cfg.Tools }

// Confirm says whether calls of a tool wait for an approval.
func (a *Agent) Confirm(tool string) bool { return a.cfg.Confirm.Match(tool) }

// Retry says whether a lost run may be started again.
func (a *Agent) Retry() bool { return a.cfg.Retry }

// Run posts the call and streams what comes back. The request ends with ctx.
func (a *Agent) Run(ctx context.Context, call *agent.Call, emit func(agent.Event) error) agent.Outcome {
	in, err := a.input(ctx, call)
	if err != nil {
		if ctx.Err() != nil {
			return agent.Outcome{Status: chat.RunCancelled}
		}
		a.cfg.Log.Warn("the input for the agent could not be made", "error", err)
		return agent.Failed(chat.CodeAgentError, "the agent could not be given the message")
	}
	body, err := json.Marshal(in)
	if err != nil {
		return agent.Failed(chat.CodeAgentError, "the agent could not be given the message")
	}
	stream, failed := a.up.Open(ctx, body, call.Traceparent)
	if failed != nil {
		return *failed
	}
	defer stream.Close()
	r := newReader(a, call, emit)
	for {
		_, data, err := stream.Next()
		if err != nil {
			out := stream.Failed(err)
			stream.Abort()
			return r.broken(out)
		}
		out, err := r.event(data)
		switch {
		case err != nil:
			stream.Abort()
			return agent.Outcome{Status: chat.RunCancelled}
		case out != nil:
			return *out
		}
	}
}

// Cancel tells the configured hook that the run was stopped. It waits for the
// answer no longer than for a connection.
func (a *Agent) Cancel(ctx context.Context, call *agent.Call) {
	if a.cfg.CancelURL == "" {
		return
	}
	body, err := json.Marshal(struct {
		Thread string `json:"threadId"`
		Run    string `json:"runId"`
	}{call.Upstream, call.Segment})
	if err != nil {
		return
	}
	address := strings.ReplaceAll(a.cfg.CancelURL, "{threadId}", url.PathEscape(call.Upstream))
	if err := a.up.Tell(ctx, address, body); err != nil {
		a.cfg.Log.Warn("the agent could not be told of a stop", "error", err)
	}
}
