package identity

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
	var bomb bytes.Buffer // made once: it takes longer than a client may wait
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write([]byte(jwkSet(evilSet) + strings.Repeat(" ", 8*maxJWKS)))
	_ = z.Close()
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
			_, _ = w.Write([]byte(jwkSet(evilSet) + strings.Repeat(" ", maxJWKS)))
		},
		"bomb": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
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
	e.clock.pass(maxBackoff)
	if err := <-e.fetched; !errors.Is(err, context.Canceled) {
		t.Errorf("the fetch ended with %v", err)
	}
	turnedAway(t, j, token)
	select {
	case <-e.fetched:
		t.Error("a fetch after Close")
	default:
	}
	if n := e.hits.Load(); n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestJWKSOneFetchAtATime: neither handshakes nor rechecks add to a fetch that
// runs, and a failing endpoint is left in peace by both.
func TestJWKSOneFetchAtATime(t *testing.T) {
	e := newEndpoint(t)
	keys := rsaKeys()
	e.serve(jwkSet(rsaJWK("a", &keys[0].PublicKey, "")))
	j := e.jwt(t, nil)
	p := admitted(t, j, tokenOf(t, "a", keys[0]))
	<-e.fetched
	release := make(chan struct{})
	e.say(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		w.WriteHeader(500)
	})
	e.clock.pass(maxFresh + time.Second)
	both := func() {
		admitted(t, j, tokenOf(t, "a", keys[0]))
		if err := Recheck(j, p, e.clock.now()); err != nil {
			t.Fatalf("recheck: %s", Reason(err))
		}
	}
	for range 20 {
		both()
	}
	close(release)
	<-e.fetched
	for range 20 {
		both()
	}
	_ = j.Close()
	if n := e.hits.Load(); n != 2 {
		t.Fatalf("H16 %d fetches, want 2", n)
	}
}

// endless is a body that never ends and counts what is read of it.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	e.read += len(b)
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

func (*endless) Close() error { return nil }

func TestJWKSBodyIsBounded(t *testing.T) {
	body := &endless{}
	done := make(chan error, 1)
	j := testJWT(t, func(c *JWTConfig) {
		c.Secrets, c.JWKSURL = nil, "https://id/jwks"
		c.OnFetch = func(err error) { done <- err }
		c.HTTPClient = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: body, Request: r}, r.Context().Err()
		})}
	})
	turnedAway(t, j, tokenOf(t, "a", rsaKeys()[0]))
	if err := <-done; err == nil || body.read > 2*maxJWKS {
		t.Errorf("H16 %d bytes read, error %v", body.read, err)
	}
}

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

func TestJWKSErrorHasNoAddress(t *testing.T) {
	e := newEndpoint(t)
	e.say(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	j := e.jwt(t, func(c *JWTConfig) { c.JWKSURL += "?key=hush" })
	j.Warm()
	if err := <-e.fetched; err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("what a log is told: %v", err)
	}
}
