package redisjournal

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// A server that hangs leaves outcomes unknown, which are errors; tried again,
// each write is there once.
func TestF9HangingServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	j := mustOpen(t, Options{Addresses: []string{server.Addr()}})
	done := mustCommit(t, j, opening(theKey))
	a := appendOf(theKey, 0, 1<<40, "x")
	c := opening(theKey)
	c.Epoch, c.Rev, c.Runs = 7, done.Rev, nil
	server.Signal(syscall.SIGSTOP)
	var both sync.WaitGroup
	both.Go(func() {
		if res, err := j.Append(t.Context(), a); err == nil {
			t.Errorf("append: %s", res.Result)
		}
	})
	both.Go(func() {
		if res, err := j.Commit(t.Context(), c); err == nil {
			t.Errorf("commit: %s", res.Result)
		}
	})
	both.Wait()
	server.Signal(syscall.SIGCONT)
	if res, err := j.Append(t.Context(), a); err != nil || res.Result != journal.Stored && res.Result != journal.Already {
		t.Errorf("append again: %s, %v", res.Result, err)
	}
	if res, err := j.Commit(t.Context(), c); err != nil || res.Result != journal.Done && res.Result != journal.DoneBefore {
		t.Errorf("commit again: %s, %v", res.Result, err)
	}
	if s := mustLoad(t, j, theKey); len(s.Records) != 5 {
		t.Errorf("%d records", len(s.Records))
	}
}

// A caller whose time is over does not wait for a server that hangs, and what
// waits behind is not made once its callers have gone.
func TestCallersDoNotWaitLongerThanTheyWant(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	j := mustOpen(t, Options{Addresses: []string{server.Addr()}})
	mustCommit(t, j, opening(theKey))
	server.Signal(syscall.SIGSTOP)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := j.Append(ctx, appendOf(theKey, 0, 1<<40, "x")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("append: %v", err)
			}
		})
	}
	all.Wait()
	server.Signal(syscall.SIGCONT)
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if _, err := j.Append(t.Context(), appendOf(theKey, 0, 1<<40, "x")); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
}

func FuzzDecodeNotice(f *testing.F) {
	e, err := encodeEntry(say("x"))
	if err != nil {
		f.Fatal(err)
	}
	v := append(make([]byte, sizeNumbers), e...)
	f.Add([]byte(append(packer(nil).u8(0).u64(7).u64(1).u64(2).u48(5).u32(1).u32(uint32(len(v))), v...)))
	f.Add([]byte(packer(nil).u8(flagReset).u64(7).u64(1).u64(2).u48(0).u32(0)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := decodeNotice(string(b))
		if err != nil && len(n.Records) > 0 {
			t.Error("records beside an error")
		}
	})
}
