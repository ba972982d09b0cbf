package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/agent/agui"
	"github.com/parlance-gateway/parlance/internal/agent/echo"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/edge"
)

// The kinds of agents.
const (
	kindAGUI   = "agui"
	kindEcho   = "echo"
	kindSocket = "socket"
)

// Agent is something that answers.
type Agent struct {
	// The name that threads know the agent by. Default: the kind.
	Name string `json:"name,omitempty"`

	// `agui` for an AG-UI endpoint, `socket` for a process that joins threads
	// with the secret of an app, or `echo` for the built-in agent that repeats
	// what it is told.
	Kind string `json:"kind"`

	// The address of an AG-UI endpoint.
	URL string `json:"url,omitempty"`

	// Sent with every request to the agent. Placeholders such as `{env.NAME}`
	// and `{file./path}` are replaced when the configuration is loaded; keep
	// secrets in them.
	Headers map[string][]string `json:"headers,omitempty"`

	// Bounds on the answer.
	Timeouts *Timeouts `json:"timeouts,omitempty"`

	// The largest event of an answer, in bytes. Default: 10 MiB.
	MaxEvent int `json:"max_event,omitempty"`

	// The largest answer, in bytes. Default: 256 MiB.
	MaxBody int64 `json:"max_body,omitempty"`

	// The most bytes of attachments that travel with one request; older ones
	// are left out first. Default: 48 MiB.
	MaxAttachments int64 `json:"max_attachments,omitempty"`

	// How many of a branch's last messages travel: `all`, the default, a
	// number, or `none` for an agent that keeps the conversation itself; the
	// message to answer always does.
	History string `json:"history,omitempty"`

	// Which id the agent knows a conversation by: `per_branch`, the default,
	// gives each branch of a thread and each of several runs at once its own;
	// `same` gives all the thread's. Agents of one handler agree in it.
	Thread string `json:"thread,omitempty"`

	// The names of the agent's own tools: a window that declares a client tool
	// of such a name is refused.
	Tools []string `json:"tools,omitempty"`

	// Tools whose calls wait for a person's approval, where the agent does not
	// ask itself; `*` stands for any characters.
	ConfirmTools []string `json:"confirm_tools,omitempty"`

	// Allows to call the agent again if the process was lost before the first
	// event of the answer.
	Retry bool `json:"retry,omitempty"`

	// Speaks AG-UI 0.x from the first request on. Otherwise the agent's own
	// first answer tells.
	Legacy bool `json:"legacy,omitempty"`

	// An address that is told by POST of `{"threadId","runId"}` that a run was
	// stopped, beside the closed connection; `{threadId}` in it stands for the
	// thread's id.
	CancelHook string `json:"cancel_hook,omitempty"`

	// The JSON pointer of the todos in the agent's state, or `-` for none.
	// Default: `/todos`.
	TodosPointer string `json:"todos_pointer,omitempty"`

	// The type of the activity that is a list of todos, or `-` for none.
	// Default: `todos`.
	TodosActivity string `json:"todos_activity,omitempty"`

	// An object that is sent as `forwardedProps`.
	Forward json.RawMessage `json:"forward,omitempty"`

	// The pause of the echo agent between two words. Default: 60ms; below 0 is
	// none.
	Delay caddy.Duration `json:"delay,omitempty"`

	// How long a socket agent may give no sign of life while it has a run.
	// Default: 5m; below 0 is no limit.
	Idle caddy.Duration `json:"idle,omitempty"`

	// How a socket agent is told that a run waits for it. Default: it is not, and
	// looks itself.
	Wake *Wake `json:"wake,omitempty"`
}

// Timeouts bounds one answer of an agent.
type Timeouts struct {
	// For the connection. Default: 10s.
	Connect caddy.Duration `json:"connect,omitempty"`

	// From the request to the first byte of the answer's body. Default: 1m.
	FirstByte caddy.Duration `json:"first_byte,omitempty"`

	// Between two bytes; a comment in the stream is life enough. Default: 2m.
	Idle caddy.Duration `json:"idle,omitempty"`
}

