package pingerchips_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/parlance-gateway/parlance/internal/edge"
)

const anyCap = "chat:publish:cancel_any:*"

func TestCancel(t *testing.T) {
	s := serve(t, nil)
	w, v := s.join("t1", "ann"), s.join("t1", "bob")
	from := w.count()
	w.send("m1", "some words first /slow")
	w.after(from, "text", event("change"))
	other := s.joinAs("t1", s.token("carol", "chat:subscribe:t1", anyCap))
	only := s.joinAs("t1", s.token("dave", "chat:subscribe:t1"))

	v.refuses("PIN-140 a foreign run", "cancel", `{"runId":"r-m1"}`, "forbidden")
	v.refuses("PIN-138 no such run", "cancel", `{"runId":"r-none"}`, "not_found")
	only.refuses("PIN-141 neither verb", "cancel", `{"runId":"r-m1"}`, "forbidden: missing publish:cancel_own")
	only.refuses("PIN-141 the verb is looked at first", "cancel", `{"runId":"r-none"}`, "forbidden: missing publish:cancel_own")
	v.refuses("PIN-136 no run id", "cancel", `{}`, "invalid payload")

	n := w.count()
	ref := w.ask("cancel", `{"runId":"r-m1"}`)
	if f := w.answer(ref, "cancel"); !f.ok || string(f.payload) != `{}` {
		t.Fatalf("PIN-135 PIN-137 %s", f.payload)
	}
	list := w.over(n, "r-m1")
	if end := read(t, list[len(list)-2]); !strings.HasPrefix(string(end.raw), `{"runId":"r-m1","reason":"cancelled","endedAt":`) {
		t.Errorf("PIN-143 it ends as %s", end.raw)
	}
	for _, w := range []*window{w, v} {
		w.over(0, "r-m1")
		c := newClient(t, "PIN-143")
		c.frames(w.all())
		said := messagesOf(t, c)
		if a := said[len(said)-1]; a.Status != "cancelled" || !strings.Contains(deref(a.Content), "some") || a.Role != "assistant" || infoOf(t, c, "r-m1").Status != "cancelled" {
			t.Errorf("PIN-143 PIN-202 PIN-218 the text that had come is %+v", a)
		}
	}
	log := *w.ok("view:get", `{}`).LogID
	w.refuses("PIN-139 it has ended", "cancel", `{"runId":"r-m1"}`, "already_ended")
	v.refuses("PIN-141 a foreign one that has ended", "cancel", `{"runId":"r-m1"}`, "forbidden")
	if *w.ok("view:get", `{}`).LogID != log {
		t.Error("PIN-139 something happened")
	}
	w.send("m2", "/slow")
	if f := other.call("cancel", `{"runId":"r-m2"}`); !f.ok {
		t.Errorf("PIN-135 whoever may cancel any: %s", f.payload)
	}
	w.send("m3", "/ask")
	w.after(0, "run:suspend", about("r-m3", "run:suspend"))
	if f := w.call("cancel", `{"runId":"r-m3"}`); !f.ok {
		t.Errorf("PIN-142 a suspended run: %s", f.payload)
	}
}

// Of the runs of a token without a client id only its own are one's own.
func TestOwnRunsOfAToken(t *testing.T) {
	s := serve(t, nil)
	free, named := s.token(""), s.token("ann")
	mine := s.joinAs("t1", free, `"client_id":"ann"`)
	mine.send("m1", "/slow")
	for name, w := range map[string]*window{
		"a token that names the same":   s.joinAs("t1", named),
		"another name under the token":  s.joinAs("t1", free, `"client_id":"bob"`),
		"another token, the same name":  s.joinAs("t1", s.token("", "chat:subscribe:t1", "chat:publish:cancel_own:t1"), `"client_id":"ann"`),
		"nobody's name under the token": s.joinAs("t1", free),
	} {
		w.refuses("PIN-037 PIN-136 "+name, "cancel", `{"runId":"r-m1"}`, "forbidden")
	}
	if f := s.joinAs("t1", free, `"client_id":"ann"`).call("cancel", `{"runId":"r-m1"}`); !f.ok {
		t.Errorf("PIN-037 the same again: %s", f.payload)
	}
}

