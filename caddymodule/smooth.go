package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/parlance-gateway/parlance/internal/dialect/pilotoo"
	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
	"github.com/parlance-gateway/parlance/internal/edge"
)

// Smooth configures the smooth-operator dialect. It is served where it is
// configured.
type Smooth struct {
	// The path of the WebSocket. Default: `/ws`.
	Path string `json:"path,omitempty"`

	// Which agent an agent id of a client means, by the agent's name. Where there
	// are none every UUID means the first agent; an agent's name always means the
	// agent.
	AgentIDs map[string]string `json:"agent_ids,omitempty"`

	// The agents that clients of this protocol may talk to, by name. Default: all
	// of the handler's.
	Agents []string `json:"agents,omitempty"`

	// The pages that may talk to an agent, by the agent's name, among those that
	// may connect at all: origins as in the handler's `origins`, `*` for what is no
	// page too. Default: every page that may connect.
	AgentOrigins map[string][]string `json:"agent_origins,omitempty"`

	// Serves `list_conversations` and `rename_conversation` too, which the
	// protocol does not have.
	Extras bool `json:"extras,omitempty"`

	// Admits who shows no credential, or a bad one, as nobody in particular: who
	// knows a session's id may use it.
	Anonymous bool `json:"anonymous,omitempty"`

	// How long a turn waits for its person. Default: 5m; below 0 for as long as
	// it takes.
	Park caddy.Duration `json:"park,omitempty"`

	// What a turn does when its connection is lost: `continue`, the default, or
	// `cancel`.
	OnDisconnect string `json:"on_disconnect,omitempty"`

	// How often a turn tells that it goes on. Default: 30s; below 0 never.
	Keepalive caddy.Duration `json:"keepalive,omitempty"`

	// Refuses actions with members that the protocol does not know.
	Strict bool `json:"strict,omitempty"`

	// The models and the skills that a client may choose, with `*` for any
	// characters but a slash. Default: none.
	Models []string `json:"models,omitempty"`
	Skills []string `json:"skills,omitempty"`

	// The secret that a back end signs an `authContext` with, at least 16 bytes.
	// Keep it in a placeholder. Without it no `authContext` is looked at.
	AuthKey string `json:"auth_key,omitempty"`

	// Cards beside the protocol's own two.
	Interactions []*Interaction `json:"interactions,omitempty"`

	// Who sends one-time codes, and checks them. Without it an agent that asks
	// for one is told that its person declined.
	OTP *OTP `json:"otp,omitempty"`

	// What a turn does whose agent asks for a code: `park`, the default, waits for
	// it; `resend` lets it end, and the person sends the message again once the
	// code was right.
	OTPResume string `json:"otp_resume,omitempty"`
}

// smoothPath is where the dialect is by default.
const smoothPath = "/ws"

// maxInteractions bounds the cards of a site: an agent is offered each.
const maxInteractions = 32

func (h *Handler) makeSmooth() error {
	p := h.Smooth
	if p == nil {
		return nil
	}
	site := &edge.Smooth{Path: smoothPath, Config: smooth.Config{
		IDs: p.AgentIDs, Allowed: p.Agents, Extras: p.Extras, Anonymous: p.Anonymous, Strict: p.Strict, Models: p.Models, Skills: p.Skills,
		Park: time.Duration(p.Park), Keepalive: time.Duration(p.Keepalive),
	}}
	var err error
	if p.Path != "" {
		if site.Path, err = plainPath(p.Path); err != nil {
			return err
		}
	}
	if other := h.over(site.Path); other != "" {
		return fmt.Errorf("its path %s is %s too", site.Path, other)
	}
	switch p.OnDisconnect {
	case "", "continue":
	case "cancel":
		site.CancelOnDisconnect = true
	default:
		return fmt.Errorf("on_disconnect must be cancel or continue, not %q", p.OnDisconnect)
	}
	for _, pattern := range slices.Concat(p.Models, p.Skills) {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("%q is no pattern: write a name, with * for any characters", pattern)
		}
	}
	if site.Origins, err = agentOrigins(p.AgentOrigins); err != nil {
		return err
	}
	if site.AuthKey, err = authKey(p.AuthKey); err != nil {
		return fmt.Errorf("auth_key: %w", err)
	}
	if site.Kinds, err = kinds(p.Interactions); err != nil {
		return err
	}
	if p.OTP != nil {
		if site.Codes, err = p.OTP.make(); err != nil {
			return fmt.Errorf("otp: %w", err)
		}
		site.CodesPerAddress = p.OTP.PerAddress
	}
	switch p.OTPResume {
	case "", "park":
	case "resend":
		site.Resend = true
	default:
		return fmt.Errorf("otp_resume must be park or resend, not %q", p.OTPResume)
	}
	if p.OTPResume != "" && p.OTP == nil {
		return errors.New("otp_resume needs an otp block, which says who sends codes")
	}
	h.site.Smooth = site
	return nil
}

// over names who else answers at a path, or is "".
func (h *Handler) over(path string) string {
	rest, below := strings.CutPrefix(path, h.site.Pilotoo.Prefix)
	switch s := h.site; {
	case s.Pilotoo.Routes && below && pilotoo.IsRoute(rest):
		return "a route of pilotoo"
	case strings.HasPrefix(path, s.Pilotoo.Path):
		return "pilotoo's"
	case s.Pingerchips != nil && (strings.HasPrefix(path, s.Pingerchips.Path) || path == s.Pingerchips.Auth):
		return "pingerchips'"
	case path == h.health || path == h.ready:
		return "a load balancer's"
	}
	return ""
}

