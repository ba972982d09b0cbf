package redisjournal

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

const (
	// maxWaiting bounds what waits to be decoded for one thread, in notices,
	// maxWaitingBytes in bytes (a single notice may be larger). Beyond these all
	// of it gives way to one Resync.
	maxWaiting      = 256
	maxWaitingBytes = 4 << 20
	// promptBytes is the largest notice that is decoded as it is read.
	promptBytes = 8 << 10
	// linger is how long a channel stays subscribed after its last follower.
	linger = 5 * time.Second
)

// follower is one that follows a thread.
type follower interface {
	Push(journal.Notice)
	Stop()
}

// prompt is a follower that is told by the goroutine which has read the notice.
type prompt struct {
	f    func(journal.Notice)
	over atomic.Bool
}

func (p *prompt) Push(n journal.Notice) {
	if !p.over.Load() {
		p.f(n)
	}
}

func (p *prompt) Stop() { p.over.Store(true) }

// topic is a channel that is followed on this edge, or was until just now. What
// comes is decoded once and handed to each follower: at once if it is small, else
// away from the line's loop.
type topic struct {
	running *sync.WaitGroup

	mu        sync.Mutex
	live      bool       // subscribed, as far as is known
	followers []follower // replaced, never changed
	left      time.Time  // when the last follower went
	waiting   []string   // "" is a resync
	bytes     int
	busy      bool
}

// follow hands a thread's notices to fw. The first Resync comes when the channel
// is subscribed, so while Redis is away nothing comes; further ones follow each
// time that something may have been missed. stop may be called from within f; a
// call of f that has begun by then goes on.
func (fs *followers) follow(key chat.Key, fw follower) (stop func()) {
	k := fs.keys.thread(key)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed {
		return func() {}
	}
	t := fs.line(k.partition).topic(k.channel)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followers = append(slices.Clone(t.followers), fw)
	if t.live {
		fw.Push(journal.Notice{Resync: true})
	}
	return func() { t.drop(fw) }
}

func (t *topic) drop(fw follower) {
	fw.Stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.followers)
	t.followers = slices.DeleteFunc(slices.Clone(t.followers), func(x follower) bool { return x == fw })
	if n > 0 && len(t.followers) == 0 {
		t.left = time.Now()
	}
}

// take hands on what came on the channel, or queues it.
func (t *topic) take(payload string) {
	t.mu.Lock()
	switch {
	case !t.live: // what an earlier subscription still brings
	case len(payload) <= promptBytes && !t.busy:
		followers := t.followers
		t.mu.Unlock()
		tell(followers, payload)
		return
	case len(t.waiting) >= maxWaiting || t.bytes+len(payload) > maxWaitingBytes && len(t.waiting) > 0:
		t.resync()
	default:
		t.waiting, t.bytes = append(t.waiting, payload), t.bytes+len(payload)
		t.start()
	}
	t.mu.Unlock()
}

// tell hands a notice to followers; "" is a resync.
func tell(followers []follower, payload string) {
	n := journal.Notice{Resync: true}
	if payload != "" && len(followers) > 0 {
		var err error
		if n, err = decodeNotice(payload); err != nil {
			// Whoever wrote it: the stream is the truth.
			n = journal.Notice{Resync: true}
		}
	}
	for _, fw := range followers {
		fw.Push(n)
	}
}

// resync has the followers load, in place of all that waits; t.mu is held.
func (t *topic) resync() {
	t.waiting, t.bytes = append(t.waiting[:0], ""), 0
	t.start()
}

func (t *topic) start() {
	if !t.busy {
		t.busy = true
		t.running.Go(t.run)
	}
}

// subscribed says that notices come from now on.
func (t *topic) subscribed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live = true
	t.resync()
}

// silent says that the subscription is gone.
func (t *topic) silent() {
	t.mu.Lock()
	t.live = false
	t.mu.Unlock()
}

// idle says that nobody has followed for a while.
func (t *topic) idle(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.followers) == 0 && now.Sub(t.left) >= linger
}

// stop ends all following.
func (t *topic) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, fw := range t.followers {
		fw.Stop()
	}
	t.followers = nil
}

func (t *topic) run() {
	for {
		t.mu.Lock()
		waiting := t.waiting
		t.waiting, t.bytes = nil, 0
		if len(waiting) == 0 {
			t.busy = false
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		for _, payload := range waiting {
			t.mu.Lock()
			followers := t.followers
			t.mu.Unlock()
			tell(followers, payload)
		}
	}
}
