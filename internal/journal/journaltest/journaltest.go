// Package journaltest is the contract of package journal as a suite: what a
// store owes, whatever holds the threads, sentence by sentence. Each store runs
// it, always with two hubs on one store, as two edges would be.
//
// The suite knows a store only through journal.Journal. What it cannot see from
// there (what a disk keeps, what a network loses) is the store's own to test.
package journaltest

import (
	"context"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal"
	"pgregory.net/rapid"
)

// Stop says how a store is stopped before it is opened again.
type Stop int

// Clean is a close of both hubs; Killed is what kill -9 leaves.
const (
	Clean Stop = iota
	Killed
)

func (s Stop) String() string { return [...]string{"clean", "killed"}[s] }

// Store is a store under test.
type Store struct {
	// Hubs are two handles on it: two edges. They may be one value seen twice,
	// where edges share it.
	Hubs [2]journal.Journal
	// Advance lets time pass for the store, as both hubs see it.
	Advance func(time.Duration)
	// Restart stops the store and returns new hubs, after which the old ones
	// are of no use; nil if the store cannot be stopped.
	Restart func(t *testing.T, how Stop) [2]journal.Journal
}

// Run holds a store to the contract. open gives a fresh, empty one, which
// cleans up after itself.
func Run(t *testing.T, open func(t *testing.T) *Store) {
	for _, group := range []struct {
		name  string
		cases []testCase
	}{
		{"append", appendCases},
		{"commit", commitCases},
		{"load", loadCases},
		{"floor", floorCases},
		{"epoch", epochCases},
		{"owner", ownerCases},
		{"follow", followCases},
		{"fault", faultCases},
		{"shelf", shelfCases},
		{"blob", blobCases},
		{"roster", rosterCases},
		{"model", modelCases},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) {
					s := open(t)
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
					defer cancel()
					c.run(&bench{TB: t, T: t, Store: s, ctx: ctx})
				})
			}
		})
	}
}

// testCase is a sentence of the contract and its proof.
type testCase struct {
	name string
	run  func(*bench)
}

// bench is a test with a store of its own.
type bench struct {
	rapid.TB
	T *testing.T
	*Store
	ctx context.Context
}
