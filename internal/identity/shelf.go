package identity

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Shelf is what identity needs of the journal's shelf: small values that all
// edges share.
type Shelf interface {
	// Get returns the value and its version; version 0, and no error, if there is
	// no such value.
	Get(ctx context.Context, realm, kind, id string) (value []byte, version uint64, err error)
	// Put writes value if the stored version is ifVersion (0: there is none) and
	// reports whether it did. A ttl of 0 keeps it for good.
	Put(ctx context.Context, realm, kind, id string, value []byte, ifVersion uint64, ttl time.Duration) (ok bool, err error)
}

const (
	secretKind = "secret" // the shelf's kind of made keys
	secretSize = 32
	// putAttempts is how often a lost race is looked at again; one would do, since
	// whoever won has written.
	putAttempts = 4
)

// Secret returns the 32-byte key of this name in realm, and makes it if there is
// none. Of edges that do so at once one wins, and all return its key. The caller
// owns the slice.
func Secret(ctx context.Context, shelf Shelf, realm, name string) ([]byte, error) {
	fresh := make([]byte, secretSize)
	rand.Read(fresh) // never fails: crypto/rand ends the process instead
	return settle(ctx, shelf, realm, name, fresh)
}

// settle returns the stored key, or stores offer if there is none.
func settle(ctx context.Context, shelf Shelf, realm, name string, offer []byte) ([]byte, error) {
	for range putAttempts {
		value, version, err := shelf.Get(ctx, realm, secretKind, name)
		if err != nil {
			return nil, fmt.Errorf("read secret %q: %w", name, err)
		}
		if version != 0 {
			if len(value) != secretSize {
				return nil, fmt.Errorf("secret %q on the shelf has a wrong size", name)
			}
			return bytes.Clone(value), nil
		}
		ok, err := shelf.Put(ctx, realm, secretKind, name, offer, 0, 0)
		if err != nil {
			return nil, fmt.Errorf("write secret %q: %w", name, err)
		}
		if ok {
			return bytes.Clone(offer), nil
		}
	}
	return nil, fmt.Errorf("secret %q: %w", name, errRace)
}

var errRace = errors.New("lost every race for it")

// secretRecheck is how long a key is used without a look at the shelf.
const secretRecheck = time.Minute

// Secrets is [Secret] with a memory. A key is looked at again after a minute;
// while the shelf fails the known one serves, and a shelf that lost it gets it
// back, so that cookies outlive a flushed store. Safe for concurrent use.
type Secrets struct {
	shelf Shelf
	now   func() time.Time

	mu    sync.Mutex
	known map[[2]string]known // bounded by the realms and names of the configuration
}

type known struct {
	key  []byte
	seen time.Time
}

// NewSecrets makes an empty memory over shelf; now may be nil for time.Now.
func NewSecrets(shelf Shelf, now func() time.Time) *Secrets {
	if now == nil {
		now = time.Now
	}
	return &Secrets{shelf: shelf, now: now, known: make(map[[2]string]known)}
}

// Secret is as the function [Secret]. The caller must not change the slice.
func (s *Secrets) Secret(ctx context.Context, realm, name string) ([]byte, error) {
	at := [2]string{realm, name}
	s.mu.Lock()
	old, ok := s.known[at]
	s.mu.Unlock()
	now := s.now()
	if ok && now.Sub(old.seen) < secretRecheck {
		return old.key, nil
	}
	var key []byte
	var err error
	if ok {
		key, err = settle(ctx, s.shelf, realm, name, old.key)
	} else {
		key, err = Secret(ctx, s.shelf, realm, name)
	}
	if err != nil {
		if !ok {
			return nil, err
		}
		key = old.key
	}
	s.mu.Lock()
	s.known[at] = known{key, now}
	s.mu.Unlock()
	return key, nil
}

// Key is one HMAC key of signed values. ID is public and part of each of them.
type Key struct {
	ID     string // 1..32 characters of A-Z a-z 0-9 - _
	Secret []byte // at least 32 bytes
}

// KeySource gives the keys of a realm: the first signs, all verify.
type KeySource interface {
	Keys(ctx context.Context, realm string) ([]Key, error)
}

// StaticKeys is a KeySource of configured keys, the same for every realm.
type StaticKeys []Key

// Keys implements [KeySource].
func (k StaticKeys) Keys(context.Context, string) ([]Key, error) { return k, nil }

// Named is a KeySource of one key that lies on the shelf under name.
func (s *Secrets) Named(name string) KeySource { return shelfKey{s, name} }

type shelfKey struct {
	secrets *Secrets
	name    string
}

func (k shelfKey) Keys(ctx context.Context, realm string) ([]Key, error) {
	secret, err := k.secrets.Secret(ctx, realm, k.name)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(frame("parlance key id", string(secret)))
	return []Key{{ID: base64.RawURLEncoding.EncodeToString(sum[:6]), Secret: secret}}, nil
}
