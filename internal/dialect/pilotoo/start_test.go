package pilotoo_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/edge"
)

func startJSON(thread, message, more string) string {
	return `{"threadId":` + quote(thread) + `,"messageId":` + quote(message) + `,"input":"hi"` + more + `}`
}

func TestStartIsRefused(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w, bob := s.open(t, "ann"), s.open(t, "bob")
	w.finish(thread, "m1", "hello")
	answer := w.history(thread).Messages[1].ID
	foreign := s.upload(t, "bob", gif)

	w.refuses("PIL-043 an unknown thread", "run:start", startJSON("nowhere", "m2", ""), "CONVERSATION_NOT_FOUND")
	unknown := bob.refuses("PIL-043", "run:start", startJSON("nowhere", "m2", ""), "CONVERSATION_NOT_FOUND")
	hidden := bob.refuses("PIL-045 another's thread", "run:start", startJSON(thread, "m2", ""), "CONVERSATION_NOT_FOUND")
	if string(unknown.raw) != string(hidden.raw) {
		t.Errorf("PIL-045 what is unknown and what is another's differ: %s, %s", unknown.raw, hidden.raw)
	}
	bob.refuses("PIL-174 PIL-045 another's history", "thread:messages", `{"threadId":`+quote(thread)+`}`, "CONVERSATION_NOT_FOUND")
	bob.refuses("PIL-085 another's decision", "run:resume", `{"threadId":`+quote(thread)+`,"interruptId":"i","answer":1}`, "CONVERSATION_NOT_FOUND")
	w.refuses("PIL-085 an unknown thread before an unknown decision", "run:resume", `{"threadId":"nowhere","interruptId":"i","answer":1}`, "CONVERSATION_NOT_FOUND")
	w.refuses("PIL-084 an unknown decision", "run:resume", `{"threadId":`+quote(thread)+`,"interruptId":"i","answer":1}`, "UNKNOWN_RUN")
	w.refuses("PIL-035 a message id twice", "run:start", startJSON(thread, "m1", ""), "DUPLICATE_MESSAGE")
	w.refuses("PIL-036 the id of an answer", "run:start", startJSON(thread, answer, ""), "DUPLICATE_MESSAGE")
	w.refuses("PIL-040 a fork from nowhere", "run:start", startJSON(thread, "m2", `,"forkFromMessageId":"m9"`), "FORK_POINT_NOT_FOUND")
	w.refuses("PIL-041 a fork from an answer", "run:start", startJSON(thread, "m2", `,"forkFromMessageId":`+quote(answer)), "INVALID_COMMAND")
	w.refuses("PIL-041 a fork from itself", "run:start", startJSON(thread, "m2", `,"forkFromMessageId":"m2"`), "DUPLICATE_MESSAGE")
	w.refuses("PIL-053 an unknown upload", "run:start", startJSON(thread, "m2", `,"attachments":[{"id":"0b0f7a52-94b5-4a3a-9a53-0d0e0f0a0b0c"}]`), "INVALID_COMMAND")
	w.refuses("PIL-053 another's upload", "run:start", startJSON(thread, "m2", `,"attachments":[{"id":`+quote(foreign)+`}]`), "INVALID_COMMAND")
	w.refuses("PIL-186 PIL-033 shape before all else", "run:start", `{"threadId":"nowhere","messageId":"m1","input":""}`, "INVALID_COMMAND")
	w.refuses("PIL-096 no such run", "run:cancel", `{"runId":"r1"}`, "UNKNOWN_RUN")
	w.refuses("PIL-104 no such run", "run:detach", `{"runId":"r1"}`, "UNKNOWN_RUN")

	h := w.history(thread)
	if got, want := ids(h.Messages), "u:m1 a:"+answer; got != want || h.Replay != nil {
		t.Errorf("PIL-035 PIL-040 what was refused left something: %s, want %s", got, want)
	}
	for _, p := range bob.all() {
		if isEvent("run:event")(p) {
			t.Errorf("PIL-146 PIL-144 a stranger was shown %s", p.data)
		}
	}
}

func TestThreadsAreMadeOnlyWhereConfigured(t *testing.T) {
	s := serve(t, func(c *edge.Site) { c.Rules.AutoCreate = true })
	w := s.open(t, "ann")
	r := w.call("run:start", startJSON("0b0f7a52-94b5-4a3a-9a53-0d0e0f0a0b0c", "m1", ""))
	if !r.OK {
		t.Errorf("PIL-044 %s", r.raw)
	}
	w.refuses("PIL-044 a history makes nothing", "thread:messages", `{"threadId":"elsewhere"}`, "CONVERSATION_NOT_FOUND")
}

