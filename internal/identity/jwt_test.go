package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"
)

// The tokens here are made by hand, not by the library that verifies them, so
// that every bad form can be written.

var (
	secretA = []byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	secretB = []byte("bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")
)

// rsaKeys are made once: making one takes long under the race detector.
var rsaKeys = sync.OnceValue(func() []*rsa.PrivateKey {
	keys := make([]*rsa.PrivateKey, 3)
	for i := range keys {
		keys[i], _ = rsa.GenerateKey(rand.Reader, 2048)
	}
	return keys
})

var ecKey = sync.OnceValue(func() *ecdsa.PrivateKey {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return key
})

var edKey = sync.OnceValue(func() ed25519.PrivateKey {
	_, key, _ := ed25519.GenerateKey(rand.Reader)
	return key
})

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// claimsOf is a good set of claims with changes; a nil change takes one out.
func claimsOf(changes map[string]any) string {
	claims := map[string]any{
		"iss": "https://id", "aud": "chat", "sub": "alice",
		"exp": start.Unix() + 3600, "iat": start.Unix(), "nbf": start.Unix(),
	}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	b, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func signHS(t *testing.T, secret []byte, claims string) string {
	t.Helper()
	return signAs(t, `{"alg":"HS256","typ":"JWT"}`, claims, secret)
}

// signAs signs header and claims as they are, with the kind of key that is given.
func signAs(t *testing.T, header, claims string, key any) string {
	t.Helper()
	input := b64([]byte(header)) + "." + b64([]byte(claims))
	sum := sha256.Sum256([]byte(input))
	var sig []byte
	var err error
	switch k := key.(type) {
	case nil:
	case []byte:
		newHash := sha256.New
		if strings.Contains(header, "HS512") {
			newHash = sha512.New
		}
		mac := hmac.New(newHash, k)
		mac.Write([]byte(input))
		sig = mac.Sum(nil)
	case *rsa.PrivateKey:
		switch {
		case strings.Contains(header, "RS512"):
			wide := sha512.Sum512([]byte(input))
			sig, err = rsa.SignPKCS1v15(nil, k, crypto.SHA512, wide[:])
		case strings.Contains(header, "PS256"):
			sig, err = rsa.SignPSS(rand.Reader, k, crypto.SHA256, sum[:], nil)
		default:
			sig, err = rsa.SignPKCS1v15(nil, k, crypto.SHA256, sum[:])
		}
	case *ecdsa.PrivateKey:
		r, s, e := ecdsa.Sign(rand.Reader, k, sum[:])
		sig, err = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...), e
	case ed25519.PrivateKey:
		sig = ed25519.Sign(k, []byte(input))
	}
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + b64(sig)
}

