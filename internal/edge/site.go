package edge

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// NamedAgent is an agent under its configured name. Same compares what was
// configured: two handlers of a realm may name one agent only if it is equal.
type NamedAgent struct {
	Name  string
	Agent agent.Agent
	Same  string
}

// Site is what one handler is configured to do. It is immutable once it was
// given to a hub.
type Site struct {
	// Name tells the handler from others of its realm, through reloads.
	Name  string
	Realm string
	// Agents are what this site's threads may be answered by; the first is the
	// default.
	Agents []NamedAgent
	// Auth admits visitors; nil makes each browser its own subject.
	Auth identity.Authenticator
	// Rules are the admission rules of dialects, Limits the site's own.
	Rules  dialect.Rules
	Limits Limits
	// Origins decides on requests that carry an Origin header; nil admits the
	// request's own host only.
	Origins func(origin string, r *http.Request) bool

	Pilotoo     *Pilotoo
	Pingerchips *Pingerchips
	Smooth      *Smooth
	// Apps are those whose tokens and secrets are taken; their realm is the site's.
	Apps []identity.App
	// Page is the path of the demonstration page, or "".
	Page string
}

// Pilotoo says where the Pilotoo dialect is served.
type Pilotoo struct {
	// Path is the endpoint's prefix, with its final slash: "/socket.io/".
	Path string
	// Frame bounds a message from a client, in bytes.
	Frame int64
	// Routes serves the HTTP routes below Prefix ("" is the root).
	Routes bool
	Prefix string
	// Upstream takes the routes that a gateway does not serve itself, or is nil.
	Upstream http.Handler
}

// Limits of a site; zero values are the defaults named.
type Limits struct {
	RunsPerThread int           // 8
	RunsPerClient int           // 32, on this edge
	Pace          time.Duration // 40 ms; negative is none
	RunTimeout    time.Duration // 1 h, or 30 min with an app; negative is none
	PauseTimeout  time.Duration // none
	// SameUpstream gives agents our thread id instead of one per branch.
	SameUpstream bool
	// ArchiveAfter is how long after its newest message a thread of more than
	// ArchiveOver messages is archived; 0 is never, and
	// conductor.DefaultArchiveOver.
	ArchiveAfter time.Duration
	ArchiveOver  int
}

// Defaults of Limits.
const (
	DefaultRunsPerThread = 8
	DefaultRunsPerClient = 32
	DefaultPace          = 40 * time.Millisecond
	DefaultRunTimeout    = time.Hour
	// DefaultAppRunTimeout is that of a realm that has an app (PIN-185).
	DefaultAppRunTimeout = 30 * time.Minute
)

// ErrConflict: two sites of a realm say different things of one name.
var ErrConflict = errors.New("two handlers of one realm differ")

// generation is one configuration's view: the realms as its sites make them.
type generation struct {
	sites  map[string]*Site
	realms map[string]*conductor.Realm
	// codes are the realms that have a service for one-time codes.
	codes  map[string]bool
	apps   map[appKey]*identity.App
	smooth map[string]*smooth.Config // by site
}

// newGeneration merges the sites' agents by realm. A name with two meanings is
// refused (DESIGN.md §10).
func newGeneration(sites []*Site) (*generation, error) {
	g := &generation{sites: make(map[string]*Site), smooth: make(map[string]*smooth.Config), realms: make(map[string]*conductor.Realm), apps: make(map[appKey]*identity.App), codes: make(map[string]bool)}
	same := make(map[string]string)
	byDefault := make(map[string]bool) // realms that do not say how long runs may take
	for _, s := range sites {
		if g.sites[s.Name] != nil {
			return nil, fmt.Errorf("%w: the name %q is used twice", ErrConflict, s.Name)
		}
		g.sites[s.Name] = s
		if c := smoothOf(s); c != nil {
			g.smooth[s.Name] = c
			g.codes[s.Realm] = g.codes[s.Realm] || c.Codes != nil
		}
		r := g.realms[s.Realm]
		if r == nil {
			r = &conductor.Realm{Agents: make(map[string]agent.Agent)}
			s.Limits.apply(r)
			g.realms[s.Realm] = r
			byDefault[s.Realm] = s.Limits.RunTimeout == 0
		}
		if err := g.addApps(s); err != nil {
			return nil, err
		}
		if len(s.Apps) > 0 && byDefault[s.Realm] {
			r.RunTimeout = DefaultAppRunTimeout
		}
		for _, a := range s.Agents {
			id := s.Realm + "\x00" + a.Name
			if old, ok := same[id]; ok && old != a.Same {
				return nil, fmt.Errorf("%w: agent %q is configured in two ways in realm %q; give the handlers realms of their own, or the agents other names", ErrConflict, a.Name, s.Realm)
			}
			same[id] = a.Same
			if r.Agents[a.Name] == nil {
				r.Agents[a.Name] = a.Agent
			}
			if r.Default == "" {
				r.Default = a.Name
			}
		}
	}
	return g, nil
}

func (l Limits) apply(r *conductor.Realm) {
	r.MaxRuns = l.RunsPerThread
	if r.MaxRuns == 0 {
		r.MaxRuns = DefaultRunsPerThread
	}
	r.MaxClientRuns = l.RunsPerClient
	if r.MaxClientRuns == 0 {
		r.MaxClientRuns = DefaultRunsPerClient
	}
	r.Pace = or(l.Pace, DefaultPace)
	r.RunTimeout = or(l.RunTimeout, DefaultRunTimeout)
	r.PauseTimeout = max(0, l.PauseTimeout)
	r.SameUpstream = l.SameUpstream
	r.ArchiveAfter, r.ArchiveOver = l.ArchiveAfter, l.ArchiveOver
}

// or is d, or the default where d is 0; negative means none.
func or(d, def time.Duration) time.Duration {
	switch {
	case d < 0:
		return 0
	case d == 0:
		return def
	}
	return d
}
