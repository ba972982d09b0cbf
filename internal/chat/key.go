package chat

import "unicode/utf8"

// MaxID is how long an id may be, in characters (PIL-007).
const MaxID = 128

// Key names a thread. Realm and tenant are walls: two keys that differ in
// either have nothing in common, whatever their thread ids are.
type Key struct {
	Realm  string `json:"realm"`
	Tenant string `json:"tenant,omitempty"`
	Thread string `json:"thread"`
}

// ValidID says whether s may be the id of a thread, message, run, interrupt or
// call: 1 to 128 characters of valid UTF-8 without control characters (PIL-007).
func ValidID(s string) bool {
	if s == "" || len(s) > 4*MaxID || !utf8.ValidString(s) {
		return false
	}
	n := 0
	for _, r := range s {
		if r < 0x20 || (r >= 0x7f && r < 0xa0) {
			return false
		}
		n++
	}
	return n <= MaxID
}

// Subject is who did something: an issuer and the id it gave. Equal ids of
// different issuers are different subjects.
type Subject struct {
	Issuer string `json:"iss,omitempty"`
	ID     string `json:"id,omitempty"`
}

// Zero says that s names nobody.
func (s Subject) Zero() bool { return s == Subject{} }
