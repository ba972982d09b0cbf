package redisjournal

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// replicationTick is how often servers are asked which history they have.
const replicationTick = 3 * time.Second

// followers are all that follow threads through this journal: one line to a
// standalone server, one for each partition in use of a cluster.
type followers struct {
	link *link
	keys keyspace
	// boot makes the names of the markers that are this journal's own.
	boot    string
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	looked  atomic.Uint64 // how often the servers have told their histories

	mu     sync.Mutex
	closed bool
	lines  map[int]*line
}

// newFollowers begins to watch the first partition's line, so that readiness
// has something to say although nobody follows a thread.
func newFollowers(l *link, keys keyspace, boot string) *followers {
	fs := &followers{link: l, keys: keys, boot: boot, lines: map[int]*line{}}
	fs.ctx, fs.cancel = context.WithCancel(context.Background())
	fs.mu.Lock()
	fs.line(0)
	fs.mu.Unlock()
	fs.running.Go(fs.watch)
	return fs
}

// line is the one that carries a partition; fs.mu is held.
func (fs *followers) line(partition int) *line {
	if !fs.link.cluster {
		partition = 0
	}
	ln := fs.lines[partition]
	if ln == nil {
		ln = newLine(fs, partition)
		fs.lines[partition] = ln
		fs.running.Go(func() { ln.run(fs.ctx) })
	}
	return ln
}

// retire takes a line away that nobody needs; false if somebody does.
func (fs *followers) retire(ln *line) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.partition == 0 || len(ln.topics) > 0 {
		return false
	}
	delete(fs.lines, ln.partition)
	return true
}

// renew has every line made anew, and so each follower told to load.
func (fs *followers) renew() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, ln := range fs.lines {
		ln.renew()
	}
}

// age is how long ago the slowest line has heard its own marker.
func (fs *followers) age() time.Duration {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var oldest time.Duration
	for _, ln := range fs.lines {
		oldest = max(oldest, ln.age())
	}
	return oldest
}

// close ends all following and waits for calls under way.
func (fs *followers) close() {
	fs.mu.Lock()
	fs.closed = true
	lines := fs.lines
	fs.lines = map[int]*line{}
	fs.mu.Unlock()
	fs.cancel()
	for _, ln := range lines {
		ln.stop()
	}
	fs.running.Wait()
}

// watch asks each master for its replication id. Another one, or a master at
// another place, is another history: what was published last on the old one may
// never come, and a line to a master that is now a replica may miss what the new
// one publishes.
func (fs *followers) watch() {
	var known map[string]string
	tick := time.NewTicker(replicationTick)
	defer tick.Stop()
	for {
		now, err := fs.link.histories(fs.ctx)
		if err == nil {
			var other bool
			if known, other = compareHistories(known, now); other {
				fs.renew()
			}
			fs.looked.Add(1)
		}
		select {
		case <-fs.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// compareHistories says whether the masters have others than were known, and what
// is known now: of a master that did not answer, what was known before.
func compareHistories(known, now map[string]string) (all map[string]string, other bool) {
	all = make(map[string]string, len(now))
	for addr, id := range now {
		before, there := known[addr]
		switch {
		case known != nil && !there, id != "" && before != "" && id != before:
			other = true
		case id == "":
			id = before
		}
		all[addr] = id
	}
	for addr := range known {
		if _, there := now[addr]; !there {
			other = true
		}
	}
	return all, other
}

// histories are the replication ids of the masters, by where they are; "" of one
// that does not answer, since it must not hide what the others say.
func (l *link) histories(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, aside)
	defer cancel()
	var mu sync.Mutex
	ids := map[string]string{}
	err := masters(ctx, l.read, func(ctx context.Context, c *redis.Client) error {
		text, err := c.Info(ctx, "replication").Result()
		mu.Lock()
		defer mu.Unlock()
		if ids[c.Options().Addr] = parseInfo(text)["master_replid"]; err != nil {
			ids[c.Options().Addr] = ""
		}
		return nil
	})
	return ids, err
}

// parseInfo reads the answer of INFO.
func parseInfo(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name[0] != '#' {
			m[name] = value
		}
	}
	return m
}
