package redisjournal

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// pingTick is how often a line is asked whether it lives; silence is when it
	// has been quiet for too long. A reading is never taken up again after a
	// deadline: it may have stood in the middle of a message.
	pingTick = 1500 * time.Millisecond
	silence  = 4 * time.Second
	// markTick is how often a marker goes the way of a notice, markLimit how long
	// it may take: a line that answers pings may still be deaf.
	markTick  = 2 * time.Second
	markLimit = 4 * time.Second
	// subscribeBatch bounds the names of one command.
	subscribeBatch = 512
	// slowestRedial is how long after a server has come back its followers may
	// learn nothing; a cluster has a line for each partition in use.
	slowestRedial        = 250 * time.Millisecond
	slowestRedialCluster = time.Second
)

// line is one pub/sub connection with all that is followed through it. When it
// breaks, another takes its place, and each of its topics is told to resync.
type line struct {
	fs        *followers
	partition int
	marker    string        // the channel of its own markers
	wake      chan struct{} // something to subscribe or to leave

	mu      sync.Mutex
	topics  map[string]*topic
	fresh   []string // to be subscribed
	leaving map[string]int
	cancel  context.CancelCauseFunc // of the present connection
	heard   time.Time               // the last marker
	sent    time.Time               // the first that was published since and has not been heard
}

func newLine(fs *followers, partition int) *line {
	return &line{
		fs: fs, partition: partition, marker: fs.keys.heads[partition] + "probe:" + fs.boot,
		wake: make(chan struct{}, 1), topics: map[string]*topic{}, heard: time.Now(),
	}
}

// topic is that of a channel; it is subscribed if it is not yet.
func (ln *line) topic(channel string) *topic {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	t := ln.topics[channel]
	if t == nil {
		t = &topic{running: &ln.fs.running, left: time.Now()}
		ln.topics[channel] = t
		ln.fresh = append(ln.fresh, channel)
		select {
		case ln.wake <- struct{}{}:
		default:
		}
	}
	return t
}

// renew gives the connection up for another.
func (ln *line) renew() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.cancel != nil {
		ln.cancel(errHistory)
	}
}

func (ln *line) age() time.Duration {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return time.Since(ln.heard)
}

// stop ends all following through the line.
func (ln *line) stop() {
	ln.mu.Lock()
	topics := ln.topics
	ln.topics = map[string]*topic{}
	ln.mu.Unlock()
	for _, t := range topics {
		t.stop()
	}
}

var (
	errRetired   = errors.New("redisjournal: nobody follows")
	errDeaf      = errors.New("redisjournal: a subscription is deaf")
	errHistory   = errors.New("redisjournal: the server has another history")
	errElsewhere = errors.New("redisjournal: a channel has moved")
)

