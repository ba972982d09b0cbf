package pilotoo

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A command's time is what it may take to be carried out: a large one that takes
// long to be read has all of it left.
func TestReadingACommandTakesNoneOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func([]byte) (string, error) { time.Sleep(commandTimeout + time.Second); return "read", nil }
		wait := func(ctx context.Context, c string, _ answer) error {
			began := time.Now()
			<-ctx.Done()
			if left := time.Since(began); left != commandTimeout || c != "read" {
				t.Errorf("%v are left for %q", left, c)
			}
			return context.Cause(ctx)
		}
		if err := parsed(t.Context(), nil, slow, answer{}, wait); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
