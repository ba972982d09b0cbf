package caddymodule

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// readAuth reads:
//
//	auth jwt {
//		secret             <value>
//		public_key         <pem>
//		jwks               <url>
//		issuer             <value>
//		audience           <value...>
//		algorithms         <name...>
//		tenant_claim       <name>
//		capabilities_claim <name>
//		capabilities       <capability...>
//		cookie             <name>
//		leeway             <duration>
//		max_stale          <duration>
//	}
//	auth caddy {
//		tenant       <meta>
//		capabilities <capability...>
//	}
func (h *Handler) readAuth(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	kind := d.Val()
	if d.NextArg() {
		return d.ArgErr()
	}
	a := new(Auth)
	h.Auth = append(h.Auth, a)
	switch kind {
	case "jwt":
		a.JWT = new(JWT)
		return a.JWT.read(d)
	case "caddy":
		a.Caddy = new(CaddyUser)
		return readBlock(d, "auth caddy", map[string]option{
			"tenant":       text(d, &a.Caddy.Tenant),
			"capabilities": texts(d, &a.Caddy.Capabilities),
		}, nil)
	}
	return d.Errf("unknown kind of auth %q: there are jwt and caddy", kind)
}

func (j *JWT) read(d *caddyfile.Dispenser) error {
	return readBlock(d, "auth jwt", map[string]option{
		"secret":             key(d, &j.Secrets),
		"public_key":         key(d, &j.PublicKeys),
		"jwks":               text(d, &j.JWKS),
		"issuer":             text(d, &j.Issuer),
		"audience":           texts(d, &j.Audience),
		"algorithms":         texts(d, &j.Algorithms),
		"tenant_claim":       text(d, &j.TenantClaim),
		"capabilities_claim": text(d, &j.CapabilitiesClaim),
		"capabilities":       texts(d, &j.Capabilities),
		"cookie":             text(d, &j.Cookie),
		"leeway":             duration(d, &j.Leeway, false),
		"max_stale":          duration(d, &j.MaxStale, false),
	}, nil)
}

// key reads one value, which no error repeats: it may be a secret.
func key(d *caddyfile.Dispenser, v *[]string) option {
	return many(func() error {
		args := d.RemainingArgs()
		if len(args) != 1 || args[0] == "" {
			return d.Err("a key is one value: put it in quotes, or better in a placeholder such as {env.NAME}")
		}
		*v = append(*v, args[0])
		return nil
	})
}
