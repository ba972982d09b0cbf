package redisjournal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/redis/go-redis/v9"
)

// errUnconfirmed: what was written stands at the server that has answered, but
// not where it must too. The outcome is unknown.
var errUnconfirmed = errors.New("redisjournal: a commit was not confirmed in time by the disk or the replicas that sync asks for")

// syncer lets commits wait for disks and replicas on connections of their own,
// so that no append stands behind them. Those that come while one waits are the
// next to wait, together.
type syncer struct {
	mu      sync.Mutex
	groups  map[string]*syncGroup // by hash tag; one for all if there is no cluster
	running sync.WaitGroup
}

type syncGroup struct {
	busy    bool
	waiting []*awaited
}

// awaited is a state that waits: the field of the hash that holds it, and how its
// value begins, tell a server that has it from one that became the master
// without it.
type awaited struct {
	key, field, begins string
	answer             chan confirmation
}

// confirmation says whether the server has what was waited for.
type confirmation struct {
	there bool
	err   error
}

// sync waits until the command that stands in a field of a hash, whose hash tag
// is tag, is where Options.Sync says.
func (l *link) sync(ctx context.Context, tag, key string, field []byte) error {
	there, err := l.stands(ctx, tag, &awaited{key: key, field: string(field)})
	if err == nil && !there {
		err = errUnconfirmed
	}
	return err
}

// Confirm implements journal.Confirmer. Without Options.Sync nothing is asked.
func (j *Journal) Confirm(ctx context.Context, key chat.Key, epoch uint64, rev journal.Rev) (journal.Result, error) {
	k, err := j.enter(ctx, key)
	if err != nil {
		return 0, err
	}
	defer j.leave()
	cold := string(packer(nil).u64(epoch).u64(rev.N).u64(rev.Tag))
	there, err := j.link.stands(ctx, j.keys.tag(k.partition), &awaited{key: k.meta, field: "c", begins: cold})
	if err != nil {
		return 0, err
	}
	if !there {
		return journal.Lost, nil
	}
	return journal.OK, nil
}

// stands waits until what is in a field of a hash is where Options.Sync says,
// and says whether it begins as it should.
func (l *link) stands(ctx context.Context, tag string, a *awaited) (bool, error) {
	if l.want == (Sync{}) {
		return true, nil
	}
	group := ""
	if l.cluster {
		group = tag
	}
	s := &l.syncer
	a.answer = make(chan confirmation, 1)
	s.mu.Lock()
	if s.groups == nil {
		s.groups = map[string]*syncGroup{}
	}
	g := s.groups[group]
	if g == nil {
		g = &syncGroup{}
		s.groups[group] = g
	}
	g.waiting = append(g.waiting, a)
	if !g.busy {
		g.busy = true
		s.running.Go(func() { l.serve(g, tag) })
	}
	s.mu.Unlock()
	select {
	case c := <-a.answer:
		return c.there, c.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (l *link) serve(g *syncGroup, tag string) {
	for {
		l.syncer.mu.Lock()
		waiting := g.waiting
		g.waiting = nil
		g.busy = len(waiting) > 0
		l.syncer.mu.Unlock()
		if len(waiting) == 0 {
			return
		}
		l.confirm(tag, waiting)
	}
}

// confirm answers those that wait: it looks whether the server has what each has
// written or seen, and then writes a marker and waits for that, all on one connection.
// What came before the marker is then where the marker is. After a failover that
// lost a commit the new master's marker would prove nothing of it.
func (l *link) confirm(tag string, waiting []*awaited) {
	there, err := l.mark(tag, waiting)
	for i, a := range waiting {
		a.answer <- confirmation{err == nil && there[i], err}
	}
}

func (l *link) mark(tag string, waiting []*awaited) (there []bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout+callTimeout)
	defer cancel()
	key := l.prefix + ":{" + tag + "}:sync"
	node, err := nodeOf(ctx, l.wait, key)
	if err != nil {
		return nil, fmt.Errorf("redisjournal: %w", err)
	}
	fsync := l.want.Fsync
	for {
		pipe := node.Pipeline() // one connection, in order
		looks := make([]*redis.StringCmd, len(waiting))
		for i, a := range waiting {
			looks[i] = pipe.HGet(ctx, a.key, a.field)
		}
		set := pipe.Set(ctx, key, "", 0)
		var wait *redis.Cmd
		if fsync {
			wait = pipe.Do(ctx, "WAITAOF", 1, l.want.Replicas, waitTimeout.Milliseconds())
		} else {
			wait = pipe.Do(ctx, "WAIT", l.want.Replicas, waitTimeout.Milliseconds())
		}
		_, err := pipe.Exec(ctx)
		there = there[:0]
		for i, c := range looks {
			there = append(there, c.Err() == nil && strings.HasPrefix(c.Val(), waiting[i].begins))
		}
		if errors.Is(err, redis.Nil) { // what is not there; it hides what came after it
			err = cmp.Or(set.Err(), wait.Err())
		}
		if fsync && unknownCommand(err) {
			// A server of that age has on disk what it has answered, if at all.
			if err := l.alwaysOnDisk(ctx, node); err != nil {
				return nil, err
			}
			if fsync = false; l.want.Replicas == 0 {
				return there, nil
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("redisjournal: waiting for a commit: %w", err)
		}
		if !confirmed(wait.Val(), l.want, fsync) {
			return nil, errUnconfirmed
		}
		return there, nil
	}
}

func unknownCommand(err error) bool { return redis.HasErrorPrefix(err, "unknown command") }

func confirmed(answer any, want Sync, fsync bool) bool {
	if !fsync {
		n, _ := answer.(int64)
		return n >= int64(want.Replicas)
	}
	list, _ := answer.([]any)
	if len(list) != 2 {
		return false
	}
	local, _ := list[0].(int64)
	replicas, _ := list[1].(int64)
	return local >= 1 && replicas >= int64(want.Replicas)
}

// alwaysOnDisk says whether a server syncs its append-only file before each
// answer.
func (l *link) alwaysOnDisk(ctx context.Context, node redis.Cmdable) error {
	c, err := node.ConfigGet(ctx, "append*").Result()
	if err != nil {
		return fmt.Errorf("redisjournal: how the server syncs its file: %w", err)
	}
	if c["appendonly"] != "yes" || c["appendfsync"] != "always" {
		return errors.New("redisjournal: sync fsync needs Redis 7.2 (WAITAOF), or appendonly yes with appendfsync always")
	}
	return nil
}
