package identity

import (
	"encoding/base64"
	"encoding/binary"
	"unicode"
	"unicode/utf8"
)

// Issuers of subjects. A JWT's issuer is [IssuerJWT] followed by its "iss".
const (
	IssuerJWT     = "jwt:"
	IssuerCaddy   = "caddy"
	IssuerBrowser = "browser"
	// IssuerJoin names subjects that a client gave itself in a join's payload
	// (PIN-037). They own nothing that a token's subject owns.
	IssuerJoin = "join"
)

// maxSubject bounds a subject's id, a tenant and an issuer, in characters.
const maxSubject = 256

// Subject is a person or machine as one issuer knows it. Two subjects are the
// same only if issuer and id both are, byte for byte; no case folding or Unicode
// normalisation makes two names one.
type Subject struct {
	Issuer, ID string
}

// IsZero reports whether s names nobody. Nobody owns nothing.
func (s Subject) IsZero() bool { return s == Subject{} }

// named reports whether s is complete enough to be compared with another.
func (s Subject) named() bool { return s.Issuer != "" && s.ID != "" }

// String keeps the id out of logs; see [Principal.Hash].
func (s Subject) String() string { return "subject(redacted)" }

// GoString keeps the id out of %#v.
func (s Subject) GoString() string { return s.String() }

// validName says whether s can name a subject, a tenant or an issuer.
func validName(s string, most int) bool {
	if s == "" || len(s) > most*utf8.UTFMax || !utf8.ValidString(s) || utf8.RuneCountInString(s) > most {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}

// ThreadName is the shelf id under which the thread lies that p means by an id
// which p chose without a token that names it (DESIGN.md §8). It is injective in
// tenant, subject and chosen, so no two subjects share a name; the realm is the
// shelf's own argument. The caller checks chosen with chat.ValidID first.
func ThreadName(p Principal, chosen string) string {
	return encodeKey(p.Tenant, p.Subject.Issuer, p.Subject.ID, chosen)
}

// encodeKey is injective in its parts: each is preceded by its length, and the
// whole is written in the URL-safe base64 alphabet, which needs no escape in any
// store.
func encodeKey(parts ...string) string {
	return base64.RawURLEncoding.EncodeToString(frame(parts...))
}

// frame joins parts so that no two lists of parts give the same bytes.
func frame(parts ...string) []byte {
	size := 0
	for _, p := range parts {
		size += binary.MaxVarintLen64 + len(p)
	}
	b := make([]byte, 0, size)
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}
