package edge

import (
	"fmt"
	"slices"

	"github.com/parlance-gateway/parlance/internal/identity"
)

// appKey names an application: the same key in two realms is two of them.
type appKey struct{ realm, key string }

// addApps takes a site's applications in. One key has one meaning in a realm,
// and a realm's tenant has at most one application, so that a thread of one is
// never a thread of another (PIN-024).
func (g *generation) addApps(s *Site) error {
	for _, a := range s.Apps {
		a.Realm = s.Realm
		old := g.apps[appKey{s.Realm, a.Key}]
		if old != nil && (old.Tenant != a.Tenant || old.Legacy != a.Legacy || !slices.Equal(old.Secrets, a.Secrets)) {
			return fmt.Errorf("%w: app %q is configured in two ways in realm %q", ErrConflict, a.Key, s.Realm)
		}
		for _, b := range g.apps {
			if b.Realm == a.Realm && b.Tenant == a.Tenant && b.Key != a.Key {
				return fmt.Errorf("%w: the apps %q and %q would share the threads of realm %q; give one of them a tenant", ErrConflict, b.Key, a.Key, s.Realm)
			}
		}
		g.apps[appKey{s.Realm, a.Key}] = &a
	}
	return nil
}

// App is an application of the site's realm, as it is configured now, or nil.
func (n *siteNow) App(key string) *identity.App {
	g := n.hub.current.Load()
	s := g.sites[n.name]
	if s == nil {
		return nil
	}
	return g.apps[appKey{s.Realm, key}]
}
