package edge

import (
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/identity"
)

// PIN-185: with an app runs may take half an hour, unless their realm says
// otherwise.
func TestRunTimeoutOfApps(t *testing.T) {
	plain := func(realm string, l Limits) *Site { return &Site{Name: realm, Realm: realm, Limits: l} }
	app := func(realm string, l Limits) *Site {
		return &Site{Name: realm + " app", Realm: realm, Limits: l, Apps: []identity.App{{Key: "k", Secrets: []string{"s"}}}}
	}
	g, err := newGeneration([]*Site{
		plain("none", Limits{}), app("one", Limits{}), plain("two", Limits{}), app("two", Limits{}),
		app("said", Limits{RunTimeout: 2 * time.Hour}), app("no limit", Limits{RunTimeout: -1}),
	})
	if err != nil {
		t.Fatal(err)
	}
	for realm, want := range map[string]time.Duration{
		"none": time.Hour, "one": 30 * time.Minute, "two": 30 * time.Minute, "said": 2 * time.Hour, "no limit": 0,
	} {
		if got := g.realms[realm].RunTimeout; got != want {
			t.Errorf("PIN-185 in the realm %s runs may take %v, want %v", realm, got, want)
		}
	}
}
