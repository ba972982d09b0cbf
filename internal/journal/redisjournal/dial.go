package redisjournal

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	dialTimeout = 2 * time.Second
	// callTimeout bounds one exchange with a server: a failover is noticed
	// within it.
	callTimeout = 2 * time.Second
	// waitTimeout is how long a server may take to confirm a commit.
	waitTimeout = 3 * time.Second
	defaultPool = 16
)

// link is all that is open to Redis. Nothing of it dials before it is used, and
// what breaks is dialled again.
type link struct {
	// write does not try twice: an outcome that is unknown must be the caller's
	// to know. In a cluster that holds for the lanes (once) only; what goes past
	// them bears a repeat. read may try twice, and so holds only what can be done
	// again.
	write, read redis.UniversalClient
	// wait stands apart, so that nothing stands behind who waits for a replica.
	wait    redis.UniversalClient
	cluster bool
	logger  *slog.Logger
	shift   func() time.Duration
	prefix  string
	want    Sync
	syncer  syncer
}

var installLogger sync.Once

// quiet takes what go-redis says; errors reach the log by who met them.
type quiet struct{}

func (quiet) Printf(ctx context.Context, format string, v ...any) {
	if l := slog.Default(); l.Enabled(ctx, slog.LevelDebug) {
		l.DebugContext(ctx, "redis client: "+fmt.Sprintf(format, v...))
	}
}

// dial makes the clients. It fails for options that cannot be, never for a
// server that is not there.
func dial(o Options) (*link, error) {
	if len(o.Addresses) == 0 {
		return nil, errors.New("redisjournal: no address; name one as redis://host:6379")
	}
	if o.Cluster && o.Master != "" {
		return nil, errors.New("redisjournal: a cluster has no Sentinels; name either cluster or the master")
	}
	if o.Cluster && o.DB != 0 {
		return nil, errors.New("redisjournal: a cluster has only database 0")
	}
	installLogger.Do(func() { redis.SetLogger(quiet{}) })
	l := &link{cluster: o.Cluster, logger: o.Logger, shift: o.Shift, prefix: o.Prefix, want: o.Sync}
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	if l.shift == nil {
		l.shift = func() time.Duration { return 0 }
	}
	pool := o.Pool
	if pool <= 0 {
		pool = defaultPool
	}
	timeout := cmp.Or(o.timeout, callTimeout)
	l.write = client(o, -1, pool, timeout)
	l.read = client(o, 2, pool, timeout)
	l.wait = client(o, -1, pool, waitTimeout+timeout)
	return l, nil
}

func client(o Options, retries, pool int, timeout time.Duration) redis.UniversalClient {
	u := &redis.UniversalOptions{
		Addrs: o.Addresses, DB: o.DB, MasterName: o.Master, IsClusterMode: o.Cluster,
		ClientName:  "parlance",
		MaxRetries:  retries,
		DialTimeout: dialTimeout, DialerRetries: 1,
		ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		ContextTimeoutEnabled: true,
		PoolSize:              pool, PipelinePoolSize: -1,
		TLSConfig:                o.TLS,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		CredentialsProvider:      o.Credentials,
	}
	if o.Master != "" {
		f := u.Failover()
		// Asked once: go-redis has no provider for the Sentinels' own.
		if o.SentinelCredentials != nil {
			f.SentinelUsername, f.SentinelPassword = o.SentinelCredentials()
		}
		return redis.NewFailoverClient(f)
	}
	if o.Cluster {
		c := u.Cluster()
		if retries < 0 {
			// A redirection is no second try: the first server did nothing. The
			// client counts what it repeats after a broken connection here too.
			c.MaxRedirects = 3
		}
		return redis.NewClusterClient(c)
	}
	return redis.NewClient(u.Simple())
}

// run runs a script through a client of its own choice. Only what can be done
// again may go through one that tries twice.
func (l *link) run(ctx context.Context, c redis.UniversalClient, s *script, keys []string, args ...any) *redis.Cmd {
	cmd := s.call(keys, args...)
	res := c.Do(ctx, cmd...)
	if redis.HasErrorPrefix(res.Err(), "NOSCRIPT") {
		res = c.Do(ctx, s.whole(cmd)...)
	}
	return res
}

// cut ends all connections, so that nobody waits for an answer any more.
func (l *link) cut() {
	for _, c := range []redis.UniversalClient{l.write, l.read, l.wait} {
		_ = c.Close()
	}
}

