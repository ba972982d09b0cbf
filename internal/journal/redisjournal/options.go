package redisjournal

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal/blobstore"
)

// Options say how Redis is reached and how it keeps threads.
type Options struct {
	// Addresses are host:port: one server, some of a cluster's, or the
	// Sentinels that know Master.
	Addresses []string
	Cluster   bool
	Master    string
	DB        int
	// Credentials return the present user and password; they are asked at each
	// new connection, so a rotated password needs no new hub. nil is none.
	Credentials         func() (user, password string)
	SentinelCredentials func() (user, password string)
	TLS                 *tls.Config

	// Prefix begins every key and channel (default "parlance").
	Prefix string
	// Partitions is how many slots the threads are spread over (default 128).
	// It is fixed with the first start under a prefix.
	Partitions int
	// Sync is what a commit waits for before it is acknowledged.
	Sync Sync
	// Pool bounds the connections for reads to each server (default 16).
	Pool int
	// IdleTrim is how long after its last run a thread is trimmed (default 10 min).
	IdleTrim time.Duration
	// KeepIdle is asked for the same with each commit; 0, or nil, is IdleTrim.
	KeepIdle func() time.Duration
	// Storage holds what is over 64 KiB, and is shared by all edges; nil refuses.
	Storage Storage
	Logger  *slog.Logger
	// Shift moves the store's clock ahead, timeout is in the place of callTimeout;
	// tests only.
	Shift   func() time.Duration
	timeout time.Duration
}

// Sync is what a commit waits for. The zero value waits for nothing more than
// the server's answer.
type Sync struct {
	// Replicas is how many replicas must have it (WAIT).
	Replicas int
	// Fsync waits for the append-only file (WAITAOF; Redis 7.2).
	Fsync bool
}

// Storage is a file store that all edges share; Caddy's storage is one.
type Storage = blobstore.Storage

// idleTrim is how long after its last run a thread is trimmed.
func (o *Options) idleTrim() time.Duration {
	if o.KeepIdle != nil {
		if d := o.KeepIdle(); d > 0 {
			return d
		}
	}
	return o.IdleTrim
}
