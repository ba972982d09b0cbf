package pingerchips_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/pingerchips"
	"github.com/parlance-gateway/parlance/internal/wire/phoenix"
)

// PIN-127: a send creates the run's slot, pending and the sender's, before any
// agent has to do with it.
func TestSendCreatesTheSlot(t *testing.T) {
	s := serve(t, inboundSite(0))
	w := s.join("t1", "ann")
	w.send("m1", "hello")
	w.after(0, "its entry", event("batch"))
	c := newClient(t, "PIN-127")
	c.frames(w.all())
	i := infoOf(t, c, "r-m1")
	if i.Status != "pending" || i.OwnerClientID != "ann" || i.StartedAt == 0 || i.EndedAt != nil || i.SuspendedTool != nil {
		t.Errorf("PIN-127 PIN-213 the slot is %s", c.slots["run:r-m1"])
	}
	if _, ok := c.slots["stream:r-m1"]; ok {
		t.Error("PIN-180 a pending run has a stream")
	}
	w.ok("cancel", `{"runId":"r-m1"}`)
}

// PIN-195: pushes that come fast are gathered: each change of the stream has the
// newest text, many pushes make few of them, and the end has all.
func TestTokensAreGathered(t *testing.T) {
	s := serve(t, inboundSite(0))
	w, a := s.join("t1", "ann"), s.worker("t1")
	w.send("m1", "hello")
	a.does("run:start", `{"runId":"r-m1"}`)
	said := map[string]bool{"": true}
	text := ""
	const pushes = 600
	for n := 0; n < pushes; {
		refs := make([]int, 0, 50)
		for range 50 { // as many as one channel's commands may wait
			text += fmt.Sprint("w", n, " ")
			n++
			said[text] = true
			refs = append(refs, a.ask("run:token", `{"runId":"r-m1","content":`+quote(text)+`}`))
		}
		for _, ref := range refs {
			if f := a.answer(ref, "run:token"); !f.ok {
				t.Fatalf("PIN-194 %s", f.payload)
			}
		}
	}
	a.does("run:end", `{"runId":"r-m1"}`)
	changes := 0
	for _, f := range w.over(0, "r-m1") {
		if f.event != "change" {
			continue
		}
		changes++
		var p struct{ Value string }
		if err := json.Unmarshal(f.payload, &p, json.MatchCaseInsensitiveNames(true)); err != nil || !said[p.Value] {
			t.Fatalf("PIN-194 PIN-195 a change has what nobody pushed: %.200s %v", f.payload, err)
		}
	}
	if changes == 0 || changes > pushes/2 {
		t.Errorf("PIN-195 %d pushes made %d changes", pushes, changes)
	}
	c := newClient(t, "PIN-198")
	c.frames(w.all())
	list := messagesOf(t, c)
	if got := deref(list[len(list)-1].Content); got != text {
		t.Errorf("PIN-198 PIN-195 the message has %d bytes of %d", len(got), len(text))
	}
}

// PIN-255: who does not read is cut off in the way that his client comes back
// from; up to then no event is left out, and he misses nothing.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	server := pingerchips.NewServer(pingerchips.Options{Desk: s.hub.Desk()})
	wire := phoenix.NewServer(phoenix.Options{QueueBytes: 1 << 20}, server)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wire.Accept(w, r, phoenix.Accept{Path: "/socket/", MaxPayload: pingerchips.MaxPayload, Value: server.Open(&dialect.Visit{Site: handler{s}})})
	}))
	t.Cleanup(func() { wire.Close(); server.Close(); h.Close() })
	ws, _, err := websocket.Dial(t.Context(), h.URL+"/socket/websocket?vsn=2.0.0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	ws.SetReadLimit(64 << 20)
	join := `["1","1",` + quote(topicOf("t1")) + `,"phx_join",{"auth":` + quote(s.token("slow")) + `}]`
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(join)); err != nil {
		t.Fatal(err)
	}
	w := s.join("t1", "ann")
	w.wait("the join", func() bool { return wire.Sockets() == 1 })
	c := newClient(t, "PIN-255")
	read := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, b, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		var f []jsontext.Value
		unmarshal(t, b, &f)
		var event string
		unmarshal(t, f[3], &event)
		if event != "phx_reply" {
			c.frame(frame{event: event, payload: f[4]})
		}
		return nil
	}
	for !c.loaded {
		if err := read(); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; wire.Sockets() > 0 && n < 40; n++ {
		w.talk(fmt.Sprint("m", n), "/long 40000")
	}
	for err == nil {
		err = read() // holds that nothing is missing up to the end
	}
	if code := websocket.CloseStatus(err); code == websocket.StatusNormalClosure {
		t.Errorf("PIN-255 closed with %d", code)
	}
	v := s.join("t1", "slow", after(c.log))
	back := newClient(t, "PIN-255 back")
	v.ok("view:get", `{}`)
	whole := newClient(t, "PIN-255 whole")
	whole.frames(w.all())
	if c.log >= whole.log {
		t.Fatal("PIN-255 nobody was slow")
	}
	if !strings.HasPrefix(v.all()[1].event, "snapshot") { // else it was more than a join is sent
		back.resumes(c)
	}
	back.frames(v.all())
	if back.folded() != whole.folded() || back.log != whole.log {
		t.Errorf("PIN-255 who comes back is at %d of %d", back.log, whole.log)
	}
}
