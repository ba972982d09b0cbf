package caddymodule

import (
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// readJournal reads:
//
//	journal file [<dir>]
//	journal redis <url> {
//		username   <name>
//		password   <value>
//		prefix     <name>
//		partitions <n>
//		sync       none|fsync|replicas <n>
//		pool       <n>
//		retention  idle <duration>
//		tls {
//			ca          <file>
//			cert        <file>
//			key         <file>
//			server_name <name>
//		}
//		sentinel <master> [<address...>] {
//			username <name>
//			password <value>
//		}
//		cluster [<address...>]
//	}
//
// No error repeats a url or a password.
func (a *App) readJournal(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	switch kind := d.Val(); kind {
	case kindFile:
		a.Journal = &Journal{Kind: kind}
		if d.NextArg() {
			a.Journal.Dir = d.Val()
		}
		return nil
	case kindRedis:
		a.Journal = &Journal{Kind: kind, Redis: new(Redis)}
		return a.Journal.Redis.read(d)
	default:
		return d.Errf("unknown kind of journal %q: there are file and redis", kind)
	}
}

func (r *Redis) read(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) != 1 || args[0] == "" {
		return d.Err("journal redis takes one url, such as redis://localhost:6379")
	}
	r.URL = args[0]
	return readBlock(d, "journal redis", map[string]option{
		"username":   text(d, &r.Username),
		"password":   secret(d, &r.Password),
		"prefix":     text(d, &r.Prefix),
		"partitions": number(d, &r.Partitions),
		"sync":       once(func() error { return r.readSync(d) }),
		"pool":       number(d, &r.Pool),
		"retention":  once(func() error { return r.readRetention(d) }),
		"tls":        once(func() error { return r.readTLS(d) }),
		"sentinel":   once(func() error { return r.readSentinel(d) }),
		"cluster": once(func() error {
			r.Cluster = &RedisCluster{Addresses: d.RemainingArgs()}
			return nil
		}),
	}, nil)
}

// secret reads one value, which no error repeats.
func secret(d *caddyfile.Dispenser, v *string) option {
	return once(func() error {
		args := d.RemainingArgs()
		if len(args) != 1 || args[0] == "" {
			return d.Err("a password is one value: put it in quotes, or better in a placeholder such as {env.NAME}")
		}
		*v = args[0]
		return nil
	})
}

func (r *Redis) readSync(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	switch r.Sync = d.Val(); r.Sync {
	case "none", "fsync":
		return nil
	case "replicas":
		if !d.NextArg() {
			return d.Err("sync replicas needs the number of replicas to wait for")
		}
		n, err := strconv.Atoi(d.Val())
		if err != nil || n <= 0 {
			return d.Errf("sync replicas: %q is no whole number above 0", d.Val())
		}
		r.Replicas = n
		return nil
	}
	return d.Errf("sync must be none, fsync or replicas, not %q", r.Sync)
}

func (r *Redis) readRetention(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	if d.Val() != "idle" {
		return d.Errf("unknown retention %q: there is idle", d.Val())
	}
	r.Retention = new(RedisRetention)
	return duration(d, &r.Retention.Idle, false).read()
}

func (r *Redis) readTLS(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	r.TLS = new(RedisTLS)
	return readBlock(d, "tls", map[string]option{
		"ca":          text(d, &r.TLS.CA),
		"cert":        text(d, &r.TLS.Cert),
		"key":         text(d, &r.TLS.Key),
		"server_name": text(d, &r.TLS.ServerName),
	}, func(word string) string {
		if strings.HasPrefix(word, "insecure") {
			return "certificates are always verified: name the one to trust by ca, and its name by server_name if that differs"
		}
		return ""
	})
}

func (r *Redis) readSentinel(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.Err("sentinel needs the name of the master")
	}
	r.Sentinel = &RedisSentinel{Master: d.Val(), Addresses: d.RemainingArgs()}
	return readBlock(d, "sentinel", map[string]option{
		"username": text(d, &r.Sentinel.Username),
		"password": secret(d, &r.Sentinel.Password),
	}, nil)
}
