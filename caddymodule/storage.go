package caddymodule

import (
	"context"
	"errors"
	"log/slog"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/blobstore"
)

// archives are where the older messages of a hub's threads go: into Caddy's
// storage, whatever the journal. One in Redis keeps all its blobs there, under its
// prefix, and sees to it that its edges share it; nil leaves them to it. Those of
// folders have random names, so any number of them can share a storage.
func (p place) archives(now *redisNow, logger *slog.Logger) journal.Blobs {
	if p.redis != nil {
		return nil
	}
	return blobstore.New(storageNow{now, "parlance/"}, "archives", logger)
}

// storageNow is the storage of the current configuration, below a folder of the
// journal's own.
type storageNow struct {
	now    *redisNow
	folder string
}

// Store implements blobstore.Storage.
func (s storageNow) Store(ctx context.Context, key string, value []byte) error {
	to, err := s.storage()
	if err != nil {
		return err
	}
	return to.Store(ctx, s.folder+key, value)
}

// Load implements blobstore.Storage.
func (s storageNow) Load(ctx context.Context, key string) ([]byte, error) {
	from, err := s.storage()
	if err != nil {
		return nil, err
	}
	return from.Load(ctx, s.folder+key)
}

// Delete implements blobstore.Storage.
func (s storageNow) Delete(ctx context.Context, key string) error {
	from, err := s.storage()
	if err != nil {
		return err
	}
	return from.Delete(ctx, s.folder+key)
}

var errNoStorage = errors.New("the configuration has no storage")

func (s storageNow) storage() (blobstore.Storage, error) {
	if v := s.now.place.Load().storage; v != nil {
		return v, nil
	}
	return nil, errNoStorage
}

// Interface guard
var _ blobstore.Storage = storageNow{}
