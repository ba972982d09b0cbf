package pingerchips_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent/socket"
	"github.com/parlance-gateway/parlance/internal/edge"
)

// inboundSite makes the site's threads be answered by an agent that dials in.
func inboundSite(idle time.Duration) func(*edge.Site) {
	return func(s *edge.Site) {
		s.Agents = []edge.NamedAgent{{Name: "worker", Agent: socket.New(socket.Options{Idle: idle})}}
	}
}

// worker joins a thread as an agent.
func (s *site) worker(thread string) *window {
	s.t.Helper()
	w, _, reason := s.attempt(topicOf(thread), `{"secret":`+quote(secret)+`,"agent_id":"w1"}`)
	if reason != "" {
		s.t.Fatalf("an agent's join was refused: %s", reason)
	}
	w.after(0, "the snapshot", event("snapshot"))
	return w
}

func (w *window) does(event, payload string) {
	w.t.Helper()
	if f := w.call(event, payload); !f.ok || string(f.payload) != "{}" {
		w.t.Fatalf("PIN-191 %s %s is answered %s", event, payload, f.payload)
	}
}

func TestAgentServesARun(t *testing.T) {
	s := serve(t, inboundSite(0))
	w, a := s.join("t1", "ann"), s.worker("t1")
	w.send("m1", "hello")
	a.refuses("PIN-196 before it is taken up", "run:token", `{"runId":"r-m1","content":"x"}`, "not_active")
	a.refuses("PIN-205", "run:suspend", `{"runId":"r-m1","toolCallId":"c","toolName":"n"}`, "not_active")
	a.refuses("PIN-205", "run:resume", `{"runId":"r-m1"}`, "not_suspended")
	w.after(0, "the run", event("batch"))
	c := newClient(t, "PIN-192")
	c.frames(w.all())
	if got := infoOf(t, c, "r-m1").Status; got != "pending" {
		t.Errorf("PIN-192 before its start the run is %s", got)
	}
	a.does("run:start", `{"runId":"r-m1","ownerClientId":"ann"}`)
	a.does("run:start", `{"runId":"r-m1","ownerClientId":"ann"}`)
	a.does("run:token", `{"runId":"r-m1","content":"one"}`)
	a.does("run:token", `{"runId":"r-m1","content":"one"}`)
	a.does("run:token", `{"runId":"r-m1","content":"one two"}`)
	a.does("run:token", `{"runId":"r-m1","content":"three"}`)
	a.does("run:token", `{"runId":"r-m1","content":"three four"}`)
	a.does("run:end", `{"runId":"r-m1","reason":"complete"}`)
	w.over(0, "r-m1")
	c = newClient(t, "PIN-197 PIN-199")
	c.frames(w.all())
	said := messagesOf(t, c)
	if m := said[len(said)-1]; len(said) != 2 || deref(m.Content) != "three four" || m.Status != "complete" {
		t.Errorf("PIN-197 PIN-198 the message is %+v", m)
	}
	starts := 0
	for _, f := range w.all() {
		if f.event == "run:start" {
			starts++
		}
	}
	if starts != 1 {
		t.Errorf("PIN-193 %d signals of its start", starts)
	}
	for _, push := range []string{"run:start", "run:end", "run:resume"} {
		a.refuses("PIN-145 PIN-193 PIN-200 PIN-205", push, `{"runId":"r-m1"}`, "already_ended")
	}
	a.refuses("PIN-196", "run:token", `{"runId":"r-m1","content":"late"}`, "already_ended")
	for push, more := range map[string]string{"run:resume": "", "run:end": "", "run:token": `,"content":"x"`} {
		a.refuses("PIN-196 PIN-201 an unknown run", push, `{"runId":"r-none"`+more+`}`, "not_found")
	}
	a.refuses("PIN-196", "run:token", `{"runId":"r-m1","content":`+quote(strings.Repeat("x", 1<<20+1))+`}`, "content_too_large")
	a.refuses("PIN-201", "run:end", `{"runId":"r-m1","reason":"done"}`, "invalid reason")
	a.refuses("PIN-039", "send", `{"text":"x","messageId":"m9","runId":"r9"}`, "forbidden: missing publish:user_message")
	w.refuses("PIN-190", "run:start", `{"runId":"r-m1"}`, "forbidden: missing publish:run_lifecycle")
	w.refuses("PIN-190", "run:token", `{"runId":"r-m1","content":"x"}`, "forbidden: missing publish:token")
}

func TestAgentEnds(t *testing.T) {
	s := serve(t, inboundSite(0))
	w, a := s.join("t1", "ann"), s.worker("t1")
	for _, c := range []struct{ name, reason, status string }{
		{"PIN-201 without a reason", `{"runId":"r-ID"}`, "complete"},
		{"PIN-202", `{"runId":"r-ID","reason":"cancelled"}`, "cancelled"},
		{"PIN-202", `{"runId":"r-ID","reason":"error"}`, "error"},
	} {
		id := "m" + c.status
		w.send(id, "hello")
		a.does("run:end", strings.ReplaceAll(c.reason, "ID", id)) // PIN-201: pending
		w.over(0, "r-"+id)
		k := newClient(t, c.name)
		k.frames(w.all())
		said := messagesOf(t, k)
		if m := said[len(said)-1]; m.Role != "assistant" || deref(m.Content) != "" || m.Status != c.status || infoOf(t, k, "r-"+id).Status != c.status {
			t.Errorf("%s: %+v", c.name, m)
		}
	}
	// A person stops a run: what its agent says after that counts no more.
	w.send("m9", "hello")
	a.does("run:start", `{"runId":"r-m9"}`)
	from := w.count()
	a.does("run:token", `{"runId":"r-m9","content":"half"}`)
	w.after(from, "the text", event("change"))
	if f := w.call("cancel", `{"runId":"r-m9"}`); !f.ok {
		t.Fatalf("%s", f.payload)
	}
	a.refuses("PIN-145", "run:token", `{"runId":"r-m9","content":"half more"}`, "already_ended")
	a.refuses("PIN-145", "run:end", `{"runId":"r-m9"}`, "already_ended")
	w.over(0, "r-m9")
	k := newClient(t, "PIN-143")
	k.frames(w.all())
	said := messagesOf(t, k)
	if m := said[len(said)-1]; deref(m.Content) != "half" || m.Status != "cancelled" {
		t.Errorf("PIN-143 it says %q and is %s", deref(m.Content), m.Status)
	}
}

