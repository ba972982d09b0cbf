// Package room keeps the threads that are open on this edge: their folded
// state and the members that watch them.
//
// Its heart is the Sequencer, a step function: notices, loads and the clock go
// in, applied records and requests come out, with no goroutine, clock or random
// number inside, so that the simulation runs the same code as an edge. Rooms is
// the shell around it.
//
// A room owes each member every record once and in order from the member's own
// position on, or a close that its client resumes from. It leaves what a record
// looks like to the dialects, and who may watch to its caller.
package room
