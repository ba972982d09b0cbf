package identity

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// JWT authenticates by JSON Web Tokens (RFC 7519) in compact form. Make one with
// [NewJWT] and Close it.
type JWT struct {
	config JWTConfig
	algs   []jose.SignatureAlgorithm
	keys   keySource
	jwks   *keySet // nil unless the keys are fetched
	terms  [sha256.Size]byte
}

// Close ends a fetch that is going on and waits for it. The JWT stays usable
// with the keys that it has.
func (j *JWT) Close() error {
	if j.jwks != nil {
		j.jwks.close()
	}
	return nil
}

// Warm starts fetching the JWKS, if there is one, and returns at once, so that
// the first client need not wait for it (PIL-016).
func (j *JWT) Warm() {
	if j.jwks != nil {
		j.jwks.warm()
	}
}

// Authenticate implements [Authenticator]. With a JWKS it may wait for the first
// fetch or for an unknown key, at most 1.5 s.
func (j *JWT) Authenticate(ctx context.Context, c Credentials) (Principal, error) {
	token, ambient, err := j.pick(c)
	if err != nil {
		return Principal{}, err
	}
	claims, thumb, err := j.verify(ctx, token)
	if err != nil {
		return Principal{}, err
	}
	p, err := j.principal(claims)
	if err != nil {
		return Principal{}, err
	}
	p.Ambient = ambient
	p.proof.key, p.proof.terms = thumb, j.terms
	return p, nil
}

// pick finds the token: what the client gave on purpose, else the cookie.
func (j *JWT) pick(c Credentials) (token string, ambient bool, err error) {
	if c.Bad {
		return "", false, refuse("contradicting credentials")
	}
	if c.Token != "" {
		return c.Token, false, nil
	}
	if j.config.Cookie != "" {
		for _, value := range c.cookies(j.config.Cookie) {
			if token != "" && value != token {
				return "", false, refuse("contradicting cookies")
			}
			token = value
		}
	}
	if token == "" {
		return "", false, absent("no token")
	}
	return token, true, nil
}

// verify checks form and signature and returns the claims, and the thumbprint of the
// key that verified them.
func (j *JWT) verify(ctx context.Context, token string) (object, [sha256.Size]byte, error) {
	var thumb [sha256.Size]byte
	if len(token) > maxToken || !compact(token) {
		return nil, thumb, refuse("token is not a compact JWS")
	}
	alg, kid, err := readHeader(token[:strings.IndexByte(token, '.')], j.algs)
	if err != nil {
		return nil, thumb, err
	}
	jws, err := jose.ParseSignedCompact(token, j.algs)
	if err != nil {
		return nil, thumb, refuse("token cannot be parsed")
	}
	keys := j.keys.find(ctx, kid)
	if len(keys) == 0 {
		return nil, thumb, refuse("no key for the token")
	}
	for _, k := range keys {
		if !slices.Contains(k.algs, alg) {
			continue
		}
		payload, err := jws.Verify(k.key)
		if err != nil {
			continue
		}
		claims, err := readObject(payload)
		if err != nil {
			return nil, thumb, refuse("claims are not one JSON object")
		}
		return claims, k.thumb, nil
	}
	return nil, thumb, refuse("no key verifies the token")
}

// Recheck implements [Rechecker]: the principal holds if this configuration
// still trusts the key that signed its token, and reads the same realm, issuer,
// audience and claims. It never waits; keys that were not fetched yet, or cannot
// be, revoke nobody for MaxStale.
func (j *JWT) Recheck(p Principal, now time.Time) error {
	switch {
	case p.Realm != j.config.Realm,
		p.Subject.Issuer != IssuerJWT+j.config.Issuer,
		p.proof.terms != j.terms,
		!slices.Contains(j.config.Audience, p.proof.audience):
		return refuse("not admitted by this configuration")
	case !j.keys.has(p.proof.key, now):
		return refuse("key no longer trusted")
	}
	return nil
}
