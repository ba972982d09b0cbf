package pingerchips_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

func messagesOf(t failer, c *client) (list []said) {
	t.Helper()
	if err := json.Unmarshal([]byte(c.slots["messages"]), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

type info struct {
	RunID         string `json:"runId"`
	Status        string `json:"status"`
	OwnerClientID string `json:"ownerClientId"`
	StartedAt     int64  `json:"startedAt"`
	EndedAt       *int64 `json:"endedAt"`
	SuspendedTool *struct {
		ToolCallID string         `json:"toolCallId"`
		ToolName   string         `json:"toolName"`
		Args       map[string]any `json:"args"`
	} `json:"suspendedTool"`
}

func infoOf(t failer, c *client, run string) (i info) {
	t.Helper()
	if err := json.Unmarshal([]byte(c.slots["run:"+run]), &i); err != nil {
		t.Fatalf("run:%s is %q: %v", run, c.slots["run:"+run], err)
	}
	return i
}

func TestOneTurn(t *testing.T) {
	s := serve(t, nil)
	w, v := s.join("t1", "ann"), s.join("t1", "bob")
	began := time.Now().UnixMilli()
	list := w.talk("m1", "one two three")
	if list[0].ref == 0 {
		t.Fatalf("PIN-123 %s comes before the reply", list[0].event)
	}
	r := read(t, list[0])
	if r.MessageID != "m1" || r.RunID != "r-m1" || r.Status != "ok" || r.Serial != 1 {
		t.Errorf("PIN-123 PIN-124 the reply is %s", r.raw)
	}
	if list[1].event != "batch" || !strings.HasPrefix(string(list[1].payload), `{"changes":[{"key":"messages"`) || !strings.HasSuffix(string(list[1].payload), `"log_id":1}`) {
		t.Errorf("PIN-094 PIN-123 first comes %s %s", list[1].event, list[1].payload)
	}
	if list[2].event != "run:start" || list[3].event != "batch" {
		t.Errorf("PIN-100 PIN-106 PIN-183 then come %s and %s", list[2].event, list[3].event)
	}
	if g := read(t, list[2]); g.RunID != "r-m1" || g.OwnerClientID != "ann" || g.StartedAt < began || g.StartedAt > time.Now().UnixMilli() {
		t.Errorf("PIN-100 PIN-107 it starts as %s", g.raw)
	}
	end := read(t, list[len(list)-2])
	if want := `{"runId":"r-m1","reason":"complete","endedAt":`; !strings.HasPrefix(string(end.raw), want) || end.EndedAt < began {
		t.Errorf("PIN-101 PIN-107 it ends as %s", end.raw)
	}
	changes := 0
	for _, f := range list {
		if f.event == "change" {
			changes++
		}
	}
	if changes == 0 {
		t.Error("PIN-088 no text was shown while it came")
	}
	c := newClient(t, "ann")
	c.frames(w.all())
	said := messagesOf(t, c)
	if len(said) != 2 || said[0].MessageID != "m1" || said[0].Role != "user" || deref(said[0].Content) != "one two three" ||
		said[0].ParentID != nil || said[0].ForkOf != nil || said[0].MsgRegenerate != nil || said[0].Status != "complete" || said[0].CreatedAt < began || said[0].RunID != "r-m1" {
		t.Errorf("PIN-128 PIN-215 PIN-216 the question is %+v", said[0])
	}
	if a := said[1]; a.Role != "assistant" || deref(a.ParentID) != "m1" || a.Status != "complete" || a.OwnerClientID != "ann" || a.RunID != "r-m1" || !strings.Contains(deref(a.Content), "one two three") {
		t.Errorf("PIN-202 PIN-217 PIN-220 the answer is %+v", a)
	}
	if len(said[1].MessageID) != 36 || c.slots["last_message_id"] != quote(said[1].MessageID) {
		t.Errorf("PIN-092 PIN-219 the last message is %s", c.slots["last_message_id"])
	}
	if i := infoOf(t, c, "r-m1"); i.Status != "complete" || i.OwnerClientID != "ann" || i.EndedAt == nil || *i.EndedAt != end.EndedAt || i.RunID != "r-m1" {
		t.Errorf("PIN-091 PIN-202 PIN-210 PIN-211 the run is %+v", i)
	}
	if _, ok := c.slots["stream:r-m1"]; ok {
		t.Error("PIN-090 the stream is still there")
	}
	other := newClient(t, "bob")
	v.over(0, "r-m1")
	other.frames(v.all())
	if other.folded() != c.folded() {
		t.Errorf("PIN-021 PIN-022 PIN-104 PIN-186 the other window has\n%s\nwant\n%s", other.folded(), c.folded())
	}
	late := newClient(t, "late")
	late.frames(s.join("t1", "carol").all())
	if late.folded() != c.folded() || late.log != c.log {
		t.Errorf("PIN-077 PIN-078 who comes later has\n%s\nwant\n%s", late.folded(), c.folded())
	}
	if i := infoOf(t, late, "r-m1"); i != (info{RunID: "r-m1", Status: "complete", OwnerClientID: "ann", StartedAt: i.StartedAt, EndedAt: i.EndedAt}) || i.EndedAt == nil || *i.EndedAt != end.EndedAt {
		t.Errorf("PIN-072 PIN-073 in the snapshot the run is %+v", i)
	}
}

func TestSendIsChecked(t *testing.T) {
	s := serve(t, nil)
	w := s.join("t1", "ann")
	w.talk("m1", "hi")
	log := w.ok("view:get", `{}`)
	for _, c := range []struct{ name, payload, reason string }{
		{"PIN-122 no message id", `{"runId":"r","text":"x"}`, "invalid payload"},
		{"PIN-122 an empty message id", `{"messageId":"","runId":"r","text":"x"}`, "invalid payload"},
		{"PIN-122 an id of 129 characters", `{"messageId":"` + strings.Repeat("x", 129) + `","runId":"r","text":"x"}`, "invalid payload"},
		{"PIN-122 a number as id", `{"messageId":1,"runId":"r","text":"x"}`, "invalid payload"},
		{"PIN-122 no run id", `{"messageId":"m","text":"x"}`, "invalid payload"},
		{"PIN-122 no text", `{"messageId":"m","runId":"r"}`, "invalid payload"},
		{"PIN-122 blank text", `{"messageId":"m","runId":"r","text":" \n\u2003\ufeff"}`, "invalid payload"},
		{"PIN-122 text of 16,001 units", `{"messageId":"m","runId":"r","text":"` + strings.Repeat("x", 16_001) + `"}`, "invalid payload"},
		{"PIN-122 units are counted as JavaScript does", `{"messageId":"m","runId":"r","text":"` + strings.Repeat("😀", 8_000) + `x"}`, "invalid payload"},
		{"PIN-008 no object", `"send"`, "invalid payload"},
		{"PIN-008 a key twice", `{"messageId":"m","messageId":"n","runId":"r","text":"x"}`, "invalid payload"},
		{"PIN-008 half a character", `{"messageId":"m","runId":"r","text":"\ud800"}`, "invalid payload"},
		{"PIN-008 deeper than we read", `{"messageId":"m","runId":"r","text":"x","y":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "invalid payload"},
		{"PIN-129 an unknown parent", `{"messageId":"m","runId":"r","text":"x","parentId":"nobody"}`, "parent_not_found"},
		{"PIN-130 a run id that was used", `{"messageId":"m","runId":"r-m1","text":"x"}`, "run_exists"},
	} {
		w.refuses(c.name, "send", c.payload, c.reason)
	}
	w.refuses("PIN-008 an unknown event", "sned", `{}`, "unknown event: sned")
	if again := w.ok("view:get", `{}`); *again.LogID != *log.LogID || len(again.Messages) != 2 {
		t.Errorf("PIN-034 refused pushes had an effect: %s", again.raw)
	}
	w.talk("m2", strings.Repeat("x", 16_000), `"more":{"deep":[]}`)
	w.talk("m 3/ž", "any id")
}

func TestSendTwice(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	w := s.join("t1", "ann")
	first := w.send("m1", "hi")
	w.over(0, "r-m1")
	w.talk("m2", "there")
	log := *w.ok("view:get", `{}`).LogID
	n := w.count()
	r := w.ok("send", `{"messageId":"m1","runId":"another","text":"something else"}`)
	if r.Status != "duplicate" || r.MessageID != "m1" || r.RunID != "r-m1" || r.Serial != first.Serial {
		t.Errorf("PIN-125 PIN-126 the reply is %s, first it was %s", r.raw, first.raw)
	}
	if *w.ok("view:get", `{}`).LogID != log || w.count() != n+2 {
		t.Error("PIN-125 a duplicate has an effect")
	}
	answer := w.ok("view:get", `{}`).Messages[1].MessageID
	r = w.ok("send", `{"messageId":`+quote(answer)+`,"runId":"r9","text":"x"}`)
	if r.Status != "duplicate" || r.RunID != "r-m1" {
		t.Errorf("PIN-125 the id of an answer: %s", r.raw)
	}
	// Far back in the thread it is a duplicate all the same.
	for i := range 60 {
		w.talk("more-"+string(rune('A'+i)), "hi")
	}
	if r := w.ok("send", `{"messageId":"m1","runId":"another","text":"x"}`); r.Status != "duplicate" || r.RunID != "r-m1" || r.Serial != first.Serial {
		t.Errorf("PIN-126 far back: %s", r.raw)
	}
}

func TestSeveralRuns(t *testing.T) {
	s := serve(t, nil)
	w := s.join("t1", "ann")
	for i := range 8 {
		w.send("m"+string(rune('0'+i)), "/slow")
	}
	w.refuses("PIN-131 a ninth run", "send", `{"messageId":"m9","runId":"r9","text":"x"}`, "too many runs")
	w.after(0, "the last message", func(f frame) bool {
		return f.event == "batch" && strings.Contains(string(f.payload), `"key":"last_message_id","value":"m7"`)
	})
	c := newClient(t, "ann")
	c.frames(w.all())
	if n := len(messagesOf(t, c)); n != 8 {
		t.Errorf("PIN-131 %d messages", n)
	}
	for i := range 8 {
		w.ok("cancel", `{"runId":"r-m`+string(rune('0'+i))+`"}`)
	}
}

// PIN-129: what one has sent oneself is the end of one's view at once.
func TestSendsFollowEachOther(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	w := s.join("t1", "ann")
	for i := range 40 {
		id, before := fmt.Sprint("m", i), fmt.Sprint("m", i-1)
		w.send(id, "/slow")
		n := w.ok("tree:node", `{"messageId":`+quote(id)+`}`)
		if p := deref(n.Message.ParentID); i > 0 && p != before && p != w.answerOf(before) {
			t.Fatalf("PIN-129 %s hangs under %s", id, p)
		}
		w.ok("cancel", `{"runId":"r-`+id+`"}`)
	}
}
