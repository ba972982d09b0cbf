package identity

import (
	"crypto/rsa"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func rsaJWK(kid string, key *rsa.PublicKey, more string) string {
	return fmt.Sprintf(`{"kty":"RSA","kid":%q,"n":"%s","e":"AQAB"%s}`, kid, b64(key.N.Bytes()), more)
}

func jwkSet(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

// endpoint is an identity provider's JWKS address whose answer a test changes.
type endpoint struct {
	*httptest.Server
	clock   *clock
	hits    atomic.Int64
	fetched chan error // one for each fetch that ended

	mu     sync.Mutex
	answer http.HandlerFunc
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{clock: newClock(), fetched: make(chan error, 1000)}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.hits.Add(1)
		e.mu.Lock()
		answer := e.answer
		e.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) say(h http.HandlerFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = h
}

func (e *endpoint) serve(body string, headers ...string) {
	e.say(func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		_, _ = w.Write([]byte(body))
	})
}

func (e *endpoint) jwt(t *testing.T, change func(*JWTConfig)) *JWT {
	return testJWT(t, func(c *JWTConfig) {
		c.Secrets, c.JWKSURL, c.Now = nil, e.URL+"/jwks", e.clock.now
		c.OnFetch = func(err error) { e.fetched <- err }
		if change != nil {
			change(c)
		}
	})
}

// claims is a token's that lives as long as any test needs.
var longClaims = claimsOf(map[string]any{"exp": start.Unix() + 1_000_000_000})

func tokenOf(t *testing.T, kid string, key *rsa.PrivateKey) Credentials {
	header := `{"alg":"RS256"}`
	if kid != "" {
		header = fmt.Sprintf(`{"alg":"RS256","kid":%q}`, kid)
	}
	return Credentials{Token: signAs(t, header, longClaims, key)}
}

func admitted(t *testing.T, j *JWT, c Credentials) Principal {
	t.Helper()
	p, err := j.Authenticate(t.Context(), c)
	if err != nil {
		t.Fatalf("refused: %s", Reason(err))
	}
	return p
}

func turnedAway(t *testing.T, j *JWT, c Credentials) {
	t.Helper()
	p, err := j.Authenticate(t.Context(), c)
	refused(t, p, err, c.Token)
}

func TestJWKSIsFetchedLazilyAndKept(t *testing.T) {
	e := newEndpoint(t)
	keys := rsaKeys()
	e.serve(jwkSet(rsaJWK("a", &keys[0].PublicKey, "")), "Cache-Control", "public, max-age=600")
	j := e.jwt(t, nil)
	turnedAway(t, j, Credentials{Token: "forged"})
	if e.hits.Load() != 0 {
		t.Fatal("making or forging fetches")
	}
	for range 20 {
		admitted(t, j, tokenOf(t, "a", keys[0]))
	}
	admitted(t, j, tokenOf(t, "", keys[0]))
	turnedAway(t, j, tokenOf(t, "a", keys[1]))
	turnedAway(t, j, tokenOf(t, "", keys[1]))
	if n := e.hits.Load(); n != 1 {
		t.Fatalf("%d fetches, want 1", n)
	}
}

func TestJWKSWarm(t *testing.T) {
	e := newEndpoint(t)
	e.serve(jwkSet(rsaJWK("a", &rsaKeys()[0].PublicKey, "")))
	j := e.jwt(t, nil)
	j.Warm()
	if err := <-e.fetched; err != nil {
		t.Fatal(err)
	}
	j.Warm()
	admitted(t, j, tokenOf(t, "a", rsaKeys()[0]))
	if n := e.hits.Load(); n != 1 {
		t.Fatalf("PIL-016 %d fetches, want 1", n)
	}
	testJWT(t, nil).Warm()
}

func TestJWKSRotation(t *testing.T) {
	e := newEndpoint(t)
	keys := rsaKeys()
	oldKey := rsaJWK("old", &keys[0].PublicKey, "")
	newKey := rsaJWK("new", &keys[1].PublicKey, "")
	e.serve(jwkSet(oldKey))
	j := e.jwt(t, nil)
	p := admitted(t, j, tokenOf(t, "old", keys[0]))
	e.serve(jwkSet(oldKey, newKey))

	// H17 many clients come with the new key at once: none is refused, and they
	// share one fetch.
	fresh := tokenOf(t, "new", keys[1])
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range 100 {
		wg.Go(func() {
			if _, err := j.Authenticate(t.Context(), fresh); err != nil {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	if failed.Load() != 0 || e.hits.Load() != 2 {
		t.Fatalf("H17 %d refused, %d fetches", failed.Load(), e.hits.Load())
	}
	admitted(t, j, tokenOf(t, "old", keys[0]))
	if err := Recheck(j, p, e.clock.now()); err != nil {
		t.Fatalf("H17 the old key is out too early: %s", Reason(err))
	}

	// Taken out of the set, the old key counts until the set is looked at again.
	e.serve(jwkSet(newKey))
	e.clock.pass(maxFresh + time.Second)
	drain(e.fetched)
	admitted(t, j, tokenOf(t, "new", keys[1]))
	if err := <-e.fetched; err != nil {
		t.Fatal(err)
	}
	turnedAway(t, j, tokenOf(t, "old", keys[0]))
	if Recheck(j, p, e.clock.now()) == nil {
		t.Error("H21 a principal outlives its key")
	}
}

func drain(c chan error) {
	for {
		select {
		case <-c:
		default:
			return
		}
	}
}

func TestJWKSUnknownKidsAreNoFlood(t *testing.T) {
	e := newEndpoint(t)
	keys := rsaKeys()
	e.serve(jwkSet(rsaJWK("a", &keys[0].PublicKey, "")))
	j := e.jwt(t, nil)
	admitted(t, j, tokenOf(t, "a", keys[0]))
	token := tokenOf(t, "b", keys[1]).Token
	rest := token[strings.IndexByte(token, '.'):]
	for i := range 2000 {
		header := b64(fmt.Appendf(nil, `{"alg":"RS256","kid":"../%d\r\n"}`, i))
		turnedAway(t, j, Credentials{Token: header + rest})
	}
	if n := e.hits.Load(); n != 2 {
		t.Fatalf("H16 %d fetches under unknown kids, want 2", n)
	}
	e.clock.pass(unknownKid)
	e.serve(jwkSet(rsaJWK("b", &keys[1].PublicKey, "")))
	admitted(t, j, Credentials{Token: token})
	if n := e.hits.Load(); n != 3 {
		t.Fatalf("H12 %d fetches, want 3", n)
	}
}

func TestJWKSPassesOverStrangeKeys(t *testing.T) {
	e := newEndpoint(t)
	keys := rsaKeys()
	e.serve(jwkSet(
		`{"kty":"FUTURE","kid":"x"}`, `{"kty":"RSA"}`, `7`, `{"kty":"OKP","crv":"X25519","x":"`+b64(make([]byte, 32))+`"}`,
		rsaJWK(strings.Repeat("k", maxKid+1), &keys[1].PublicKey, ""),
		rsaJWK("a", &keys[0].PublicKey, `,"use":"sig","alg":"RS256"`),
	))
	j := e.jwt(t, nil)
	admitted(t, j, tokenOf(t, "a", keys[0]))
	turnedAway(t, j, tokenOf(t, "", keys[1]))
}

// TestJWKSAlgorithmOfAKey: what a key of the set says of its algorithm binds,
// though the configuration accepts more.
func TestJWKSAlgorithmOfAKey(t *testing.T) {
	e := newEndpoint(t)
	keys := rsaKeys()
	e.serve(jwkSet(
		rsaJWK("bound", &keys[0].PublicKey, `,"alg":"RS256"`),
		rsaJWK("free", &keys[1].PublicKey, ""),
	))
	j := e.jwt(t, func(c *JWTConfig) { c.Algorithms = []string{"RS256", "PS256"} })
	sign := func(alg, kid string, key *rsa.PrivateKey) Credentials {
		return Credentials{Token: signAs(t, fmt.Sprintf(`{"alg":%q,"kid":%q}`, alg, kid), longClaims, key)}
	}
	admitted(t, j, sign("RS256", "bound", keys[0]))
	admitted(t, j, sign("PS256", "free", keys[1]))
	turnedAway(t, j, sign("PS256", "bound", keys[0])) // H11
}

func TestJWKSRedirectOnTheSameHost(t *testing.T) {
	e := newEndpoint(t)
	keys := rsaKeys()
	e.say(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/jwks" {
			http.Redirect(w, r, "/moved", http.StatusFound)
			return
		}
		_, _ = w.Write([]byte(jwkSet(rsaJWK("a", &keys[0].PublicKey, ""))))
	})
	admitted(t, e.jwt(t, nil), tokenOf(t, "a", keys[0]))
}

func TestJWKSETag(t *testing.T) {
	e := newEndpoint(t)
	keys := rsaKeys()
	var confirmed atomic.Int64
	e.say(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		if r.Header.Get("If-None-Match") == `"v1"` {
			confirmed.Add(1)
			w.WriteHeader(304)
			return
		}
		_, _ = w.Write([]byte(jwkSet(rsaJWK("a", &keys[0].PublicKey, ""))))
	})
	j := e.jwt(t, func(c *JWTConfig) { c.MaxStale = 2 * time.Hour })
	p := admitted(t, j, tokenOf(t, "a", keys[0]))
	<-e.fetched
	for range 5 {
		e.clock.pass(time.Hour + time.Second)
		admitted(t, j, tokenOf(t, "a", keys[0]))
		if err := <-e.fetched; err != nil {
			t.Fatal(err)
		}
	}
	if confirmed.Load() != 5 || Recheck(j, p, e.clock.now()) != nil {
		t.Errorf("%d confirmations", confirmed.Load())
	}
}

func TestFreshness(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"":                         usualFresh,
		"public":                   usualFresh,
		"max-age=600":              10 * time.Minute,
		"Public, MAX-AGE=1200":     20 * time.Minute,
		"max-age=0":                minFresh,
		"max-age=99999999":         maxFresh,
		"max-age=9999999999999999": minFresh,
		"max-age=-5":               minFresh,
		"max-age=x":                minFresh,
		"no-store":                 minFresh,
		"no-cache, max-age=9000":   minFresh,
	} {
		if got := freshness(http.Header{"Cache-Control": {header}}); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}

// TestJWKSNewGeneration: after a reload the keys are not there yet; whoever was
// admitted stays until they are, and goes if they don't contain his.
func TestJWKSNewGeneration(t *testing.T) {
	e := newEndpoint(t)
	keys := rsaKeys()
	e.serve(jwkSet(rsaJWK("a", &keys[0].PublicKey, "")))
	p := admitted(t, e.jwt(t, nil), tokenOf(t, "a", keys[0]))
	<-e.fetched
	e.serve(jwkSet(rsaJWK("a", &keys[1].PublicKey, "")))
	reloaded := e.jwt(t, nil)
	if err := Recheck(reloaded, p, e.clock.now()); err != nil {
		t.Fatalf("a reload revokes: %s", Reason(err))
	}
	if err := <-e.fetched; err != nil {
		t.Fatal(err)
	}
	if Recheck(reloaded, p, e.clock.now()) == nil {
		t.Error("the same kid with another key is the same key")
	}
}

// TestJWKSTwoIssuers: a key of one issuer says nothing for another, though the
// kids are equal.
func TestJWKSTwoIssuers(t *testing.T) {
	e, f := newEndpoint(t), newEndpoint(t)
	keys := rsaKeys()
	e.serve(jwkSet(rsaJWK("a", &keys[0].PublicKey, "")))
	f.serve(jwkSet(rsaJWK("a", &keys[1].PublicKey, "")))
	one, two := e.jwt(t, nil), f.jwt(t, nil)
	admitted(t, one, tokenOf(t, "a", keys[0]))
	admitted(t, two, tokenOf(t, "a", keys[1]))
	turnedAway(t, one, tokenOf(t, "a", keys[1])) // H15
	turnedAway(t, two, tokenOf(t, "a", keys[0]))
}
