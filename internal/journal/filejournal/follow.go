package filejournal

import (
	"slices"
	"sync"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// maxNotices bounds what waits for one follower; then all of it gives way to
// one Resync.
const maxNotices = 256

// followers are all that follow threads of this process.
type followers struct {
	mu      sync.Mutex
	byKey   map[chat.Key][]*follower
	closed  bool
	running sync.WaitGroup
}

// follower calls f in a goroutine of its own, which lives as long as something
// waits: a follower that blocks keeps nobody else waiting.
type follower struct {
	f       func(journal.Notice)
	running *sync.WaitGroup

	mu      sync.Mutex
	queue   []journal.Notice
	busy    bool
	stopped bool
}

// Follow implements journal.Journal. stop may be called from within f; a call
// of f that has begun by then goes on. A follower that is more than 256
// notices behind gets a Resync in their place.
func (j *Journal) Follow(key chat.Key, f func(journal.Notice)) (stop func()) {
	fs := &j.followers
	fw := &follower{f: f, running: &fs.running}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed {
		return func() {}
	}
	if fs.byKey == nil {
		fs.byKey = map[chat.Key][]*follower{}
	}
	// Copied, because publish goes over the old one without the lock.
	fs.byKey[key] = append(slices.Clone(fs.byKey[key]), fw)
	fw.push(journal.Notice{Resync: true})
	return func() { fs.remove(key, fw) }
}

func (fs *followers) remove(key chat.Key, fw *follower) {
	fw.mu.Lock()
	fw.stopped, fw.queue = true, nil
	fw.mu.Unlock()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(fs.byKey[key]), func(x *follower) bool { return x == fw })
	if len(rest) == 0 {
		delete(fs.byKey, key)
	} else {
		fs.byKey[key] = rest
	}
}

// publish hands a notice to all who follow the thread. The caller holds the
// thread, so notices are in the order of the writes.
func (fs *followers) publish(key chat.Key, n journal.Notice) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed {
		return
	}
	for _, fw := range fs.byKey[key] {
		fw.push(n)
	}
}

// resync tells everybody that something may have been missed.
func (fs *followers) resync() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, list := range fs.byKey {
		for _, fw := range list {
			fw.push(journal.Notice{Resync: true})
		}
	}
}

// close ends all following and waits for calls under way.
func (fs *followers) close() {
	fs.mu.Lock()
	fs.closed = true
	all := fs.byKey
	fs.byKey = nil
	fs.mu.Unlock()
	for _, list := range all {
		for _, fw := range list {
			fw.mu.Lock()
			fw.stopped, fw.queue = true, nil
			fw.mu.Unlock()
		}
	}
	fs.running.Wait()
}

// push queues a notice; the followers' lock is held, so that none comes after
// close.
func (fw *follower) push(n journal.Notice) {
	fw.mu.Lock()
	defer fw.mu.Unlock()
	if fw.stopped {
		return
	}
	if len(fw.queue) >= maxNotices {
		fw.queue, n = nil, journal.Notice{Resync: true}
	}
	fw.queue = append(fw.queue, n)
	if !fw.busy {
		fw.busy = true
		fw.running.Go(fw.run)
	}
}

func (fw *follower) run() {
	for {
		fw.mu.Lock()
		queue := fw.queue
		fw.queue = nil
		if len(queue) == 0 {
			fw.busy = false
			fw.mu.Unlock()
			return
		}
		fw.mu.Unlock()
		for _, n := range queue {
			if fw.isStopped() {
				break
			}
			fw.f(n)
		}
	}
}

func (fw *follower) isStopped() bool {
	fw.mu.Lock()
	defer fw.mu.Unlock()
	return fw.stopped
}
