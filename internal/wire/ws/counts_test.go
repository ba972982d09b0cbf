package ws

import (
	"runtime"
	"testing"
	"time"
)

// TestCounts: each byte that is read and written is counted, and of the frames
// that find their queue empty one in SampleEvery is timed, once.
func TestCounts(t *testing.T) {
	s := connect(t, 1, time.Minute)[0]
	timed := 0 // told by the writer, between two frames
	s.writers.counts.Waited = func(d time.Duration) {
		if d < 0 {
			t.Errorf("a frame took %v", d)
		}
		timed++
	}
	s.writers.timed = new(sample[receiver])
	idle := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.busy
	}
	counts, out := s.conn.group.counts, int64(0)
	for i := range 3 * SampleEvery {
		text := make([]byte, i)
		s.send(text)
		if _, got := s.frame(t); len(got) != i {
			t.Fatalf("a frame of %d bytes has %d", i, len(got))
		}
		for !idle() {
			runtime.Gosched()
		}
		out += int64(len(AppendHeader(nil, FinText, i)) + i)
		if got := counts.Out.Load(); got != out {
			t.Fatalf("after %d frames %d bytes are counted, not %d", i+1, got, out)
		}
	}
	s.mu.Lock() // it was told before the writer let go
	if timed != 3 || s.writers.timed.of.Load() != nil {
		t.Errorf("%d frames were timed", timed)
	}
	s.mu.Unlock()

	in := []byte{0x81, 0x80 | 5, 0, 0, 0, 0, 'h', 'e', 'l', 'l', 'o'}
	if _, err := s.peer.Write(in); err != nil {
		t.Fatal(err)
	}
	room := Meter{Memory: &Memory{Limit: 1 << 20}}
	if _, b, err := s.conn.ReadMessage(&room); err != nil || string(b) != "hello" {
		t.Fatal(string(b), err)
	}
	if got := counts.In.Load(); got != int64(len(in)) {
		t.Errorf("%d bytes came in, and %d are counted", len(in), got)
	}
}
