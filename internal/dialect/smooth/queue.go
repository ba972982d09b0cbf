package smooth

import (
	"sync"
	"time"

	"github.com/coder/websocket"
)

// queue is what waits for one client to read it. One goroutine writes it, and
// none while it is empty.
type queue struct {
	wire *wire
	wg   *sync.WaitGroup

	mu       sync.Mutex
	items    []item
	bytes    int // of what waits or is being written
	flushing bool
	since    time.Time // when the first of what waits was queued, if that is timed
	closed   bool      // nothing more is taken
	// farewell closes the connection once all is written.
	farewell websocket.StatusCode
	reason   string
	slow     bool // it was broken off because too much waited
}

// item is a frame: its JSON, or a token that is encoded when it is written, so
// that tokens which wait can be merged.
type item struct {
	json []byte
	// kind, turn, token and at are of a token frame.
	kind  string
	turn  *turn
	token []byte
	at    int64
}

// send queues a frame; false means that the client reads too slowly or is gone,
// and the connection ends.
func (q *queue) send(json []byte) bool { return q.put(item{json: json}, len(json)) }

// token queues a token. One that follows another of the same turn which still
// waits is merged with it: such frames have no number of their own.
func (q *queue) token(kind string, t *turn, text string, at int64) bool {
	q.mu.Lock()
	if n := len(q.items); n > 0 && !q.closed {
		last := &q.items[n-1]
		if last.turn == t && last.kind == kind && len(last.token)+len(text) <= mergeBytes {
			last.token = append(last.token, text...)
			q.bytes += len(text)
			q.mu.Unlock()
			return true
		}
	}
	q.mu.Unlock()
	return q.put(item{kind: kind, turn: t, token: []byte(text), at: at}, len(text)+tokenCost)
}

// tokenCost is what a token's frame has beside its text, about.
const tokenCost = 192

func (q *queue) put(i item, cost int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if q.bytes > 0 && q.bytes+cost > queueBytes {
		q.wire.counts.Slow.Add(1)
		q.closed, q.items, q.slow = true, nil, true
		q.wire.abort()
		return false
	}
	q.items = append(q.items, i)
	q.bytes += cost
	q.kick()
	return true
}

// kick starts the writer. Holds q.mu.
func (q *queue) kick() {
	if !q.flushing {
		q.flushing = true
		if q.wire.counts.Sample() {
			q.since = time.Now()
		}
		q.wg.Add(1) // never the first: the reader is counted
		go q.flush()
	}
}

// close ends the connection with a code, after what is queued.
func (q *queue) close(code websocket.StatusCode, reason string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed, q.farewell, q.reason = true, code, reason
		q.kick()
	}
}

// ended says why the connection is over, as far as the server decided it.
func (q *queue) ended() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.reason != "":
		return q.reason
	case q.slow:
		return "client too slow"
	}
	return "transport closed"
}

var batches = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

func (q *queue) flush() {
	defer q.wg.Done()
	buf := batches.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= 2*writeLimit {
			*buf = (*buf)[:0]
			batches.Put(buf)
		}
	}()
	for {
		q.mu.Lock()
		items, cost := q.items, q.bytes
		q.items = nil
		if len(items) == 0 {
			q.flushing = false
			code, reason := q.farewell, q.reason
			q.farewell = 0
			q.mu.Unlock()
			if code != 0 {
				_ = q.wire.writeClose(code, reason)
			}
			return
		}
		q.mu.Unlock()
		err := q.write(items, buf)
		q.mu.Lock()
		q.bytes -= cost
		if since := q.since; !since.IsZero() {
			q.since = time.Time{}
			if err == nil {
				q.wire.counts.Waited(time.Since(since))
			}
		}
		if err != nil {
			q.closed, q.items, q.bytes, q.flushing = true, nil, 0, false
			q.mu.Unlock()
			q.wire.abort()
			return
		}
		q.mu.Unlock()
	}
}

// write writes frames, as many at a time as fit a write.
func (q *queue) write(items []item, buf *[]byte) error {
	var one []byte
	b := (*buf)[:0]
	for n := range items {
		frame := items[n].json
		if frame == nil {
			one = tokenFrame(one[:0], &items[n])
			frame = one
		}
		b = append(header(b, len(frame)), frame...)
		if len(b) >= writeLimit || n == len(items)-1 {
			if _, err := q.wire.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	*buf = b
	return nil
}
