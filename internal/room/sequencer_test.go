package room

import (
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// history is a thread in a store; two that begin alike are one before and after
// a failover.
type history struct {
	t *testing.T
	l *journal.Ledger
	n uint64
}

func newHistory(t *testing.T) *history {
	h := &history{t: t, l: journal.NewLedger()}
	h.commit(100, chat.NewEntry(chat.KindThread, "", &chat.ThreadBody{}))
	return h
}

// commit writes with a tag and returns what the writer is told.
func (h *history) commit(tag uint64, e chat.Entry) journal.Notice {
	h.t.Helper()
	h.n++
	c := journal.Commit{Epoch: h.l.Meta.Epoch, NewEpoch: 7, Rev: h.l.Meta.Rev, Tag: tag, Entries: []chat.Entry{e}}
	c.Command.ID[0], c.Command.ID[1] = byte(tag), byte(h.n)
	r := h.l.Commit(c, 1000)
	if r.Result != journal.Done {
		h.t.Fatalf("commit %d: %v", tag, r.Result)
	}
	return journal.Notice{Epoch: r.Epoch, Rev: r.Rev, Records: r.Records}
}

func (h *history) task(tag uint64) journal.Notice {
	h.t.Helper()
	return h.commit(tag, chat.NewEntry(chat.KindTask, "", &chat.TaskBody{Task: chat.Task{ID: "task"}}))
}

// trim moves the floor to the newest record.
func (h *history) trim() {
	h.t.Helper()
	snap := h.l.Load(journal.Load{}, 1000)
	base, pages := snap.State(nil).Compact()
	if r := h.l.Trim(journal.Trim{Epoch: h.l.Meta.Epoch, Base: base, Pages: pages}); r != journal.OK {
		h.t.Fatalf("trim: %v", r)
	}
}

// look lets q load what the store has and returns what it asks for.
func (h *history) look(q *Sequencer) Step {
	h.t.Helper()
	s := q.Resync(0)
	if s.Load == nil {
		h.t.Fatal("no load is asked for")
	}
	return q.Loaded(h.l.Load(journal.Load{From: *s.Load}, 1000), 0)
}

// What a room was told of a history that the store has lost proves the loss,
// although it could not apply it, and although the store's new history has
// overtaken the old one when the room looks.
func TestWhatDoesNotFollowProvesALoss(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(q *Sequencer, before, after *history)
	}{
		{"a record after a hole that another history fills", func(q *Sequencer, before, after *history) {
			before.task(1)
			q.Notice(before.task(2), 0) // waits for the one before it
			q.Notice(after.task(11), 0) // comes to its place
			after.task(12)
			after.task(13)
		}},
		{"a record of the new history that follows another, of which only a base is left", func(q *Sequencer, before, after *history) {
			q.Notice(before.task(1), 0)
			after.task(11)
			n := after.task(12)
			n.Rev = journal.Rev{} // as from a writer that streams
			q.Notice(n, 0)
			after.task(13)
			after.trim()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := newHistory(t), newHistory(t)
			q := &Sequencer{}
			before.look(q)
			if !q.Ready || q.State.Pos != 1 {
				t.Fatalf("opened at %+v", q.Cursor())
			}
			c.play(q, before, after)
			// A load is under way, and never has an answer.
			q.Failed()
			if s := after.look(q); s.Reset == nil || s.Close != "" {
				t.Errorf("no new epoch is asked for, close %q", s.Close)
			}
		})
	}
}
