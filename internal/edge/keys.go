package edge

import (
	"context"
	"errors"
	"time"

	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// keyShelf lets package identity keep its keys on a journal's shelf, so that
// every edge has the same.
type keyShelf struct{ journal.Shelf }

var _ identity.Shelf = keyShelf{}

func (s keyShelf) Get(ctx context.Context, realm, kind, id string) ([]byte, uint64, error) {
	v, err := s.Shelf.Get(ctx, realm, kind, id)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, 0, nil
	}
	return v.Data, v.Version, err
}

func (s keyShelf) Put(ctx context.Context, realm, kind, id string, value []byte, ifVersion uint64, ttl time.Duration) (bool, error) {
	_, ok, err := s.Shelf.Put(ctx, journal.Put{Realm: realm, Kind: kind, ID: id, Data: value, Version: ifVersion, TTL: ttl})
	return ok, err
}
