package redisjournal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// healthAge is how long an answer of Ready is good for.
	healthAge = 3 * time.Second
	// deafLimit is how old the last marker may be: by then a subscription was
	// made anew at least once, in vain.
	deafLimit  = 20 * time.Second
	noEviction = "noeviction"
)

// health is what Ready found last. Who asks meanwhile waits for the same look.
type health struct {
	mu      sync.Mutex
	looking chan struct{} // closed when who looks has looked; nil if nobody does
	at      time.Time
	err     error
	warned  map[string]bool
}

// Ready implements journal.Journal. It says, with the mend, why this Redis
// cannot hold threads or cannot be reached now; what is only unwise is logged
// once. Its answer is up to 3 s old.
func (j *Journal) Ready(ctx context.Context) error {
	if err := j.begin(ctx); err != nil {
		return readable(err)
	}
	defer j.leave()
	h := &j.health
	for {
		h.mu.Lock()
		if !h.at.IsZero() && time.Since(h.at) < healthAge {
			defer h.mu.Unlock()
			return h.err
		}
		looking := h.looking
		if looking == nil {
			looking = make(chan struct{})
			h.looking = looking
			// Who asks first may be gone before the others, and waits no longer than
			// he said.
			j.pending.Go(func() { j.examine(context.WithoutCancel(ctx)) })
		}
		h.mu.Unlock()
		select {
		case <-looking:
		case <-ctx.Done():
			return readable(ctx.Err())
		}
	}
}

// examine looks, and tells who waits.
func (j *Journal) examine(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	problems, warnings := j.inspect(ctx)
	h := &j.health
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at, h.err = time.Now(), join(problems)
	close(h.looking)
	h.looking = nil
	for _, w := range warnings {
		if !h.warned[w] && len(h.warned) < 100 {
			if h.warned == nil {
				h.warned = map[string]bool{}
			}
			h.warned[w] = true
			j.log.Warn(w)
		}
	}
}

// Silence implements journal.Hearing: markers go the way of notices every 2 s.
func (j *Journal) Silence() (time.Duration, bool) {
	j.followers.mu.Lock()
	n := len(j.followers.lines)
	j.followers.mu.Unlock()
	return j.followers.age(), n > 0
}

func join(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return errors.New("redisjournal: " + strings.Join(problems, "; "))
}

// inspect looks at all masters and at what comes back from them.
func (j *Journal) inspect(ctx context.Context) (problems, warnings []string) {
	var mu sync.Mutex
	err := masters(ctx, j.link.read, func(ctx context.Context, c *redis.Client) error {
		server, err := look(ctx, c)
		if err != nil {
			return err
		}
		p, w := server.judge(j.opts)
		mu.Lock()
		defer mu.Unlock()
		problems, warnings = append(problems, p...), append(warnings, w...)
		return nil
	})
	if err == nil {
		err = j.takesWrites(ctx)
	}
	if err == nil {
		err = j.checkSchema(ctx)
	}
	if err != nil {
		problems = append(problems, readable(err).Error())
	}
	if age := j.followers.age(); age > deafLimit && err == nil {
		problems = append(problems, fmt.Sprintf("nothing that is published has come back for %d s; see whether pub/sub passes between this edge and Redis", int(age.Seconds())))
	}
	if j.opts.Storage == nil {
		warnings = append(warnings, "files are refused: no Caddy storage that all edges share is configured")
	} else if err := j.blobs.proof.check(ctx); err != nil {
		warnings = append(warnings, "files are refused: "+err.Error())
	}
	slices.Sort(problems)
	slices.Sort(warnings)
	return slices.Compact(problems), slices.Compact(warnings)
}

// takesWrites asks each master whether it takes writes: one that is full, or may
// not write for want of its disk or of replicas, says nothing of that by INFO.
func (j *Journal) takesWrites(ctx context.Context) error {
	asked := map[redis.UniversalClient]bool{}
	for p := range j.keys.partitions() {
		due := j.keys.due(p)
		node, err := nodeOf(ctx, j.link.read, due)
		if err != nil {
			return err
		}
		if asked[node] {
			continue
		}
		asked[node] = true
		if err := j.link.touch(ctx, node, due); err != nil {
			return err
		}
	}
	return nil
}

// touch asks a server, that of a key, for a script that might write.
func (l *link) touch(ctx context.Context, node redis.UniversalClient, key string) error {
	err := l.run(ctx, node, touchScript, []string{key}).Err()
	if redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") {
		return nil // a slot on its way from one master to another is no fault of either
	}
	return err
}

// server is what one says of itself.
type server struct {
	info map[string]string
	// config is nil if the user may not read it.
	config map[string]string
	// waits says that the server knows WAITAOF.
	waits bool
}

