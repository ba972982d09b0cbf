package caddymodule

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal"
)

// Redis says how Redis is reached and how it keeps threads. Placeholders such as
// `{env.NAME}` and `{file./path}` are replaced in every text when the
// configuration is loaded; keep secrets in them.
type Redis struct {
	// The address: `redis://host:6379/0`, `rediss://host:6380/0` over TLS, or
	// `unix:///path`. It may carry a user and a password. For `sentinel` it names
	// Sentinels, for `cluster` nodes, with commas between.
	URL string `json:"url"`

	// The user, where the URL has none. Default: that of the password alone.
	Username string `json:"username,omitempty"`

	// The password, where the URL has none. One that has changed is used by the
	// next connection after a reload; open connections stay.
	Password string `json:"password,omitempty"`

	// What every key and channel begins with. Default: `parlance`.
	Prefix string `json:"prefix,omitempty"`

	// How many slots the threads are spread over. It is fixed by the first start
	// under a prefix. Default: 128.
	Partitions int `json:"partitions,omitempty"`

	// What a decision waits for before it is acknowledged: `none`, the default,
	// for nothing more than Redis's answer, `fsync` for its append-only file,
	// `replicas` for as many replicas as the option says.
	Sync string `json:"sync,omitempty"`

	// How many replicas `sync` waits for.
	Replicas int `json:"replicas,omitempty"`

	// Speaks TLS, as a `rediss://` URL does.
	TLS *RedisTLS `json:"tls,omitempty"`

	// Finds the master by Sentinels.
	Sentinel *RedisSentinel `json:"sentinel,omitempty"`

	// Speaks to a cluster.
	Cluster *RedisCluster `json:"cluster,omitempty"`

	// The most connections for reading to each server. Default: 16.
	Pool int `json:"pool,omitempty"`

	// How long records are kept beside the conversation that they add up to.
	Retention *RedisRetention `json:"retention,omitempty"`
}