func pemOf(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func testJWT(t *testing.T, change func(*JWTConfig)) *JWT {
	t.Helper()
	config := JWTConfig{
		Realm: "r", Secrets: [][]byte{secretA}, Issuer: "https://id", Audience: []string{"chat"},
		Now: func() time.Time { return start },
	}
	if change != nil {
		change(&config)
	}
	j, err := NewJWT(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func TestJWTClaims(t *testing.T) {
	now := start.Unix()
	j := testJWT(t, func(c *JWTConfig) { c.CapabilitiesClaim = "cap" })
	many := make([]string, maxCapabilities+1)
	for _, row := range []struct {
		name    string
		changes map[string]any
		ok      bool
	}{
		{"good", nil, true},
		{"H18 exp missing", map[string]any{"exp": nil}, false},
		{"H18 exp as text", map[string]any{"exp": "9999999999"}, false},
		{"H18 exp as fraction", map[string]any{"exp": float64(now) + 0.5}, true},
		{"H18 exp beyond every number", map[string]any{"exp": json.RawMessage("1e400")}, false},
		{"H18 exp beyond the calendar", map[string]any{"exp": json.RawMessage("1e300")}, false},
		{"H18 exp negative", map[string]any{"exp": -1}, false},
		{"H18 exp null", map[string]any{"exp": json.RawMessage("null")}, false},
		{"H18 exp an array", map[string]any{"exp": []int64{now + 60}}, false},
		{"expired", map[string]any{"exp": now - 31}, false},
		{"expired within the leeway", map[string]any{"exp": now - 30}, true},
		{"not valid yet", map[string]any{"nbf": now + 31}, false},
		{"not valid yet, within the leeway", map[string]any{"nbf": now + 30}, true},
		{"H18 issued in the future", map[string]any{"iat": now + 31}, false},
		{"nbf before time began", map[string]any{"nbf": -1}, false},
		{"nbf as text", map[string]any{"nbf": "0"}, false},
		{"no nbf and no iat", map[string]any{"nbf": nil, "iat": nil}, true},
		{"H19 foreign issuer", map[string]any{"iss": "https://evil"}, false},
		{"H19 issuer with a slash more", map[string]any{"iss": "https://id/"}, false},
		{"H19 issuer missing", map[string]any{"iss": nil}, false},
		{"H19 issuer an array", map[string]any{"iss": []string{"https://id"}}, false},
		{"H19 foreign audience", map[string]any{"aud": "other"}, false},
		{"H19 audience in a list", map[string]any{"aud": []string{"other", "chat"}}, true},
		{"H19 audience not in the list", map[string]any{"aud": []string{"other", "chat2"}}, false},
		{"H19 audience missing", map[string]any{"aud": nil}, false},
		{"H19 audience empty", map[string]any{"aud": []string{}}, false},
		{"H19 audience list with a number", map[string]any{"aud": []any{"chat", 1}}, false},
		{"H19 audience an object", map[string]any{"aud": map[string]string{"chat": "chat"}}, false},
		{"sub missing", map[string]any{"sub": nil}, false},
		{"sub empty", map[string]any{"sub": ""}, false},
		{"sub a number", map[string]any{"sub": 7}, false},
		{"sub of 256 characters", map[string]any{"sub": strings.Repeat("ä", 256)}, true},
		{"sub of 257 characters", map[string]any{"sub": strings.Repeat("ä", 257)}, false},
		{"sub with NUL", map[string]any{"sub": "alice\x00"}, false},
		{"sub with newline", map[string]any{"sub": "alice\n"}, false},
		{"sub with half a surrogate", map[string]any{"sub": json.RawMessage(`"\ud800"`)}, false},
		{"H19 tenant a number", map[string]any{"tenant": 1}, false},
		{"H19 tenant empty", map[string]any{"tenant": ""}, false},
		{"H19 tenant with newline", map[string]any{"tenant": "a\nb"}, false},
		{"capabilities", map[string]any{"cap": []string{"chat:subscribe:*"}}, true},
		{"capabilities as text", map[string]any{"cap": "chat:subscribe:*"}, false},
		{"capabilities with a number", map[string]any{"cap": []any{1}}, false},
		{"too many capabilities", map[string]any{"cap": many}, false},
	} {
		t.Run("PIL-189 "+row.name, func(t *testing.T) {
			token := signHS(t, secretA, claimsOf(row.changes))
			p, err := j.Authenticate(t.Context(), Credentials{Token: token})
			if row.ok {
				if err != nil {
					t.Fatalf("refused: %s", Reason(err))
				}
				return
			}
			refused(t, p, err, token, claimsOf(row.changes))
		})
	}
}

func TestJWTPrincipal(t *testing.T) {
	j := testJWT(t, func(c *JWTConfig) { c.TenantClaim, c.CapabilitiesClaim, c.Cookie = "org", "cap", "jwt" })
	auth := func(c Credentials) Principal {
		t.Helper()
		p, err := j.Authenticate(t.Context(), c)
		if err != nil {
			t.Fatalf("refused: %s", Reason(err))
		}
		return p
	}
	plain := signHS(t, secretA, claimsOf(map[string]any{"org": "acme"}))
	p := auth(Credentials{Token: plain})
	if p.Realm != "r" || p.Tenant != "acme" || p.Subject != (Subject{"jwt:https://id", "alice"}) || p.Ambient {
		t.Errorf("realm %q tenant %q subject %q ambient %v", p.Realm, p.Tenant, p.Subject.Issuer, p.Ambient)
	}
	if !p.Caps.Equal(OwnThreads(UserVerbs)) {
		t.Error("a signed-in user does not have the usual rights on his own threads")
	}
	if want := time.Unix(start.Unix()+3630, 0); !p.Expires.Equal(want) {
		t.Errorf("expires %v, want %v", p.Expires, want)
	}
	reader := auth(Credentials{Token: signHS(t, secretA, claimsOf(map[string]any{"cap": []string{"chat:subscribe"}}))})
	if !reader.Caps.Equal(OwnThreads(VerbsOf(Subscribe))) {
		t.Error("capabilities of the token do not replace the usual rights")
	}
	none := auth(Credentials{Token: signHS(t, secretA, claimsOf(map[string]any{"cap": []string{}}))})
	if !none.Caps.Equal(Capabilities{}) {
		t.Error("an empty list of capabilities allows something")
	}
	cookie := Credentials{Cookies: FromRequest(requestWithCookie("jwt", plain), "jwt").Cookies}
	if q := auth(cookie); !q.Same(p) || !q.Ambient {
		t.Error("a token in a cookie is not the same user, or not ambient")
	}
	two := cookie
	two.Cookies = append(two.Cookies, FromRequest(requestWithCookie("jwt", signHS(t, secretA, claimsOf(nil))), "jwt").Cookies...)
	q, err := j.Authenticate(t.Context(), two)
	refused(t, q, err, plain)
	q, err = j.Authenticate(t.Context(), Credentials{Token: plain, Bad: true})
	refused(t, q, err, plain)
	// Names that look alike are other people.
	for _, sub := range []string{"Alice", "alice\u200b", "аlice", "alice ", "ａｌｉｃｅ", "alic\u0065\u0301"} {
		q := auth(Credentials{Token: signHS(t, secretA, claimsOf(map[string]any{"sub": sub, "org": "acme"}))})
		if q.Same(p) || q.Key() == p.Key() {
			t.Errorf("%q is alice", sub)
		}
	}
}

func TestJWTForms(t *testing.T) {
	rsaPEM := pemOf(t, &rsaKeys()[0].PublicKey)
	hs := testJWT(t, nil)
	public := testJWT(t, func(c *JWTConfig) {
		c.Secrets = nil
		c.PublicKeys = [][]byte{append(rsaPEM, pemOf(t, &ecKey().PublicKey)...), pemOf(t, edKey().Public())}
	})
	claims := claimsOf(nil)
	good := signHS(t, secretA, claims)
	parts := strings.Split(good, ".")
	der, _ := x509.MarshalPKIXPublicKey(&rsaKeys()[0].PublicKey)
	evil := rsaKeys()[1]
	evilJWK := fmt.Sprintf(`{"kty":"RSA","n":"%s","e":"AQAB"}`, b64(evil.N.Bytes()))
	for _, row := range []struct {
		name  string
		j     *JWT
		token string
		ok    bool
	}{
		{"HS256", hs, good, true},
		{"RS256", public, signAs(t, `{"alg":"RS256"}`, claims, rsaKeys()[0]), true},
		{"ES256", public, signAs(t, `{"alg":"ES256"}`, claims, ecKey()), true},
		{"EdDSA", public, signAs(t, `{"alg":"EdDSA"}`, claims, edKey()), true},
		{"kid of a configured key says nothing", hs, signAs(t, `{"alg":"HS256","kid":"../../dev/null"}`, claims, secretA), true},
		{"empty", hs, "", false},
		{"no dots", hs, "abc", false},
		{"H23 a million dots", hs, strings.Repeat(".", 1_000_000), false},
		{"H23 8192 dots", hs, strings.Repeat(".", maxToken), false},
		{"H23 too long", hs, signHS(t, secretA, claimsOf(map[string]any{"x": strings.Repeat("x", maxToken)})), false},
		{"four parts", hs, good + "." + parts[2], false},
		{"JWE", hs, good + ".x.y", false},
		{"leading space", hs, " " + good, false},
		{"newline inside", hs, good[:10] + "\n" + good[10:], false},
		{"padding", hs, good + "=", false},
		{"JSON form", hs, `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`, false},
		{"truncated signature", hs, good[:len(good)-2], false},
		{"no signature", hs, parts[0] + "." + parts[1] + ".", false},
		{"truncated claims", hs, parts[0] + "." + parts[1][:20] + "." + parts[2], false},
		{"forged claims", hs, parts[0] + "." + b64([]byte(claimsOf(map[string]any{"sub": "root"}))) + "." + parts[2], false},
		{"forged key", hs, signHS(t, secretB, claims), false},
		{"H9 none", hs, signAs(t, `{"alg":"none"}`, claims, nil), false},
		{"H9 none with a signature", hs, signAs(t, `{"alg":"none"}`, claims, secretA), false},
		{"H9 None", hs, signAs(t, `{"alg":"None"}`, claims, secretA), false},
		{"H9 nOnE", public, signAs(t, `{"alg":"nOnE"}`, claims, rsaKeys()[0]), false},
		{"no alg", hs, signAs(t, `{"typ":"JWT"}`, claims, secretA), false},
		{"alg a number", hs, signAs(t, `{"alg":256}`, claims, secretA), false},
		{"alg in lower case", hs, signAs(t, `{"alg":"hs256"}`, claims, secretA), false},
		{"Alg in upper case", hs, signAs(t, `{"Alg":"HS256"}`, claims, secretA), false},
		{"H10 PEM of the RSA key as HMAC secret", public, signAs(t, `{"alg":"HS256"}`, claims, rsaPEM), false},
		{"H10 DER of the RSA key as HMAC secret", public, signAs(t, `{"alg":"HS256"}`, claims, der), false},
		{"H10 RS256 to an HMAC site", hs, signAs(t, `{"alg":"RS256"}`, claims, rsaKeys()[0]), false},
		{"H11 HS512", hs, signAs(t, `{"alg":"HS512"}`, claims, secretA), false},
		{"H11 RS512 not configured", public, signAs(t, `{"alg":"RS512"}`, claims, rsaKeys()[0]), false},
		{"H11 PS256 not configured", public, signAs(t, `{"alg":"PS256"}`, claims, rsaKeys()[0]), false},
		{"ES256 header with an RSA signature", public, signAs(t, `{"alg":"ES256"}`, claims, rsaKeys()[0]), false},
		{"ES384 header with a P-256 key", public, signAs(t, `{"alg":"ES384"}`, claims, ecKey()), false},
		{"ES256 signature of zeros", public, b64([]byte(`{"alg":"ES256"}`)) + "." + b64([]byte(claims)) + "." + b64(make([]byte, 64)), false},
		{"H13 jwk of one's own", public, signAs(t, `{"alg":"RS256","jwk":`+evilJWK+`}`, claims, evil), false},
		{"H13 jku of one's own", public, signAs(t, `{"alg":"RS256","jku":"http://127.0.0.1:1/"}`, claims, evil), false},
		{"H13 x5u of one's own", public, signAs(t, `{"alg":"RS256","x5u":"http://127.0.0.1:1/"}`, claims, evil), false},
		{"crit", hs, signAs(t, `{"alg":"HS256","crit":["exp"],"exp":1}`, claims, secretA), false},
		{"crit of b64", hs, signAs(t, `{"alg":"HS256","crit":["b64"],"b64":true}`, claims, secretA), false},
		{"b64", hs, signAs(t, `{"alg":"HS256","b64":true}`, claims, secretA), false},
		{"duplicate alg", hs, signAs(t, `{"alg":"HS256","alg":"HS256"}`, claims, secretA), false},
		{"H12 huge kid", hs, signAs(t, `{"alg":"HS256","kid":"`+strings.Repeat("k", 129)+`"}`, claims, secretA), false},
		{"H12 kid a number", hs, signAs(t, `{"alg":"HS256","kid":1}`, claims, secretA), false},
		{"header an array", hs, signAs(t, `["HS256"]`, claims, secretA), false},
		{"header with bytes behind", hs, signAs(t, `{"alg":"HS256"}{}`, claims, secretA), false},
		{"I8 duplicate claim", hs, signHS(t, secretA, strings.Replace(claims, "{", `{"sub":"root",`, 1)), false},
		{"I8 duplicate claim in other spelling", hs, signHS(t, secretA, strings.Replace(claims, "{", `{"s\u0075b":"root",`, 1)), false},
		{"I8 duplicate deep inside", hs, signHS(t, secretA, strings.Replace(claims, "{", `{"x":{"a":1,"a":2},`, 1)), false},
		{"claims null", hs, signHS(t, secretA, "null"), false},
		{"claims an array", hs, signHS(t, secretA, "["+claims+"]"), false},
		{"claims with bytes behind", hs, signHS(t, secretA, claims+"{}"), false},
		{"claims not UTF-8", hs, signHS(t, secretA, strings.Replace(claims, "alice", "ali\xffce", 1)), false},
		{"claims deep", hs, signHS(t, secretA, `{"x":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)+`}`), false},
	} {
		t.Run("PIL-189 "+row.name, func(t *testing.T) {
			p, err := row.j.Authenticate(t.Context(), Credentials{Token: row.token})
			if row.ok {
				if err != nil {
					t.Fatalf("refused: %s", Reason(err))
				}
				return
			}
			refused(t, p, err, row.token, claims)
		})
	}
}

func TestJWTSecretRotation(t *testing.T) {
	both := testJWT(t, func(c *JWTConfig) { c.Secrets = [][]byte{secretB, secretA} })
	after := testJWT(t, func(c *JWTConfig) { c.Secrets = [][]byte{secretB} })
	old := Credentials{Token: signHS(t, secretA, claimsOf(nil))}
	p, err := both.Authenticate(t.Context(), old)
	if err != nil {
		t.Fatal("H17 the old secret is not accepted beside the new one")
	}
	if err := Recheck(both, p, start); err != nil {
		t.Errorf("recheck: %s", Reason(err))
	}
	if Recheck(after, p, start) == nil {
		t.Error("a principal outlives its secret")
	}
	q, err := after.Authenticate(t.Context(), old)
	refused(t, q, err, old.Token)
}

func TestJWTRecheck(t *testing.T) {
	j := testJWT(t, nil)
	p, err := j.Authenticate(t.Context(), Credentials{Token: signHS(t, secretA, claimsOf(nil))})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*JWTConfig){
		"realm":        func(c *JWTConfig) { c.Realm = "s" },
		"issuer":       func(c *JWTConfig) { c.Issuer = "https://other" },
		"audience":     func(c *JWTConfig) { c.Audience = []string{"other"} },
		"secret":       func(c *JWTConfig) { c.Secrets = [][]byte{secretB} },
		"tenant claim": func(c *JWTConfig) { c.TenantClaim = "org" },
		"caps claim":   func(c *JWTConfig) { c.CapabilitiesClaim = "cap" },
	} {
		if Recheck(testJWT(t, change), p, start) == nil {
			t.Errorf("a principal outlives its %s", name)
		}
	}
	if err := Recheck(testJWT(t, nil), p, start); err != nil {
		t.Errorf("a reload without a change revokes: %s", Reason(err))
	}
	if Recheck(j, p, p.Expires) != nil || Recheck(j, p, p.Expires.Add(1)) == nil {
		t.Error("H20 a principal does not end with its token")
	}
}

func TestJWTConfig(t *testing.T) {
	small, _ := rsa.GenerateKey(rand.Reader, 1024)
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKeys()[0])})
	only := func(keys ...[]byte) func(*JWTConfig) {
		return func(c *JWTConfig) { c.Secrets, c.PublicKeys = nil, keys }
	}
	jwks := func(url string) func(*JWTConfig) {
		return func(c *JWTConfig) { c.Secrets, c.JWKSURL = nil, url }
	}
	for _, row := range []struct {
		name   string
		change func(*JWTConfig)
		ok     bool
	}{
		{"secret", func(*JWTConfig) {}, true},
		{"public key", only(pemOf(t, &rsaKeys()[0].PublicKey)), true},
		{"jwks", jwks("https://id.example.com/jwks.json"), true},
		{"jwks on loopback", jwks("http://127.0.0.1:9/jwks"), true},
		{"jwks on loopback v6", jwks("http://[::1]:9/jwks"), true},
		{"H29 no key at all", func(c *JWTConfig) { c.Secrets = nil }, false},
		{"H29 empty secret", func(c *JWTConfig) { c.Secrets = [][]byte{nil} }, false},
		{"secret of 31 bytes", func(c *JWTConfig) { c.Secrets = [][]byte{secretA[:31]} }, false},
		{"H10 public key as secret", func(c *JWTConfig) { c.Secrets = [][]byte{pemOf(t, &rsaKeys()[0].PublicKey)} }, false},
		{"two kinds", func(c *JWTConfig) { c.JWKSURL = "https://id/" }, false},
		{"private key", only(private), false},
		{"no PEM", only([]byte("hello")), false},
		{"RSA of 1024 bits", only(pemOf(t, &small.PublicKey)), false},
		{"jwks by http", jwks("http://id.example.com/jwks.json"), false},
		{"jwks by file", jwks("file:///jwks.json"), false},
		{"jwks with a password", jwks("https://u:p@id.example.com/"), false},
		{"jwks on a name that starts like loopback", jwks("http://127.0.0.1.example.com/"), false},
		{"no issuer", func(c *JWTConfig) { c.Issuer = "" }, false},
		{"no audience", func(c *JWTConfig) { c.Audience = nil }, false},
		{"empty audience", func(c *JWTConfig) { c.Audience = []string{""} }, false},
		{"no realm", func(c *JWTConfig) { c.Realm = "" }, false},
		{"leeway of two minutes", func(c *JWTConfig) { c.Leeway = 2 * time.Minute }, false},
		{"H9 algorithm none", func(c *JWTConfig) { c.Algorithms = []string{"none"} }, false},
		{"H10 RS256 with a secret", func(c *JWTConfig) { c.Algorithms = []string{"RS256"} }, false},
		{"H10 HS256 with a public key", func(c *JWTConfig) {
			only(pemOf(t, &rsaKeys()[0].PublicKey))(c)
			c.Algorithms = []string{"HS256"}
		}, false},
		{"a key that fits no algorithm", func(c *JWTConfig) {
			only(pemOf(t, &rsaKeys()[0].PublicKey))(c)
			c.Algorithms = []string{"ES256"}
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			config := JWTConfig{Realm: "r", Secrets: [][]byte{secretA}, Issuer: "i", Audience: []string{"a"}}
			row.change(&config)
			j, err := NewJWT(config)
			if (err == nil) != row.ok {
				t.Fatalf("error %v, want accepted %v", err, row.ok)
			}
			if err != nil && strings.Contains(err.Error(), string(secretA[:31])) {
				t.Error("the error tells the secret")
			}
			if j != nil {
				_ = j.Close()
			}
		})
	}
}

func TestJWTWiderAlgorithms(t *testing.T) {
	j := testJWT(t, func(c *JWTConfig) {
		c.Secrets, c.PublicKeys = nil, [][]byte{pemOf(t, &rsaKeys()[0].PublicKey)}
		c.Algorithms = []string{"RS512", "PS256"}
	})
	for alg, ok := range map[string]bool{"RS512": true, "PS256": true, "RS256": false} {
		token := signAs(t, `{"alg":"`+alg+`"}`, claimsOf(nil), rsaKeys()[0])
		if _, err := j.Authenticate(t.Context(), Credentials{Token: token}); (err == nil) != ok {
			t.Errorf("H11 %s: error %v", alg, err)
		}
	}
}

// FuzzJWT: whatever comes, no panic, no principal without the secret, one text.
func FuzzJWT(f *testing.F) {
	j, err := NewJWT(JWTConfig{Realm: "r", Secrets: [][]byte{secretA}, Issuer: "i", Audience: []string{"a"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`{"alg":"HS256"}`, `{"sub":"a"}`, "sig", "a.b.c")
	f.Add(`{"alg":"HS256","kid":"\u0000"}`, `{"exp":1e400}`, "", "..")
	f.Fuzz(func(t *testing.T, header, claims, sig, raw string) {
		for _, token := range []string{b64([]byte(header)) + "." + b64([]byte(claims)) + "." + b64([]byte(sig)), raw} {
			p, err := j.Authenticate(t.Context(), Credentials{Token: token})
			if err == nil {
				t.Fatalf("%q is believed", token)
			}
			refused(t, p, err)
		}
		// A well-signed token with any claims: no panic either.
		if p, err := j.Authenticate(t.Context(), Credentials{Token: signAs(t, `{"alg":"HS256"}`, claims, secretA)}); err != nil {
			refused(t, p, err)
		}
	})
}
