package pingerchips_test

import (
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// PIN-080 PIN-067: where the store lost something a new epoch begins far above,
// members are closed so that they come back, and an old cursor replays nothing.
func TestNewEpoch(t *testing.T) {
	j := open(t)
	s := on(t, j, nil)
	w := s.join("t1", "ann")
	w.talk("m1", "hi")
	old := newClient(t, "before")
	old.frames(w.all())
	key := chat.Key{Realm: "default", Thread: "t1"}
	snap, err := j.Load(t.Context(), journal.Load{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	base := snap.State(nil).Clip()
	base.Pos, base.Log, base.Tag = base.Pos+journal.PositionJump, base.Log+journal.PositionJump, 77
	res, err := j.Reset(t.Context(), journal.Reset{
		Key: key, Seen: journal.Cursor{Epoch: snap.Meta.Epoch, Pos: snap.Meta.Pos, Tag: snap.Meta.Tag}, NewEpoch: 7, Tag: 77, Base: base,
	})
	if err != nil || res != journal.OK {
		t.Fatalf("%v %v", res, err)
	}
	w.wait("PIN-080 phx_error", func() bool { return w.closed == "phx_error" })
	for _, cursor := range []uint64{old.log, old.log - 1, 0} {
		v := s.join("t1", "ann", after(cursor))
		all := v.all()
		c := newClient(t, "after")
		c.frames(all)
		if len(all) != 2 || c.log != old.log+journal.PositionJump || len(messagesOf(t, c)) != 2 {
			t.Errorf("PIN-067 PIN-080 after %d come %d frames, log_id %d", cursor, len(all), c.log)
		}
	}
	v := s.join("t1", "bob")
	c := newClient(t, "goes on")
	v.talk("m2", "there")
	c.frames(v.all())
	if c.log <= old.log+journal.PositionJump || len(messagesOf(t, c)) != 4 {
		t.Errorf("PIN-080 it goes on at %d", c.log)
	}
	p := identity.Principal{Realm: "default", Subject: identity.Subject{Issuer: "test", ID: "op"}, Caps: identity.Capabilities{}.WithAll(identity.UserVerbs)}
	if err := s.hub.Desk().Delete(t.Context(), p, "t1"); err != nil {
		t.Fatal(err)
	}
	v.wait("phx_close", func() bool { return v.closed == "phx_close" })
	v = s.join("t1", "bob")
	c = newClient(t, "made again")
	c.frames(v.all())
	if len(messagesOf(t, c)) != 0 || c.log < old.log+2*journal.PositionJump {
		t.Errorf("PIN-080 a thread that is made again begins at %d", c.log)
	}
}
