package redisjournal

import (
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

func TestDueGoesOnWhateverStandsInItsWay(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(s *redistest.Server, j *Journal, other threadKeys){
		"F53 a run that another edge has just ended": func(s *redistest.Server, j *Journal, other threadKeys) {
			s.Do("HDEL", other.meta, "rrun", "wrun")
		},
		"S8 a thread that is of another type": func(s *redistest.Server, j *Journal, other threadKeys) {
			s.Do("DEL", other.meta)
			s.Do("SET", other.meta, "garbage")
		},
		"S8 a partition that is of another type": func(s *redistest.Server, j *Journal, other threadKeys) {
			s.Do("DEL", j.keys.due(other.partition))
			s.Do("SET", j.keys.due(other.partition), "garbage")
		},
		"S8 an idle set that is of another type": func(s *redistest.Server, j *Journal, other threadKeys) {
			s.Do("HDEL", other.meta, "rrun", "wrun")
			s.Do("SET", j.keys.idle(other.partition), "garbage")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			j := mustOpen(t, Options{Addresses: []string{s.Addr()}})
			well, other := threadKey("well"), threadKey("other")
			for _, key := range []chat.Key{well, other} {
				c := opening(key)
				c.Runs = []journal.RunChange{{Run: "run", New: true, NewOwner: true, Due: 1}}
				c.Segments = nil
				mustCommit(t, j, c)
			}
			spoil(s, j, j.keys.thread(other))
			for range 2 {
				items, err := j.Due(t.Context(), 10)
				if err != nil || len(items) != 1 || items[0].Key != well {
					t.Fatalf("got %+v, %v", items, err)
				}
			}
			if err := j.Leave(t.Context(), "edge"); err != nil {
				t.Errorf("leave: %v", err)
			}
		})
	}
}

// F5, F10: a store that takes no writes has not been told that a run's owner
// lives. That the deadline has passed meanwhile is nobody's end.
func TestNothingHasLapsedInARedisThatTakesNoWrites(t *testing.T) {
	for name, refuse := range map[string][2]string{
		"F5 for want of replicas":        {"min-replicas-to-write", "1"},
		"F10 because its memory is full": {"maxmemory", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := redistest.Start(t), newClock()
			j := mustOpen(t, Options{Addresses: []string{s.Addr()}, Shift: c.shift})
			mustCommit(t, j, opening(theKey))
			c.Advance(journal.OwnerDeadline + time.Second)
			s.Do("CONFIG", "SET", refuse[0], refuse[1])
			if items, err := j.Due(t.Context(), 10); err == nil || len(items) > 0 {
				t.Errorf("due are %+v, %v", items, err)
			}
			s.Do("CONFIG", "SET", refuse[0], "0")
			if items, err := j.Due(t.Context(), 10); err != nil || len(items) != 1 || !items[0].Lapsed {
				t.Errorf("due are %+v, %v", items, err)
			}
		})
	}
}
