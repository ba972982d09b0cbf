package room

import (
	"log/slog"
	"sync"
)

// outage says once that something fails for rooms, and once that it does for none
// any more, however many rooms there are and however often each tries.
type outage struct {
	what string

	mu       sync.Mutex
	rooms    map[*Room]struct{} // for which it fails
	failures int
}

// note takes the outcome of a room's try.
func (o *outage) note(l *slog.Logger, r *Room, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		if o.failures++; o.failures == 1 {
			l.Warn(o.what, "realm", r.key.Realm, "error", err)
		}
		if o.rooms == nil {
			o.rooms = make(map[*Room]struct{})
		}
		o.rooms[r] = struct{}{}
		return
	}
	delete(o.rooms, r)
	if o.failures > 0 && len(o.rooms) == 0 {
		l.Info("well again: "+o.what, "failures", o.failures)
		o.failures = 0
	}
}

// forget takes note of a room that tries no more. That says nothing of whether
// it would be well by now.
func (o *outage) forget(r *Room) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.rooms, r)
}
