package edge

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/pilotoo"
	"github.com/parlance-gateway/parlance/internal/edge/page"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/wire/phoenix"
)

// Serve answers a request that is for one of the site's paths; handled is
// false for any other, and nothing was written then. creds is what the request
// said of its sender, with what the server around knows filled in.
func (h *Hub) Serve(s *Site, w http.ResponseWriter, r *http.Request, creds identity.Credentials) (handled bool) {
	serve, anonymous := h.route(s, r)
	if serve == nil {
		return false
	}
	if s.Auth == nil && !anonymous {
		var ok bool
		if creds, ok = h.greet(s, w, r, creds); !ok {
			return true
		}
	}
	visit := &dialect.Visit{Site: h.siteNow(s.Name), Creds: creds}
	if name := opens(s, r); name != "" {
		visit.Connection = dialect.NewConnection(name, s.Realm, h.name, h.logger)
		defer h.follow(visit.Connection, r, name, s.Realm)()
	}
	serve(w, r, visit)
	return true
}

// opens names the dialect that a request may open a socket of, or "". A polling
// client asks once without naming its session.
func opens(s *Site, r *http.Request) string {
	path := r.URL.Path
	switch {
	case r.Method != http.MethodGet:
	case s.Pilotoo != nil && strings.HasPrefix(path, s.Pilotoo.Path):
		if r.URL.Query().Get("sid") == "" {
			return "pilotoo"
		}
	case s.Pingerchips != nil && strings.HasPrefix(path, s.Pingerchips.Path):
		if phoenix.Opens(r) {
			return "pingerchips"
		}
	case s.Smooth != nil && path == s.Smooth.Path:
		return "smooth"
	}
	return ""
}

// route finds who serves a path of the site, or nil; what is anonymous needs no
// cookie and so no key (PIL-195).
func (h *Hub) route(s *Site, r *http.Request) (serve func(http.ResponseWriter, *http.Request, *dialect.Visit), anonymous bool) {
	path := r.URL.Path
	if p := s.Pilotoo; p != nil {
		if strings.HasPrefix(path, p.Path) {
			return func(w http.ResponseWriter, r *http.Request, v *dialect.Visit) { h.pilotoo.accept(s, w, r, v) }, false
		}
		if rest, ok := strings.CutPrefix(path, p.Prefix); ok && p.Routes && pilotoo.IsRoute(rest) {
			return func(w http.ResponseWriter, r *http.Request, v *dialect.Visit) { h.pilotoo.serve(s, rest, w, r, v) }, pilotoo.IsAnonymous(rest)
		}
	}
	if p := s.Pingerchips; p != nil && p.Auth != "" && path == p.Auth {
		return h.pingerchips.server.ServeAuth, true
	}
	if p := s.Pingerchips; p != nil && strings.HasPrefix(path, p.Path) {
		return func(w http.ResponseWriter, r *http.Request, v *dialect.Visit) { h.pingerchips.accept(s, w, r, v) }, true
	}
	if p := s.Smooth; p != nil && path == p.Path {
		return func(w http.ResponseWriter, r *http.Request, v *dialect.Visit) { h.smooth.Accept(w, r, v, s.Origins) }, p.Anonymous
	}
	if s.Page != "" && strings.HasPrefix(path, s.Page) && page.Has(strings.TrimPrefix(path, s.Page)) {
		return func(w http.ResponseWriter, r *http.Request, _ *dialect.Visit) { h.page(s).ServeHTTP(w, r) }, false
	}
	return nil, false
}

// page is the site's demonstration page.
func (h *Hub) page(s *Site) http.Handler {
	o := page.Options{Path: s.Page}
	if s.Pilotoo != nil {
		o.SocketPath, o.RoutesPrefix = s.Pilotoo.Path, s.Pilotoo.Prefix
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pages[o]
	if p == nil {
		p = page.Handler(o)
		h.pages[o] = p
	}
	return p
}

// greet gives a browser its cookie, where the site has no auth of its own. A
// journal that cannot give the key is the only reason to fail.
func (h *Hub) greet(s *Site, w http.ResponseWriter, r *http.Request, creds identity.Credentials) (identity.Credentials, bool) {
	b := h.browser(s.Realm)
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	_, cookie, err := b.Ensure(ctx, creds)
	if err != nil {
		h.logger.Warn("no key for browsers' cookies", "realm", s.Realm, "error", err)
		w.Header().Set("Retry-After", "5")
		http.Error(w, "try again later", http.StatusServiceUnavailable)
		return creds, false
	}
	if cookie != nil {
		http.SetCookie(w, cookie)
		creds.Cookies = append(without(creds.Cookies, cookie.Name), cookie)
	}
	return creds, true
}

func without(cookies []*http.Cookie, name string) []*http.Cookie {
	kept := make([]*http.Cookie, 0, len(cookies)+1)
	for _, c := range cookies {
		if c.Name != name {
			kept = append(kept, c)
		}
	}
	return kept
}

// browser is what tells browsers apart in a realm; it is made once.
func (h *Hub) browser(realm string) *identity.Browser {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.browsers[realm]
	if b == nil {
		var err error
		b, err = identity.NewBrowser(identity.BrowserConfig{Realm: realm, Keys: h.keys.Named(identity.BrowserKeyName)})
		if err != nil {
			panic("edge: a browser authenticator without options was refused: " + err.Error())
		}
		h.browsers[realm] = b
	}
	return b
}

// siteNow is a site as it is configured now. It follows the name: after a reload
// the current handler of that name decides, and where there is none any more
// nobody is admitted.
type siteNow struct {
	hub  *Hub
	name string
}

var _ dialect.Site = (*siteNow)(nil)

// siteNow returns the one siteNow of a name, for all its visitors.
func (h *Hub) siteNow(name string) *siteNow {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.names[name]
	if n == nil {
		n = &siteNow{h, name}
		h.names[name] = n
	}
	return n
}

func (n *siteNow) Name() string { return n.name }

func (n *siteNow) Admit(ctx context.Context, c identity.Credentials) (identity.Principal, error) {
	auth := n.hub.auth(n.name)
	if auth == nil {
		return identity.Principal{}, identity.ErrUnauthenticated
	}
	return auth.Authenticate(ctx, c)
}

func (n *siteNow) Recheck(p identity.Principal, now time.Time) error {
	auth := n.hub.auth(n.name)
	if auth == nil {
		return identity.ErrUnauthenticated
	}
	return identity.Recheck(auth, p, now)
}

func (n *siteNow) Rules() dialect.Rules {
	if s := n.hub.current.Load().sites[n.name]; s != nil {
		return s.Rules
	}
	return dialect.Rules{}
}

// auth is what the current configuration of a site admits by, or nil.
func (h *Hub) auth(site string) identity.Authenticator {
	s := h.current.Load().sites[site]
	switch {
	case s == nil:
		return nil
	case s.Auth != nil:
		return s.Auth
	}
	return h.browser(s.Realm)
}
