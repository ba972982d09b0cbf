package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/identity"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// defaultRealm is the realm of handlers that name none.
const defaultRealm = "default"

// Handler serves chats: clients connect to it, agents answer behind it. A
// request that is for none of its paths goes to the next handler.
type Handler struct {
	// The wall around this site's threads. Handlers with the same realm share
	// threads and agents on purpose; sites that must not see each other's
	// threads differ in it. Default: `default`.
	Realm string `json:"realm,omitempty"`

	// Tells this handler from others of its realm. Connections follow the
	// handler of their name through reloads. The default is made from the realm,
	// the addresses of the server and the path; give names where handlers are
	// likely to change places.
	Name string `json:"name,omitempty"`

	// What answers. The first is the default of new threads.
	Agents []*Agent `json:"agents,omitempty"`

	// Who is admitted, in the order in which they are asked. With none, each
	// browser is its own subject by a signed cookie.
	Auth []*Auth `json:"auth,omitempty"`

	// The Pilotoo dialect, over Socket.IO. Default: at `/socket.io/`.
	Pilotoo *Pilotoo `json:"pilotoo,omitempty"`

	// The Pingerchips dialect, over Phoenix channels. Default: at `/socket/`, if
	// there is an app.
	Pingerchips *Pingerchips `json:"pingerchips,omitempty"`

	// The applications that vouch for the users of the Pingerchips dialect.
	Apps []*PingerchipsApp `json:"apps,omitempty"`

	// The smooth-operator dialect. Default: not served.
	Smooth *Smooth `json:"smooth,omitempty"`

	// Where pages of other hosts may connect from, beside the site's own:
	// `https://app.example.com`, `app.example.com` (http or https),
	// `*.example.com`, or `*` for all, which needs an `auth` that takes tokens
	// only from where a foreign page cannot make a browser send them.
	Origins []string `json:"origins,omitempty"`

	// Where the demonstration page is served. Default: nowhere.
	Page string `json:"page,omitempty"`

	// The operator's page. Default: only on Caddy's admin endpoint.
	Operator *Operator `json:"operator,omitempty"`

	// Bounds on what clients and agents may use.
	Limits *Limits `json:"limits,omitempty"`

	// Moves older messages of quiet threads out of the journal. Default: none.
	Archive *Archive `json:"archive,omitempty"`

	// A path that answers 200 to load balancers while the process serves, as
	// Pilotoo's own `/health` does. Default: no other path.
	Health string `json:"health,omitempty"`

	// The path that answers 200 to load balancers while new sockets are taken,
	// and 503 with one word while they are not: `starting`, `draining` or
	// `journal`. Or `off`. Default: `/ready` behind the prefix of Pilotoo's
	// routes; none if those are off.
	Ready string `json:"ready,omitempty"`

	app     *App
	server  string // the addresses of the server around
	site    *edge.Site
	cookies []string // that may carry a token
	metas   []string // of Caddy's user that matter
	warmers []func() // called when the site is current
	closers []func() // called when it is not any more
	health  string   // the paths of probes, or ""
	ready   string
	config  string // as configured, to compare handlers by
	logger  *slog.Logger
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.parlance", New: func() caddy.Module { return new(Handler) }}
}

// Provision makes the handler's site and gives it to the app. It opens nothing
// and asks no network.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Slogger()
	if err := h.remember(); err != nil {
		return err
	}
	server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if server != nil {
		h.server = strings.Join(server.Listen, ",")
	}
	if err := h.makeSite(); err != nil {
		return err
	}
	h.tellOfLogs(server)
	app, err := ctx.App("parlance")
	if err != nil {
		return err
	}
	h.app = app.(*App)
	return h.app.add(h)
}

// remember keeps what was configured, before defaults and secrets are in it.
func (h *Handler) remember() error {
	named := *h
	named.Name = ""
	config, err := json.Marshal(&named)
	h.config = string(config)
	return err
}

// errTogether: two handlers fell into the default realm and are not meant to
// (DESIGN.md §8).
var errTogether = errors.New("two parlance handlers differ and at least one names no realm: " +
	"give each a realm of its own, or name the same realm in both if they shall share their threads")

// together says whether two handlers may be in one configuration.
func (h *Handler) together(other *Handler) error {
	unnamed := h.Realm == "" || other.Realm == ""
	switch a, b := h.site, other.site; {
	case a.Realm != b.Realm:
	case unnamed && h.config != other.config:
		return errTogether
	case a.Limits != b.Limits:
		return fmt.Errorf("two handlers of realm %q differ in thread, archive, runs_per_thread, runs_per_client, run_timeout, pause_timeout or pace, "+
			"which hold for a realm: write the same in both", a.Realm)
	case a.Agents[0].Name != b.Agents[0].Name:
		return fmt.Errorf("two handlers of realm %q begin with different agents, and a new thread is answered by its realm's first: "+
			"begin with the same agent in both, or give each a realm of its own", a.Realm)
	}
	return nil
}

// Cleanup lets go of idle connections to agents, of which runs at work keep
// theirs, and of key sets.
func (h *Handler) Cleanup() error {
	for _, f := range h.closers {
		f()
	}
	h.closers = nil
	return nil
}

// ServeHTTP answers what is for the site's paths. Sockets go on in the hub after
// it has returned, so none holds on to the request or the configuration.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if h.probe(w, r) || h.Operator.serve(w, r) {
		return nil
	}
	if err := h.app.wait(r.Context()); err != nil {
		return h.errStarting(w, r, err)
	}
	if h.opens(r) {
		if reason := h.app.notReady(r.Context()); reason != "" {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "try again later: "+reason, http.StatusServiceUnavailable)
			return nil
		}
	}
	if h.app.hub.hub.Serve(h.site, w, believed(r), h.credentials(r)) {
		return nil
	}
	return next.ServeHTTP(w, r)
}

// opens says whether a request would open a socket: a load balancer that has
// not asked yet, or a client without one, shall hear at once that it cannot be
// served. Requests of a polling session that is open carry its sid.
func (h *Handler) opens(r *http.Request) bool {
	if h.opensChannels(r) || h.opensSmooth(r) {
		return true
	}
	p := h.site.Pilotoo
	return p != nil && r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, p.Path) && r.URL.Query().Get("sid") == ""
}

// credentials copies what tells who sent the request, with what Caddy knows: the
// user that its authentication found, and the client's address, both of which it
// takes from proxies only where they are trusted.
func (h *Handler) credentials(r *http.Request) identity.Credentials {
	c := identity.FromRequest(r, h.cookies...)
	ctx := r.Context()
	if ip, ok := caddyhttp.GetVar(ctx, caddyhttp.ClientIPVarKey).(string); ok && ip != "" {
		c.RemoteIP = strings.Clone(ip)
	}
	if trusted, _ := caddyhttp.GetVar(ctx, caddyhttp.TrustedProxyVarKey).(bool); trusted {
		c.Secure = c.Secure || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	}
	repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return c
	}
	if user, ok := repl.GetString("http.auth.user.id"); ok {
		c.CaddyUser = strings.Clone(user)
	}
	for _, name := range h.metas {
		if value, ok := repl.GetString("http.auth.user." + name); ok {
			if c.CaddyMeta == nil {
				c.CaddyMeta = make(map[string]string, len(h.metas))
			}
			c.CaddyMeta[name] = strings.Clone(value)
		}
	}
	return c
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
