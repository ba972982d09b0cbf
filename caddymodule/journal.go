package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/blobstore"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal"
)

// The kinds of journals.
const (
	kindFile  = "file"
	kindRedis = "redis"
)

// Journal says where threads are kept.
type Journal struct {
	// The kind of journal. `file`, the default, keeps threads in a folder that
	// one process at a time can have; `redis` keeps them in a Redis that any
	// number of processes share.
	Kind string `json:"kind,omitempty"`

	// The folder of a `file` journal; placeholders such as `{env.NAME}` are
	// replaced. It is made if it is not there, readable for its owner only.
	// Default: the folder `parlance` in Caddy's data directory.
	Dir string `json:"dir,omitempty"`

	// How a `redis` journal is reached and kept.
	Redis *Redis `json:"redis,omitempty"`
}

// place is a journal as one configuration names it.
type place struct {
	key hubKey
	// redis is nil for a folder.
	redis *redisPlace
	// storage is Caddy's.
	storage blobstore.Storage
}

// place resolves what is configured, without asking the network.
func (j *Journal) place(ctx caddy.Context) (place, error) {
	p, err := j.where()
	p.storage = ctx.Storage()
	return p, err
}

func (j *Journal) where() (place, error) {
	var c Journal
	if j != nil {
		c = *j
	}
	switch c.Kind {
	case "", kindFile:
		if c.Redis != nil {
			return place{}, errors.New("options of redis are for kind redis")
		}
		return folderPlace(c.Dir)
	case kindRedis:
		switch {
		case c.Dir != "":
			return place{}, errors.New("dir is for kind file")
		case c.Redis == nil:
			return place{}, errors.New("kind redis needs its options, at least the url")
		}
		p, err := c.Redis.place()
		if err != nil {
			return place{}, fmt.Errorf("redis: %w", err)
		}
		return p, nil
	}
	return place{}, fmt.Errorf("unknown kind %q: there are file and redis", c.Kind)
}

func folderPlace(dir string) (place, error) {
	dir, err := replaced(dir)
	if err != nil {
		return place{}, err
	}
	if dir == "" {
		dir = filepath.Join(caddy.AppDataDir(), "parlance")
	}
	dir, err = filepath.Abs(dir)
	return place{key: hubKey{kind: kindFile, address: dir}}, err
}

// open opens the journal. One in Redis is open although Redis is away. What it
// then asks of now is what a configuration changes while it lives.
func (p place) open(ctx context.Context, now *redisNow, logger *slog.Logger) (journal.Journal, error) {
	now.to(p)
	if p.redis == nil {
		return filejournal.Open(ctx, filejournal.Options{Dir: p.key.address, Logger: logger, KeepIdle: now.keepIdle})
	}
	return redisjournal.Open(now.options(p.redis.options, logger))
}
