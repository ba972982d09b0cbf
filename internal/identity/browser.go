package identity

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// BrowserKeyName is the shelf's name of the cookie key.
	BrowserKeyName = "browser-cookie"

	cookieLife    = 400 * 24 * time.Hour // the longest that browsers keep one
	cookieRenewal = 30 * 24 * time.Hour
	cookieVersion = "1"
	browserID     = 16 // bytes
)

// BrowserConfig says how browsers without a sign-in are told apart.
type BrowserConfig struct {
	Realm string
	Keys  KeySource
	// Caps is what each browser may do; zero means [UserVerbs] on own threads.
	Caps Capabilities
	// Leeway is how far edges' clocks may differ; default 30 s.
	Leeway time.Duration
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Browser makes each browser its own subject by a signed cookie. The cookie's
// MAC covers the realm, so one site's cookie is nothing to another, and nobody
// can make or change one without the key.
type Browser struct{ config BrowserConfig }

// NewBrowser makes the authenticator of a site without "auth".
func NewBrowser(config BrowserConfig) (*Browser, error) {
	if config.Realm == "" || config.Keys == nil {
		return nil, errors.New("browser cookie: realm and keys are needed")
	}
	if config.Leeway == 0 {
		config.Leeway = 30 * time.Second
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	config.Caps = userCaps(config.Caps)
	return &Browser{config}, nil
}

// Authenticate implements [Authenticator]: it admits a browser whose cookie is
// valid. See [Browser.Ensure] for one that has none yet.
func (b *Browser) Authenticate(ctx context.Context, c Credentials) (Principal, error) {
	if len(c.cookies(CookieName)) == 0 {
		return Principal{}, absent("no cookie")
	}
	keys, err := b.keys(ctx)
	if err != nil {
		return Principal{}, refuse("cookie key not available")
	}
	found, ok := b.read(keys, c)
	if !ok {
		return Principal{}, refuse("cookie not accepted")
	}
	return b.principal(found), nil
}

// Ensure admits every browser. Where setCookie is not nil the caller puts it on
// the response: for a new browser, for one whose cookie was not valid (it is a
// new subject then), and for a cookie older than 30 days or of an old key (the
// subject stays). Fails only if the key cannot be had.
func (b *Browser) Ensure(ctx context.Context, c Credentials) (p Principal, setCookie *http.Cookie, err error) {
	keys, err := b.keys(ctx)
	if err != nil {
		return Principal{}, nil, fmt.Errorf("browser cookie: %w", err)
	}
	now := b.config.Now()
	found, ok := b.read(keys, c)
	if ok && found.key.ID == keys[0].ID && now.Sub(found.issued) <= cookieRenewal {
		return b.principal(found), nil, nil
	}
	if !ok {
		rand.Read(found.id[:])
	}
	found.issued, found.key = now, keys[0]
	return b.principal(found), &http.Cookie{
		Name:     CookieName,
		Value:    found.encode(b.config.Realm),
		Path:     "/",
		MaxAge:   int(cookieLife / time.Second),
		Secure:   c.Secure,
		HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	}, nil
}

// Recheck implements [Rechecker]. A cookie does not outlive its realm or its
// span; a key that was taken out refuses it at the next handshake.
func (b *Browser) Recheck(p Principal, _ time.Time) error {
	if p.Subject.Issuer != IssuerBrowser || p.Realm != b.config.Realm {
		return refuse("not admitted by cookie here")
	}
	return nil
}

func (b *Browser) keys(ctx context.Context) ([]Key, error) {
	keys, err := b.config.Keys.Keys(ctx, b.config.Realm)
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 || slices.ContainsFunc(keys, func(k Key) bool {
		return len(k.Secret) < minSecret || !keyID(k.ID)
	}) {
		return nil, errors.New("no usable key")
	}
	return keys, nil
}

func keyID(s string) bool {
	return len(s) >= 1 && len(s) <= 32 && strings.Trim(s,
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// cookie is what a cookie says.
type cookie struct {
	id     [browserID]byte
	issued time.Time
	key    Key
}

func (b *Browser) principal(c cookie) Principal {
	return Principal{
		Realm:   b.config.Realm,
		Subject: Subject{IssuerBrowser, base64.RawURLEncoding.EncodeToString(c.id[:])},
		Caps:    b.config.Caps,
		Expires: c.issued.Add(cookieLife),
		Ambient: true,
	}
}

// encode is version.key.payload.mac; payload is the id and the second of issue.
func (c cookie) encode(realm string) string {
	payload := binary.BigEndian.AppendUint64(c.id[:], uint64(c.issued.Unix()))
	enc := base64.RawURLEncoding
	return cookieVersion + "." + c.key.ID + "." + enc.EncodeToString(payload) + "." +
		enc.EncodeToString(cookieMAC(c.key, realm, payload))
}

func cookieMAC(k Key, realm string, payload []byte) []byte {
	mac := hmac.New(sha256.New, k.Secret)
	mac.Write(frame("parlance browser cookie", cookieVersion, realm, k.ID, string(payload)))
	return mac.Sum(nil)
}

// read returns the first valid cookie: a sibling domain can add cookies of this
// name, but none that verifies unless it is a browser's own of this realm.
func (b *Browser) read(keys []Key, c Credentials) (cookie, bool) {
	for _, value := range c.cookies(CookieName) {
		if found, ok := decodeCookie(value, b.config.Realm, keys); ok {
			now := b.config.Now()
			if !found.issued.After(now.Add(b.config.Leeway)) && now.Sub(found.issued) <= cookieLife {
				return found, true
			}
		}
	}
	return cookie{}, false
}

func decodeCookie(value, realm string, keys []Key) (c cookie, ok bool) {
	if len(value) > 256 || strings.ContainsAny(value, "\r\n") { // base64 skips line ends
		return c, false
	}
	parts := strings.Split(value, ".")
	if len(parts) != 4 || parts[0] != cookieVersion {
		return c, false
	}
	at := slices.IndexFunc(keys, func(k Key) bool { return k.ID == parts[1] })
	enc := base64.RawURLEncoding.Strict()
	payload, err1 := enc.DecodeString(parts[2])
	mac, err2 := enc.DecodeString(parts[3])
	if at < 0 || err1 != nil || err2 != nil || len(payload) != browserID+8 {
		return c, false
	}
	if !hmac.Equal(mac, cookieMAC(keys[at], realm, payload)) {
		return c, false
	}
	copy(c.id[:], payload)
	c.issued = time.Unix(int64(binary.BigEndian.Uint64(payload[browserID:])), 0)
	c.key = keys[at]
	return c, true
}
