package ws

import (
	"container/heap"
	"sync"
	"time"
)

// Clock says of each client when it is due: one goroutine and one timer for all
// of them, since a timer of its own is the larger part of what an idle client
// would cost.
type Clock[S any] struct {
	start time.Time
	wake  chan struct{}
	stop  chan struct{}
	tick  func(*S, time.Duration)

	mu  sync.Mutex
	due dueHeap[S]
}

// Alarm is a client's place on a Clock, which guards it.
type Alarm struct {
	due   time.Duration
	place int
}

// NewClock makes a clock that calls tick for each client that is due, once. The
// client has its alarm where alarm says.
func NewClock[S any](alarm func(*S) *Alarm, tick func(*S, time.Duration)) *Clock[S] {
	return &Clock[S]{
		start: time.Now(), wake: make(chan struct{}, 1), stop: make(chan struct{}),
		tick: tick, due: dueHeap[S]{alarm: alarm},
	}
}

// Now is the time since the clock was made: half the size of a time.Time and,
// being monotonic, deaf to changes of the wall clock.
func (c *Clock[S]) Now() time.Duration { return time.Since(c.start) }

// Len is how many clients wait.
func (c *Clock[S]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.due.Len()
}

// Set makes s due at the given time, whenever it was due before.
func (c *Clock[S]) Set(s *S, at time.Duration) {
	c.mu.Lock()
	a := c.due.alarm(s)
	a.due = at
	if a.place == 0 {
		heap.Push(&c.due, s)
	} else {
		heap.Fix(&c.due, a.place-1)
	}
	first := c.due.list[0] == s
	c.mu.Unlock()
	if first {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// Unset takes s off the clock.
func (c *Clock[S]) Unset(s *S) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.due.alarm(s); a.place != 0 {
		heap.Remove(&c.due, a.place-1)
	}
}

// Stop ends Run. It is called once.
func (c *Clock[S]) Stop() { close(c.stop) }

// Run ticks until Stop.
func (c *Clock[S]) Run() {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		now := c.Now()
		s, wait := c.next(now)
		if s != nil {
			c.tick(s, now)
			continue
		}
		t.Reset(wait)
		select {
		case <-t.C:
		case <-c.wake:
		case <-c.stop:
			return
		}
	}
}

// next takes out a client that is due, or says how long to wait for one.
func (c *Clock[S]) next(now time.Duration) (*S, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.due.list) == 0 {
		return nil, time.Hour
	}
	s := c.due.list[0]
	if due := c.due.alarm(s).due; due > now {
		return nil, due - now
	}
	heap.Pop(&c.due)
	return s, 0
}

// dueHeap orders clients by due; place is the index plus one, 0 outside.
type dueHeap[S any] struct {
	list  []*S
	alarm func(*S) *Alarm
}

// The methods of heap.Interface.
func (h *dueHeap[S]) Len() int           { return len(h.list) }
func (h *dueHeap[S]) Less(i, j int) bool { return h.alarm(h.list[i]).due < h.alarm(h.list[j]).due }
func (h *dueHeap[S]) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.alarm(h.list[i]).place, h.alarm(h.list[j]).place = i+1, j+1
}

func (h *dueHeap[S]) Push(x any) {
	s := x.(*S)
	h.list = append(h.list, s)
	h.alarm(s).place = len(h.list)
}

func (h *dueHeap[S]) Pop() any {
	last := len(h.list) - 1
	s := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	h.alarm(s).place = 0
	return s
}
