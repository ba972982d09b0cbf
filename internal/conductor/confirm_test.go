package conductor

import (
	"context"
	"errors"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// confirming has the store say f of the n-th revision that it is asked for, and
// returns which these were.
func (l *link) confirming(f func(n int) (journal.Result, error)) *[]journal.Rev {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := new([]journal.Rev)
	l.confirm = func(rev journal.Rev) (journal.Result, error) {
		*asked = append(*asked, rev)
		return f(len(*asked))
	}
	return asked
}

// A refusal speaks of what somebody has committed. It is not told before that is
// as safe as what was acknowledged, and not at all if it went.
func TestRefusalWaitsUntilWhatItSpeaksOfIsSafe(t *testing.T) {
	ok := func(int) (journal.Result, error) { return journal.OK, nil }
	for _, c := range []struct {
		name    string
		confirm func(n int) (journal.Result, error)
		asked   int
		err     error
	}{
		{"it is", ok, 1, chat.ErrDuplicateMessage},
		{"the store does not say at once", func(n int) (journal.Result, error) {
			if n < 3 {
				return 0, errCut
			}
			return journal.OK, nil
		}, 3, chat.ErrDuplicateMessage},
		{"the thread has moved on meanwhile", func(n int) (journal.Result, error) {
			if n == 1 {
				return journal.Lost, nil
			}
			return journal.OK, nil
		}, 2, chat.ErrDuplicateMessage},
		{"it moves all the time", func(int) (journal.Result, error) { return journal.Lost, nil }, maxDecisions, ErrBusy},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			e := w.edge(echoes())
			key := e.create("t")
			tape := w.tape(key)
			run, _ := e.start("t", say("m", "hi"))
			tape.end(run)
			rev := tape.load().Meta.Rev
			asked := e.link.confirming(c.confirm)
			if _, _, err := e.StartRun(context.Background(), ann, "t", say("m", "hi")); !errors.Is(err, c.err) {
				t.Errorf("got %v", err)
			}
			if len(*asked) != c.asked || (*asked)[0] != rev {
				t.Errorf("asked for %v, the thread is at %v", *asked, rev)
			}
		})
	}
	t.Run("one that was lost is taken again", func(t *testing.T) {
		w, twins := newTwins(t)
		e := w.edge(echoes())
		key := e.create("t")
		twins.set(true, false) // the second store does not get what follows
		tape := w.tape(key)
		run, _ := e.start("t", say("m", "hi"))
		tape.end(run)
		other := w.edge(echoes())
		other.link.confirming(func(n int) (journal.Result, error) {
			if n > 1 {
				return journal.OK, nil
			}
			twins.set(false, true)
			return journal.Lost, nil
		})
		if _, _, err := other.StartRun(context.Background(), ann, "t", say("m", "hi")); err != nil {
			t.Error(err)
		}
	})
}
