package caddymodule

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal"
)

// redisNow is what a journal asks of the current configuration. Of one in Redis
// passwords change, and Caddy's storage is another module after each reload.
type redisNow struct {
	// idle is after how long threads are folded, a time.Duration; 0 is the
	// journal's default.
	idle  atomic.Int64
	place atomic.Pointer[redisPlace]
	// opened is what the journal was opened with, and keeps.
	opened redisjournal.Options
}

func (n *redisNow) to(p *redisPlace) { n.place.Store(p) }

// options are what the journal is opened with.
func (n *redisNow) options(o redisjournal.Options, logger *slog.Logger) redisjournal.Options {
	n.opened = o
	o.Logger = logger
	if o.IdleTrim == 0 {
		o.KeepIdle = n.keepIdle
	}
	o.Credentials = func() (user, password string) {
		s := n.place.Load().secrets
		return s.user, s.password
	}
	if o.Master != "" {
		o.SentinelCredentials = func() (user, password string) {
			s := n.place.Load().secrets
			return s.sentinelUser, s.sentinelPassword
		}
	}
	o.Storage = storageNow{n, "parlance/" + o.Prefix + "/"}
	return o
}

// tuned names the options in which p differs from what the hub was opened with
// and that it cannot take while it lives.
func (n *redisNow) tuned(p *redisPlace) []string {
	var names []string
	was, is := n.opened, p.options
	if was.Sync != is.Sync {
		names = append(names, "sync")
	}
	if was.Pool != is.Pool {
		names = append(names, "pool")
	}
	if was.IdleTrim != is.IdleTrim {
		names = append(names, "retention")
	}
	return names
}

// storageNow is the storage of the current configuration, below a folder of the
// journal's own.
type storageNow struct {
	now    *redisNow
	folder string
}

// Store implements redisjournal.Storage.
func (s storageNow) Store(ctx context.Context, key string, value []byte) error {
	to, err := s.storage()
	if err != nil {
		return err
	}
	return to.Store(ctx, s.folder+key, value)
}

// Load implements redisjournal.Storage.
func (s storageNow) Load(ctx context.Context, key string) ([]byte, error) {
	from, err := s.storage()
	if err != nil {
		return nil, err
	}
	return from.Load(ctx, s.folder+key)
}

// Delete implements redisjournal.Storage.
func (s storageNow) Delete(ctx context.Context, key string) error {
	from, err := s.storage()
	if err != nil {
		return err
	}
	return from.Delete(ctx, s.folder+key)
}

var errNoStorage = errors.New("the configuration has no storage")

func (s storageNow) storage() (redisjournal.Storage, error) {
	if v := s.now.place.Load().storage; v != nil {
		return v, nil
	}
	return nil, errNoStorage
}

// Interface guard
var _ redisjournal.Storage = storageNow{}
