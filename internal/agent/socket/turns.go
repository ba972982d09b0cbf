package socket

import (
	"context"
	"slices"
	"sync"
)

// turns shares calls out among tenants. Of what is free nobody is given more than
// there is left for the others: one tenant alone gets half of the places and of
// the calls, and the next that comes finds some free, however many runs of the
// first wait. Whose turn it is has the fewest calls under way; among equals it
// goes round.
type turns struct {
	most, places int // calls under way, and places for who calls or waits

	mu      sync.Mutex
	calls   int
	taken   int
	tenants map[string]*line // those who have a place
	ring    []*line          // those with somebody in wait, the last served last
}

// line is one tenant's.
type line struct {
	calls, taken int
	waiting      []chan struct{} // closed when it is their turn
}

func newTurns(calls, places int) *turns {
	return &turns{most: calls, places: places, tenants: make(map[string]*line)}
}

// enter takes a place for a tenant, which leave gives back; false says that there
// is none for him.
func (t *turns) enter(tenant string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.tenants[tenant]
	if l == nil {
		l = new(line)
	}
	if l.taken >= t.places-t.taken {
		return false
	}
	t.tenants[tenant] = l
	l.taken++
	t.taken++
	return true
}

func (t *turns) leave(tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.tenants[tenant]
	l.taken--
	t.taken--
	if l.taken == 0 {
		delete(t.tenants, tenant)
	}
}

// begin waits until a tenant who has a place may call, which end gives back, or
// until ctx ends.
func (t *turns) begin(ctx context.Context, tenant string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	l := t.tenants[tenant]
	if len(l.waiting) == 0 && t.may(l) {
		t.take(l)
		t.mu.Unlock()
		return nil
	}
	if len(l.waiting) == 0 {
		t.ring = append(t.ring, l)
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	t.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(l.waiting, turn); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		if len(l.waiting) == 0 {
			t.ring = slices.DeleteFunc(t.ring, func(other *line) bool { return other == l })
		}
	} else { // its turn came just now
		t.give(l)
	}
	return ctx.Err()
}

func (t *turns) end(tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.give(t.tenants[tenant])
}

// may says whether a line may have one more call; t.mu is held, here and below.
func (t *turns) may(l *line) bool { return l.calls < t.most-t.calls }

func (t *turns) take(l *line) {
	l.calls++
	t.calls++
}

// give takes a call back and gives what is free to those who wait.
func (t *turns) give(l *line) {
	l.calls--
	t.calls--
	for len(t.ring) > 0 {
		i := 0
		for j, other := range t.ring {
			if other.calls < t.ring[i].calls {
				i = j
			}
		}
		next := t.ring[i]
		if !t.may(next) {
			return
		}
		t.ring = slices.Delete(t.ring, i, i+1)
		t.take(next)
		close(next.waiting[0])
		next.waiting = slices.Delete(next.waiting, 0, 1)
		if len(next.waiting) > 0 {
			t.ring = append(t.ring, next)
		}
	}
}
