package ws

import (
	"runtime"
	"sync"
)

// Batch is what is to be written to one client in one go.
type Batch struct {
	// Conn is the client's connection; nil says that nothing is to be written.
	Conn *Conn
	// B is one or more whole frames, Rest the end of the last where that is too
	// large to be copied.
	B, Rest []byte
	// Last says that the peer has only to answer a close frame.
	Last bool
}

// Writers write what is queued for the clients of a server. A few goroutines, and
// none while there is nothing to write, go from client to client and never wait for
// one: a client whose connection takes no more gets a goroutine of its own until it
// has read all that was queued. TLS cannot be written without waiting, so its
// clients have one for each time that something is queued.
type Writers[S any] struct {
	next func(s *S, buf *[]byte, err error) Batch
	wg   *sync.WaitGroup
	run  func() // work, bound once so that starting it allocates nothing
	most int
	// timed is nil where nobody wants to know how long a frame waits.
	timed  *sample[S]
	counts *Counts

	mu      sync.Mutex
	ready   Queue[*S]
	working int
}

const (
	// share is how many clients a writer takes at a time; another one joins
	// where more than that are left to each.
	share = 16
	// keepBatch is the largest buffer that is kept for another batch.
	keepBatch = 2 * WriteLimit
)

// NewWriters makes the writers of a server. Next takes word of what became of the
// batch before, appends to buf or points elsewhere for another one, and says with
// an empty Batch that the client is idle: the caller then calls Ready when that
// has changed. It must not block. wg counts goroutines, counts are told how long
// frames wait.
func NewWriters[S any](wg *sync.WaitGroup, counts *Counts, next func(s *S, buf *[]byte, err error) Batch) *Writers[S] {
	w := &Writers[S]{next: next, wg: wg, most: runtime.GOMAXPROCS(0), counts: counts}
	if counts.Waited != nil {
		w.timed = new(sample[S])
	}
	w.run, w.ready.Keep = w.work, 4096
	return w
}

// Ready has what is queued for an idle client written; its connection is c. It must
// be called while the group is counted.
func (w *Writers[S]) Ready(s *S, c *Conn) {
	if w.counts.Sample() {
		w.timed.begin(s)
	}
	if c.raw == nil {
		w.wg.Add(1)
		go w.wait(s)
		return
	}
	w.mu.Lock()
	w.ready.Push(s)
	start := w.working < w.most && w.ready.Len() > share*w.working
	if start {
		w.working++
		w.wg.Add(1)
	}
	w.mu.Unlock()
	if start {
		go w.run()
	}
}

var batches = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

func keep(buf *[]byte) {
	if cap(*buf) <= keepBatch {
		*buf = (*buf)[:0]
		batches.Put(buf)
	}
}

// work goes from client to client until none is left.
func (w *Writers[S]) work() {
	defer w.wg.Done()
	at := attempts.Get().(*attempt)
	defer attempts.Put(at)
	buf := batches.Get().(*[]byte)
	defer func() { keep(buf) }()
	var mine [share]*S
	for {
		n := w.take(&mine)
		if n == 0 {
			return
		}
		for _, s := range mine[:n] {
			buf = w.write(s, at, buf)
		}
		clear(mine[:n])
	}
}

func (w *Writers[S]) take(mine *[share]*S) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(share, w.ready.Len())
	for i := range n {
		mine[i] = *w.ready.At(i)
	}
	if w.ready.Drop(n); n == 0 {
		w.working--
	}
	return n
}

// write writes what is queued for s until that is all, or until it would have to
// wait; then it leaves s, and the buffer, to another goroutine.
func (w *Writers[S]) write(s *S, at *attempt, buf *[]byte) *[]byte {
	var err error
	for first := true; ; first = false {
		b := w.next(s, buf, err)
		if b.Conn == nil {
			if first {
				w.untimed(s)
			}
			return buf
		}
		var n int
		var held bool
		if len(b.Rest) == 0 && !b.Last {
			n, held, err = b.Conn.writeNow(b.B, at)
		}
		if err == nil && n < len(b.B) {
			w.wg.Add(1)
			go w.rest(s, buf, b, n, held)
			return batches.Get().(*[]byte)
		}
		w.wrote(s, err)
	}
}

// wrote ends the timing of the first of what was queued for s.
func (w *Writers[S]) wrote(s *S, err error) {
	switch {
	case err != nil:
		w.untimed(s)
	case w.timed != nil:
		w.timed.written(s, w.counts.Waited)
	}
}

func (w *Writers[S]) untimed(s *S) {
	if w.timed != nil {
		w.timed.over(s)
	}
}

// rest writes a batch from its byte n on, with the connection's lock held or not,
// and what else is queued for s.
func (w *Writers[S]) rest(s *S, buf *[]byte, b Batch, n int, held bool) {
	defer keep(buf)
	if !held {
		err := b.write()
		w.wrote(s, err)
		w.waitFor(s, buf, err, false)
		return
	}
	err := b.Conn.finish(b.B[n:])
	b.Conn.mu.Unlock()
	w.wrote(s, err)
	w.waitFor(s, buf, err, false)
}

// wait writes what is queued for s, and waits for it to be read.
func (w *Writers[S]) wait(s *S) {
	buf := batches.Get().(*[]byte)
	defer keep(buf)
	w.waitFor(s, buf, nil, true)
}

func (w *Writers[S]) waitFor(s *S, buf *[]byte, err error, first bool) {
	defer w.wg.Done()
	for ; ; first = false {
		b := w.next(s, buf, err)
		if b.Conn == nil {
			if first {
				w.untimed(s)
			}
			return
		}
		err = b.write()
		w.wrote(s, err)
	}
}

func (b *Batch) write() (err error) {
	if len(b.Rest) > 0 {
		return b.Conn.both(b.B, b.Rest)
	}
	_, err = b.Conn.Write(b.B)
	if b.Last {
		b.Conn.hurry()
	}
	return err
}

// attempt is a write that does not wait.
type attempt struct {
	b   []byte
	n   int
	err error
	do  func(fd uintptr) bool // bound once
}

var attempts = sync.Pool{New: func() any {
	at := new(attempt)
	at.do = func(fd uintptr) bool {
		at.n, at.err = writeNow(fd, at.b)
		return true
	}
	return at
}}

// writeNow writes as much of b as goes without waiting. Where that is not all of
// it but some, the lock stays held: the rest has to follow before anything else.
func (c *Conn) writeNow(b []byte, at *attempt) (n int, held bool, err error) {
	if !c.mu.TryLock() {
		return 0, false, nil
	}
	if c.closed {
		c.mu.Unlock()
		return len(b), false, nil
	}
	at.b, at.n, at.err = b, 0, nil
	err = c.raw.Write(at.do)
	if at.b = nil; err == nil {
		n, err = at.n, at.err
		c.group.counts.Out.Add(int64(n))
	}
	if err == nil && n > 0 && n < len(b) {
		return n, true, nil
	}
	c.mu.Unlock()
	return n, false, err
}
