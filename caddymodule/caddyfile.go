package caddymodule

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("parlance", parseApp)
	httpcaddyfile.RegisterHandlerDirective("parlance", parseHandler)
	// Behind those that authenticate and encode, before those that answer.
	httpcaddyfile.RegisterDirectiveOrder("parlance", httpcaddyfile.After, "templates")
}

func parseHandler(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	m := new(Handler)
	return m, m.UnmarshalCaddyfile(h.Dispenser)
}

func parseApp(d *caddyfile.Dispenser, existing any) (any, error) {
	if existing != nil {
		d.Next()
		return nil, d.Err("parlance is there twice in the global options")
	}
	a := new(App)
	if err := a.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "parlance", Value: caddyconfig.JSON(a, nil)}, nil
}

// UnmarshalCaddyfile sets up the app from the global option. Syntax:
//
//	parlance {
//		journal file [<dir>]
//		journal redis <url> { ... }
//		drain   <duration>
//		edge    <name>
//		tracing { ... }
//	}
//
// What stands in the inner blocks is said at the functions that read them.
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return d.ArgErr()
	}
	return readBlock(d, "parlance", map[string]option{
		"journal": once(func() error { return a.readJournal(d) }),
		"drain":   duration(d, &a.Drain, false),
		"edge":    text(d, &a.Edge),
		"tracing": once(func() error { return a.readTracing(d) }),
	}, nil)
}

// UnmarshalCaddyfile sets up the handler from its directive. Syntax:
//
//	parlance [<matcher>] [<url>|echo] {
//		realm   <name>
//		name    <name>
//		agent   <name> agui <url> { ... }
//		agent   <name> echo { ... }
//		agent   <name> socket { ... }
//		auth    jwt { ... }
//		auth    caddy { ... }
//		pilotoo [<path>] { ... }
//		pingerchips [<path>] { ... }
//		app     <key> { ... }
//		smooth  [<path>] { ... }
//		origins <host...>
//		page    <path>
//		operator <path> <user...>
//		health  <path>
//		ready   <path>|off
//		limits  { ... }
//		archive after <duration> { ... }
//	}
//
// What stands in the inner blocks is said at the functions that read them.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		a, err := shorthand(d)
		if err != nil {
			return err
		}
		h.Agents = append(h.Agents, a)
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	return readBlock(d, "parlance", map[string]option{
		"realm":       text(d, &h.Realm),
		"name":        text(d, &h.Name),
		"agent":       many(func() error { return h.readAgent(d) }),
		"auth":        many(func() error { return h.readAuth(d) }),
		"pilotoo":     once(func() error { return h.readPilotoo(d) }),
		"pingerchips": once(func() error { return h.readPingerchips(d) }),
		"app":         many(func() error { return h.readApp(d) }),
		"smooth":      once(func() error { return h.readSmooth(d) }),
		"origins":     texts(d, &h.Origins),
		"page":        text(d, &h.Page),
		"operator":    once(func() error { return h.readOperator(d) }),
		"health":      text(d, &h.Health),
		"ready":       text(d, &h.Ready),
		"limits":      once(func() error { return h.readLimits(d) }),
		"archive":     once(func() error { return h.readArchive(d) }),
	}, later)
}

// shorthand is the agent of the one-line form.
func shorthand(d *caddyfile.Dispenser) (*Agent, error) {
	switch v := d.Val(); {
	case v == kindEcho:
		return &Agent{Kind: kindEcho}, nil
	case strings.HasPrefix(v, "http://"), strings.HasPrefix(v, "https://"), strings.HasPrefix(v, "{"):
		return &Agent{Kind: kindAGUI, URL: v}, nil
	default:
		return nil, d.Errf("%q is neither echo nor the http or https URL of an AG-UI agent", v)
	}
}

// readPilotoo reads:
//
//	pilotoo [<path>] {
//		frame         <size>
//		routes        <prefix>|off
//		upstream      <url>
//		while_waiting withdraw|refuse
//		auto_create_threads
//	}
func (h *Handler) readPilotoo(d *caddyfile.Dispenser) error {
	p := new(Pilotoo)
	h.Pilotoo = p
	if d.NextArg() {
		p.Path = d.Val()
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	return readBlock(d, "pilotoo", map[string]option{
		"frame": size(d, &p.Frame),
		"routes": once(func() error {
			if !d.NextArg() {
				return d.ArgErr()
			}
			if p.NoRoutes = d.Val() == "off"; !p.NoRoutes {
				p.Routes = d.Val()
			}
			return nil
		}),
		"upstream":            text(d, &p.Upstream),
		"while_waiting":       text(d, &p.WhileWaiting),
		"auto_create_threads": flag(&p.AutoCreateThreads),
	}, nil)
}

// readLimits reads:
//
//	limits {
//		runs_per_thread        <n>
//		runs_per_client        <n>
//		rooms_per_connection   <n>
//		connections_per_client <n>
//		commands_per_second    <n>
//		run_timeout            <duration>|none
//		pause_timeout          <duration>|none
//		pace                   <duration>|none
//	}
func (h *Handler) readLimits(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	l := new(Limits)
	h.Limits = l
	return readBlock(d, "limits", map[string]option{
		"runs_per_thread":        number(d, &l.RunsPerThread),
		"runs_per_client":        number(d, &l.RunsPerClient),
		"rooms_per_connection":   number(d, &l.RoomsPerConnection),
		"connections_per_client": number(d, &l.ConnectionsPerClient),
		"commands_per_second":    rate(d, &l.CommandsPerSecond),
		"run_timeout":            duration(d, &l.RunTimeout, true),
		"pause_timeout":          duration(d, &l.PauseTimeout, true),
		"pace":                   duration(d, &l.Pace, true),
	}, nil)
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*App)(nil)
	_ caddyfile.Unmarshaler = (*Handler)(nil)
)
