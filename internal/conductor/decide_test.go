package conductor

import (
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// A run that waits on several questions is due at the earliest deadline of those
// that are left; with none it is never, and the last answer names an owner.
func TestAnswerMovesWhatIsDue(t *testing.T) {
	question := func(id string, deadline int64) *chat.Interrupt {
		return &chat.Interrupt{ID: id, Status: chat.InterruptOpen, Deadline: deadline}
	}
	for _, c := range []struct {
		name      string
		questions []*chat.Interrupt
		want      journal.RunChange
	}{
		{"the earliest of the others", []*chat.Interrupt{question("a", 10), question("b", 30), question("c", 20)}, journal.RunChange{Run: "r", Due: 20}},
		{"none of the others has a deadline", []*chat.Interrupt{question("a", 10), question("b", 0)}, journal.RunChange{Run: "r"}},
		{"the last one", []*chat.Interrupt{question("a", 10)}, journal.RunChange{Run: "r", NewOwner: true, Owner: "boot"}},
	} {
		run := &chat.Run{ID: "r", Status: chat.RunSuspended, Segments: []string{"s"}, Interrupts: c.questions}
		v := &View{State: &chat.State{Exists: true, Runs: []*chat.Run{run}}, Meta: journal.Meta{Runs: map[string]journal.RunMeta{"r": {Fence: 2}}}}
		var out Resumption
		p, err := DecideAnswer(chat.Answer{Interrupt: "a", Status: chat.InterruptExpired, Segment: "s2"}, "boot", nil, &out)(v)
		if err != nil || len(p.Runs) != 1 || p.Runs[0] != c.want {
			t.Errorf("%s: %+v %v", c.name, p.Runs, err)
		}
	}
}
