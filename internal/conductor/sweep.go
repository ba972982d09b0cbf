package conductor

import (
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Patience of a sweeper, in ms: it claims only what it has itself seen lapsed
// for as long, through a connection that worked all the while, so that an
// outage of the store ends nobody's run.
const (
	lapsePatience = 4_000
	// endPatience is the same for an edge that lacks the agent, and so could only
	// end the run: those that have it come first. With the owner's deadline before
	// it, a lost run ends within 20 s wherever its agent is.
	endPatience = 8_000
	// agentPatience is how long a run that nobody owns may wait for an edge that
	// has its agent.
	agentPatience = 10_000
)

// Reach says where a run's agent is.
type Reach uint8

// An agent is on this edge, or on another that lives, or on none.
const (
	Here Reach = iota
	Elsewhere
	Nowhere
)

// Sweep decides which of the due items to act on.
type Sweep struct {
	// Reach says where an agent is; nil is Here.
	Reach func(realm, agent string) Reach

	seen map[lapse]int64
}

type lapse struct {
	item   string
	fence  uint64
	lapsed bool
}

// Failed takes a look that had no answer: everything must be seen anew.
func (s *Sweep) Failed() { clear(s.seen) }

// Seen takes what the store says is due and returns what to act on now.
func (s *Sweep) Seen(items []journal.DueItem, now int64) []journal.DueItem {
	next := make(map[lapse]int64, len(items))
	var act []journal.DueItem
	for _, i := range items {
		patience, waits := s.patience(i)
		if !waits {
			continue
		}
		if patience == 0 {
			act = append(act, i)
			continue
		}
		k := lapse{i.Key.Realm + "\x00" + i.Key.Tenant + "\x00" + i.Key.Thread + "\x00" + i.Run, i.Meta.Fence, i.Lapsed}
		since, ok := s.seen[k]
		if !ok {
			since = now
		}
		next[k] = since
		if now-since >= patience {
			act = append(act, i)
		}
	}
	s.seen = next
	return act
}

// patience is how long an item must have been seen before this edge acts on it;
// waits is false where another edge will.
func (s *Sweep) patience(i journal.DueItem) (ms int64, waits bool) {
	reach := Here
	if s.Reach != nil && i.Run != "" && !i.Meta.Sealed { // any edge ends what is sealed, and trims
		reach = s.Reach(i.Key.Realm, i.Meta.Agent)
	}
	switch {
	case i.Lapsed && reach == Here:
		return lapsePatience, true
	case i.Lapsed:
		return endPatience, true
	case reach == Nowhere:
		return agentPatience, true
	}
	return 0, reach == Here
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