// run keeps a connection until ctx ends or nobody needs the line.
func (ln *line) run(ctx context.Context) {
	pause, slowest := time.Duration(0), slowestRedial
	if ln.fs.link.cluster {
		slowest = slowestRedialCluster
	}
	for ctx.Err() == nil {
		began := time.Now()
		err := ln.session(ctx)
		if errors.Is(err, errRetired) || ctx.Err() != nil {
			return
		}
		ln.fs.link.logger.Debug("a subscription to Redis is made anew", "partition", ln.partition, "error", err)
		if c, ok := ln.fs.link.read.(*redis.ClusterClient); ok {
			c.ReloadState(ctx)
		}
		if pause = min(max(2*pause, 5*time.Millisecond), slowest); time.Since(began) > silence {
			pause = 0
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// session is the life of one connection.
func (ln *line) session(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ps := ln.fs.link.read.Subscribe(ctx) // without a channel: dials later
	var writer sync.WaitGroup
	defer writer.Wait()
	defer cancel(nil)
	unblock := context.AfterFunc(ctx, func() { _ = ps.Close() })
	defer func() {
		if unblock() {
			_ = ps.Close()
		}
	}()
	ln.begin(cancel)
	defer ln.end()
	// A name must be there when it dials: a cluster's server is chosen by it.
	if err := ln.subscribe(ctx, ps); err != nil {
		return err
	}
	writer.Go(func() {
		if err := ln.tend(ctx, ps); err != nil {
			cancel(err)
		}
	})
	for {
		m, err := ps.ReceiveTimeout(ctx, silence)
		if err == nil {
			err = ln.received(m)
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return err
		}
	}
}

// begin has everything subscribed anew.
func (ln *line) begin(cancel context.CancelCauseFunc) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.cancel, ln.sent, ln.leaving = cancel, time.Time{}, map[string]int{}
	ln.fresh = append(ln.fresh[:0], ln.marker)
	for channel := range ln.topics {
		ln.fresh = append(ln.fresh, channel)
	}
}

func (ln *line) end() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	for _, t := range ln.topics {
		t.silent()
	}
}

// received takes what came.
func (ln *line) received(m any) error {
	switch m := m.(type) {
	case *redis.Message:
		if m.Channel == ln.marker {
			ln.mu.Lock()
			ln.heard, ln.sent = time.Now(), time.Time{}
			ln.mu.Unlock()
			return nil
		}
		ln.mu.Lock()
		t := ln.topics[m.Channel]
		ln.mu.Unlock()
		if t != nil {
			t.take(m.Payload)
		}
	case *redis.Subscription:
		ln.mu.Lock()
		t := ln.topics[m.Channel]
		asked := ln.leaving[m.Channel]
		if gone := m.Kind == "unsubscribe" || m.Kind == "sunsubscribe"; gone {
			if asked > 1 {
				ln.leaving[m.Channel] = asked - 1
			} else {
				delete(ln.leaving, m.Channel)
			}
			ln.mu.Unlock()
			if asked == 0 && (t != nil || m.Channel == ln.marker) {
				return errElsewhere // a slot went to another server
			}
			return nil
		}
		ln.mu.Unlock()
		if t != nil {
			t.subscribed()
		}
	}
	return nil
}

// tend writes to the connection: names, pings and, beside it, markers.
func (ln *line) tend(ctx context.Context, ps *redis.PubSub) error {
	ping, mark := time.NewTicker(pingTick), time.NewTicker(markTick)
	defer ping.Stop()
	defer mark.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ln.wake:
			if err := ln.subscribe(ctx, ps); err != nil {
				return err
			}
		case <-ping.C:
			if err := ps.Ping(ctx); err != nil {
				return err
			}
			if err := ln.leave(ctx, ps); err != nil {
				return err
			}
		case <-mark.C:
			if err := ln.mark(ctx); err != nil {
				return err
			}
		}
	}
}

func (ln *line) subscribe(ctx context.Context, ps *redis.PubSub) error {
	ln.mu.Lock()
	fresh := ln.fresh
	ln.fresh = nil
	ln.mu.Unlock()
	for names := range slices.Chunk(fresh, subscribeBatch) {
		subscribe := ps.Subscribe
		if ln.fs.link.cluster {
			subscribe = ps.SSubscribe
		}
		if err := subscribe(ctx, names...); err != nil {
			return err
		}
	}
	return nil
}

// leave unsubscribes what nobody follows any more.
func (ln *line) leave(ctx context.Context, ps *redis.PubSub) error {
	var names []string
	now := time.Now()
	ln.fs.mu.Lock() // so that no follower comes in between
	ln.mu.Lock()
	for channel, t := range ln.topics {
		if t.idle(now) {
			delete(ln.topics, channel)
			ln.leaving[channel]++
			names = append(names, channel)
		}
	}
	none := len(ln.topics) == 0
	ln.mu.Unlock()
	ln.fs.mu.Unlock()
	if none && len(names) == 0 && ln.fs.retire(ln) {
		return errRetired
	}
	for names := range slices.Chunk(names, subscribeBatch) {
		unsubscribe := ps.Unsubscribe
		if ln.fs.link.cluster {
			unsubscribe = ps.SUnsubscribe
		}
		if err := unsubscribe(ctx, names...); err != nil {
			return err
		}
	}
	return nil
}

// mark sends a marker the way of a notice. It fails if an earlier one, which
// Redis has taken, did not come back.
func (ln *line) mark(ctx context.Context) error {
	ln.mu.Lock()
	sent := ln.sent
	ln.mu.Unlock()
	if !sent.IsZero() && time.Since(sent) > markLimit {
		return errDeaf
	}
	publish := ln.fs.link.write.Publish
	if ln.fs.link.cluster {
		publish = ln.fs.link.write.SPublish
	}
	began := time.Now()
	if publish(ctx, ln.marker, strconv.FormatInt(began.UnixMilli(), 36)).Err() != nil {
		return nil // Redis is away: the reader finds that out
	}
	ln.mu.Lock()
	if ln.sent.IsZero() && ln.heard.Before(began) {
		ln.sent = began
	}
	ln.mu.Unlock()
	return nil
}
