package caddymodule

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/parlance-gateway/parlance/internal/identity"
)

// Auth is one way to be admitted; exactly one of its fields is given.
type Auth struct {
	// By a JSON Web Token.
	JWT *JWT `json:"jwt,omitempty"`

	// By the user that Caddy's own authentication has found
	// (`{http.auth.user.id}`), such as basic_auth.
	Caddy *CaddyUser `json:"caddy,omitempty"`
}

// JWT says which tokens admit whom. Exactly one of Secrets, PublicKeys and JWKS
// is given. A token comes in the Socket.IO auth payload, in the Authorization
// header or in the cookie named here.
type JWT struct {
	// HS256 keys of at least 32 bytes; several while one is replaced. Keep them
	// in placeholders such as `{env.NAME}` and `{file./path}`.
	Secrets []string `json:"secrets,omitempty"`

	// PEM texts of RSA, EC or Ed25519 public keys, usually `{file./path}`.
	PublicKeys []string `json:"public_keys,omitempty"`

	// The https address of a JSON Web Key Set (http on a loopback host). It is
	// fetched when the configuration becomes current, never while it is
	// validated, and again when a token names a new key.
	JWKS string `json:"jwks,omitempty"`

	// What `iss` must be.
	Issuer string `json:"issuer,omitempty"`

	// One of which `aud` must name.
	Audience []string `json:"audience,omitempty"`

	// Restricts the algorithms, or for RSA keys extends them. The default is
	// HS256 for secrets, and RS256, ES256, ES384, ES512 and EdDSA for public keys.
	Algorithms []string `json:"algorithms,omitempty"`

	// The claim that names the tenant. Default: `tenant`.
	TenantClaim string `json:"tenant_claim,omitempty"`

	// The claim with an array of capabilities, which replace the default ones.
	// Default: tokens carry none.
	CapabilitiesClaim string `json:"capabilities_claim,omitempty"`

	// What a token without that claim allows, such as `chat:subscribe`. Default:
	// everything that a user does, on threads of his own.
	Capabilities []string `json:"capabilities,omitempty"`

	// A cookie that may carry the token. Default: none may.
	Cookie string `json:"cookie,omitempty"`

	// How far clocks may differ, up to 60s. Default: 30s.
	Leeway caddy.Duration `json:"leeway,omitempty"`

	// How long keys of a set are used while its endpoint fails. Default: 24h.
	MaxStale caddy.Duration `json:"max_stale,omitempty"`
}

// CaddyUser says how Caddy's own user is read.
type CaddyUser struct {
	// The name of the user's metadata, `{http.auth.user.NAME}`, that holds the
	// tenant; a user without it is refused. Default: there are no tenants.
	Tenant string `json:"tenant,omitempty"`

	// What such a user may do, such as `chat:subscribe`. Default: everything
	// that a user does, on threads of his own.
	Capabilities []string `json:"capabilities,omitempty"`
}

// makeAuth makes the site's authenticator; none leaves it to the hub's cookie.
func (h *Handler) makeAuth() error {
	var list []identity.Authenticator
	for _, a := range h.Auth {
		made, err := h.authenticator(a)
		if err != nil {
			return err
		}
		list = append(list, made)
	}
	switch len(list) {
	case 0:
	case 1:
		h.site.Auth = list[0]
	default:
		h.site.Auth = identity.First(list...)
	}
	return nil
}

func (h *Handler) authenticator(a *Auth) (identity.Authenticator, error) {
	switch {
	case a == nil || (a.JWT == nil) == (a.Caddy == nil):
		return nil, errors.New("auth: each entry is either jwt or caddy")
	case a.JWT != nil:
		return h.jwt(a.JWT)
	}
	caps, err := capabilities(a.Caddy.Capabilities)
	if err != nil {
		return nil, fmt.Errorf("auth caddy: %w", err)
	}
	if a.Caddy.Tenant != "" {
		h.metas = append(h.metas, a.Caddy.Tenant)
	}
	return identity.NewCaddy(identity.CaddyConfig{Realm: h.site.Realm, TenantMeta: a.Caddy.Tenant, Caps: caps})
}

func (h *Handler) jwt(j *JWT) (identity.Authenticator, error) {
	c, err := h.jwtConfig(j)
	if err != nil {
		return nil, err
	}
	if j.Cookie != "" {
		h.cookies = append(h.cookies, j.Cookie)
	}
	made, err := identity.NewJWT(c)
	if err != nil {
		return nil, err
	}
	h.warmers = append(h.warmers, made.Warm)
	h.closers = append(h.closers, func() { _ = made.Close() })
	return made, nil
}

func (h *Handler) jwtConfig(j *JWT) (identity.JWTConfig, error) {
	c := identity.JWTConfig{
		Realm:             h.site.Realm,
		Issuer:            j.Issuer,
		Audience:          j.Audience,
		TenantClaim:       j.TenantClaim,
		CapabilitiesClaim: j.CapabilitiesClaim,
		Algorithms:        j.Algorithms,
		Cookie:            j.Cookie,
		Leeway:            time.Duration(j.Leeway),
		MaxStale:          time.Duration(j.MaxStale),
		OnFetch:           h.fetched,
	}
	var err error
	if c.Caps, err = capabilities(j.Capabilities); err != nil {
		return c, fmt.Errorf("auth jwt: %w", err)
	}
	if c.Secrets, err = keys(j.Secrets); err != nil {
		return c, fmt.Errorf("auth jwt: secret: %w", err)
	}
	if c.PublicKeys, err = keys(j.PublicKeys); err != nil {
		return c, fmt.Errorf("auth jwt: public_key: %w", err)
	}
	if c.JWKSURL, err = replaced(j.JWKS); err != nil {
		return c, fmt.Errorf("auth jwt: jwks: %w", err)
	}
	if c.Issuer, err = replaced(j.Issuer); err != nil {
		return c, fmt.Errorf("auth jwt: issuer: %w", err)
	}
	return c, nil
}

// fetched is told how each fetch of a key set went.
func (h *Handler) fetched(err error) {
	if err != nil {
		h.logger.Warn("the JSON Web Key Set could not be fetched", "error", err)
	}
}

func keys(texts []string) ([][]byte, error) {
	var list [][]byte
	for _, text := range texts {
		text, err := replaced(text)
		if err != nil {
			return nil, err
		}
		list = append(list, []byte(text))
	}
	return list, nil
}

// capabilities reads a list as tokens carry it, but strictly: what a person
// writes and gives nothing is a mistake.
func capabilities(entries []string) (identity.Capabilities, error) {
	all, err := identity.ParseCapabilities(entries)
	if err != nil {
		return all, err
	}
	for _, entry := range entries {
		one, _ := identity.ParseCapabilities([]string{entry})
		if one.Equal(identity.Capabilities{}) {
			return all, fmt.Errorf("%q is no capability: write chat:VERB, chat:VERB:THREAD or chat:VERB:*", entry)
		}
	}
	return all, nil
}
