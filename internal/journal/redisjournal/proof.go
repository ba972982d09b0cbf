package redisjournal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/redis/go-redis/v9"
)

const (
	// proofTick is how often an edge says where its marker is and looks for
	// those of the others, proofLife how long it is looked for.
	proofTick = 20 * time.Second
	proofLife = 60 * time.Second
	// proofAgain is how soon a proof that failed is tried again.
	proofAgain = time.Second
	// strayAge is how long a marker has not been looked for before whoever comes
	// by removes it, straysAtOnce at a time: its edge was killed. An edge that was
	// not heard for strayHalf writes its own again, so it is never missed.
	strayAge     = time.Hour
	strayHalf    = strayAge / 2
	straysAtOnce = 16
	// namesLife is how long a marker's name is kept for those who remove it.
	namesLife = 24 * time.Hour
)

// proof shows that the storage is one: each edge writes a marker into its
// storage, names it in Redis, and reads those that the others named. An edge
// that is alone has nothing to prove.
type proof struct {
	j      *Journal
	marker string
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup

	// running has one token: who holds it looks.
	running chan struct{}
	// By who holds running: whether the marker is there, and when Redis last
	// heard of it, by the clock on the wall, which a machine that sleeps does not
	// stop.
	written bool
	named   time.Time

	mu  sync.Mutex
	at  time.Time
	err error
}

func newProof(j *Journal, boot string) *proof {
	p := &proof{j: j, marker: boot, running: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if j.opts.Storage != nil {
		p.done.Go(p.run)
	}
	return p
}

func (p *proof) names() []string {
	head := p.j.keys.prefix + ":{edges}:"
	return []string{head + "stores", head + "stores-lease"}
}

func (p *proof) path(marker string) string {
	return escape(p.j.keys.prefix) + "/edges/" + escape(marker)
}

func (p *proof) run() {
	tick := time.NewTicker(proofTick)
	defer tick.Stop()
	for {
		_ = p.look(p.ctx)
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// check says whether the storage is shared, as far as is known: nil, or
// journal.ErrNoBlobs with the mend.
func (p *proof) check(ctx context.Context) error {
	p.mu.Lock()
	at, err := p.at, p.err
	p.mu.Unlock()
	if fresh := time.Since(at); err == nil && fresh < 2*proofTick || fresh < proofAgain {
		return err
	}
	return p.look(ctx)
}

// look shows the own marker and looks for the others'.
func (p *proof) look(ctx context.Context) error {
	select {
	case p.running <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.running }()
	err := p.compare(ctx)
	if ctx.Err() != nil {
		return err
	}
	p.mu.Lock()
	p.at, p.err = time.Now(), err
	p.mu.Unlock()
	return err
}

func (p *proof) compare(ctx context.Context) error {
	s := p.j.opts.Storage
	now := time.Now().Round(0)
	if !p.written || now.Sub(p.named) > strayHalf {
		if err := s.Store(ctx, p.path(p.marker), []byte(p.marker)); err != nil {
			return fmt.Errorf("%w: the storage takes nothing: %w", journal.ErrNoBlobs, err)
		}
		p.written, p.named = true, now
	}
	names := p.names()
	err := p.j.link.run(ctx, p.j.link.read, announceScript, names,
		p.j.link.shift().Milliseconds(), p.marker, p.marker, proofLife.Milliseconds(), namesLife.Milliseconds()).Err()
	if err != nil {
		return fmt.Errorf("redisjournal: %w", err)
	}
	p.named = now
	var leases *redis.ZSliceCmd
	clock, err := p.j.link.timed(ctx, names[0], func(pipe redis.Pipeliner) {
		leases = pipe.ZRangeWithScores(ctx, names[1], 0, -1)
	})
	if err != nil {
		return fmt.Errorf("redisjournal: %w", err)
	}
	at := clock.Add(p.j.link.shift())
	var others, strays []string
	for _, z := range leases.Val() {
		marker, _ := z.Member.(string)
		switch until := time.UnixMilli(int64(z.Score)); {
		case until.After(at):
			others = append(others, marker)
		case at.Sub(until) > strayAge && len(strays) < straysAtOnce:
			strays = append(strays, marker)
		}
	}
	p.remove(ctx, strays)
	for _, other := range others {
		if other == p.marker {
			continue
		}
		text, err := s.Load(ctx, p.path(other))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: the storage cannot be read: %w", journal.ErrNoBlobs, err)
		}
		if string(text) != other {
			return fmt.Errorf("%w: another edge has a storage of its own; configure a Caddy storage that all edges share (the option storage)", journal.ErrNoBlobs)
		}
	}
	return nil
}

// remove takes away what edges that were killed have left. It only tidies: what
// fails is for the next look.
func (p *proof) remove(ctx context.Context, strays []string) {
	for _, marker := range strays {
		err := p.j.opts.Storage.Delete(ctx, p.path(marker))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = p.forget(ctx, marker)
		}
		if err != nil {
			return
		}
	}
}

// forget has Redis name a marker no longer.
func (p *proof) forget(ctx context.Context, marker string) error {
	return p.j.link.run(ctx, p.j.link.write, announceScript, p.names(),
		p.j.link.shift().Milliseconds(), marker, "", 0, namesLife.Milliseconds()).Err()
}

// close takes the marker back, as far as Redis and the storage answer.
func (p *proof) close() {
	p.cancel()
	p.done.Wait()
	if !p.written {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	// Named no longer before it is gone: nobody is to look for it in vain.
	if p.forget(ctx, p.marker) == nil {
		_ = p.j.opts.Storage.Delete(ctx, p.path(p.marker))
	}
}
