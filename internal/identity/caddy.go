package identity

import (
	"context"
	"errors"
	"time"
)

// CaddyConfig says how to read the user that Caddy's authentication found.
type CaddyConfig struct {
	Realm string
	// TenantMeta is the name in [Credentials.CaddyMeta] that holds the tenant; ""
	// if there are no tenants. With a name, a user without that value is refused.
	TenantMeta string
	// Caps is what such a user may do; zero means [UserVerbs] on own threads.
	Caps Capabilities
}

// Caddy trusts {http.auth.user.id}, which only Caddy's own authentication
// handlers set.
type Caddy struct{ config CaddyConfig }

// NewCaddy makes the authenticator of "auth caddy".
func NewCaddy(config CaddyConfig) (*Caddy, error) {
	if config.Realm == "" {
		return nil, errors.New("auth caddy: no realm")
	}
	config.Caps = userCaps(config.Caps)
	return &Caddy{config}, nil
}

// userCaps fills in what a signed-in user may do by default.
func userCaps(c Capabilities) Capabilities {
	if c.Equal(Capabilities{}) {
		return OwnThreads(UserVerbs)
	}
	return c
}

// Authenticate implements [Authenticator].
func (a *Caddy) Authenticate(_ context.Context, c Credentials) (Principal, error) {
	if c.CaddyUser == "" {
		return Principal{}, absent("no caddy user")
	}
	if !validName(c.CaddyUser, maxSubject) {
		return Principal{}, refuse("caddy user is no valid subject")
	}
	p := Principal{
		Realm:   a.config.Realm,
		Subject: Subject{IssuerCaddy, c.CaddyUser},
		Caps:    a.config.Caps,
		Ambient: true,
	}
	if a.config.TenantMeta != "" {
		p.Tenant = c.CaddyMeta[a.config.TenantMeta]
		if !validName(p.Tenant, maxSubject) {
			return Principal{}, refuse("caddy user has no valid tenant")
		}
	}
	return p, nil
}

// Recheck implements [Rechecker]. Caddy's handlers cannot be asked again without
// a request, so it tells only whether this site still trusts them.
func (a *Caddy) Recheck(p Principal, _ time.Time) error {
	if p.Subject.Issuer != IssuerCaddy || p.Realm != a.config.Realm {
		return refuse("not admitted by caddy here")
	}
	return nil
}
