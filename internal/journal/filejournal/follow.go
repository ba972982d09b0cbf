package filejournal

import (
	"slices"
	"sync"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// followers are all that follow threads of this process.
type followers struct {
	mu      sync.Mutex
	byKey   map[chat.Key][]*journal.Inbox
	closed  bool
	running sync.WaitGroup
}

// Follow implements journal.Journal. stop may be called from within f; a call
// of f that has begun by then goes on. A follower that is more than 256
// notices behind gets a Resync in their place.
func (j *Journal) Follow(key chat.Key, f func(journal.Notice)) (stop func()) {
	fs := &j.followers
	fw := journal.NewInbox(f, &fs.running)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed {
		return func() {}
	}
	if fs.byKey == nil {
		fs.byKey = map[chat.Key][]*journal.Inbox{}
	}
	// Copied, because publish goes over the old one without the lock.
	fs.byKey[key] = append(slices.Clone(fs.byKey[key]), fw)
	fw.Push(journal.Notice{Resync: true})
	return func() { fs.remove(key, fw) }
}

func (fs *followers) remove(key chat.Key, fw *journal.Inbox) {
	fw.Stop()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(fs.byKey[key]), func(x *journal.Inbox) bool { return x == fw })
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
		fw.Push(n)
	}
}

// resync tells everybody that something may have been missed.
func (fs *followers) resync() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, list := range fs.byKey {
		for _, fw := range list {
			fw.Push(journal.Notice{Resync: true})
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
			fw.Stop()
		}
	}
	fs.running.Wait()
}
