package journal

import "sync"

// maxNotices bounds what waits for one follower; then all of it gives way to
// one Resync.
const maxNotices = 256

// Inbox hands notices to one follower, in order, in a goroutine of its own that
// lives as long as something waits: a follower that blocks keeps nobody else
// waiting. A follower that is more than 256 notices behind gets a Resync in
// their place.
type Inbox struct {
	f       func(Notice)
	running *sync.WaitGroup

	mu      sync.Mutex
	queue   []Notice
	busy    bool
	stopped bool
}

// NewInbox returns the inbox of a follower; running counts its goroutine.
func NewInbox(f func(Notice), running *sync.WaitGroup) *Inbox {
	return &Inbox{f: f, running: running}
}

// Push queues a notice. It must not be called after the group was waited for.
func (i *Inbox) Push(n Notice) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped {
		return
	}
	if len(i.queue) >= maxNotices {
		i.queue, n = nil, Notice{Resync: true}
	}
	i.queue = append(i.queue, n)
	if !i.busy {
		i.busy = true
		i.running.Go(i.run)
	}
}

// Stop drops what waits. A call that has begun goes on.
func (i *Inbox) Stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped, i.queue = true, nil
}

func (i *Inbox) run() {
	for {
		i.mu.Lock()
		queue := i.queue
		i.queue = nil
		if len(queue) == 0 {
			i.busy = false
			i.mu.Unlock()
			return
		}
		i.mu.Unlock()
		for _, n := range queue {
			if i.isStopped() {
				break
			}
			i.f(n)
		}
	}
}

func (i *Inbox) isStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stopped
}