// makeAgents makes what answers the site's threads.
func (h *Handler) makeAgents() error {
	if len(h.Agents) == 0 {
		return errors.New("no agent: write `parlance URL`, `parlance echo`, or a block with `agent NAME KIND URL`")
	}
	names := make(map[string]bool)
	for i, a := range h.Agents {
		if a == nil {
			return errors.New("an agent is null")
		}
		name := a.Name
		if name == "" {
			name = a.Kind
		}
		if !chat.ValidID(name) {
			return errors.New("an agent's name is not 1 to 128 characters")
		}
		if names[name] {
			return fmt.Errorf("agent %q is there twice", name)
		}
		names[name] = true
		if (a.Thread == "same") != (h.Agents[0].Thread == "same") {
			return errors.New("the agents of a handler differ in thread: this version needs one for all")
		}
		made, err := h.makeAgent(a, name)
		if err != nil {
			return fmt.Errorf("agent %q: %w", name, err)
		}
		same, err := json.Marshal(a)
		if err != nil {
			return fmt.Errorf("agent %q: %w", name, err)
		}
		h.site.Agents = append(h.site.Agents, edge.NamedAgent{Name: name, Agent: made, Same: string(same)})
		if i == 0 {
			h.site.Limits.SameUpstream = a.Thread == "same"
		}
	}
	return nil
}

func (h *Handler) makeAgent(a *Agent, name string) (agent.Agent, error) {
	switch a.Thread {
	case "", "per_branch", "same":
	default:
		return nil, fmt.Errorf("thread must be per_branch or same, not %q", a.Thread)
	}
	switch a.Kind {
	case kindAGUI:
		switch {
		case a.Delay != 0:
			return nil, errors.New("delay is an option of echo")
		case a.Idle != 0, a.Wake != nil:
			return nil, errors.New("idle and wake are options of socket")
		}
		return h.makeAGUI(a, name)
	case kindEcho:
		plain := Agent{Name: a.Name, Kind: a.Kind, Thread: a.Thread, Delay: a.Delay}
		if !plain.equal(a) {
			return nil, errors.New("echo has the options delay and thread only")
		}
		return echo.New(echo.Config{Delay: time.Duration(a.Delay)}), nil
	case kindSocket:
		return h.makeSocket(a)
	case "openai":
		return nil, errors.New(noKind(a.Kind))
	}
	return nil, fmt.Errorf("unknown kind %q: this version has agui, socket and echo", a.Kind)
}

func (a *Agent) equal(b *Agent) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func (h *Handler) makeAGUI(a *Agent, name string) (agent.Agent, error) {
	c := agui.Config{
		Header:         make(http.Header),
		Limits:         agent.Limits{MaxEvent: a.MaxEvent, MaxBody: a.MaxBody},
		Legacy:         a.Legacy,
		TodosPointer:   a.TodosPointer,
		TodosActivity:  a.TodosActivity,
		MaxAttachments: a.MaxAttachments,
		Forwarded:      jsontext.Value(a.Forward),
		Retry:          a.Retry,
		Tools:          a.Tools,
		Confirm:        a.ConfirmTools,
		Log:            slog.New(agentLog).With("realm", h.site.Realm, "agent", name),
	}
	if t := a.Timeouts; t != nil {
		if min(t.Connect, t.FirstByte, t.Idle) < 0 {
			return nil, errors.New("a timeout must not be negative")
		}
		c.Limits.Connect, c.Limits.FirstByte, c.Limits.Idle = time.Duration(t.Connect), time.Duration(t.FirstByte), time.Duration(t.Idle)
	}
	if a.MaxEvent < 0 || a.MaxBody < 0 || a.MaxAttachments < 0 {
		return nil, errors.New("a size must not be negative")
	}
	err := confirmable(a.ConfirmTools)
	if err != nil {
		return nil, err
	}
	if c.History, err = history(a.History); err != nil {
		return nil, err
	}
	if c.URL, err = replaced(a.URL); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	// {threadId} is not Caddy's: it stays for the agent to fill in.
	if c.CancelURL, err = replacedBut(a.CancelHook, "{threadId}"); err != nil {
		return nil, fmt.Errorf("cancel_hook: %w", err)
	}
	for name, values := range a.Headers {
		if !validHeader(name) {
			return nil, fmt.Errorf("%q is no name of a header", name)
		}
		for _, v := range values {
			if v, err = replaced(v); err != nil {
				return nil, fmt.Errorf("header %s: %w", name, err)
			}
			if !validValue(v) {
				return nil, fmt.Errorf("header %s: the value has characters that a header cannot have", name)
			}
			c.Header.Add(name, v)
		}
	}
	made, err := agui.New(c)
	if err != nil {
		return nil, err
	}
	h.closers = append(h.closers, made.Close)
	return made, nil
}
