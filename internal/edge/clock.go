package edge

import (
	"sync"
	"time"
)

// Wall is the clock of a hub whose Options name none. Tests of whole processes
// put another in its place before anything starts.
var Wall = time.Now

// steady is a clock that never goes back. When the machine's is set back, all that
// waits for a moment would else wait for as long again: patience, pace, leases.
// It goes at half speed then, until the machine's has come up with it. A leap
// ahead, as after a sleep, it takes part in.
type steady struct {
	wall func() time.Time

	mu   sync.Mutex
	read time.Time     // what wall said last
	told time.Duration // since 1970
}

// now is the time in Unix milliseconds.
func (c *steady) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.wall()
	at := time.Duration(w.UnixNano())
	if passed := max(0, w.Sub(c.read)); at < c.told {
		at = max(at, c.told+passed/2)
	}
	c.read, c.told = w, at
	return at.Milliseconds()
}
