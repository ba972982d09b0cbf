package pingerchips_test

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent/socket"
	"github.com/parlance-gateway/parlance/internal/edge"
)

// edges are n hubs on one journal, whose threads are answered by an agent that
// dials in.
func edges(t *testing.T, n int, idle time.Duration) []*site {
	t.Helper()
	j := open(t)
	all := make([]*site, n)
	for i := range all {
		all[i] = on(t, j, inboundSite(idle))
	}
	return all
}

// TestAgentBegins is PIN-193: an agent begins a run that nobody has asked for.
func TestAgentBegins(t *testing.T) {
	s := serve(t, inboundSite(0))
	w, a := s.join("t1", "ann"), s.worker("t1")
	a.does("run:start", `{"runId":"own","ownerClientId":"ann"}`)
	a.does("run:start", `{"runId":"own","ownerClientId":"bob"}`)
	began := w.after(0, "PIN-193 its start", about("own", "run:start"))
	began = w.after(len(began), "PIN-193 its entry", event("batch"))
	entry := string(began[len(began)-1].payload)
	if !strings.Contains(entry, `"status":"active"`) || !strings.Contains(entry, `"previous":null`) || strings.Contains(entry, "pending") {
		t.Errorf("PIN-193 it is created as %s", entry)
	}
	late := s.join("t1", "eve")
	late.after(0, "the snapshot", event("snapshot"))
	a.does("run:token", `{"runId":"own","content":"News!"}`)
	a.does("run:end", `{"runId":"own"}`)
	w.over(0, "own")
	late.over(0, "own")
	for _, w := range []*window{w, late} {
		c := newClient(t, "PIN-193")
		c.frames(w.all())
		said := messagesOf(t, c)
		if m := said[0]; len(said) != 1 || m.Role != "assistant" || deref(m.Content) != "News!" || m.OwnerClientID != "ann" || m.ParentID != nil {
			t.Errorf("PIN-193 PIN-217 it says %+v", said)
		}
	}
	a.refuses("PIN-193 a run that has ended", "run:start", `{"runId":"own"}`, "already_ended")
	a.refuses("PIN-193 an owner who is none", "run:start", `{"runId":"other","ownerClientId":7}`, "invalid payload")
	w.refuses("PIN-190 a client begins none", "run:start", `{"runId":"other"}`, "forbidden: missing publish:run_lifecycle")

	// Whoever owns it may stop it, and what is said then answers what the agent said.
	a.does("run:start", `{"runId":"mine","ownerClientId":"ann"}`)
	late.refuses("PIN-141 another's run", "cancel", `{"runId":"mine"}`, "forbidden")
	if f := w.call("cancel", `{"runId":"mine"}`); !f.ok {
		t.Errorf("PIN-140 its owner may not stop it: %s", f.payload)
	}
	a.does("run:start", `{"runId":"nobodys"}`)
	w.after(0, "PIN-193 a run of the agent's own", about("nobodys", "run:start"))
	a.does("run:end", `{"runId":"nobodys"}`)
	w.over(0, "nobodys")
	c := newClient(t, "PIN-193")
	c.frames(w.all())
	if got := infoOf(t, c, "nobodys").OwnerClientID; got != "w1" {
		t.Errorf("PIN-193 without an owner it is owned by %q", got)
	}
	w.send("m1", "hello")
	a.does("run:start", `{"runId":"r-m1","ownerClientId":"bob"}`)
	a.does("run:end", `{"runId":"r-m1"}`)
	w.over(0, "r-m1")
	c = newClient(t, "PIN-193")
	c.frames(w.all())
	if got := infoOf(t, c, "r-m1").OwnerClientID; got != "ann" {
		t.Errorf("PIN-193 the slot's owner is %q", got)
	}
}

func TestAgentBeginsAtMostSoMany(t *testing.T) {
	s := serve(t, func(c *edge.Site) {
		inboundSite(0)(c)
		c.Limits.RunsPerThread = 2
	})
	a := s.worker("t1")
	a.does("run:start", `{"runId":"a"}`)
	a.does("run:start", `{"runId":"b"}`)
	a.refuses("PIN-193", "run:start", `{"runId":"c"}`, "too many runs")
}

// A site without an agent that dials in has nobody to begin runs for.
func TestNobodyBegins(t *testing.T) {
	a := serve(t, nil).worker("t1")
	a.refuses("PIN-193", "run:start", `{"runId":"own"}`, "not_found")
}

