package phoenix

import (
	"container/heap"
	"sync"
	"time"
)

// clock calls tick on each socket when it is due: one goroutine and one timer
// for all of them, since a timer of its own is the larger part of what an idle
// socket would cost.
type clock struct {
	start time.Time
	wake  chan struct{}
	stop  chan struct{}

	mu  sync.Mutex
	due dueHeap
}

func newClock() *clock {
	return &clock{start: time.Now(), wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

// now is the time since the server started: half the size of a time.Time and,
// being monotonic, deaf to changes of the wall clock.
func (c *clock) now() time.Duration { return time.Since(c.start) }

// set makes s due at the given time, whenever it was due before.
func (c *clock) set(s *socket, at time.Duration) {
	c.mu.Lock()
	s.due = at
	if s.place == 0 {
		heap.Push(&c.due, s)
	} else {
		heap.Fix(&c.due, s.place-1)
	}
	first := c.due[0] == s
	c.mu.Unlock()
	if first {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

func (c *clock) unset(s *socket) {
	c.mu.Lock()
	if s.place != 0 {
		heap.Remove(&c.due, s.place-1)
	}
	c.mu.Unlock()
}

// run ticks until stop is closed.
func (c *clock) run() {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		now := c.now()
		s, wait := c.next(now)
		if s != nil {
			s.tick(now)
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

// next takes out a socket that is due, or says how long to wait for one.
func (c *clock) next(now time.Duration) (*socket, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.due) == 0 {
		return nil, time.Hour
	}
	if s := c.due[0]; s.due <= now {
		heap.Pop(&c.due)
		return s, 0
	}
	return nil, c.due[0].due - now
}

// dueHeap orders sockets by due; place is the index plus one, 0 outside.
type dueHeap []*socket

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

func (h *dueHeap) Push(x any) {
	s := x.(*socket)
	*h = append(*h, s)
	s.place = len(*h)
}

func (h *dueHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	s.place = 0
	return s
}
