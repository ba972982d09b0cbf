package edge

import (
	"context"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// able is a store with all abilities that one may have beside journal.Journal.
type able struct {
	journal.Journal
	said []string
}

func (a *able) Confirm(context.Context, chat.Key, uint64, journal.Rev) (journal.Result, error) {
	a.said = append(a.said, "confirm")
	return journal.Lost, nil
}

func (a *able) FollowPromptly(chat.Key, func(journal.Notice)) func() {
	a.said = append(a.said, "follow")
	return func() {}
}

func (a *able) Speak(context.Context, int) error {
	a.said = append(a.said, "speak")
	return nil
}

// To be counted must hide nothing of what a store can do.
func TestMeterHidesNoAbility(t *testing.T) {
	store := &able{}
	var j journal.Journal = meteredJournal{Journal: store}
	if res, err := j.(journal.Confirmer).Confirm(t.Context(), chat.Key{}, 1, journal.Rev{}); err != nil || res != journal.Lost {
		t.Errorf("%v %v", res, err)
	}
	j.(journal.Prompt).FollowPromptly(chat.Key{}, nil)
	if err := j.(journal.Speaker).Speak(t.Context(), 2); err != nil {
		t.Error(err)
	}
	if len(store.said) != 3 {
		t.Errorf("the store heard %v", store.said)
	}
}