// The sweeper's visible result: a run that takes too long is cancelled, its text
// kept (PIN-184, PIN-185).
func TestRunTimeout(t *testing.T) {
	s := serve(t, func(c *edge.Site) { c.Limits.RunTimeout = 150 * time.Millisecond })
	w := s.join("t1", "ann")
	list := w.talk("m1", "words /slow")
	end := read(t, list[len(list)-2])
	if !strings.Contains(string(end.raw), `"reason":"cancelled"`) {
		t.Errorf("PIN-184 PIN-185 it ends as %s", end.raw)
	}
	c := newClient(t, "PIN-180")
	c.frames(w.all())
	if a := messagesOf(t, c)[1]; a.Status != "cancelled" || !strings.Contains(deref(a.Content), "words") {
		t.Errorf("PIN-184 the message is %+v", a)
	}
}

func TestAgentFailure(t *testing.T) {
	s := serve(t, nil)
	w := s.join("t1", "ann")
	list := w.talk("m1", "words /fail")
	if end := read(t, list[len(list)-2]); !strings.Contains(string(end.raw), `"reason":"error"`) {
		t.Errorf("PIN-101 it ends as %s", end.raw)
	}
	c := newClient(t, "PIN-202")
	c.frames(w.all())
	if a := messagesOf(t, c)[1]; a.Status != "error" || infoOf(t, c, "r-m1").Status != "error" {
		t.Errorf("PIN-202 PIN-218 the message is %+v", a)
	}
}

func TestApproval(t *testing.T) {
	s := serve(t, nil)
	w := s.join("t1", "ann")
	ask := func(m string) (call string, c *client) {
		w.send(m, "/ask")
		list := w.after(0, "run:suspend", about("r-"+m, "run:suspend"))
		p := read(t, list[len(list)-1])
		if p.ToolName != "ring_bell" || string(p.Args) != `{"times": 1}` && string(p.Args) != `{"times":1}` || p.ToolCallID == "" {
			t.Errorf("PIN-102 it asks %s", p.raw)
		}
		w.after(len(list), "its change", event("change"))
		c = newClient(t, "PIN-106")
		c.frames(w.all()[:len(list)+1])
		return p.ToolCallID, c
	}
	call, c := ask("m1")
	i := infoOf(t, c, "r-m1")
	if i.Status != "suspended" || i.SuspendedTool == nil || i.SuspendedTool.ToolCallID != call || i.SuspendedTool.ToolName != "ring_bell" || i.SuspendedTool.Args["times"] != 1.0 {
		t.Errorf("PIN-203 PIN-212 PIN-251 it is shown as %s", c.slots["run:r-m1"])
	}
	if _, ok := c.slots["stream:r-m1"]; !ok {
		t.Error("PIN-180 PIN-203 its stream is gone")
	}
	late := newClient(t, "PIN-078")
	late.frames(s.join("t1", "late").all())
	if late.folded() != c.folded() {
		t.Errorf("PIN-078 who comes now has\n%s\nwant\n%s", late.folded(), c.folded())
	}
	decide := func(run, call, rest string) string {
		return `{"runId":` + quote(run) + `,"toolCallId":` + quote(call) + rest + `}`
	}
	w.refuses("PIN-174 an unknown run", "tool_approval", decide("r-none", call, `,"approved":true`), "not_found")
	w.refuses("PIN-174 another call", "tool_approval", decide("r-m1", "call-none", `,"approved":true`), "not_found")
	for _, rest := range []string{``, `,"approved":"true"`, `,"approved":1`, `,"approved":null`} {
		w.refuses("PIN-174 approved is not a boolean", "tool_approval", decide("r-m1", call, rest), "invalid payload")
	}
	s.joinAs("t1", s.token("x", "chat:subscribe:t1")).refuses("PIN-170 PIN-033", "tool_approval", decide("r-m1", call, `,"approved":true`), "forbidden: missing publish:tool_approval")

	n := w.count()
	f := w.call("tool_approval", decide("r-m1", call, `,"approved":true`))
	if !f.ok || string(f.payload) != `{}` {
		t.Fatalf("PIN-170 %s", f.payload)
	}
	list := w.over(n, "r-m1")
	if list[1].event != "run:resume" || string(list[1].payload) != `{"runId":"r-m1"}` || list[2].event != "change" || !strings.Contains(string(list[2].payload), `"status":"active"`) {
		t.Errorf("PIN-103 PIN-106 PIN-204 then come %s %s", list[1].payload, list[2].payload)
	}
	all := newClient(t, "PIN-171")
	all.frames(w.all())
	if a := messagesOf(t, all)[1]; !strings.Contains(deref(a.Content), "the bell rang") {
		t.Errorf("PIN-171 the agent was not told: %q", deref(a.Content))
	}
	w.refuses("PIN-174 the run has ended", "tool_approval", decide("r-m1", call, `,"approved":true`), "not_suspended")

	call, _ = ask("m2")
	n = w.count()
	w.ok("tool_approval", decide("r-m2", call, `,"approved":false`))
	w.over(n, "r-m2")
	all = newClient(t, "PIN-171")
	all.frames(w.all())
	if said := messagesOf(t, all); !strings.Contains(deref(said[3].Content), "denied") {
		t.Errorf("PIN-171 the agent was not told: %q", deref(said[3].Content))
	}
	w.send("m3", "/slow")
	w.refuses("PIN-174 it is active", "tool_approval", decide("r-m3", call, `,"approved":true`), "not_suspended")
	w.ok("cancel", `{"runId":"r-m3"}`)
}

