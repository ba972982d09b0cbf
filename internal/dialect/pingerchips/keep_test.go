package pingerchips_test

import (
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect/pingerchips"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal/filejournal"
	"github.com/parlance-gateway/parlance/internal/room"
)

// PIN-187, invariant 8: what was acknowledged is there when the edge is gone.
func TestAcknowledgedIsKept(t *testing.T) {
	dir := t.TempDir()
	j, err := filejournal.Open(t.Context(), filejournal.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s := on(t, j, nil)
	w := s.join("t1", "ann")
	w.send("m1", "/slow")
	log := w.send("m2", "/slow").Serial
	if err := s.hub.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if j, err = filejournal.Open(t.Context(), filejournal.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	c := newClient(t, "after a restart")
	back := on(t, j, nil).join("t1", "ann", after(uint64(log)))
	back.ok("load_older", `{}`)
	for _, f := range back.all() {
		if f.event == "snapshot" {
			c.frame(f)
		}
	}
	if got := idsOf(messagesOf(t, c)); got != "m1 m2" || c.log < uint64(log) || c.slots["run:r-m2"] == "" {
		t.Errorf("PIN-187 there are %s, log_id %d, the run is %s", got, c.log, c.slots["run:r-m2"])
	}
}

type nobody struct{}

func (nobody) Deliver(any)            {}
func (nobody) Close(room.CloseReason) {}

// PIN-219: the id of an answer is known and kept free from the moment its run is
// accepted.
func TestAnswersIDIsReserved(t *testing.T) {
	s := serve(t, nil)
	w := s.join("t1", "ann")
	w.send("m1", "/slow")
	p := identity.Principal{Realm: "default", Subject: identity.Subject{Issuer: "test", ID: "op"}, Caps: identity.Capabilities{}.WithAll(identity.UserVerbs)}
	seat, err := s.hub.Desk().Join(t.Context(), p, "t1", pingerchips.Variant{}, nobody{})
	if err != nil {
		t.Fatal(err)
	}
	var run *chat.Run
	w.wait("the run", func() bool { seat.Refresh(); run = seat.State().Run("r-m1"); return run != nil })
	seat.Leave()
	w.refuses("PIN-219 an id that is reserved", "send", `{"messageId":`+quote(run.Answer)+`,"runId":"r9","text":"x"}`, "invalid payload")
	w.after(0, "run:start", event("run:start"))
	w.ok("cancel", `{"runId":"r-m1"}`)
	w.over(0, "r-m1")
	if got := w.answerOf("m1"); got != run.Answer || len(got) != 36 {
		t.Errorf("PIN-219 the answer is %s, its run had %s", got, run.Answer)
	}
}
