package pilotoo_test

import (
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/pilotoo"
	"github.com/parlance-gateway/parlance/internal/room"
)

// records is a variant that shows every record as it is.
type records struct{}

func (records) Encode(c *room.Change) any { return c.Record }

type member struct {
	got   chan any
	close chan room.CloseReason
}

func newMember() *member { return &member{make(chan any, 10_000), make(chan room.CloseReason, 1)} }

func (m *member) Deliver(e any)            { m.got <- e }
func (m *member) Close(r room.CloseReason) { m.close <- r }

// PIL-159, PIL-167: what a feed was held for is shown whole afterwards, also
// when the run that it is of has ended in the meantime.
func TestHeldFeedMissesNothing(t *testing.T) {
	s := serve(t, nil)
	desk, ann := s.hub.Desk(), person("ann")
	thread := s.thread(t, "ann")
	held, plain := newMember(), newMember()
	seat, err := desk.Join(t.Context(), ann, thread, pilotoo.Variant{}, held)
	if err != nil {
		t.Fatal(err)
	}
	defer seat.Leave()
	other, err := desk.Join(t.Context(), ann, thread, records{}, plain)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Leave()
	other.Release()
	m := &chat.Message{ID: "m1", Role: chat.User, Parts: []*chat.Part{{ID: "m1", Type: chat.PartText, Text: chat.Text("one two")}}}
	if _, err := desk.Start(t.Context(), ann, dialect.Start{Thread: thread, Message: m}); err != nil {
		t.Fatal(err)
	}
	shown := 0
	for ended := false; !ended; {
		select {
		case e := <-plain.got:
			r := e.(*chat.Record)
			if r.N > 0 {
				shown++
			}
			ended = r.Kind == chat.KindRunEnd
		case <-time.After(patience):
			t.Fatal("the run did not end")
		}
	}
	if len(held.got) != 0 {
		t.Error("a held feed was delivered something")
	}
	seat.Release()
	if len(held.got) != shown {
		t.Errorf("%d records were delivered after the release, want %d", len(held.got), shown)
	}
}