// TestAgentMoves is PIN-194 over edges: windows at one and an agent at the other,
// which comes back through the first in the middle of its run.
func TestAgentMoves(t *testing.T) {
	all := edges(t, 2, 0)
	w, a := all[0].join("t1", "ann"), all[1].worker("t1")
	w.send("m1", "hello")
	a.after(0, "PIN-192 the run at the other edge", event("batch"))
	a.does("run:start", `{"runId":"r-m1"}`)
	text := ""
	for i := range 30 {
		if i%10 == 9 { // it comes back through the other edge
			a.conn.close()
			a = all[i/10%2].worker("t1")
		}
		text += "word" + strconv.Itoa(i) + " "
		a.does("run:token", `{"runId":"r-m1","content":`+quote(text)+`}`)
	}
	a.does("run:suspend", `{"runId":"r-m1","toolCallId":"call-7","toolName":"mail"}`)
	w.after(0, "PIN-203", about("r-m1", "run:suspend"))
	a.conn.close()
	a = all[1].worker("t1")
	if f := w.call("tool_approval", `{"runId":"r-m1","toolCallId":"call-7","approved":true}`); !f.ok {
		t.Fatalf("PIN-170 %s", f.payload)
	}
	a.after(0, "PIN-172 the decision at the other edge", event("tool_approval"))
	a.does("run:resume", `{"runId":"r-m1"}`)
	a.does("run:token", `{"runId":"r-m1","content":`+quote(text+"yes")+`}`)
	// What is shown is not lost, though the agent says it no more.
	w.after(0, "PIN-194 the last word", func(f frame) bool { return bytes.Contains(f.payload, []byte(" yes")) })
	a.conn.close()
	a = all[0].worker("t1")
	a.does("run:end", `{"runId":"r-m1"}`)
	w.over(0, "r-m1")
	c := newClient(t, "PIN-194")
	c.frames(w.all())
	said := messagesOf(t, c)
	if m := said[len(said)-1]; len(said) != 2 || deref(m.Content) != text+"yes" || m.Status != "complete" {
		t.Errorf("PIN-194 the message is %+v", m)
	}
	// A person stops a run wherever its agent is.
	w.send("m2", "hello")
	a.does("run:start", `{"runId":"r-m2"}`)
	b := all[1].join("t1", "ann")
	if f := b.call("cancel", `{"runId":"r-m2"}`); !f.ok {
		t.Fatalf("PIN-140 %s", f.payload)
	}
	a.over(0, "r-m2")
	a.refuses("PIN-145", "run:token", `{"runId":"r-m2","content":"late"}`, "already_ended")
}

// TestAgentsTogether is PIN-206: two agents speak for one run, through one edge
// and through two; who speaks last is shown.
func TestAgentsTogether(t *testing.T) {
	all := edges(t, 2, 0)
	for _, at := range [][2]int{{0, 0}, {0, 1}} {
		thread := "t" + strconv.Itoa(at[1])
		w := all[1].join(thread, "ann")
		a, b := all[at[0]].worker(thread), all[at[1]].worker(thread)
		w.send("m1", "hello")
		a.does("run:start", `{"runId":"r-m1"}`)
		b.does("run:start", `{"runId":"r-m1"}`)
		for i := range 2 {
			for _, by := range []*window{a, b} {
				text := "a says " + strconv.Itoa(i)
				if by == b {
					text = "b says " + strconv.Itoa(i)
				}
				by.does("run:token", `{"runId":"r-m1","content":`+quote(text)+`}`)
				w.after(0, text, func(f frame) bool {
					return f.event == "change" && strings.Contains(string(f.payload), `"value":`+quote(text))
				})
			}
		}
		// What is said and ended in one breath is whole, though the edge may have lost
		// the run and not know it yet.
		a.does("run:token", `{"runId":"r-m1","content":"that is all"}`)
		a.does("run:end", `{"runId":"r-m1"}`)
		a.over(0, "r-m1")
		w.over(0, "r-m1")
		a.refuses("PIN-200 PIN-206", "run:end", `{"runId":"r-m1"}`, "already_ended")
		c := newClient(t, "PIN-206")
		c.frames(w.all())
		said := messagesOf(t, c)
		if m := said[len(said)-1]; len(said) != 2 || deref(m.Content) != "that is all" || m.Status != "complete" {
			t.Errorf("PIN-206 the message is %+v", m)
		}
	}
}

