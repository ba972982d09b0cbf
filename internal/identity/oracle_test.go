package identity

import (
	"errors"
	"fmt"
	"testing"
)

// PIN-058: how long a refusal takes tells nothing of which apps there are. What
// cannot be timed in a test is counted: the same work is done for an app that is
// there and for one that is not, and for whoever is near to being right.
func TestRefusalsAreAsMuchWork(t *testing.T) {
	body := fmt.Sprintf(`{"client_id":"ann","cap":["chat:subscribe:t1"],"exp":%d}`, appNow.Unix()+600)
	work := func(j Join, want error) float64 {
		t.Helper()
		return testing.AllocsPerRun(50, func() {
			if _, err := testApps.Join(j, appNow); !errors.Is(err, want) {
				t.Fatalf("%+v: %v", j, err)
			}
		})
	}
	client := func(key, token string) float64 {
		t.Helper()
		return work(Join{AppKey: key, Thread: "t1", Auth: token}, ErrInvalidToken)
	}
	agent := func(key, secret string) float64 {
		t.Helper()
		return work(Join{AppKey: key, Thread: "t1", Secret: secret, AgentID: "a"}, ErrInvalidSecret)
	}
	old := func(key string) string { return key + ":" + fmt.Sprintf("%064d", 0) }
	for name, c := range map[string]struct{ there, not float64 }{
		"a token by a guess":            {client("pk_live_y", forged("pk_live_y", body, "guess")), client("pk_live_q", forged("pk_live_q", body, "guess"))},
		"a token with another's name":   {client("pk_live_y", forged("pk_live_y", body, "bank-secre!")), client("pk_live_q", forged("pk_live_q", body, "bank-secret"))},
		"a token of the older form":     {client("pk_old", old("pk_old")), client("pk_not", old("pk_not"))},
		"an agent's guess":              {agent("pk_live_y", "guess"), agent("pk_live_q", "guess")},
		"an agent's guess that is near": {agent("pk_live_y", "bank-secre!"), agent("pk_live_q", "bank-secret")},
	} {
		if c.there != c.not {
			t.Errorf("%s: for an app that is there %v allocations, for one that is not %v", name, c.there, c.not)
		}
	}
}
