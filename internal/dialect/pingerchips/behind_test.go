package pingerchips_test

import (
	"encoding/json"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// late is a journal whose news do not come: an edge learns by looking alone.
type late struct{ journal.Journal }

func (late) Follow(_ chat.Key, f func(journal.Notice)) (stop func()) {
	f(journal.Notice{Resync: true})
	return func() {}
}

// PIN-060 PIN-066: who comes back to an edge that is behind the one that it was at
// is shown no past that it has left behind.
func TestComingBackToAnEdgeThatIsBehind(t *testing.T) {
	j := open(t)
	first, behind := on(t, j, nil), on(t, late{j}, nil)
	snapshot := func(w *window) (log uint64) {
		t.Helper()
		frames := w.after(0, "PIN-064 the snapshot", event("snapshot"))
		var s struct {
			Log uint64 `json:"log_id"`
		}
		if err := json.Unmarshal(frames[len(frames)-1].payload, &s); err != nil {
			t.Fatal(err)
		}
		return s.Log
	}
	w := first.join("t1", "ann")
	w.talk("m1", "hello")
	snapshot(behind.join("t1", "ann")) // so that its room is open
	w.talk("m2", "hello again")
	seen := snapshot(first.join("t1", "ann"))
	if got := snapshot(behind.join("t1", "ann", after(seen))); got != seen {
		t.Errorf("PIN-060 who has seen %d is shown %d", seen, got)
	}
}
