package identity

import (
	"compress/gzip"
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// TestJWKSBadDays: while the endpoint fails in any way, nobody gets in by what it
// says, those whose key is known stay welcome, and the next good answer mends it.
func TestJWKSBadDays(t *testing.T) {
	keys := rsaKeys()
	good := jwkSet(rsaJWK("a", &keys[0].PublicKey, ""))
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(jwkSet(rsaJWK("evil", &keys[2].PublicKey, ""))))
	}))
	t.Cleanup(evil.Close)
	plain := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
	}
	many := make([]string, maxKeys+1)
	for i := range many {
		many[i] = rsaJWK(fmt.Sprint(i), &keys[2].PublicKey, "")
	}
	evilSet := rsaJWK("evil", &keys[2].PublicKey, "")
	for name, answer := range map[string]http.HandlerFunc{
		"500": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = w.Write([]byte(jwkSet(evilSet)))
		},
		"404":                 func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"304 unasked":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) },
		"not JSON":            plain("<html>" + jwkSet(evilSet)),
		"empty":               plain(""),
		"null":                plain("null"),
		"empty set":           plain(jwkSet()),
		"keys an object":      plain(`{"keys":{}}`),
		"duplicate keys":      plain(`{"keys":[],"keys":[` + evilSet + `]}`),
		"bytes behind":        plain(jwkSet(evilSet) + "x"),
		"too many keys":       plain(jwkSet(many...)),
		"only a secret":       plain(jwkSet(`{"kty":"oct","kid":"evil","k":"` + b64(secretA) + `"}`)),
		"only for encryption": plain(jwkSet(rsaJWK("evil", &keys[2].PublicKey, `,"use":"enc"`))),
		"only for RS512":      plain(jwkSet(rsaJWK("evil", &keys[2].PublicKey, `,"alg":"RS512"`))),
		"a private key": plain(jwkSet(fmt.Sprintf(`{"kty":"RSA","kid":"evil","n":"%s","e":"AQAB","d":"%s","p":"%s","q":"%s"}`,
			b64(keys[2].N.Bytes()), b64(keys[2].D.Bytes()), b64(keys[2].Primes[0].Bytes()), b64(keys[2].Primes[1].Bytes())))),
		"huge": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[` + evilSet + `],"x":"` + strings.Repeat("x", maxJWKS) + `"}`))
		},
		"bomb": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 64 {
				_, _ = z.Write(make([]byte, 1<<20))
			}
			_ = z.Close()
		},
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5000")
			_, _ = w.Write([]byte(jwkSet(evilSet)))
		},
		"dropped":                  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"redirect to another host": http.RedirectHandler(evil.URL, http.StatusFound).ServeHTTP,
		"redirect to metadata":     http.RedirectHandler("http://169.254.169.254/", http.StatusFound).ServeHTTP,
		"redirect for ever":        http.RedirectHandler("/jwks", http.StatusFound).ServeHTTP,
	} {
		t.Run("H16 "+name, func(t *testing.T) {
			e := newEndpoint(t)
			e.serve(good)
			j := e.jwt(t, nil)
			admitted(t, j, tokenOf(t, "a", keys[0]))
			<-e.fetched
			e.say(answer)
			e.clock.pass(maxFresh + time.Second)
			turnedAway(t, j, tokenOf(t, "evil", keys[2]))
			if err := <-e.fetched; err == nil {
				t.Fatal("a bad answer counts as a good one")
			}
			admitted(t, j, tokenOf(t, "a", keys[0]))

			bad := e.jwt(t, nil)
			turnedAway(t, bad, tokenOf(t, "evil", keys[2]))
			turnedAway(t, bad, tokenOf(t, "a", keys[0]))
			e.serve(good)
			e.clock.pass(maxBackoff)
			admitted(t, bad, tokenOf(t, "a", keys[0]))
		})
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

func TestJWKSOutage(t *testing.T) {
	e := newEndpoint(t)
	keys := rsaKeys()
	e.serve(jwkSet(rsaJWK("a", &keys[0].PublicKey, "")))
	j := e.jwt(t, func(c *JWTConfig) { c.MaxStale = 12 * time.Hour })
	p := admitted(t, j, tokenOf(t, "a", keys[0]))
	<-e.fetched
	e.say(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	for range 11 {
		e.clock.pass(time.Hour)
		admitted(t, j, tokenOf(t, "a", keys[0]))
		if <-e.fetched == nil {
			t.Fatal("an outage is no failure")
		}
		if err := Recheck(j, p, e.clock.now()); err != nil {
			t.Fatalf("an outage revokes: %s", Reason(err))
		}
	}
	e.clock.pass(time.Hour + time.Second)
	turnedAway(t, j, tokenOf(t, "a", keys[0]))
	if Recheck(j, p, e.clock.now()) == nil {
		t.Error("H16 old keys count for ever")
	}
}

func TestJWKSBacksOff(t *testing.T) {
	e := newEndpoint(t)
	e.say(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	j := e.jwt(t, nil)
	token := tokenOf(t, "a", rsaKeys()[0])
	for range 100 {
		turnedAway(t, j, token)
	}
	if n := e.hits.Load(); n != 1 {
		t.Fatalf("%d fetches at once from a failing endpoint", n)
	}
	for range 600 {
		e.clock.pass(time.Second)
		turnedAway(t, j, token)
	}
	if n := e.hits.Load(); n < 15 || n > 30 {
		t.Fatalf("H16 %d fetches in ten minutes from a failing endpoint", n)
	}
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

func TestJWKSSlow(t *testing.T) {
	e := newEndpoint(t)
	asked := make(chan struct{}, 1)
	e.say(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	j := e.jwt(t, nil)
	token := tokenOf(t, "a", rsaKeys()[0])
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	p, err := j.Authenticate(ctx, token)
	refused(t, p, err, token.Token)
	_ = j.Close() // must not wait for the endpoint
	if err := <-e.fetched; !errors.Is(err, context.Canceled) {
		t.Errorf("the fetch ended with %v", err)
	}
	turnedAway(t, j, token)
	if n := e.hits.Load(); n != 1 {
		t.Errorf("%d fetches, some after Close", n)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestJWKSWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		begun := time.Now()
		j, err := NewJWT(JWTConfig{
			Realm: "r", JWKSURL: "https://id/jwks", Issuer: "https://id", Audience: []string{"chat"},
			HTTPClient: &http.Client{Transport: silent},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		turnedAway(t, j, tokenOf(t, "a", rsaKeys()[0]))
		if waited := time.Since(begun); waited != findWait {
			t.Errorf("PIL-016 a handshake waits %v for keys", waited)
		}
		j.jwks.mu.Lock()
		flight := j.jwks.flight
		j.jwks.mu.Unlock()
		<-flight
		if took := time.Since(begun); took != fetchTimeout {
			t.Errorf("H16 a fetch lasts %v", took)
		}
	})
}
