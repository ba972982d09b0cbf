package pilotoo_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestCancel(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w, other, bob := s.open(t, "ann"), s.open(t, "ann"), s.open(t, "bob")
	other.history(thread)
	run := w.start(thread, "m1", "before /slow")
	w.until("some text", of(run, "TEXT_MESSAGE_CONTENT"))
	bob.refuses("PIL-100 a stranger", "run:cancel", `{"runId":`+quote(run)+`}`, "UNKNOWN_RUN")
	w.refuses("PIL-095 PIL-060 a key too many", "run:cancel", `{"runId":`+quote(run)+`,"threadId":"t"}`, "INVALID_COMMAND")
	from, began := w.count(), time.Now()
	if r := other.call("run:cancel", `{"runId":`+quote(run)+`}`); !r.OK {
		t.Fatalf("PIL-019 PIL-100 another window of hers: %s", r.raw)
	}
	list := w.after(from, "RUN_CANCELLED", of(run, "RUN_CANCELLED"))
	if took := time.Since(began); took > time.Second {
		t.Errorf("PIL-101 the end took %v", took)
	}
	ends := envelopesOf(list, run)
	if n := len(ends); n < 2 || ends[n-2].Event.Type != "TEXT_MESSAGE_END" {
		t.Errorf("PIL-099 the text was not closed: %v", ends)
	}
	w.refuses("PIL-096 a run that has ended", "run:cancel", `{"runId":`+quote(run)+`}`, "UNKNOWN_RUN")
	h := w.history(thread)
	if len(h.Messages) != 2 || !strings.HasPrefix(h.Messages[1].Content, "before") || h.Replay != nil {
		t.Errorf("PIL-098 the transcript is %s", h.raw)
	}
	for _, e := range envelopesOf(w.all(), run) {
		if e.Event.Type == "RUN_FINISHED" || e.Event.Type == "RUN_ERROR" {
			t.Errorf("PIL-097 PIL-099 %s", e.raw)
		}
	}

	run = w.start(thread, "m2", "/ask")
	w.until("the pause", of(run, "RUN_FINISHED"))
	w.refuses("PIL-096 a run that is paused", "run:cancel", `{"runId":`+quote(run)+`}`, "UNKNOWN_RUN")
	w.refuses("PIL-104 a run that is paused", "run:detach", `{"runId":`+quote(run)+`}`, "UNKNOWN_RUN")
}

// PIL-130 PIL-129: an agent's failure ends the run, and is no command's error.
func TestFailure(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w := s.open(t, "ann")
	run := w.start(thread, "m1", "/fail")
	list := w.until("RUN_ERROR", of(run, "RUN_ERROR"))
	if e := envelopeOf(list[len(list)-1].data).Event; e.Code == "" {
		t.Errorf("PIL-128 %s", list[len(list)-1].data)
	}
	for _, p := range list {
		if isEvent("protocol:error")(p) {
			t.Errorf("PIL-129 %s", p.data)
		}
	}
	w.finish(thread, "m2", "again") // PIL-188: nothing else was harmed
}

func TestDetach(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w := s.open(t, "ann")
	run := w.start(thread, "m1", "/sub and on")
	list := w.until("SUBAGENT_STARTED", of(run, "SUBAGENT_STARTED"))
	started := envelopeOf(list[len(list)-1].data).Event
	if started.ToolCallID == "" {
		t.Error("PIL-127 the subagent has no call")
	}
	w.refuses("PIL-105 a call that is no subagent's", "run:detach", `{"runId":`+quote(run)+`,"toolCallId":"c99"}`, "INVALID_COMMAND")
	if r := w.call("run:detach", `{"runId":`+quote(run)+`,"toolCallId":`+quote(started.ToolCallID)+`}`); !r.OK {
		t.Fatal("PIL-020 PIL-103", r.raw)
	}
	list = w.until("RUN_FINISHED", of(run, "RUN_FINISHED"))
	var told, result bool
	for _, e := range envelopesOf(list, run) {
		if e.Event.Type == "SUBAGENT_FINISHED" {
			told = e.Event.Detached && e.Event.Status == "finished" && e.Event.ToolCallID == started.ToolCallID
		}
		result = result || e.Event.Type == "TOOL_CALL_RESULT" && e.Event.ToolCallID == started.ToolCallID
	}
	if !told || !result {
		t.Errorf("PIL-106 PIL-107 detached %v, with a result %v", told, result)
	}
	list = w.until("task:status", isEvent("task:status"))
	var status struct {
		ThreadID string `json:"threadId"`
		Task     struct {
			TaskID, Status, ParentThreadID, ChildThreadID string
		} `json:"task"`
	}
	if err := json.Unmarshal(list[len(list)-1].data, &status); err != nil {
		t.Fatal(err)
	}
	child := status.Task.ChildThreadID
	if status.ThreadID != thread || status.Task.ParentThreadID != thread || child == "" || status.Task.Status != "running" {
		t.Fatalf("PIL-023 PIL-108 %s", list[len(list)-1].data)
	}
	other := s.open(t, "ann")
	h := other.history(child)
	if len(h.Task) == 0 || !strings.Contains(string(h.Task), status.Task.TaskID) {
		t.Errorf("PIL-107 PIL-173 the child's history is %s", h.raw)
	}
	if h := other.history(thread); len(h.Task) > 0 {
		t.Errorf("PIL-173 the parent is no task: %s", h.Task)
	}
	ended := func(thread string) func(packet) bool {
		return func(p packet) bool {
			return isEvent("task:status")(p) && strings.Contains(string(p.data), `"status":"finished"`) && strings.Contains(string(p.data), `{"threadId":`+quote(thread))
		}
	}
	w.until("the task's end in the parent's room", ended(thread))
	other.until("the task's end in the child's room", ended(child))
}
