package identity

import (
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
)

// CookieName is the name of the signed browser cookie.
const CookieName = "parlance"

const (
	maxToken     = 8 << 10 // bytes
	maxCookies   = 8       // kept per name, since a sibling domain can add its own
	bearerScheme = "bearer"
)

// Credentials is what a handshake brought that can tell who is there. It is a
// copy: it keeps nothing of the request alive. Never log it.
type Credentials struct {
	// Token is the bearer token: of the Authorization header, or set by the
	// dialect from the first message (the Socket.IO auth payload). A dialect that
	// finds both different must refuse; [Credentials.WithToken] does.
	Token string
	// Cookies holds the request's cookies of the names that were asked for.
	Cookies []*http.Cookie
	// CaddyUser is {http.auth.user.id}, set by the caller; "" if nobody is signed
	// in. CaddyMeta is {http.auth.user.<name>} for the names that are configured.
	CaddyUser string
	CaddyMeta map[string]string
	// RemoteIP is the address of the peer without its port; the caller overwrites
	// it with Caddy's client IP where proxies are trusted.
	RemoteIP string
	Host     string
	Secure   bool // the request came by TLS
	// Bad is set if what was given contradicts itself or is no credential at all,
	// such as two Authorization headers. Nobody is authenticated by it.
	Bad bool
}

// FromRequest copies what identifies the client from r: the bearer token, the
// browser cookie and the cookies named. It keeps no reference to r.
func FromRequest(r *http.Request, cookies ...string) Credentials {
	c := Credentials{
		Host:     strings.Clone(r.Host),
		Secure:   r.TLS != nil,
		RemoteIP: strings.Clone(r.RemoteAddr),
	}
	if ip, _, err := net.SplitHostPort(c.RemoteIP); err == nil {
		c.RemoteIP = ip
	}
	c.Token, c.Bad = bearer(r.Header["Authorization"])
	for _, name := range append([]string{CookieName}, cookies...) {
		if slices.ContainsFunc(c.Cookies, func(k *http.Cookie) bool { return k.Name == name }) {
			continue
		}
		for i, k := range r.CookiesNamed(name) {
			if i == maxCookies {
				break
			}
			if len(k.Value) <= maxToken {
				c.Cookies = append(c.Cookies, &http.Cookie{Name: name, Value: strings.Clone(k.Value)})
			}
		}
	}
	return c
}

// WithToken adds a token that came in a message. Two different tokens, or one
// that is too long, make the credentials bad: nobody is guessed.
func (c Credentials) WithToken(token string) Credentials {
	switch {
	case token == "":
	case len(token) > maxToken, c.Token != "" && c.Token != token:
		c.Bad = true
	default:
		c.Token = strings.Clone(token)
	}
	return c
}

// bearer reads Authorization headers. Another scheme than Bearer is somebody
// else's (Caddy's basic_auth) and no token.
func bearer(headers []string) (token string, bad bool) {
	for _, h := range headers {
		scheme, value, _ := strings.Cut(strings.TrimSpace(h), " ")
		if !strings.EqualFold(scheme, bearerScheme) {
			continue
		}
		value = strings.TrimSpace(value)
		if value == "" || len(value) > maxToken || len(headers) > 1 {
			return "", true
		}
		token = strings.Clone(value)
	}
	return token, false
}

func (c Credentials) cookies(name string) []string {
	var values []string
	for _, k := range c.Cookies {
		if k != nil && k.Name == name {
			values = append(values, k.Value)
		}
	}
	return values
}

// String tells nothing.
func (Credentials) String() string { return "credentials(redacted)" }

// GoString tells nothing.
func (c Credentials) GoString() string { return c.String() }

// LogValue tells nothing.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }
