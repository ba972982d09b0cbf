package pilotoo_test

import (
	"strings"
	"testing"
)

const pickDate = `{"name":"pick_date","description":"Asks for a day.","arguments":{"type":"object"},"kind":"blocking","result":{"type":"object","required":["day"]}}`

func (w *window) resume(thread, interrupt, answer string) string {
	return `{"threadId":` + quote(thread) + `,"interruptId":` + quote(interrupt) + `,"answer":` + answer + `}`
}

// types are the events' types in order.
func types(list []envelope) string {
	var s []string
	for _, e := range list {
		s = append(s, e.Event.Type)
	}
	return strings.Join(s, " ")
}

func TestApproval(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w, other := s.open(t, "ann"), s.open(t, "ann")
	run := w.start(thread, "m1", "May I? /ask")
	first := envelopesOf(w.until("the pause", of(run, "RUN_FINISHED")), run)
	if got := types(first); !strings.HasSuffix(got, " INTERRUPT RUN_PAUSED RUN_FINISHED") {
		t.Errorf("PIL-118 PIL-120 PIL-121 %s", got)
	}
	asked := first[len(first)-3].Event.InterruptID
	h := other.history(thread)
	if p := h.PendingInterrupt; p == nil || p.InterruptID != asked || p.RunID != run || h.Replay != nil {
		t.Fatalf("PIL-170 PIL-171 PIL-163 %s", h.raw)
	}
	other.refuses("PIL-090 an answer of another shape", "run:resume", w.resume(thread, asked, `"yes"`), "INVALID_COMMAND")
	other.refuses("PIL-084 a decision of another thread", "run:resume", w.resume(s.thread(t, "ann"), asked, `true`), "UNKNOWN_RUN")

	// PIL-089: of two windows that answer at once one wins, the other is told.
	a, b := w.ask("run:resume", w.resume(thread, asked, `true`)), other.ask("run:resume", w.resume(thread, asked, `true`))
	la, lb := w.until("an answer", isAck(a)), other.until("an answer", isAck(b))
	ra, rb := string(la[len(la)-1].data), string(lb[len(lb)-1].data)
	if strings.Contains(ra, `"ok":true`) == strings.Contains(rb, `"ok":true`) || !strings.Contains(ra+rb, "UNKNOWN_RUN") {
		t.Errorf("PIL-089 %s and %s", ra, rb)
	}
	next := func(p packet) bool { return shows("RUN_STARTED")(p) && envelopeOf(p.data).RunID != run }
	for _, v := range []*window{w, other} {
		list := v.until("the next segment", next)
		started := envelopeOf(list[len(list)-1].data)
		if started.Sequence != 1 || started.Event.Message != nil {
			t.Errorf("PIL-088 PIL-113 %s", started.raw)
		}
		v.until("its end", of(started.RunID, "RUN_FINISHED"))
	}
	h = w.history(thread)
	if h.PendingInterrupt != nil || len(h.Messages) < 2 || !strings.Contains(h.Messages[len(h.Messages)-1].Content, "approved") {
		t.Errorf("PIL-018 PIL-083 %s", h.raw)
	}
	w.refuses("PIL-084 a decision that was made", "run:resume", w.resume(thread, asked, `true`), "UNKNOWN_RUN")
}

func TestTwoQuestions(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w := s.open(t, "ann")
	run := w.start(thread, "m1", "/ask2")
	list := envelopesOf(w.until("the pause", of(run, "RUN_FINISHED")), run)
	n := len(list)
	if got := types(list[n-4:]); got != "INTERRUPT INTERRUPT RUN_PAUSED RUN_FINISHED" {
		t.Fatalf("PIL-119 %s", got)
	}
	one, two := list[n-4].Event.InterruptID, list[n-3].Event.InterruptID
	from := w.count()
	// The second first: each answer is for its own question (PIL-086).
	if r := w.call("run:resume", w.resume(thread, two, `"green"`)); !r.OK || r.RunID != "" {
		t.Errorf("PIL-087 the first answer: %s", r.raw)
	}
	h := w.history(thread)
	if h.PendingInterrupt == nil || h.PendingInterrupt.InterruptID != one {
		t.Errorf("PIL-087 PIL-170 pending is %s", h.raw)
	}
	if got := types(envelopesOf(w.all()[from:], "")); got != "" {
		t.Errorf("PIL-087 the run went on with %s", got)
	}
	r := w.call("run:resume", w.resume(thread, one, `"Ann"`))
	if !r.OK || r.RunID == "" || r.RunID == run {
		t.Fatalf("PIL-088 the last answer: %s", r.raw)
	}
	w.until("the end", of(r.RunID, "RUN_FINISHED"))
}

func TestClientTools(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w, other := s.open(t, "ann"), s.open(t, "ann")
	other.history(thread)
	r := w.call("run:start", `{"threadId":`+quote(thread)+`,"messageId":"m1","input":"/client pick_date {\"month\":\"May\"} so","clientTools":[`+pickDate+`]}`)
	if !r.OK {
		t.Fatal(r.raw)
	}
	list := envelopesOf(w.until("the pause", of(r.RunID, "RUN_FINISHED")), r.RunID)
	if got := types(list); !strings.Contains(got, "TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END INTERRUPT RUN_PAUSED RUN_FINISHED") {
		t.Errorf("PIL-068 PIL-076 %s", got)
	}
	ask := list[len(list)-3].Event
	if got := string(ask.Payload); got != `{"clientTool":"pick_date","arguments":{"month":"May"}}` {
		t.Errorf("PIL-072 PIL-073 the payload is %s", got)
	}
	other.refuses("PIL-074 an answer that the schema does not admit", "run:resume", w.resume(thread, ask.InterruptID, `{"date":1}`), "INVALID_COMMAND")
	if h := other.history(thread); h.PendingInterrupt == nil {
		t.Error("PIL-074 the decision was closed")
	}
	// PIL-077: the window that answers need not be the one that declared.
	// PIL-071: it brings no tools, so the next segment has none.
	next := other.call("run:resume", w.resume(thread, ask.InterruptID, `{"day":"Monday"}`))
	if !next.OK {
		t.Fatal("PIL-077", next.raw)
	}
	list = envelopesOf(w.until("the end", of(next.RunID, "RUN_FINISHED")), next.RunID)
	found := false
	for _, e := range list {
		if e.Event.Type == "TOOL_CALL_RESULT" {
			found = strings.Contains(e.Event.Content, "Monday")
		}
	}
	if !found {
		t.Errorf("PIL-068 PIL-076 the result did not come in the next segment: %s", types(list))
	}

	// PIL-070: what an earlier run declared is not there.
	for _, e := range envelopesOf(w.finish(thread, "m2", "/client pick_date {}"), "") {
		if e.Event.Type == "INTERRUPT" && e.RunID != r.RunID {
			t.Errorf("PIL-070 %s", e.raw)
		}
	}
}

func TestToolsOfAResumeAreItsOwn(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w := s.open(t, "ann")
	r := w.call("run:start", `{"threadId":`+quote(thread)+`,"messageId":"m1","input":"/client pick_date {} /client show_map {}","clientTools":[`+pickDate+`]}`)
	list := envelopesOf(w.until("the pause", of(r.RunID, "RUN_FINISHED")), r.RunID)
	ask := list[len(list)-3].Event.InterruptID
	tools := `,"clientTools":[{"name":"show_map","description":"Shows a map.","arguments":{},"kind":"one-way"}]}`
	next := w.call("run:resume", strings.TrimSuffix(w.resume(thread, ask, `{"day":"Monday"}`), "}")+tools)
	if !next.OK {
		t.Fatal("PIL-060 PIL-071", next.raw)
	}
	list = envelopesOf(w.until("the end", of(next.RunID, "RUN_FINISHED")), next.RunID)
	got := types(list)
	if strings.Contains(got, "INTERRUPT") {
		t.Errorf("PIL-069 a one-way call made the run wait: %s", got)
	}
	calls := map[string][]envelope{}
	for _, e := range list {
		if id := e.Event.ToolCallID; id != "" {
			calls[id] = append(calls[id], e)
		}
	}
	found := false
	for _, call := range calls {
		if types(call) == "TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END TOOL_CALL_RESULT" {
			found = found || call[3].Event.Content == ""
		}
	}
	if !found {
		t.Errorf("PIL-069 PIL-071 PIL-076 no one-way call with an empty result: %s", got)
	}
}
