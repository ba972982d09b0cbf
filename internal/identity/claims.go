package identity

import (
	"encoding/base64"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// object is a JSON object whose members are read one by one, with exactly the
// kind that is expected. Names are compared case-sensitively.
type object map[string]jsontext.Value

// readObject refuses duplicate names at any depth, invalid UTF-8, half
// surrogates and trailing bytes: two parsers must not read two identities.
func readObject(b []byte) (object, error) {
	var o object
	if err := json.Unmarshal(b, &o); err != nil {
		return nil, err
	}
	return o, nil
}

// text is the member's string, "" if it is something else or absent.
func (o object) text(name string) string {
	var s string
	if v := o[name]; v.Kind() != '"' || json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// texts is the member's array of strings.
func (o object) texts(name string) (list []string, ok bool) {
	v := o[name]
	if v.Kind() != '[' {
		return nil, false
	}
	var values []jsontext.Value
	if json.Unmarshal(v, &values) != nil {
		return nil, false
	}
	for _, value := range values {
		var s string
		if value.Kind() != '"' || json.Unmarshal(value, &s) != nil {
			return nil, false
		}
		list = append(list, s)
	}
	return list, true
}

// maxDate is the year 9999 in Unix seconds; beyond it time.Time cannot be
// written in JSON.
const maxDate = 253402300799

// date is the member's NumericDate (RFC 7519 §2). ok is true for an absent member
// too; given tells whether there was one.
func (o object) date(name string) (t time.Time, given, ok bool) {
	v, given := o[name]
	if !given {
		return t, false, true
	}
	var seconds float64
	if v.Kind() != '0' || json.Unmarshal(v, &seconds) != nil ||
		math.IsNaN(seconds) || seconds < 0 || seconds > maxDate {
		return t, true, false
	}
	return time.Unix(int64(seconds), 0), true, true
}

// compact reports whether s is three parts of base64url. The check stands before
// any parser, since parsers forgive white space or count dots expensively.
func compact(s string) bool {
	dots := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.':
			dots++
			if i == 0 || i == len(s)-1 || s[i-1] == '.' {
				return false
			}
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return dots == 2
}

// maxKid bounds a key id, in bytes. It is a name to look up and nothing else.
const maxKid = 128

// readHeader takes algorithm and key id from a protected header. Everything by
// which a header could bring or point to a key (jwk, jku, x5c, x5u) is ignored;
// crit and b64 ask for what we don't do, so they refuse the token.
func readHeader(part string, algs []jose.SignatureAlgorithm) (jose.SignatureAlgorithm, string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return "", "", refuse("header is not base64url")
	}
	h, err := readObject(raw)
	if err != nil {
		return "", "", refuse("header is not one JSON object")
	}
	if h["crit"] != nil || h["b64"] != nil {
		return "", "", refuse("header has critical extensions")
	}
	alg := jose.SignatureAlgorithm(h.text("alg"))
	if !slices.Contains(algs, alg) {
		return "", "", refuse("algorithm not accepted")
	}
	kid := h.text("kid")
	if _, given := h["kid"]; given && (kid == "" || len(kid) > maxKid) {
		return "", "", refuse("key id not accepted")
	}
	return alg, kid, nil
}

// principal reads verified claims.
func (j *JWT) principal(claims object) (Principal, error) {
	var p Principal
	now := j.config.Now()
	exp, given, ok := claims.date("exp")
	if !given || !ok {
		return p, refuse("exp missing or no date")
	}
	p.Expires = exp.Add(j.config.Leeway)
	if p.Expired(now) {
		return Principal{}, refuse("expired")
	}
	for _, name := range []string{"nbf", "iat"} {
		if t, _, ok := claims.date(name); !ok || t.After(now.Add(j.config.Leeway)) {
			return Principal{}, refuse("not valid yet")
		}
	}
	if claims.text("iss") != j.config.Issuer {
		return Principal{}, refuse("foreign issuer")
	}
	if p.proof.audience, ok = j.audience(claims); !ok {
		return Principal{}, refuse("foreign audience")
	}
	p.Subject = Subject{IssuerJWT + j.config.Issuer, claims.text("sub")}
	if !validName(p.Subject.ID, maxSubject) {
		return Principal{}, refuse("sub missing or not accepted")
	}
	if _, given := claims[j.config.TenantClaim]; given {
		if p.Tenant = claims.text(j.config.TenantClaim); !validName(p.Tenant, maxSubject) {
			return Principal{}, refuse("tenant not accepted")
		}
	}
	p.Realm = j.config.Realm
	p.Caps = j.config.Caps
	if name := j.config.CapabilitiesClaim; name != "" {
		if _, given := claims[name]; given {
			entries, ok := claims.texts(name)
			if !ok {
				return Principal{}, refuse("capabilities are no array of strings")
			}
			var err error
			if p.Caps, err = ParseCapabilities(entries); err != nil {
				return Principal{}, refuse("too many capabilities")
			}
		}
	}
	return p, nil
}

// audience is the accepted audience that the token names, alone or in a list.
func (j *JWT) audience(claims object) (string, bool) {
	list, ok := claims.texts("aud")
	if !ok {
		list = []string{claims.text("aud")}
	}
	for _, want := range j.config.Audience {
		if slices.Contains(list, want) {
			return strings.Clone(want), true
		}
	}
	return "", false
}
