package redisjournal

import (
	"errors"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// Who reads with the server's time goes after a slot that has just moved.
func TestReadsFollowASlotThatHasMoved(t *testing.T) {
	c := redistest.StartCluster(t)
	j := mustOpen(t, Options{Addresses: c.Addrs(), Cluster: true})
	get := func() error {
		_, err := j.Shelf().Get(t.Context(), "r", "k", "id")
		return err
	}
	if err := get(); !errors.Is(err, journal.ErrNotFound) { // it knows the cluster now
		t.Fatal(err)
	}
	for _, key := range []string{j.shelf.keysOf("r", "k").value, j.roster.leases()[0]} {
		_, tag, _ := strings.Cut(key, "{")
		tag, _, _ = strings.Cut(tag, "}")
		to := c.Nodes[(int(slot(tag))*3/slots+1)%3]
		id := to.Do("CLUSTER", "MYID")
		for _, n := range c.Nodes {
			n.Do("CLUSTER", "SETSLOT", int(slot(tag)), "NODE", id)
		}
	}
	if err := get(); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("F3 the shelf: %v", err)
	}
	if _, err := j.Roster().Edges(t.Context()); err != nil {
		t.Errorf("F3 the roster: %v", err)
	}
}

func TestAMasterAtAnotherPlaceIsAnotherHistory(t *testing.T) {
	before := map[string]string{"a:1": "x", "b:1": "y"}
	for name, c := range map[string]struct {
		known, now map[string]string
		other      bool
	}{
		"what was seen first":                        {nil, before, false},
		"nothing new":                                {before, map[string]string{"b:1": "y", "a:1": "x"}, false},
		"a master that lost what it had":             {before, map[string]string{"a:1": "z", "b:1": "y"}, true},
		"F3 a replica in the place of a master":      {before, map[string]string{"c:1": "z", "b:1": "y"}, true},
		"F3 a replica that goes on with its history": {before, map[string]string{"c:1": "x", "b:1": "y"}, true},
		"one more master":                            {before, map[string]string{"a:1": "x", "b:1": "y", "c:1": "z"}, true},
		"F8 one that hangs":                          {before, map[string]string{"a:1": "x", "b:1": ""}, false},
		"F8 one that hangs, and another that moved":  {before, map[string]string{"a:1": "z", "b:1": ""}, true},
	} {
		all, other := compareHistories(c.known, c.now)
		if other != c.other {
			t.Errorf("%s: %v", name, other)
		}
		if all["b:1"] != "y" {
			t.Errorf("%s: what was known is forgotten: %v", name, all)
		}
	}
}
