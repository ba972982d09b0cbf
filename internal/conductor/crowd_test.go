package conductor

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// An edge that had to see each batch of a lost edge's runs for a while before it
// acts would be late for the last ones.
func TestAllRunsOfALostEdgeEndInTime(t *testing.T) {
	t.Parallel()
	const runs = 400
	w := newWorld(t)
	begun := make(chan struct{}, runs)
	lost := w.edge(realmOf(silent(begun)))
	keys := make([]chat.Key, runs)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			id := fmt.Sprint("t", i)
			keys[i] = Key(ann, id)
			if _, err := lost.Create(context.Background(), ann, id, chat.Info{}); err != nil {
				t.Error(err)
			} else if _, _, err = lost.StartRun(context.Background(), ann, id, say("m", "hi")); err != nil {
				t.Error(err)
			}
			<-begun
		})
	}
	wg.Wait()
	cut := func(any) error { return errCut }
	lost.link.set(cut, cut)
	lost.off()
	e := w.edge(named("other", &script{}))
	e.pass(20 * time.Second)
	left := 0
	for _, key := range keys {
		left += len((&tape{w: w, key: key}).state().Runs)
	}
	if left > 0 {
		t.Errorf("F53 %d of %d runs go on 20 s after their edge was lost", left, runs)
	}
}
