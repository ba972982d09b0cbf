// Package conductor runs runs: it carries out commands, owns what it started,
// calls agents, takes over what others lost, and ends every accepted run
// exactly once.
//
// Command, Owner and Sweep are step functions (input → what to do next) that
// the simulation drives too; Conductor is the shell that does their I/O.
package conductor
