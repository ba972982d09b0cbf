package edge

import (
	"errors"
	"testing"

	"github.com/parlance-gateway/parlance/internal/identity"
)

// PIN-024: one key has one meaning in a realm, and one tenant one app.
func TestAppsOfARealm(t *testing.T) {
	app := func(key, tenant string, secrets ...string) identity.App {
		return identity.App{Key: key, Tenant: tenant, Secrets: secrets}
	}
	site := func(name, realm string, apps ...identity.App) *Site {
		return &Site{Name: name, Realm: realm, Apps: apps}
	}
	for name, c := range map[string]struct {
		sites []*Site
		ok    bool
	}{
		"one app":                       {[]*Site{site("a", "r", app("k", "", "s"))}, true},
		"the same on two handlers":      {[]*Site{site("a", "r", app("k", "", "s")), site("b", "r", app("k", "", "s"))}, true},
		"two apps of two tenants":       {[]*Site{site("a", "r", app("k", "", "s"), app("l", "t", "s"))}, true},
		"two apps of two realms":        {[]*Site{site("a", "r", app("k", "", "s")), site("b", "q", app("l", "", "s"))}, true},
		"one key in two realms":         {[]*Site{site("a", "r", app("k", "", "s")), site("b", "q", app("k", "", "z"))}, true},
		"two apps of one tenant":        {[]*Site{site("a", "r", app("k", "", "s"), app("l", "", "s"))}, false},
		"two apps of one named tenant":  {[]*Site{site("a", "r", app("k", "t", "s")), site("b", "r", app("l", "t", "s"))}, false},
		"one key with two secrets":      {[]*Site{site("a", "r", app("k", "", "s")), site("b", "r", app("k", "", "z"))}, false},
		"one key of two tenants":        {[]*Site{site("a", "r", app("k", "", "s")), site("b", "r", app("k", "t", "s"))}, false},
		"one key, the older form or no": {[]*Site{site("a", "r", app("k", "", "s")), site("b", "r", identity.App{Key: "k", Secrets: []string{"s"}, Legacy: true})}, false},
	} {
		err := Check(c.sites)
		if (err == nil) != c.ok || (err != nil && !errors.Is(err, ErrConflict)) {
			t.Errorf("PIN-024 %s: %v", name, err)
		}
	}
}
