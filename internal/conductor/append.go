package conductor

import (
	"context"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal"
)

// appendTime is how long an append may take at least, at most twice as long.
const appendTime = 5 * time.Second

// answered is what an append brought.
type answered struct {
	res journal.Appended
	err error
}

// append has a write made. There is one at a time, so nothing waits here.
func (l *loop) append(a journal.Append) {
	if l.writes == nil {
		l.writes = make(chan write, 1)
		l.wg.Go(l.writer)
	}
	l.writes <- write{a, l.pause}
	if l.pause > 0 {
		l.pause = min(2*l.pause, lastPause)
	}
}

// write is an append to be made after a pause, if that is longer than the first.
type write struct {
	journal.Append
	pause time.Duration
}

// writer makes a loop's appends. It is one goroutine, and one context does for many
// appends, since there may be an append for each token.
func (l *loop) writer() {
	for w, more := l.next(); more; {
		w, more = l.write(w)
	}
}

// next waits for an append, and for as long as it is to be put off.
func (l *loop) next() (w write, more bool) {
	if w, more = <-l.writes; w.pause > firstPause {
		sleep(l.ctx, &w.pause)
	}
	return w, more
}

// write makes w and what comes within appendTime, and returns what comes next.
func (l *loop) write(w write) (next write, more bool) {
	ctx, cancel := context.WithTimeout(l.ctx, 2*appendTime)
	defer cancel()
	for renew := time.Now().Add(appendTime); ; {
		res, err := l.c.j.Append(ctx, w.Append)
		l.appended <- answered{res, err}
		if w, more = l.next(); !more || time.Now().After(renew) {
			return w, more
		}
	}
}