func look(ctx context.Context, c *redis.Client) (s server, err error) {
	text, err := c.Info(ctx).Result()
	if err != nil {
		return s, err
	}
	s.info = parseInfo(text)
	s.waits = s.atLeast(7, 2)
	s.config = map[string]string{}
	for _, name := range []string{"append*", "save"} {
		part, err := c.ConfigGet(ctx, name).Result()
		if err != nil {
			s.config = nil
			break
		}
		for k, v := range part {
			s.config[k] = v
		}
	}
	return s, nil
}

func (s server) atLeast(major, minor int) bool {
	if s.info["valkey_version"] != "" || s.info["server_name"] == "valkey" {
		return true // Valkey began with 7.2
	}
	parts := strings.SplitN(s.info["redis_version"], ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, _ := strconv.Atoi(parts[0])
	b, _ := strconv.Atoi(parts[1])
	return a > major || a == major && b >= minor
}

// judge says what forbids to keep threads there, and what is unwise.
func (s server) judge(o Options) (problems, warnings []string) {
	bad := func(format string, v ...any) { problems = append(problems, fmt.Sprintf(format, v...)) }
	warn := func(format string, v ...any) { warnings = append(warnings, fmt.Sprintf(format, v...)) }
	if !s.atLeast(7, 0) {
		bad("Redis %.20q is too old; use Redis 7.0 or newer, or Valkey", s.info["redis_version"])
		return problems, warnings
	}
	if s.info["role"] == "slave" {
		bad("this Redis is a replica; name the master, or the Sentinels that know it")
	}
	if s.info["loading"] == "1" {
		bad("Redis is still loading its data")
	}
	if policy := s.info["maxmemory_policy"]; policy != noEviction && s.info["maxmemory"] != "0" {
		bad("Redis throws data away when its memory is full (maxmemory-policy %.30s); set maxmemory-policy noeviction", policy)
	}
	if s.info["rdb_last_bgsave_status"] == "err" || s.info["aof_last_write_status"] == "err" {
		warn("Redis cannot write to its disk; see its log")
	}
	aof := s.info["aof_enabled"] == "1"
	switch {
	case o.Sync.Fsync && !aof:
		bad("sync fsync needs an append-only file; set appendonly yes")
	case o.Sync.Fsync && !s.waits && s.config == nil:
		bad("sync fsync on Redis %.20s needs appendfsync always, and this user may not read it; allow config|get, or use Redis 7.2", s.info["redis_version"])
	case o.Sync.Fsync && !s.waits && s.config["appendfsync"] != "always":
		bad("sync fsync needs WAITAOF (Redis 7.2), or appendfsync always; this is Redis %.20s with appendfsync %.20s", s.info["redis_version"], s.config["appendfsync"])
	case !aof && s.config != nil && s.config["save"] == "":
		warn("Redis keeps nothing on disk: a restart loses all threads; set appendonly yes")
	case !aof:
		warn("Redis has no append-only file: a crash loses what came after the last snapshot; set appendonly yes")
	}
	replicas, _ := strconv.Atoi(s.info["connected_slaves"])
	if replicas < o.Sync.Replicas {
		bad("sync replicas %d, but the master has %d; add replicas, or ask for fewer", o.Sync.Replicas, replicas)
	}
	if replicas > 0 && s.info["min_slaves_good_slaves"] == "" {
		warn("a master that was cut off goes on taking writes, which a failover loses; set min-replicas-to-write 1 and min-replicas-max-lag 10")
	}
	return problems, warnings
}

// mends are what to do about an error that a server gives to whatever is asked,
// by its first word.
var mends = map[string]string{
	"NOAUTH":      "Redis wants a password; give user and password",
	"WRONGPASS":   "Redis does not take this user and password",
	"NOPERM":      "this Redis user may not do what is needed; see the ACL rule in the manual",
	"LOADING":     "Redis is still loading its data",
	"MASTERDOWN":  "this Redis is a replica without its master",
	"CLUSTERDOWN": "the Redis cluster does not serve all slots",
	"MISCONF":     "Redis refuses writes because it cannot save to its disk; see its log",
	"OOM":         "the memory of Redis is full; give it more",
	"READONLY":    "this Redis is a replica; name the master, or the Sentinels that know it",
	"NOREPLICAS":  "Redis refuses writes because too few replicas are connected",
	"MOVED":       "this Redis is part of a cluster; configure it as one",
}

// readable says what to do about an error of Redis, without what a server may
// have quoted in it.
func readable(err error) error {
	var said redis.Error
	if !errors.As(err, &said) || errors.Is(err, redis.Nil) {
		var slow net.Error
		if errors.Is(err, context.Canceled) || errors.As(err, &slow) && slow.Timeout() {
			return fmt.Errorf("there is no answer from Redis: %w", err)
		}
		return err
	}
	word, _, _ := strings.Cut(said.Error(), " ")
	if mend, ok := mends[word]; ok {
		return errors.New(mend)
	}
	if strings.Contains(said.Error(), "cluster support disabled") {
		return errors.New("this Redis is no cluster; leave the word cluster out")
	}
	return fmt.Errorf("the answer of Redis is %.20q", word)
}
