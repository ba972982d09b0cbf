package caddymodule

import (
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
	place atomic.Pointer[place]
	// opened is what the journal was opened with, and keeps.
	opened redisjournal.Options
}

func (n *redisNow) to(p place) { n.place.Store(&p) }

// options are what the journal is opened with.
func (n *redisNow) options(o redisjournal.Options, logger *slog.Logger) redisjournal.Options {
	n.opened = o
	o.Logger = logger
	if o.IdleTrim == 0 {
		o.KeepIdle = n.keepIdle
	}
	o.Credentials = func() (user, password string) {
		s := n.place.Load().redis.secrets
		return s.user, s.password
	}
	if o.Master != "" {
		o.SentinelCredentials = func() (user, password string) {
			s := n.place.Load().redis.secrets
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
