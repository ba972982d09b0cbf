package conductor

import (
	"context"
	"errors"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// queued is a run that was begun here and waits for an agent that dials in. It
// belongs to no edge, and counts among its client's nevertheless.
type queued struct {
	by            chat.Subject
	begun, looked int64 // in Unix milliseconds
}

const (
	// queuedLook is how often the journal is asked at most whether one still waits,
	// queuedLife how long one counts whatever it says, in ms.
	queuedLook = 1_000
	queuedLife = 3_600_000
)

// queue counts a run from now on, if its agent dials in.
func (c *Conductor) queue(key chat.Key, name, run string, by chat.Subject) {
	if !c.DialsIn(key.Realm, name) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.o.Now()
	if now-c.queuedSwept >= queuedLife/60 {
		c.queuedSwept = now
		for k, q := range c.queued {
			if now-q.begun >= queuedLife {
				delete(c.queued, k)
			}
		}
	}
	c.queued[runKey{key, run}] = queued{by: by, begun: now}
}

// waitingOf counts somebody's runs that wait; only where there are enough of them
// is it asked whether they still do.
func (c *Conductor) waitingOf(ctx context.Context, key chat.Key, by chat.Subject, enough int) int {
	c.mu.Lock()
	now := c.o.Now()
	var ask []runKey
	n := 0
	for k, q := range c.queued {
		if q.by == by && k.key.Realm == key.Realm && k.key.Tenant == key.Tenant {
			if n++; now-q.looked >= queuedLook {
				ask = append(ask, k)
			}
		}
	}
	if n < enough {
		ask = nil
	}
	for _, k := range ask {
		q := c.queued[k]
		q.looked = now
		c.queued[k] = q
	}
	c.mu.Unlock()
	for _, k := range ask {
		r, err := c.FindRun(ctx, k.key, k.run)
		if errors.Is(err, ErrUnavailable) || err == nil && awaits(r) {
			continue
		}
		n--
		c.mu.Lock()
		delete(c.queued, k)
		c.mu.Unlock()
	}
	return n
}