// Questions come one after the other, and more than yes or no cannot be said.
func TestQuestions(t *testing.T) {
	s := serve(t, nil)
	w := s.join("t1", "ann")
	w.send("m1", "/ask2")
	list := w.after(0, "run:suspend", event("run:suspend"))
	first := read(t, list[len(list)-1])
	var args map[string]any
	if err := json.Unmarshal(first.Args, &args); err != nil || first.ToolName != "question" || args["message"] != "What is your name?" {
		t.Errorf("PIN-253 the question is shown as %s", first.raw)
	}
	decide := func(call, yes string) string {
		return `{"runId":"r-m1","toolCallId":` + quote(call) + `,"approved":` + yes + `}`
	}
	w.refuses("PIN-253 yes is no answer", "tool_approval", decide(first.ToolCallID, "true"), "answer_required")
	n := w.count()
	w.ok("tool_approval", decide(first.ToolCallID, "false"))
	list = w.after(n, "the next question", event("run:suspend"))
	second := read(t, list[len(list)-1])
	if second.ToolCallID == first.ToolCallID {
		t.Errorf("PIN-252 then it asks %s", second.raw)
	}
	w.after(n+len(list), "its change", event("change"))
	c := newClient(t, "PIN-252")
	c.frames(w.all())
	if i := infoOf(t, c, "r-m1"); i.SuspendedTool == nil || i.SuspendedTool.ToolCallID != second.ToolCallID {
		t.Errorf("PIN-252 the run shows %s", c.slots["run:r-m1"])
	}
	w.refuses("PIN-174 a second decision", "tool_approval", decide(first.ToolCallID, "false"), "already_decided")
	n = w.count()
	w.ok("tool_approval", decide(second.ToolCallID, "false"))
	list = w.over(n, "r-m1")
	if list[1].event != "run:resume" {
		t.Errorf("PIN-252 after the last comes %s", list[1].event)
	}
}
