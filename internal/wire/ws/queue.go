package ws

// Queue is what waits for one client, oldest first. It is guarded by its user,
// and keeps memory for a few entries while it is empty.
type Queue[E any] struct {
	// Keep is for how many entries, 8 if it is 0.
	Keep int
	list []E
	head int
}

const keepEntries = 8

// Len is how many entries wait.
func (q *Queue[E]) Len() int { return len(q.list) - q.head }

// At is the entry that i others are before.
func (q *Queue[E]) At(i int) *E { return &q.list[q.head+i] }

// Push adds an entry.
func (q *Queue[E]) Push(e E) {
	if q.head > 0 && len(q.list) == cap(q.list) && q.head >= len(q.list)/2 {
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, e)
}

// Drop takes the oldest n out. They must not be kept alive by memory that waits.
func (q *Queue[E]) Drop(n int) {
	clear(q.list[q.head : q.head+n])
	if q.head += n; q.head < len(q.list) {
		return
	}
	if q.list, q.head = q.list[:0], 0; cap(q.list) > max(q.Keep, keepEntries) {
		q.list = nil
	}
}

// Clear takes all out.
func (q *Queue[E]) Clear() { q.list, q.head = nil, 0 }