func TestFork(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w := s.open(t, "ann")
	w.finish(thread, "m1", "first")
	w.finish(thread, "m2", "second")
	w.finish(thread, "m3", "third")
	before := w.history(thread).Messages
	r := w.call("run:start", startJSON(thread, "m4", `,"forkFromMessageId":"m2"`))
	if !r.OK {
		t.Fatal("PIL-038", r.raw)
	}
	w.until("RUN_FINISHED", of(r.RunID, "RUN_FINISHED"))
	h := w.history(thread).Messages
	if got, want := ids(h[:3]), ids(before[:2])+" u:m4"; len(h) != 4 || got != want || h[3].Role != "assistant" {
		t.Errorf("PIL-038 PIL-039 after the fork: %s, want %s and an answer", ids(h), want)
	}
	w.refuses("PIL-036 an id on a branch that is not shown", "run:start", startJSON(thread, "m3", ""), "DUPLICATE_MESSAGE")
	r = w.call("run:start", startJSON(thread, "m5", `,"forkFromMessageId":"m3"`))
	if !r.OK {
		t.Errorf("PIL-042 a fork from a branch that is not shown: %s", r.raw)
	}
	w.until("RUN_FINISHED", of(r.RunID, "RUN_FINISHED"))
}

func TestOneRunAtATime(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w := s.open(t, "ann")
	run := w.start(thread, "m1", "/slow")
	r := w.refuses("PIL-046 while a run is in flight", "run:start", startJSON(thread, "m2", ""), "INVALID_COMMAND")
	if r.Error.Message != "a run is already in flight" {
		t.Errorf("PIL-046 the message is %q", r.Error.Message)
	}
	if r := w.call("run:cancel", `{"runId":`+quote(run)+`}`); !r.OK {
		t.Error(r.raw)
	}

	run = w.start(thread, "m3", "/ask")
	w.until("the pause", of(run, "RUN_FINISHED"))
	asked := w.history(thread).PendingInterrupt
	if asked == nil {
		t.Fatal("PIL-170 nothing is pending")
	}
	from := w.count()
	next := w.start(thread, "m4", "never mind")
	list := envelopesOf(w.after(from, "RUN_FINISHED", of(next, "RUN_FINISHED")), "")
	if len(list) < 3 || list[0].Event.Type != "RUN_STARTED" || list[1].Event.Type != "RUN_CANCELLED" || list[2].RunID != next {
		t.Errorf("PIL-047 the question was not withdrawn: %v", list)
	}
	if h := w.history(thread); h.PendingInterrupt != nil {
		t.Error("PIL-047 PIL-221 the question is still pending")
	}
	w.refuses("PIL-047 a withdrawn question", "run:resume", `{"threadId":`+quote(thread)+`,"interruptId":`+quote(asked.InterruptID)+`,"answer":true}`, "UNKNOWN_RUN")
}

func TestWaitingRunIsRefusedWhereConfigured(t *testing.T) {
	s := serve(t, func(c *edge.Site) { c.Rules.RefuseWaiting = true })
	thread := s.thread(t, "ann")
	w := s.open(t, "ann")
	w.finish(thread, "m1", "/ask")
	w.refuses("PIL-047 a question that is not withdrawn", "run:start", startJSON(thread, "m2", ""), "INVALID_COMMAND")
	if w.history(thread).PendingInterrupt == nil {
		t.Error("PIL-047 the question is gone")
	}
}

// gif is a small picture.
const gif = "GIF89a\x01\x00\x01\x00\x00\x00\x00;"

func TestAttachments(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w := s.open(t, "ann")
	up := s.upload(t, "ann", gif)
	list := []string{`{"id":` + quote(up) + `}`}
	for range 7 {
		list = append(list, `{"mediaType":"image/gif","name":"ä.gif","data":"`+base64.StdEncoding.EncodeToString([]byte(gif))+`"}`)
	}
	r := w.call("run:start", `{"threadId":`+quote(thread)+`,"messageId":"m1","input":"","attachments":[`+strings.Join(list, ",")+`]}`)
	if !r.OK {
		t.Fatal("PIL-050 PIL-053", r.raw)
	}
	seen := w.until("RUN_STARTED", of(r.RunID, "RUN_STARTED"))
	if m := envelopeOf(seen[len(seen)-1].data).Event.Message; m == nil || m.ID != "m1" || len(m.Attachments) != 8 {
		t.Errorf("PIL-112 PIL-113 the question is %+v", m)
	}
	w.until("the end", of(r.RunID, "RUN_FINISHED"))
	m := w.history(thread).Messages[0]
	if len(m.Attachments) != 8 || !strings.Contains(string(m.Attachments[0]), up) || !strings.Contains(string(m.Attachments[7]), `"size":14`) {
		t.Errorf("PIL-160 PIL-161 the attachments are %s", m.Attachments)
	}
}

// TestLargeAttachments sends as much as a command may hold in one message.
func TestLargeAttachments(t *testing.T) {
	s := serve(t, nil)
	thread := s.thread(t, "ann")
	w := s.open(t, "ann")
	image := make([]byte, 5<<20)
	copy(image, gif)
	one := `{"mediaType":"image/gif","data":"` + base64.StdEncoding.EncodeToString(image) + `"}`
	r := w.call("run:start", `{"threadId":`+quote(thread)+`,"messageId":"m1","input":"","attachments":[`+strings.Repeat(one+",", 7)+one+`]}`)
	if !r.OK {
		t.Fatal("PIL-052 PIL-055", r.raw)
	}
	w.until("the end", of(r.RunID, "RUN_FINISHED"))
}
