package conductor

import (
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

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

// Restarts says whether a claimed run may be started again rather than ended.
// r is the run as loaded after the claim, when its former owner could write no
// more. A pending run always may, since its agent was never called; an active
// one only in its first segment, before its agent said anything, and if the
// agent bears it (again).
func Restarts(r *chat.Run, again bool) bool {
	if r.Stop != nil {
		return false
	}
	return r.Status == chat.RunPending || (again && r.Status == chat.RunActive && len(r.Segments) == 1 && !r.Streamed)
}
