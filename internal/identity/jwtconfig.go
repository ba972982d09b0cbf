package identity

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// JWTConfig says which tokens to believe. Exactly one of Secrets, PublicKeys and
// JWKSURL is given, so the kind of key, and with it the algorithms, is fixed by
// the operator and never by a token.
type JWTConfig struct {
	Realm string
	// Secrets are HS256 keys of at least 32 bytes; several while one is replaced.
	Secrets [][]byte
	// PublicKeys are PEM texts with one or more RSA (2048 bits and more), EC
	// (P-256, P-384, P-521) or Ed25519 public keys.
	PublicKeys [][]byte
	// JWKSURL is where a JSON Web Key Set lies; https, or http on a loopback host.
	// It is fetched when it is first needed.
	JWKSURL string
	// Issuer and Audience are demanded: "iss" must equal the first, "aud" must
	// name one of the second.
	Issuer   string
	Audience []string
	// TenantClaim names the claim that holds the tenant; default "tenant". A token
	// without it belongs to the tenant "".
	TenantClaim string
	// CapabilitiesClaim names a claim with an array of capabilities as
	// [ParseCapabilities] reads them; they replace Caps. "" means that tokens
	// carry none.
	CapabilitiesClaim string
	// Caps is what a token without that claim allows; zero means [UserVerbs] on
	// own threads.
	Caps Capabilities
	// Algorithms restricts, or for RSA keys extends (RS384, RS512, PS256, PS384,
	// PS512), what is accepted. Default: HS256 for secrets; RS256, ES256, ES384,
	// ES512 and EdDSA, as each key fits, for public keys.
	Algorithms []string
	// Cookie names a cookie that may carry the token if nothing else does; ""
	// for none. The caller passes it to [FromRequest].
	Cookie string
	// Leeway is how far clocks may differ; default 30 s, at most 60 s.
	Leeway time.Duration
	// MaxStale is how long keys of a JWKS are used while its endpoint fails;
	// default 24 h.
	MaxStale time.Duration
	// HTTPClient fetches the JWKS; its redirect policy, cookie jar and time-out
	// are replaced in a copy. Default: a client without idle connections.
	HTTPClient *http.Client
	// OnFetch is told how each fetch of the JWKS went; it must not block.
	OnFetch func(error)
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// NewJWT checks config without any network.
func NewJWT(config JWTConfig) (*JWT, error) {
	config.defaults()
	switch {
	case config.Realm == "":
		return nil, errors.New("auth jwt: no realm")
	case config.Issuer == "":
		return nil, errors.New("auth jwt: issuer is missing: it says who makes the tokens (iss)")
	case !validName(config.Issuer, maxSubject):
		return nil, errors.New("auth jwt: issuer must be 1 to 256 characters")
	case len(config.Audience) == 0, slices.Contains(config.Audience, ""):
		return nil, errors.New("auth jwt: audience is missing: it says for whom the tokens are (aud)")
	case config.Leeway < 0 || config.Leeway > time.Minute:
		return nil, errors.New("auth jwt: leeway must be 0 to 60s")
	}
	j := &JWT{
		config: config,
		terms:  sha256.Sum256(frame("terms", config.TenantClaim, config.CapabilitiesClaim)),
	}
	if err := j.setAlgorithms(); err != nil {
		return nil, fmt.Errorf("auth jwt: %w", err)
	}
	if err := j.setKeys(); err != nil {
		return nil, fmt.Errorf("auth jwt: %w", err)
	}
	return j, nil
}

func (c *JWTConfig) defaults() {
	if c.TenantClaim == "" {
		c.TenantClaim = "tenant"
	}
	if c.Leeway == 0 {
		c.Leeway = 30 * time.Second
	}
	if c.MaxStale <= 0 {
		c.MaxStale = 24 * time.Hour
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Audience = slices.Clone(c.Audience)
	c.Caps = userCaps(c.Caps)
}

func (j *JWT) setAlgorithms() error {
	possible := append([]jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}, rsaAlgorithms...)
	j.algs = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}
	if len(j.config.Secrets) > 0 {
		possible = []jose.SignatureAlgorithm{jose.HS256}
		j.algs = possible
	}
	if len(j.config.Algorithms) == 0 {
		return nil
	}
	j.algs = nil
	for _, name := range j.config.Algorithms {
		alg := jose.SignatureAlgorithm(name)
		if !slices.Contains(possible, alg) {
			return fmt.Errorf("algorithm %q does not fit the kind of key", name)
		}
		j.algs = append(j.algs, alg)
	}
	return nil
}

func (j *JWT) setKeys() error {
	c := j.config
	given := 0
	for _, is := range []bool{len(c.Secrets) > 0, len(c.PublicKeys) > 0, c.JWKSURL != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return errors.New("exactly one of secret, public key and jwks must be given")
	}
	if c.JWKSURL != "" {
		set, err := newKeySet(c, j.algs)
		if err != nil {
			return err
		}
		j.jwks, j.keys = set, set
		return nil
	}
	var keys staticKeys
	for _, secret := range c.Secrets {
		k, err := secretKey(secret)
		if err != nil {
			return err
		}
		keys = append(keys, k)
	}
	for _, text := range c.PublicKeys {
		more, err := publicKeys(text, j.algs)
		if err != nil {
			return err
		}
		keys = append(keys, more...)
	}
	if len(keys) > maxKeys {
		return fmt.Errorf("more than %d keys", maxKeys)
	}
	for _, k := range keys {
		if !slices.ContainsFunc(k.algs, func(a jose.SignatureAlgorithm) bool { return slices.Contains(j.algs, a) }) {
			return errors.New("a key fits none of the algorithms")
		}
	}
	j.keys = keys
	return nil
}
