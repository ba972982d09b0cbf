package redisjournal

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"
)

const (
	// laneQueue bounds the calls that wait in a lane, laneBytes their size;
	// beyond these a caller waits.
	laneQueue = 4096
	laneBytes = 128 << 20
	// batchCalls and batchBytes bound what goes out in one pipeline. A call
	// that is larger goes alone.
	batchCalls = 256
	batchBytes = 1 << 20
)

// lane is a queue of writes: what came while a pipeline was under way is the
// next one. A thread is always in the same lane, so its writes keep their order;
// no timer makes anybody wait.
type lane struct {
	client redis.UniversalClient
	queue  chan *op
	room   *semaphore.Weighted
	done   sync.WaitGroup
}

// op is a call in a lane.
type op struct {
	ctx    context.Context
	script *script
	cmd    []any
	size   int
	answer chan answer
}

// answer is a script's, or the error that leaves its outcome unknown.
type answer struct {
	text string
	err  error
}

func newLane(c redis.UniversalClient) *lane {
	l := &lane{client: c, queue: make(chan *op, laneQueue), room: semaphore.NewWeighted(laneBytes)}
	l.done.Go(l.run)
	return l
}

// do sends a call and waits for its answer, or until ctx ends: then its outcome
// is unknown. size is that of its arguments. Not to be called after close.
func (l *lane) do(ctx context.Context, s *script, size int, keys []string, args ...any) (string, error) {
	o, err := l.start(ctx, s, size, keys, args...)
	if err != nil {
		return "", err
	}
	return o.wait()
}

// start is do without the wait for the answer.
func (l *lane) start(ctx context.Context, s *script, size int, keys []string, args ...any) (*op, error) {
	size = min(size, laneBytes)
	if err := l.room.Acquire(ctx, int64(size)); err != nil {
		return nil, s.fail(err)
	}
	o := &op{ctx: ctx, script: s, cmd: s.call(keys, args...), size: size, answer: make(chan answer, 1)}
	select {
	case l.queue <- o:
		return o, nil
	case <-ctx.Done():
		l.room.Release(int64(size))
		return nil, s.fail(ctx.Err())
	}
}

// wait returns the answer, once.
func (o *op) wait() (string, error) {
	select {
	case a := <-o.answer:
		if a.err != nil {
			return "", o.script.fail(a.err)
		}
		return a.text, nil
	case <-o.ctx.Done():
		return "", o.script.fail(o.ctx.Err())
	}
}

// close carries out what waits and ends the lane.
func (l *lane) close() {
	close(l.queue)
	l.done.Wait()
}

func (l *lane) run() {
	var batch []*op
	for first := range l.queue {
		batch = append(batch[:0], first)
		for size := first.size; len(batch) < batchCalls && size < batchBytes; {
			select {
			case o, ok := <-l.queue:
				if !ok {
					break
				}
				batch = append(batch, o)
				size += o.size
				continue
			default:
			}
			break
		}
		l.send(batch)
		clear(batch)
	}
}

// send carries out a batch. A caller that has gone before is not waited for,
// and its call not made.
func (l *lane) send(batch []*op) {
	live := batch[:0:len(batch)]
	for _, o := range batch {
		if err := o.ctx.Err(); err != nil {
			l.reply(o, answer{err: err})
			continue
		}
		live = append(live, o)
	}
	var again []*op
	for i, c := range l.pipeline(live) {
		text, err := c.Text()
		// Behind a write that was not made, one of the same attempt has a gap.
		if redis.HasErrorPrefix(err, "NOSCRIPT") || len(again) > 0 && err == nil && text != "" && text[0] == answerGap {
			live[i].cmd = live[i].script.whole(live[i].cmd)
			again = append(again, live[i])
			continue
		}
		l.reply(live[i], answer{text, err})
	}
	for i, c := range l.pipeline(again) {
		text, err := c.Text()
		l.reply(again[i], answer{text, err})
	}
}

// once is a command that a cluster's client follows where a slot has gone, and
// does not send again when its outcome is unknown.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// pipeline sends all at once. Each command has its own error.
func (l *lane) pipeline(ops []*op) []*redis.Cmd {
	if len(ops) == 0 {
		return nil
	}
	// The callers' contexts do not bound it, since what was sent is carried out
	// in any case. A cluster's client, which would dial a master that hangs again
	// and again, is given the time of one exchange.
	ctx := context.Background()
	if _, ok := l.client.(*redis.ClusterClient); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	pipe := l.client.Pipeline()
	cmds := make([]*redis.Cmd, len(ops))
	for i, o := range ops {
		cmds[i] = redis.NewCmd(ctx, o.cmd...)
		_ = pipe.Process(ctx, once{cmds[i]})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		for _, c := range cmds {
			if _, answered := c.Val().(string); answered {
				c.SetErr(nil) // the end of the time is that of another master's
			}
			if c.Err() == nil && c.Val() == nil { // it never came to this one
				c.SetErr(err)
			}
		}
	}
	return cmds
}

func (l *lane) reply(o *op, a answer) {
	if errors.Is(a.err, redis.Nil) {
		a.err = errAnswer
	}
	o.answer <- a
	l.room.Release(int64(o.size))
}