// An edge that drains waits for no run of an agent that has left it or has not
// taken it up, and loses none.
func TestAgentsEdgeDrains(t *testing.T) {
	all := edges(t, 2, 0)
	w := all[1].join("t1", "ann")
	a := all[0].worker("t1")
	sender := all[0].join("t1", "ann")
	for _, m := range []string{"m1", "m2", "m3"} {
		sender.send(m, "hello")
	}
	a.does("run:start", `{"runId":"r-m1"}`)
	a.does("run:token", `{"runId":"r-m1","content":"half"}`)
	a.does("run:start", `{"runId":"r-m2"}`)
	a.does("run:suspend", `{"runId":"r-m2","toolCallId":"c","toolName":"mail"}`)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	all[0].hub.Drain(ctx, 0)
	if ctx.Err() != nil {
		t.Error("the edge waited for its runs")
	}
	if n := all[0].hub.Stats().Runs; n != 0 {
		t.Errorf("the edge has %d runs", n)
	}
	a = all[1].worker("t1")
	a.does("run:end", `{"runId":"r-m1"}`)
	a.does("run:resume", `{"runId":"r-m2"}`)
	a.does("run:end", `{"runId":"r-m2"}`)
	a.does("run:start", `{"runId":"r-m3"}`)
	a.does("run:end", `{"runId":"r-m3"}`)
	for _, run := range []string{"r-m1", "r-m2", "r-m3"} {
		w.over(0, run)
	}
	c := newClient(t, "F43")
	c.frames(w.all())
	for _, run := range []string{"r-m1", "r-m2", "r-m3"} {
		if got := infoOf(t, c, run).Status; got != "complete" {
			t.Errorf("%s is %s", run, got)
		}
	}
	for _, m := range messagesOf(t, c) {
		if m.RunID == "r-m1" && m.Role == "assistant" && deref(m.Content) != "half" {
			t.Errorf("F43 of the text %q is left", deref(m.Content))
		}
	}
}

// An edge alone leaves what an agent has begun to its next start.
func TestAgentsEdgeStartsAgain(t *testing.T) {
	j := open(t)
	s := on(t, j, inboundSite(0))
	w, a := s.join("t1", "ann"), s.worker("t1")
	w.send("m1", "hello")
	a.does("run:start", `{"runId":"r-m1"}`)
	a.does("run:token", `{"runId":"r-m1","content":"half"}`)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.hub.Drain(ctx, 0)
	if err := s.hub.Close(); err != nil {
		t.Fatal(err)
	}
	s = on(t, j, inboundSite(0))
	w, a = s.join("t1", "ann"), s.worker("t1")
	a.does("run:token", `{"runId":"r-m1","content":"half and half"}`)
	a.does("run:end", `{"runId":"r-m1"}`)
	w.over(0, "r-m1")
	c := newClient(t, "F43")
	c.frames(w.all())
	said := messagesOf(t, c)
	if m := said[len(said)-1]; deref(m.Content) != "half and half" || m.Status != "complete" {
		t.Errorf("F43 the message is %+v", m)
	}
}

// PIN-172: a question of an agent that dials in is answered from any dialect, and
// by nobody: either way the agent is told, and goes on by itself.
func TestDecisionWaitsForItsAgent(t *testing.T) {
	s := serve(t, func(c *edge.Site) {
		c.Agents = []edge.NamedAgent{{Name: "worker", Agent: socket.New(socket.Options{})}}
		c.Limits.PauseTimeout = 500 * time.Millisecond
	})
	w, a := s.join("t1", "ann"), s.worker("t1")
	w.send("m1", "hello")
	a.does("run:start", `{"runId":"r-m1"}`)
	a.does("run:suspend", `{"runId":"r-m1","toolCallId":"c","toolName":"mail"}`)
	told := a.after(0, "PIN-172 that nobody has decided", event("tool_approval"))
	if got := string(told[len(told)-1].payload); got != `{"runId":"r-m1","toolCallId":"c","approved":false}` {
		t.Errorf("PIN-172 the agent is told %s", got)
	}
	c := newClient(t, "PIN-173")
	c.frames(w.all())
	if got := infoOf(t, c, "r-m1").Status; got != "suspended" {
		t.Errorf("PIN-173 the run is %s", got)
	}
	a.does("run:resume", `{"runId":"r-m1"}`)
	a.does("run:end", `{"runId":"r-m1"}`)
	w.over(0, "r-m1")
}
