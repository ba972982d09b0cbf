package redisjournal

import (
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

func TestDueGoesOnWhateverStandsInItsWay(t *testing.T) {
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