// RedisTLS says whom to trust and who to be.
type RedisTLS struct {
	// A PEM file of certificates; nothing else is trusted then. Default: those
	// that the system trusts.
	CA string `json:"ca,omitempty"`

	// PEM files of the client's certificate and its key. They are read again at
	// each new connection.
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`

	// The name in the server's certificate. Default: the host in the address.
	ServerName string `json:"server_name,omitempty"`
}

// RedisSentinel names what the Sentinels watch.
type RedisSentinel struct {
	// The name of the master.
	Master string `json:"master"`

	// Further Sentinels, beside the URL's, as host:port. Default port: 26379.
	Addresses []string `json:"addresses,omitempty"`

	// What the Sentinels themselves ask for. Default: nothing.
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
}

// RedisCluster names some of the nodes.
type RedisCluster struct {
	// Further nodes, beside the URL's, as host:port. Default port: 6379.
	Addresses []string `json:"addresses,omitempty"`
}

// RedisRetention bounds what is kept beside conversations themselves, which stay.
type RedisRetention struct {
	// How long after its last run a thread gives its records up: a window that
	// was away for longer loads the conversation anew. Default: 10m, with an app
	// 24h.
	Idle caddy.Duration `json:"idle,omitempty"`
}

// Defaults, and bounds of what can be asked for.
const (
	defaultPrefix     = "parlance"
	defaultPartitions = 128
	defaultPool       = 16
	defaultIdleTrim   = 10 * time.Minute

	maxPartitions = 4096
	maxPool       = 4096
	maxReplicas   = 64
	maxAddresses  = 64
	minIdleTrim   = time.Minute
)

// redisPlace is a journal in Redis as one configuration names it.
type redisPlace struct {
	// options hold for the life of a hub, and no secret.
	options redisjournal.Options
	secrets redisSecrets
}

type redisSecrets struct{ user, password, sentinelUser, sentinelPassword string }

// place resolves the options. Its errors repeat no text that may be a secret.
func (r *Redis) place() (place, error) {
	c, err := r.replaced()
	if err != nil {
		return place{}, err
	}
	o, err := redisjournal.ParseURL(c.URL)
	if err != nil {
		return place{}, fmt.Errorf("url: %w", err)
	}
	p := &redisPlace{}
	if err := c.credentials(&o, p); err != nil {
		return place{}, err
	}
	if err := c.reach(&o); err != nil {
		return place{}, err
	}
	if err := c.keep(&o); err != nil {
		return place{}, err
	}
	secured, err := c.secure(&o)
	if err != nil {
		return place{}, fmt.Errorf("tls: %w", err)
	}
	p.options = o
	key := hubKey{kind: kindRedis, address: address(o), prefix: o.Prefix}
	// What Sentinels ask for is asked of the configuration once.
	key.how = fmt.Sprintf("%d %s %x", o.Partitions, secured, sha256.Sum256([]byte(p.secrets.sentinelUser+"\x00"+p.secrets.sentinelPassword)))
	return place{key: key, redis: p}, nil
}

// replaced is a copy with placeholders filled in.
func (r *Redis) replaced() (Redis, error) {
	c := *r
	texts := map[string]*string{"url": &c.URL, "username": &c.Username, "password": &c.Password, "prefix": &c.Prefix}
	if c.TLS != nil {
		t := *c.TLS
		c.TLS = &t
		texts["tls: ca"], texts["tls: cert"], texts["tls: key"], texts["tls: server_name"] = &t.CA, &t.Cert, &t.Key, &t.ServerName
	}
	var lists []*[]string
	if c.Sentinel != nil {
		s := *c.Sentinel
		c.Sentinel = &s
		texts["sentinel: master"], texts["sentinel: username"], texts["sentinel: password"] = &s.Master, &s.Username, &s.Password
		lists = append(lists, &s.Addresses)
	}
	if c.Cluster != nil {
		s := *c.Cluster
		c.Cluster = &s
		lists = append(lists, &s.Addresses)
	}
	for name, v := range texts {
		var err error
		if *v, err = replaced(*v); err != nil {
			return c, fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, list := range lists {
		*list = slices.Clone(*list)
		for i, v := range *list {
			var err error
			if (*list)[i], err = replaced(v); err != nil {
				return c, fmt.Errorf("address: %w", err)
			}
		}
	}
	return c, nil
}

// credentials takes what the URL carries or what stands beside it.
func (r *Redis) credentials(o *redisjournal.Options, p *redisPlace) error {
	if o.Credentials != nil {
		p.secrets.user, p.secrets.password = o.Credentials()
	}
	for _, v := range []struct {
		name      string
		here, url *string
	}{{"username", &r.Username, &p.secrets.user}, {"password", &r.Password, &p.secrets.password}} {
		if *v.here != "" && *v.url != "" {
			return fmt.Errorf("the url has a %s and there is an option %s too: leave one out", v.name, v.name)
		}
		if *v.here != "" {
			*v.url = *v.here
		}
	}
	if p.secrets.user != "" && p.secrets.password == "" {
		return errors.New("there is a username without a password")
	}
	if s := r.Sentinel; s != nil {
		if s.Username != "" && s.Password == "" {
			return errors.New("sentinel: there is a username without a password")
		}
		p.secrets.sentinelUser, p.secrets.sentinelPassword = s.Username, s.Password
	}
	o.Credentials = nil
	return nil
}

// reach says which servers there are.
func (r *Redis) reach(o *redisjournal.Options) error {
	socket := strings.HasPrefix(o.Addresses[0], "/")
	for _, a := range o.Addresses {
		if host, _, err := net.SplitHostPort(a); !socket && (err != nil || !validHost(host)) {
			return errors.New("url: what stands for its host is neither a name nor an address")
		}
	}
	switch s, c := r.Sentinel, r.Cluster; {
	case s != nil && c != nil:
		return errors.New("sentinel and cluster exclude each other")
	case socket && (s != nil || c != nil || r.TLS != nil):
		return errors.New("a socket of this machine goes with neither sentinel nor cluster nor tls")
	case s != nil:
		if s.Master == "" || strings.ContainsAny(s.Master, " \t\r\n/") {
			return errors.New("sentinel: the name of the master is missing or has spaces")
		}
		o.Master = s.Master
		return further(o, s.Addresses, "26379")
	case c != nil:
		if o.DB != 0 {
			return errors.New("cluster: a cluster has no numbered databases: leave the path of the url out")
		}
		o.Cluster = true
		return further(o, c.Addresses, "6379")
	case len(o.Addresses) > 1:
		return errors.New("the url names several hosts: say what they are by sentinel or cluster")
	}
	return nil
}

// further adds addresses, sorted and each once: their order means nothing.
func further(o *redisjournal.Options, list []string, port string) error {
	for _, a := range list {
		host, p, err := net.SplitHostPort(a)
		if err != nil {
			host, p = strings.Trim(a, "[]"), port
		}
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 || !validHost(host) {
			return errors.New("an address is written host:port")
		}
		o.Addresses = append(o.Addresses, net.JoinHostPort(host, p))
	}
	slices.Sort(o.Addresses)
	o.Addresses = slices.Compact(o.Addresses)
	if len(o.Addresses) > maxAddresses {
		return fmt.Errorf("more than %d addresses: some are enough, the others are found through them", maxAddresses)
	}
	return nil
}

// validHost says whether s is a name, an IPv4 address, or an IPv6 address that
// may have a zone.
func validHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_') {
			return false
		}
	}
	return s != "" && len(s) <= 253
}

// keep says how threads are kept.
func (r *Redis) keep(o *redisjournal.Options) error {
	if r.Prefix != "" {
		o.Prefix = r.Prefix
	}
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	if !validPrefix(o.Prefix) {
		return errors.New("prefix: 1 to 64 letters, digits and . _ - : are a prefix")
	}
	for _, v := range []struct {
		name     string
		is, most int
	}{{"partitions", r.Partitions, maxPartitions}, {"pool", r.Pool, maxPool}, {"replicas", r.Replicas, maxReplicas}} {
		if v.is < 0 || v.is > v.most {
			return fmt.Errorf("%s must be 1 to %d", v.name, v.most)
		}
	}
	o.Partitions, o.Pool = cmp.Or(r.Partitions, defaultPartitions), cmp.Or(r.Pool, defaultPool)
	switch {
	case r.Sync == "replicas" && r.Replicas == 0:
		return errors.New("sync replicas needs the number of replicas to wait for")
	case r.Sync != "replicas" && r.Replicas != 0:
		return errors.New("replicas is for sync replicas")
	}
	switch r.Sync {
	case "", "none":
	case "fsync":
		o.Sync.Fsync = true
	case "replicas":
		o.Sync.Replicas = r.Replicas
	default:
		return fmt.Errorf("sync must be none, fsync or replicas, not %q", r.Sync)
	}
	o.IdleTrim = defaultIdleTrim
	if r.Retention != nil && r.Retention.Idle != 0 {
		o.IdleTrim = time.Duration(r.Retention.Idle)
		if o.IdleTrim < minIdleTrim {
			return fmt.Errorf("retention: idle must be at least %s", minIdleTrim)
		}
	}
	return nil
}

// validPrefix says whether s can begin keys: no character of it means anything
// in a key, a channel or a pattern.
func validPrefix(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-:", c) >= 0) {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// address is where the journal is, in one way of writing and without secrets: it
// tells journals apart, and is shown to operators.
func address(o redisjournal.Options) string {
	scheme := "redis"
	if o.TLS != nil {
		scheme = "rediss"
	}
	at := strings.Join(o.Addresses, ",")
	switch {
	case o.Master != "":
		return fmt.Sprintf("%s+sentinel://%s/%s/%d", scheme, at, o.Master, o.DB)
	case strings.HasPrefix(at, "/"):
		return fmt.Sprintf("unix://%s?db=%d", at, o.DB)
	case o.Cluster:
		return fmt.Sprintf("%s+cluster://%s", scheme, at)
	}
	return fmt.Sprintf("%s://%s/%d", scheme, at, o.DB)
}
