package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"
)

const (
	fetchTimeout = 5 * time.Second
	// findWait is the longest that a handshake waits for keys; a hello is owed
	// within 2 s (PIL-016).
	findWait   = 1500 * time.Millisecond
	minFresh   = time.Minute
	maxFresh   = time.Hour // so that a key taken out is noticed
	usualFresh = 10 * time.Minute
	// unknownKid is how often a key id that is not in the set may make us look
	// again: whoever invents key ids must not make us a flood.
	unknownKid = 30 * time.Second
	maxBackoff = 30 * time.Second
)

// keySet is a JSON Web Key Set (RFC 7517) that is fetched when it is needed. One
// fetch runs at a time, in a goroutine that close waits for; everybody who needs
// its outcome waits for the same one. Old keys serve while a new fetch runs or
// fails, for maxStale at the longest.
type keySet struct {
	url      *url.URL
	client   *http.Client
	algs     []jose.SignatureAlgorithm
	now      func() time.Time
	maxStale time.Duration
	onFetch  func(error)
	unknown  *rate.Limiter

	ctx    context.Context // of the fetches; ends with close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	flight  chan struct{} // closed when the running fetch is done; nil if none runs
	keys    []verifyKey
	etag    string
	fetched time.Time // when the endpoint last confirmed keys; before that, when the set was made
	fresh   time.Time // until when keys need no look
	fails   int
	retry   time.Time // after failures: not before
}

func newKeySet(c JWTConfig, algs []jose.SignatureAlgorithm) (*keySet, error) {
	u, err := jwksURL(c.JWKSURL)
	if err != nil {
		return nil, err
	}
	s := &keySet{
		url:      u,
		client:   jwksClient(c.HTTPClient),
		algs:     algs,
		now:      c.Now,
		maxStale: c.MaxStale,
		onFetch:  c.OnFetch,
		unknown:  rate.NewLimiter(rate.Every(unknownKid), 1),
		fetched:  c.Now(),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

func (s *keySet) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}

func (s *keySet) warm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.usable(s.now()) == nil {
		s.look(s.now())
	}
}

func (s *keySet) find(ctx context.Context, kid string) []verifyKey {
	s.mu.Lock()
	now := s.now()
	keys := s.usable(now)
	if found := withKid(keys, kid); len(found) > 0 {
		if now.After(s.fresh) {
			s.look(now)
		}
		s.mu.Unlock()
		return found
	}
	flight := s.flight
	if flight == nil && !now.Before(s.retry) && (keys == nil || s.unknown.AllowN(now, 1)) {
		flight = s.look(now)
	}
	s.mu.Unlock()
	if flight == nil {
		return nil
	}
	timer := time.NewTimer(findWait)
	defer timer.Stop()
	select {
	case <-flight:
	case <-ctx.Done():
	case <-timer.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return withKid(s.usable(s.now()), kid)
}

func (s *keySet) has(thumb [sha256.Size]byte, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keys) == 0 || now.After(s.fresh) {
		s.look(now)
	}
	if now.Sub(s.fetched) > s.maxStale {
		return false
	}
	return len(s.keys) == 0 || slices.ContainsFunc(s.keys, func(k verifyKey) bool { return k.thumb == thumb })
}

// usable is the keys that may be used at now; nil if there are none. The caller
// holds mu; the slice is never changed, only replaced.
func (s *keySet) usable(now time.Time) []verifyKey {
	if now.Sub(s.fetched) > s.maxStale {
		return nil
	}
	return s.keys
}

// look starts a fetch if none runs and the last failure is long enough ago, and
// returns the one that runs, or nil. The caller holds mu.
func (s *keySet) look(now time.Time) chan struct{} {
	if s.flight != nil || s.closed || now.Before(s.retry) {
		return s.flight
	}
	flight := make(chan struct{})
	s.flight = flight
	etag := s.etag
	s.wg.Go(func() {
		got, err := s.fetch(etag)
		s.mu.Lock()
		s.settle(s.now(), got, err)
		s.flight = nil
		s.mu.Unlock()
		close(flight)
		if s.onFetch != nil {
			s.onFetch(err)
		}
	})
	return flight
}

// settle takes in the outcome of a fetch. The caller holds mu.
func (s *keySet) settle(now time.Time, got fetched, err error) {
	if err != nil {
		s.retry = now.Add(min(maxBackoff, time.Second<<min(s.fails, 5)))
		s.fails++
		return
	}
	s.fails, s.retry = 0, time.Time{}
	s.fetched, s.fresh = now, now.Add(got.fresh)
	if got.keys != nil {
		s.keys, s.etag = got.keys, got.etag
	}
}

// withKid is the keys that a token with this kid may have been signed with: all
// of them if it names none.
func withKid(keys []verifyKey, kid string) []verifyKey {
	if kid == "" {
		return keys
	}
	var found []verifyKey
	for _, k := range keys {
		if k.kid == kid {
			found = append(found, k)
		}
	}
	return found
}

var errJWKSURL = errors.New("jwks must be an https URL (http only on a loopback host) without user or fragment")
