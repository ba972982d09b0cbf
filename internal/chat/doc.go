// Package chat holds the words of Parlance as types, and its rules as pure
// functions: what a thread is, what a record of its journal means (the fold),
// which records carry which numbers, and whether a command may be accepted.
//
// It does no I/O, reads no clock, draws no random number and imports nothing
// of ours, so the same code runs in an edge, in a test and in the simulation.
// Everything that a state refers to is immutable once it has been returned.
package chat
