package conductor

import "github.com/parlance-gateway/parlance/internal/journal"

// Patience of a sweeper, in ms: it claims only what it has itself seen lapsed
// for as long, through a connection that worked all the while, so that an
// outage of the store ends nobody's run.
const lapsePatience = 4_000

// Sweep decides which of the due items to act on.
type Sweep struct {
	seen map[lapse]int64
}

type lapse struct {
	item  string
	fence uint64
}

// Failed takes a look that had no answer: everything must be seen anew.
func (s *Sweep) Failed() { clear(s.seen) }

// Seen takes what the store says is due and returns what to act on now.
func (s *Sweep) Seen(items []journal.DueItem, now int64) []journal.DueItem {
	next := make(map[lapse]int64, len(items))
	var act []journal.DueItem
	for _, i := range items {
		if !i.Lapsed {
			act = append(act, i)
			continue
		}
		k := lapse{i.Key.Realm + "\x00" + i.Key.Tenant + "\x00" + i.Key.Thread + "\x00" + i.Run, i.Meta.Fence}
		since, ok := s.seen[k]
		if !ok {
			since = now
		}
		next[k] = since
		if now-since >= lapsePatience {
			act = append(act, i)
		}
	}
	s.seen = next
	return act
}
