package redisjournal

import (
	"testing"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// F4: what somebody sees and nobody waited for is told as safe only when it is.
func TestConfirmWaitsForWhatWasSeen(t *testing.T) {
	s := redistest.StartSentinel(t)
	master := s.Servers[0].Addr()
	hasty := mustOpen(t, Options{Addresses: []string{master}})
	done := mustCommit(t, hasty, opening(theKey))
	careful := mustOpen(t, Options{Addresses: []string{master}, Sync: Sync{Replicas: 2}})
	confirm := func(j *Journal, epoch uint64, rev journal.Rev) (journal.Result, error) {
		return j.Confirm(t.Context(), theKey, epoch, rev)
	}
	if res, err := confirm(careful, done.Epoch, done.Rev); err != nil || res != journal.OK {
		t.Errorf("what both replicas have: %v %v", res, err)
	}
	for what, c := range map[string]struct {
		epoch uint64
		rev   journal.Rev
	}{
		"another epoch":    {done.Epoch + 1, done.Rev},
		"another revision": {done.Epoch, journal.Rev{N: done.Rev.N + 1, Tag: done.Rev.Tag}},
		"another write":    {done.Epoch, journal.Rev{N: done.Rev.N, Tag: done.Rev.Tag + 1}},
	} {
		if res, err := confirm(careful, c.epoch, c.rev); err != nil || res != journal.Lost {
			t.Errorf("%s: %v %v", what, res, err)
		}
	}
	other := theKey
	other.Thread = "nobody made it"
	if res, err := careful.Confirm(t.Context(), other, done.Epoch, done.Rev); err != nil || res != journal.Lost {
		t.Errorf("a thread that is not there: %v %v", res, err)
	}
	s.Servers[1].Kill()
	if res, err := confirm(careful, done.Epoch, done.Rev); err == nil {
		t.Errorf("confirmed by one of two: %v", res)
	}
	if res, err := confirm(hasty, done.Epoch, done.Rev); err != nil || res != journal.OK {
		t.Errorf("nothing is to be waited for: %v %v", res, err)
	}
}
