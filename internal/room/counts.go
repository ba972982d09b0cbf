package room

import (
	"sync/atomic"
	"time"
)

// Counts are what rooms have done. They only rise, and belong to whoever reads
// them.
type Counts struct {
	// Replayed are members who were given what they had missed out of the room's
	// memory, Reread those for whom the journal was read; Outdated asked for more
	// than is kept and got the present state. Caught came into live runs and were
	// shown these from the beginning, Cut those for whom the beginning was gone.
	Replayed, Reread, Outdated, Caught, Cut atomic.Int64
	// Gaps are holes in what was published that had to be read from the journal.
	Gaps atomic.Int64
	// Epochs, Behind, Slow and Deleted are members that were let go, by why.
	Epochs, Behind, Slow, Deleted atomic.Int64
	// Arrived is told how long a record took from its time in the journal until
	// all members of the room had it in their queues: on an edge whose clock is not the
	// journal's, that much more or less. It must not block. nil is nobody.
	Arrived func(time.Duration)
}

func (c *Counts) closed(why CloseReason) {
	switch why {
	case CloseEpoch:
		c.Epochs.Add(1)
	case CloseBehind:
		c.Behind.Add(1)
	case CloseSlow:
		c.Slow.Add(1)
	case CloseDeleted:
		c.Deleted.Add(1)
	}
}