// close waits for who waits, and ends all connections.
func (l *link) close() error {
	l.syncer.running.Wait()
	var errs []error
	for _, c := range []redis.UniversalClient{l.write, l.read, l.wait} {
		if err := c.Close(); !errors.Is(err, redis.ErrClosed) { // else they were cut
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// nodeOf is the client that reaches the server of a key, for commands that name
// none.
func nodeOf(ctx context.Context, c redis.UniversalClient, key string) (redis.UniversalClient, error) {
	if cc, ok := c.(*redis.ClusterClient); ok {
		return cc.MasterForKey(ctx, key)
	}
	return c, nil
}

// timed asks the server of a key, together with its time. Where the key's slot
// has gone, ask is called again, and what it asks follows.
func (l *link) timed(ctx context.Context, key string, ask func(redis.Pipeliner)) (time.Time, error) {
	node, err := nodeOf(ctx, l.read, key)
	if err != nil {
		return time.Time{}, err
	}
	pipe := node.Pipeline()
	clock := pipe.Time(ctx)
	ask(pipe)
	_, err = pipe.Exec(ctx)
	if clock.Err() == nil && (redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")) {
		pipe = l.read.Pipeline()
		ask(pipe)
		_, err = pipe.Exec(ctx)
	}
	return clock.Val(), err
}

// byMaster shares partitions out by the master that has them: one share if
// there is no cluster. The error is that of the partitions that are in none.
func (l *link) byMaster(ctx context.Context, keys keyspace) (shares [][]int, err error) {
	at := map[redis.UniversalClient]int{}
	var lacking int
	for p := range keys.partitions() {
		node, e := nodeOf(ctx, l.read, keys.due(p))
		if e != nil {
			err = e
			lacking++
			continue
		}
		i, ok := at[node]
		if !ok {
			i = len(shares)
			at[node], shares = i, append(shares, nil)
		}
		shares[i] = append(shares[i], p)
	}
	if err != nil {
		err = fmt.Errorf("%d partitions have no master: %w", lacking, err)
	}
	return shares, err
}

// masters calls f with a client of each master.
func masters(ctx context.Context, c redis.UniversalClient, f func(context.Context, *redis.Client) error) error {
	switch c := c.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, f)
	case *redis.Client:
		return f(ctx, c)
	}
	return errors.New("redisjournal: no such client")
}

// ParseURL reads redis://[user:password@]host[:port][/db], rediss:// (TLS) or
// unix://[user:password@]/path[?db=n]. Several hosts may stand side by side,
// with commas. Its errors never hold the text, which may have a password.
func ParseURL(text string) (Options, error) {
	// One host stands for the list while the rest is read.
	scheme, rest, _ := strings.Cut(text, "://")
	rest, query, options := strings.Cut(rest, "?")
	rest, path, _ := strings.Cut(rest, "/")
	user, list := "", rest
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, list = rest[:i+1], rest[i+1:]
	}
	u, err := url.Parse(scheme + "://" + user + "host/" + path + "?" + query)
	if err != nil || strings.ContainsAny(list, "#@") {
		return Options{}, errors.New("redisjournal: the address is no URL; write redis://user:password@host:6379/0, with other signs of the password percent-encoded")
	}
	o := Options{}
	if name := u.User.Username(); u.User != nil {
		password, _ := u.User.Password()
		o.Credentials = func() (string, string) { return name, password }
	}
	db := u.Query().Get("db")
	if options && (u.Scheme != "unix" || db == "" || len(u.Query()) > 1) {
		return Options{}, errors.New("redisjournal: the address has options behind a question mark; they are words of their own here (cluster, master, tls, ...)")
	}
	switch u.Scheme {
	case "unix":
		if u.Path == "/" || list != "" {
			return Options{}, errors.New("redisjournal: a socket is written unix:///path/of/it")
		}
		o.Addresses = []string{u.Path}
	case "redis", "rediss":
		if o.Addresses, err = hosts(list); err != nil {
			return Options{}, err
		}
		if u.Scheme == "rediss" {
			o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		db = strings.TrimPrefix(u.Path, "/")
	default:
		return Options{}, errors.New("redisjournal: the address must begin with redis://, rediss:// or unix://")
	}
	if db != "" {
		if o.DB, err = strconv.Atoi(db); err != nil || o.DB < 0 || o.DB > 1<<16 {
			return Options{}, errors.New("redisjournal: the database behind the address is not a number; write redis://host:6379/0")
		}
	}
	return o, nil
}

// hosts reads host[:port] with commas between.
func hosts(text string) ([]string, error) {
	var list []string
	for h := range strings.SplitSeq(text, ",") {
		u, err := url.Parse("redis://" + h)
		name, port := "", ""
		if err == nil {
			name, port = u.Hostname(), u.Port()
		}
		if port == "" {
			port = "6379"
		}
		if n, err := strconv.Atoi(port); name == "" || err != nil || n < 1 || n > 65535 {
			return nil, errors.New("redisjournal: an address has no host or a wrong port; write redis://host:6379")
		}
		list = append(list, net.JoinHostPort(name, port))
	}
	return list, nil
}
