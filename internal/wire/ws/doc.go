// Package ws is what all transports of ours do with a WebSocket: it takes the
// connection over with small buffers, reads messages within bounds of memory, and
// writes what is queued for clients in one system call each, without a goroutine
// of their own for those who read as fast as they are sent to. The library that
// it reads through also answers pings and closes; all writes take one lock.
//
// It owes its callers frames whole and in order, and that a client which reads
// slowly keeps no other waiting. What is queued, and for how long, they decide.
package ws
