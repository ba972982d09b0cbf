package caddymodule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect/pilotoo"
	"github.com/parlance-gateway/parlance/internal/edge"
)

// Pilotoo configures the Pilotoo dialect.
type Pilotoo struct {
	// The path of the Socket.IO endpoint. Default: `/socket.io/*`.
	Path string `json:"path,omitempty"`

	// The largest message that a client may send, in bytes. The default admits
	// eight attachments of 5 MiB in one message.
	Frame int64 `json:"frame,omitempty"`

	// Put before the paths of the HTTP routes (`/health`, `/protocol`,
	// `/conversations`, `/attachments` and those for an upstream). Default: none,
	// they are at the root of the site.
	Routes string `json:"routes,omitempty"`

	// Serves no HTTP routes.
	NoRoutes bool `json:"no_routes,omitempty"`

	// The base URL of a service for the routes of the protocol that a gateway
	// has nothing to say to (`/agents`, `/usage`, `/schedules` and others).
	// Without it they answer 501.
	Upstream string `json:"upstream,omitempty"`

	// What a new message does while the sender's own run waits for an answer:
	// `withdraw` the question, the default, or `refuse` the message.
	WhileWaiting string `json:"while_waiting,omitempty"`

	// Opens a conversation that a message names and nobody has created. The
	// default is an error.
	AutoCreateThreads bool `json:"auto_create_threads,omitempty"`
}

// Limits bounds what clients and agents may use. A duration below 0 is no limit.
type Limits struct {
	// Live runs of one thread. Default: 8.
	RunsPerThread int `json:"runs_per_thread,omitempty"`

	// Runs at work that one client began, over all its threads. Default: 32.
	RunsPerClient int `json:"runs_per_client,omitempty"`

	// Threads that one connection may watch. Default: 256.
	RoomsPerConnection int `json:"rooms_per_connection,omitempty"`

	// Sockets of one client. Default: 50.
	ConnectionsPerClient int `json:"connections_per_client,omitempty"`

	// Commands that one client may send on a connection, on average; three times
	// as many may come at once. Default: 20.
	CommandsPerSecond float64 `json:"commands_per_second,omitempty"`

	// How long a run may work between two questions. Default: 1h, with an app 30m.
	RunTimeout caddy.Duration `json:"run_timeout,omitempty"`

	// How long a question waits for its answer. Default: no limit.
	PauseTimeout caddy.Duration `json:"pause_timeout,omitempty"`

	// How long further pieces of text are gathered before they are stored and
	// sent together. Default: 40ms; below 0 each is sent as it comes.
	Pace caddy.Duration `json:"pace,omitempty"`
}

// makeSite turns the options into what the hub takes.
func (h *Handler) makeSite() error {
	s := &edge.Site{Realm: h.Realm}
	if s.Realm == "" {
		s.Realm = defaultRealm
	}
	if !chat.ValidID(s.Realm) {
		return errors.New("realm: not a name of 1 to 128 characters")
	}
	h.site = s
	var err error
	if s.Origins, err = h.origins(); err != nil {
		return fmt.Errorf("origins: %w", err)
	}
	if h.Page != "" {
		if s.Page, err = folder(h.Page); err != nil {
			return fmt.Errorf("page: %w", err)
		}
	}
	if h.Operator != nil {
		if err := h.Operator.make(); err != nil {
			return fmt.Errorf("operator: %w", err)
		}
	}
	if err := h.makePilotoo(); err != nil {
		return fmt.Errorf("pilotoo: %w", err)
	}
	if err := h.makePingerchips(); err != nil {
		return fmt.Errorf("pingerchips: %w", err)
	}
	if err := h.makeApps(); err != nil {
		return err
	}
	if err := h.makeProbes(); err != nil {
		return err
	}
	if err := h.makeSmooth(); err != nil {
		return fmt.Errorf("smooth: %w", err)
	}
	if h.Page != "" && !h.site.Pilotoo.Routes {
		return errors.New("page: it needs the routes of pilotoo, which are switched off")
	}
	if err := h.makeLimits(); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	if err := h.makeArchive(); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	if err := h.makeAuth(); err != nil {
		return err
	}
	if err := h.makeAgents(); err != nil {
		return err
	}
	return h.checkIDs()
}

func (h *Handler) makePilotoo() error {
	var p Pilotoo
	if h.Pilotoo != nil {
		p = *h.Pilotoo
	}
	site := &edge.Pilotoo{Path: "/socket.io/", Frame: p.Frame, Routes: !p.NoRoutes}
	h.site.Pilotoo = site
	var err error
	if p.Path != "" {
		if site.Path, err = folder(p.Path); err != nil {
			return err
		}
	}
	switch {
	case p.Frame < 0:
		return errors.New("frame must not be negative")
	case p.Frame == 0:
		site.Frame = pilotoo.MaxPayload
	}
	if p.NoRoutes && p.Routes != "" {
		return errors.New("routes are given a prefix and switched off")
	}
	if p.Routes != "" {
		if site.Prefix, err = folder(p.Routes); err != nil {
			return fmt.Errorf("routes: %w", err)
		}
		site.Prefix = strings.TrimSuffix(site.Prefix, "/")
	}
	if p.Upstream != "" {
		if p.NoRoutes {
			return errors.New("an upstream needs the routes, which are switched off")
		}
		if site.Upstream, err = h.upstream(p.Upstream); err != nil {
			return fmt.Errorf("upstream: %w", err)
		}
	}
	switch p.WhileWaiting {
	case "", "withdraw":
	case "refuse":
		h.site.Rules.RefuseWaiting = true
	default:
		return fmt.Errorf("while_waiting must be withdraw or refuse, not %q", p.WhileWaiting)
	}
	h.site.Rules.AutoCreate = p.AutoCreateThreads
	return nil
}

func (h *Handler) makeLimits() error {
	var l Limits
	if h.Limits != nil {
		l = *h.Limits
	}
	for _, n := range []float64{float64(l.RunsPerThread), float64(l.RunsPerClient), float64(l.RoomsPerConnection), float64(l.ConnectionsPerClient), l.CommandsPerSecond} {
		if n < 0 {
			return errors.New("a number must not be negative")
		}
	}
	rules := &h.site.Rules
	rules.RoomsPerConnection = l.RoomsPerConnection
	rules.ConnectionsPerClient = l.ConnectionsPerClient
	rules.CommandsPerSecond = l.CommandsPerSecond
	if l.CommandsPerSecond > 0 {
		rules.CommandBurst = max(1, int(min(3*l.CommandsPerSecond, 1e6)))
	}
	h.site.Limits = edge.Limits{
		RunsPerThread: l.RunsPerThread,
		RunsPerClient: l.RunsPerClient,
		Pace:          time.Duration(l.Pace),
		RunTimeout:    time.Duration(l.RunTimeout),
		PauseTimeout:  time.Duration(l.PauseTimeout),
	}
	return nil
}

// folder reads a path such as "/chat", "/chat/" or "/chat/*" as the prefix
// "/chat/".
func folder(path string) (string, error) {
	path = strings.TrimSuffix(path, "*")
	switch {
	case !strings.HasPrefix(path, "/"):
		return "", errors.New("a path must begin with /")
	case strings.ContainsAny(path, "*?#{}%\\ ") || strings.Contains(path, "//"):
		return "", errors.New("a path is plain text with * only at its end")
	}
	return strings.TrimSuffix(path, "/") + "/", nil
}
