package identity

import (
	"context"
	"errors"
	"time"
)

// ErrUnauthenticated is every failure to authenticate: nothing given, forged,
// expired, for somebody else, or a key that cannot be had just now. Its text is
// all that a client may see (PIL-189).
var ErrUnauthenticated = errors.New("unauthorized")

// Authenticator turns credentials into a principal. It returns an error that Is
// [ErrUnauthenticated] and a zero Principal for everything else. It may block on
// a key's first fetch, never longer than about a second and a half or ctx.
type Authenticator interface {
	Authenticate(ctx context.Context, c Credentials) (Principal, error)
}

// Rechecker is the ability of an Authenticator to say whether it would still
// admit a principal that it, or the one of an earlier configuration, admitted.
// It does no I/O.
type Rechecker interface {
	Recheck(p Principal, now time.Time) error
}

// Recheck reports nil if p still holds at now under a, the authenticator of the
// current configuration, else an error that Is [ErrUnauthenticated] (DESIGN.md
// §10: on every command and every 30 s).
func Recheck(a Authenticator, p Principal, now time.Time) error {
	if p.Expired(now) {
		return refuse("expired")
	}
	if r, ok := a.(Rechecker); ok {
		return r.Recheck(p, now)
	}
	return nil
}

// refusal is an ErrUnauthenticated that remembers why. The reason is one of this
// package's own phrases; nothing of a credential or of another library's error
// goes into it.
type refusal struct {
	reason string
	absent bool // nothing of the kind that the authenticator reads was given
}

func refuse(reason string) error { return &refusal{reason: reason} }

func absent(reason string) error { return &refusal{reason: reason, absent: true} }

func (*refusal) Error() string { return ErrUnauthenticated.Error() }

func (*refusal) Is(target error) bool { return target == ErrUnauthenticated }

// Reason is why err, from this package, refused: a fixed phrase without any part
// of a credential. It is for debug logs; a client is never told it.
func Reason(err error) string {
	var r *refusal
	if errors.As(err, &r) {
		return r.reason
	}
	return ""
}

// First asks several authenticators in order; the first whose kind of credential
// is present decides. A bad credential is refused and never falls through to the
// next kind.
func First(list ...Authenticator) Authenticator { return first(list) }

type first []Authenticator

func (f first) Authenticate(ctx context.Context, c Credentials) (Principal, error) {
	err := absent("no credential")
	for _, a := range f {
		var p Principal
		if p, err = a.Authenticate(ctx, c); err == nil {
			return p, nil
		}
		var r *refusal
		if !errors.As(err, &r) || !r.absent {
			return Principal{}, err
		}
	}
	return Principal{}, err
}

// Recheck is satisfied if one of the list still admits p.
func (f first) Recheck(p Principal, now time.Time) error {
	err := refuse("no authenticator")
	for _, a := range f {
		if err = Recheck(a, p, now); err == nil {
			return nil
		}
	}
	return err
}
