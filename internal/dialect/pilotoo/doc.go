// Package pilotoo speaks the Pilotoo chat protocol, version 1.17: commands and
// envelopes over Socket.IO, a few HTTP routes beside them.
//
// It owes its clients strict commands, every event in an envelope whose number
// follows the one before it, a history that continues into the live envelopes
// without a gap, and errors from one table of five codes. What a thread is and
// what may be done to it, it leaves to its Desk; framing, to package socketio.
//
// The contract in prose, with a schema for every message, is in spec/.
package pilotoo