// checkIDs says whether each agent id means an agent of the handler.
func (h *Handler) checkIDs() error {
	if h.Smooth == nil {
		return nil
	}
	has := func(name string) bool {
		return slices.ContainsFunc(h.site.Agents, func(a edge.NamedAgent) bool { return a.Name == name })
	}
	for _, name := range h.Smooth.Agents {
		if !has(name) {
			return fmt.Errorf("smooth: agents names %q, and no agent has that name", name)
		}
	}
	for name := range h.Smooth.AgentOrigins {
		if !has(name) {
			return fmt.Errorf("smooth: agent_origins names %q, and no agent has that name", name)
		}
	}
	for id, name := range h.Smooth.AgentIDs {
		if id == "" || !has(name) {
			return fmt.Errorf("smooth: agent_id %q means %q, and no agent has that name", id, name)
		}
	}
	return nil
}

// agentOrigins makes the decisions on pages that talk to an agent.
func agentOrigins(lists map[string][]string) (map[string]func(string) bool, error) {
	decide := make(map[string]func(string) bool, len(lists))
	for name, texts := range lists {
		var list []origin
		any := false
		for _, text := range texts {
			if text == "*" {
				any = true
				continue
			}
			o, err := parseOrigin(text)
			if err != nil {
				return nil, fmt.Errorf("agent_origins of %q: %w", name, err)
			}
			list = append(list, o)
		}
		decide[name] = func(text string) bool {
			u, err := url.Parse(text)
			return any || err == nil && u.Host != "" && slices.ContainsFunc(list, func(o origin) bool { return o.is(u) })
		}
	}
	return decide, nil
}

// authKey reads the secret; no error repeats it.
func authKey(s string) ([]byte, error) {
	if s == "" {
		return nil, nil
	}
	s, err := replaced(s)
	if err != nil {
		return nil, err
	}
	if s = strings.TrimRight(s, "\r\n"); len(s) < minSecret {
		return nil, fmt.Errorf("it has fewer than %d bytes", minSecret)
	}
	return []byte(s), nil
}

// readSmooth reads:
//
//	smooth [<path>] {
//		agent_id      <id> <agent>
//		agents        <name...>
//		agent_origins <name> <origin...>
//		extras
//		anonymous
//		park          <duration>|none
//		on_disconnect cancel|continue
//		keepalive     <duration>|none
//		strict
//		models        <pattern...>
//		skills        <pattern...>
//		auth_key      <secret>
//		interaction   <kind> { ... }
//		otp           { ... }
//		otp_resume    park|resend
//	}
func (h *Handler) readSmooth(d *caddyfile.Dispenser) error {
	p := new(Smooth)
	h.Smooth = p
	if d.NextArg() {
		p.Path = d.Val()
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	return readBlock(d, "smooth", map[string]option{
		"agent_id": many(func() error {
			var id, name string
			if !d.Args(&id, &name) {
				return d.Err("agent_id needs the id and the name of its agent")
			}
			if _, ok := p.AgentIDs[id]; ok {
				return d.Errf("agent_id %q is there twice", id)
			}
			if p.AgentIDs == nil {
				p.AgentIDs = make(map[string]string)
			}
			p.AgentIDs[id] = name
			return nil
		}),
		"agents": texts(d, &p.Agents),
		"agent_origins": many(func() error {
			if !d.NextArg() {
				return d.ArgErr()
			}
			name := d.Val()
			list := d.RemainingArgs()
			if len(list) == 0 {
				return d.Err("agent_origins needs the name of an agent and one or more origins")
			}
			if p.AgentOrigins == nil {
				p.AgentOrigins = make(map[string][]string)
			}
			p.AgentOrigins[name] = append(p.AgentOrigins[name], list...)
			return nil
		}),
		"extras":        flag(&p.Extras),
		"anonymous":     flag(&p.Anonymous),
		"park":          duration(d, &p.Park, true),
		"on_disconnect": text(d, &p.OnDisconnect),
		"keepalive":     duration(d, &p.Keepalive, true),
		"strict":        flag(&p.Strict),
		"models":        texts(d, &p.Models),
		"skills":        texts(d, &p.Skills),
		"auth_key": once(func() error {
			if !d.Args(&p.AuthKey) || p.AuthKey == "" || d.NextArg() { // which is not to be repeated
				return d.Err("auth_key needs one value: put it in quotes")
			}
			return nil
		}),
		"interaction": many(func() error { return p.readInteraction(d) }),
		"otp":         once(func() error { return p.readOTP(d) }),
		"otp_resume":  text(d, &p.OTPResume),
	}, nil)
}

// opensSmooth says whether a request would open a smooth-operator socket.
func (h *Handler) opensSmooth(r *http.Request) bool {
	return h.site.Smooth != nil && r.Method == http.MethodGet && r.URL.Path == h.site.Smooth.Path
}

// errStarting is what a request hears that came before the configuration had
// begun. Caddy logs an error together with the request's address, so one that
// has a token in it is answered here.
func (h *Handler) errStarting(w http.ResponseWriter, r *http.Request, err error) error {
	if !h.opensSmooth(r) && !r.URL.Query().Has("token") {
		return caddyhttp.Error(http.StatusServiceUnavailable, err)
	}
	w.Header().Set("Retry-After", "1")
	http.Error(w, "try again later", http.StatusServiceUnavailable)
	return nil
}

// tellOfLogs reminds of what Caddy writes itself.
func (h *Handler) tellOfLogs(s *caddyhttp.Server) {
	if h.Smooth != nil && len(h.Auth) > 0 && s != nil && s.Logs != nil {
		h.logger.Warn("browsers put their token into the address of the smooth-operator socket, and this server logs addresses: "+
			"delete the query parameter token in the log's filter, as in Caddyfile.example, if that is not done yet", "path", h.site.Smooth.Path)
	}
}
