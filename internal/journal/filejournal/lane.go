package filejournal

import "sync"

// op is a write that waits for its turn. done is called once, with nil only
// when it is on disk as its lane promises.
type op struct {
	frame []byte  // for the log
	write *change // for the bbolt file, or
	put   *shelfWrite
	done  func(error)
}

// lane gathers the writes that come while the one before is under way. Each
// thread has at most one in it, so the threads in use bound it.
type lane struct {
	mu   sync.Mutex
	ops  []op
	wake chan struct{}
}

func newLane() *lane { return &lane{wake: make(chan struct{}, 1)} }

func (l *lane) add(o op) {
	l.mu.Lock()
	l.ops = append(l.ops, o)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *lane) take() []op {
	l.mu.Lock()
	defer l.mu.Unlock()
	ops := l.ops
	l.ops = nil
	return ops
}

// run gives f all that waits, time after time, until stop is closed.
func (l *lane) run(stop <-chan struct{}, f func([]op)) {
	for {
		select {
		case <-l.wake:
			if ops := l.take(); len(ops) > 0 {
				f(ops)
			}
		case <-stop:
			if ops := l.take(); len(ops) > 0 {
				f(ops)
			}
			return
		}
	}
}
