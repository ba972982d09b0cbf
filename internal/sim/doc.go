// Package sim is the seeded simulation of a journal, edges and clients: one
// loop, one clock and one source of chance drive the very step functions that
// an edge runs (room.Sequencer, conductor.Command, Owner and Sweep, the rules of
// chat) on a model of the store (journal.Ledger) behind a network that loses,
// delays, repeats and reorders.
//
// A seed is a whole history: edges crash, are cut off and come back, the store
// is away or fails over and forgets its newest writes, threads are trimmed and
// deleted, people race each other. What must always hold is checked at every
// step and once more when all is quiet. Run again, a seed does the same.
//
// The bugs of Bugs are put in from outside, around the step functions, to prove
// that the checks see them. Production code knows nothing of this package.
package sim
