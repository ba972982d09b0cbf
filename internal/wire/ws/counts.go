package ws

import (
	"sync/atomic"
	"time"
)

// Counts are what the sockets of one dialect have done. They only rise, and
// belong to whoever reads them: a server that ends takes nothing of them away.
type Counts struct {
	// Opened are all connections that there ever were; Slow those that were broken
	// off because their queue was full.
	Opened, Slow atomic.Int64
	// In and Out are bytes: frames with their heads on a WebSocket, bodies of
	// polling. Of HTTP's own nothing is counted, nor of TLS's.
	In, Out atomic.Int64
	// What limits have refused: a connection that the server has no room for, or
	// not so soon after others; one too many of a client's; a command that came too soon; a thread too many on one
	// connection.
	OverSockets, OverClient, OverCommands, OverRooms atomic.Int64
	// Waited is told how long a frame that found its queue empty took until the
	// kernel had it, of one frame in SampleEvery. It must not block. nil is nobody.
	Waited func(time.Duration)

	turn atomic.Uint32
}

// SampleEvery is of how many frames that found a queue empty one is timed.
const SampleEvery = 64

// Sample says whether the frame that has just found its queue empty is one to be
// timed.
func (c *Counts) Sample() bool { return c.Waited != nil && c.turn.Add(1)%SampleEvery == 0 }

// began is where sample's times are counted from.
var began = time.Now()

// sample is the one client at a time whose frame is timed.
type sample[S any] struct {
	of    atomic.Pointer[S]
	since atomic.Int64 // nanoseconds after began
}

// begin times the frame that has just found the queue of s empty, unless another is timed.
// What is written for s begins after it has returned.
func (m *sample[S]) begin(s *S) {
	if m.of.CompareAndSwap(nil, s) {
		m.since.Store(int64(time.Since(began)))
	}
}

// written says that what was queued first for s has been written.
func (m *sample[S]) written(s *S, told func(time.Duration)) {
	if m.of.Load() == s {
		took := time.Since(began) - time.Duration(m.since.Load())
		m.of.Store(nil)
		told(took)
	}
}

// over says that it never will be.
func (m *sample[S]) over(s *S) {
	if m.of.Load() == s {
		m.of.Store(nil)
	}
}
