package pingerchips_test

import (
	"testing"

	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// stores make the journals of two edges that share a store.
var stores = []struct {
	name string
	open func(*testing.T) [2]journal.Journal
}{
	{"on a file", func(t *testing.T) [2]journal.Journal {
		j := open(t)
		return [2]journal.Journal{j, j}
	}},
	{"on Redis", func(t *testing.T) (all [2]journal.Journal) {
		server := redistest.Start(t)
		for i := range all {
			j, err := redisjournal.Open(redisjournal.Options{Addresses: []string{server.Addr()}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = j.Close() })
			all[i] = j
		}
		return all
	}},
}

// pair is two edges on one store.
func pair(t *testing.T, journals [2]journal.Journal, change func(*edge.Site)) []*site {
	t.Helper()
	return []*site{on(t, journals[0], change), on(t, journals[1], change)}
}
