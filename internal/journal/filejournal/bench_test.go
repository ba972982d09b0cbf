package filejournal

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// each gives every iteration to one of n writers, who work side by side.
func each(b *testing.B, n int, prepare, f func(*writer) error) {
	b.Helper()
	j := mustOpen(b, Options{Dir: b.TempDir()})
	writers := make([]*writer, n)
	for i := range writers {
		w := newWriter(j, fmt.Sprint("t", i))
		must(b, w.open(b.Context()))
		must(b, prepare(w))
		writers[i] = w
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan error, n)
	b.ReportAllocs()
	b.ResetTimer()
	for _, w := range writers {
		go func() {
			var err error
			for err == nil && left.Add(-1) >= 0 {
				err = f(w)
			}
			done <- err
		}()
	}
	for range writers {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n, "threads"), func(b *testing.B) {
			each(b, n, func(w *writer) error { return w.start(b.Context()) }, func(w *writer) error {
				if w.w%2000 == 1999 {
					// As its owner does, or memory would be what is measured.
					if _, err := w.trim(b.Context()); err != nil {
						return err
					}
				}
				_, err := w.say(b.Context(), "a few words ")
				return err
			})
		})
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n, "threads"), func(b *testing.B) {
			each(b, n, func(*writer) error { return nil }, func(w *writer) error {
				_, err := w.commit(b.Context(), nil, chat.NewEntry(chat.KindThread, "", &chat.ThreadBody{}))
				return err
			})
		})
	}
}