func TestAgentAsks(t *testing.T) {
	s := serve(t, inboundSite(0))
	w, a := s.join("t1", "ann"), s.worker("t1")
	w.send("m1", "hello")
	a.does("run:start", `{"runId":"r-m1"}`)
	a.does("run:token", `{"runId":"r-m1","content":"May I?"}`)
	a.does("run:suspend", `{"runId":"r-m1","toolCallId":"call-7","toolName":"mail","args":{"to":"bob"}}`)
	asked := w.after(0, "run:suspend", about("r-m1", "run:suspend"))
	w.after(len(asked), "its entry", event("change"))
	c := newClient(t, "PIN-203")
	c.frames(w.all())
	if i := infoOf(t, c, "r-m1"); i.Status != "suspended" || !strings.Contains(c.slots["run:r-m1"], `"suspendedTool":{"args":{"to":"bob"},"toolCallId":"call-7","toolName":"mail"}`) {
		t.Errorf("PIN-203 PIN-212 the run is %s", c.slots["run:r-m1"])
	}
	a.refuses("PIN-193", "run:start", `{"runId":"r-m1"}`, "not_pending")
	a.refuses("PIN-196", "run:token", `{"runId":"r-m1","content":"x"}`, "not_active")
	w.refuses("PIN-174", "tool_approval", `{"runId":"r-m1","toolCallId":"call-8","approved":true}`, "not_found")

	// Its agent is away: the decision waits for it, and changes nothing yet.
	a.conn.close()
	if f := w.call("tool_approval", `{"runId":"r-m1","toolCallId":"call-7","approved":true}`); !f.ok {
		t.Fatalf("PIN-170 %s", f.payload)
	}
	w.refuses("PIN-174", "tool_approval", `{"runId":"r-m1","toolCallId":"call-7","approved":false}`, "already_decided")
	a = s.worker("t1")
	told := a.after(0, "PIN-172 the decision", event("tool_approval"))
	if got := string(told[len(told)-1].payload); got != `{"runId":"r-m1","toolCallId":"call-7","approved":true}` {
		t.Errorf("PIN-171 PIN-172 the agent is told %s", got)
	}
	w.ok("view:get", `{}`) // whatever the decision changed has come
	c = newClient(t, "PIN-173")
	c.frames(w.all())
	if got := infoOf(t, c, "r-m1").Status; got != "suspended" {
		t.Errorf("PIN-173 after the decision the run is %s", got)
	}
	a.does("run:resume", `{"runId":"r-m1"}`)
	a.does("run:token", `{"runId":"r-m1","content":"May I? I did."}`)
	a.does("run:end", `{"runId":"r-m1"}`)
	w.over(0, "r-m1")
	c = newClient(t, "PIN-204")
	c.frames(w.all())
	said := messagesOf(t, c)
	if m := said[len(said)-1]; deref(m.Content) != "May I? I did." {
		t.Errorf("PIN-198 PIN-204 the message says %q", deref(m.Content))
	}
	for _, f := range w.all() {
		if f.event == "tool_approval" {
			t.Error("PIN-172 a client is told of a decision")
		}
	}

	// A run that waits may be ended, too.
	w.send("m2", "hello")
	a.does("run:start", `{"runId":"r-m2"}`)
	a.does("run:suspend", `{"runId":"r-m2","toolCallId":"call-7","toolName":"mail"}`)
	from := a.count()
	if f := w.call("tool_approval", `{"runId":"r-m2","toolCallId":"call-7","approved":false}`); !f.ok {
		t.Fatalf("PIN-170 %s", f.payload)
	}
	told = a.after(from, "PIN-172 the second decision", event("tool_approval"))
	if got := string(told[len(told)-1].payload); got != `{"runId":"r-m2","toolCallId":"call-7","approved":false}` {
		t.Errorf("PIN-171 the agent is told %s", got)
	}
	a.does("run:end", `{"runId":"r-m2","reason":"error"}`) // PIN-201
	w.over(0, "r-m2")
}

// PIN-184 PIN-185: an agent that vanishes ends its run, and the text is kept.
func TestAgentVanishes(t *testing.T) {
	s := serve(t, inboundSite(300*time.Millisecond))
	w, a := s.join("t1", "ann"), s.worker("t1")
	w.send("m1", "hello")
	a.does("run:start", `{"runId":"r-m1"}`)
	a.does("run:token", `{"runId":"r-m1","content":"half"}`)
	a.conn.close()
	w.over(0, "r-m1")
	c := newClient(t, "PIN-184")
	c.frames(w.all())
	said := messagesOf(t, c)
	if m := said[len(said)-1]; deref(m.Content) != "half" || m.Status != "cancelled" {
		t.Errorf("PIN-184 PIN-185 the text is %+v", m)
	}
}
