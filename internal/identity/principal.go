package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"time"
)

// Principal is who is at the other end of a connection. It is a value: copies
// share nothing that changes. The zero value may do nothing.
type Principal struct {
	Realm   string // never empty in a principal that an Authenticator made
	Tenant  string // "" where the site has no tenants
	Subject Subject
	Caps    Capabilities
	// Expires is the instant after which the credential no longer holds, leeway
	// included. Zero means that the credential has no end of its own.
	Expires time.Time
	// Ambient is true if the credential was one that a browser sends by itself
	// (a cookie), so that the caller must have checked the origin.
	Ambient bool

	proof proof
}

// proof is what admitted the principal, without the credential itself, so that
// a later configuration can be asked whether it would still admit it.
type proof struct {
	key      [sha256.Size]byte // of the key that verified the credential
	audience string            // the accepted audience that the token named
	terms    [sha256.Size]byte // how claims were read
}

// Key identifies the principal in maps and rate limits: injective in realm,
// tenant and subject, and independent of capabilities and expiry. It contains
// the subject in readable encoding, so it must not be logged.
func (p Principal) Key() string {
	return encodeKey(p.Realm, p.Tenant, p.Subject.Issuer, p.Subject.ID)
}

// Hash is a short pseudonym of Key for logs: 16 hexadecimal digits, the same on
// every edge. Who can guess a subject can confirm the guess; who cannot learns
// nothing.
func (p Principal) Hash() string {
	sum := sha256.Sum256(frame("parlance principal", p.Realm, p.Tenant, p.Subject.Issuer, p.Subject.ID))
	return hex.EncodeToString(sum[:8])
}

// Same reports whether p and q are one person: same realm, tenant and subject.
func (p Principal) Same(q Principal) bool {
	return p.Realm == q.Realm && p.Tenant == q.Tenant && p.Subject == q.Subject && p.Subject.named()
}

// Equal reports whether p and q are the same in everything, capabilities, expiry
// and what admitted them included.
func (p Principal) Equal(q Principal) bool {
	return p.Realm == q.Realm && p.Tenant == q.Tenant && p.Subject == q.Subject &&
		p.Caps.Equal(q.Caps) && p.Expires.Equal(q.Expires) && p.Ambient == q.Ambient && p.proof == q.proof
}

// Expired reports whether the credential has run out at now.
func (p Principal) Expired(now time.Time) bool {
	return !p.Expires.IsZero() && now.After(p.Expires)
}

// String is safe to log.
func (p Principal) String() string { return "principal " + p.Hash() }

// GoString keeps the subject out of %#v.
func (p Principal) GoString() string { return p.String() }

// LogValue keeps the subject out of structured logs.
func (p Principal) LogValue() slog.Value { return slog.StringValue(p.Hash()) }
