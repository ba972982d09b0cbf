package identity

import (
	"errors"
	"slices"
)

// ErrNotFound is the one answer for a thread that does not exist and for one
// that the principal may not touch (PIL-045).
var ErrNotFound = errors.New("not found")

// Thread is what deciding needs to know of a thread.
type Thread struct {
	Realm, Tenant string
	ID            string
	Owner         Subject
	// Members may do with the thread what its owner may, except delete it.
	Members []Subject
	// Open marks a thread without an owner (Pingerchips): Owner is ignored, and
	// only capability or membership opens it.
	Open bool
}

// Granted is everything that p may do to t, and with [Allow] the only place that
// decides access. Realm and tenant are walls that no capability crosses; within
// them verbs come from ownership, membership and capabilities that name the
// thread.
func Granted(p Principal, t Thread) Verbs {
	if p.Realm == "" || p.Realm != t.Realm || p.Tenant != t.Tenant || !p.Subject.named() {
		return 0
	}
	verbs := p.Caps.On(t.ID)
	switch {
	case !t.Open && t.Owner == p.Subject:
		verbs |= p.Caps.own
	case slices.Contains(t.Members, p.Subject):
		verbs |= p.Caps.own &^ Verbs(Delete)
	}
	return verbs
}

// Allow reports nil if p may do verb to t, else ErrNotFound.
//
// For [CancelOwn] the caller names who started the run; it is allowed to that
// subject, and to whoever may [CancelAny]. Without a starter the run is
// nobody's own. To create a thread is asked of the thread as it would be, with
// p as its owner.
func Allow(p Principal, verb Verb, t Thread, starter ...Subject) error {
	granted := Granted(p, t)
	if verb == CancelOwn {
		if granted.Has(CancelAny) || granted.Has(CancelOwn) && slices.Contains(starter, p.Subject) {
			return nil
		}
		return ErrNotFound
	}
	if !granted.Has(verb) {
		return ErrNotFound
	}
	return nil
}
