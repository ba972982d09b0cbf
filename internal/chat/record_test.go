package chat

import (
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// full has a body of every kind with every field set.
func full(k Kind) Body {
	v := jsontext.Value(`{"n":1}`)
	part := &Part{
		ID: "p", Type: PartTool, Text: Text("té\x00xt"), Name: "n", Parent: "t", ResultID: "x", Result: "r", Done: true,
		Encrypted: "e", Open: true, Segment: 1, Unknown: jsontext.Value(`{"later":[1]}`),
	}
	by, hand := Subject{"iss", "id"}, Writer{"e", 4}
	m := &Message{
		ID: "m", Role: Assistant, Parent: "up", ForkOf: "f", Regen: "g", Run: "r", By: by, Status: MessageError, Created: 7,
		Parts: []*Part{part}, Attachments: []Attachment{{ID: "a", MediaType: "image/png", Name: "n", Size: 5}},
		Log: 8, Ran: &Ran{Status: RunCancelled, By: by, Log: 7, Started: 1, Ended: 2},
	}
	i := &Interrupt{
		ID: "i", Kind: InterruptOTP, Upstream: "u", Alias: "a", Call: "c", Tool: "t", Gate: GateClient, Payload: v, Schema: v, Deadline: 9, Otherwise: v, Unasked: InterruptAnswered,
		Status: InterruptDeclined, Answer: jsontext.Value(`null`), By: by, Segment: 1, Settled: 9,
	}
	tools := []ClientTool{{Name: "n", Description: "d", Arguments: v, Kind: ToolBlocking, Result: v, Otherwise: v}}
	task := Task{ID: "k", Status: "running", Title: "t", Parent: "p", Child: "c", Call: "l", Created: 1, Updated: 2}
	switch k {
	case KindThread:
		return &ThreadBody{Info: Info{Owner: by, Title: "t", Agent: "a", Created: 1, Task: &task}}
	case KindMessage:
		return &MessageBody{Message: m}
	case KindRunPending:
		return &RunPendingBody{Writer: hand, Run: &Run{
			ID: "r", Status: RunPending, Agent: "a", Origin: Origin{Dialect: "pilotoo", By: by, Session: "s", Request: "q", Park: -1, Finished: true, Standing: true, Props: jsontext.Value(`{"model":"m"}`), Site: "t", Supports: []string{"c"}}, Message: "m", Opening: m, Answer: "a", Regen: "g",
			Upstream: "u", Segments: []string{"s"}, Hidden: true, Drafted: 1, Parts: []*Part{part}, Interrupts: []*Interrupt{i},
			Subagents: []Subagent{{"s", "c", "n", "t", "h", true}}, Tools: tools, Withdrawn: []*Interrupt{i}, State: v,
			Stop: &Stop{CauseAgent, by, "c", "m"}, Detach: []string{"c"}, Streamed: true, Started: 1, Suspended: 2, Usage: v,
			LastSeq: 3, SegmentPos: 4, Log: 5, Shown: []Text{Text("shown")}, Asked: "i", Trace: "00-1", Holder: "h", Remarks: []Remark{{Name: "citations", Values: []jsontext.Value{v}}},
		}}
	case KindRunActive:
		return &RunActiveBody{hand}
	case KindRunSuspended:
		return &RunSuspendedBody{Writer: hand, State: v}
	case KindRunResumed:
		return &RunResumedBody{Writer: hand, Segment: "s", Tools: tools}
	case KindRunDetach:
		return &RunDetachBody{Calls: []string{"a", "b"}}
	case KindRunStop:
		return &RunStopBody{Writer: hand, Stop: Stop{CauseUser, by, "c", "m"}}
	case KindRunEnd:
		return &RunEndBody{Writer: hand, Status: RunError, Cause: CauseLogLost, Code: "c", Text: "t", Message: m, Segment: "s", Usage: v}
	case KindTextStart, KindTextEnd, KindReasoningStart, KindReasoningEnd:
		return &BlockBody{Part: "p", Replaces: "o"}
	case KindTextDelta, KindReasoningDelta, KindToolArgs:
		return &DeltaBody{Part: "p", Text: "\"\n\u2028😀"}
	case KindReasoningEncrypted:
		return &EncryptedBody{Part: "p", Value: "v"}
	case KindToolStart:
		return &ToolStartBody{Call: "c", Name: "n", Parent: "p"}
	case KindToolEnd:
		return &ToolEndBody{Call: "c"}
	case KindToolResult:
		return &ToolResultBody{Call: "c", Message: "m", Content: "t"}
	case KindInterrupt:
		return &InterruptBody{Interrupt: i}
	case KindAnswer:
		return &AnswerBody{Writer: hand, Interrupt: "i", Status: InterruptAnswered, Value: jsontext.Value(`false`), By: by}
	case KindTodos:
		return &TodosBody{Todos: []Todo{{"i", "c", "pending"}}}
	case KindState:
		return &StateBody{State: v}
	case KindActivity:
		return &ActivityBody{ID: "i", Type: "t", Content: v}
	case KindStep:
		return &StepBody{Name: "n", Done: true}
	case KindCustom:
		return &CustomBody{Name: "n", Value: v}
	case KindSubagentStart:
		return &SubagentStartBody{Subagent: Subagent{"s", "c", "n", "t", "h", true}}
	case KindSubagentEnd:
		return &SubagentEndBody{ID: "s", Failed: true, Detached: true}
	case KindTask:
		return &TaskBody{Task: task}
	case KindUsage:
		return &UsageBody{Usage: v}
	case KindRunTaken:
		return &RunTakenBody{Holder: "h", Supports: []string{"c"}}
	case KindArchive:
		return &ArchiveBody{Archive: Archive{Blob: "b", First: 3, Pages: 2, Sum: "s"}}
	}
	return nil
}

// unset names the fields of v that are zero, so that a field which is added
// later must be added to the round trip too.
func unset(v reflect.Value, path string, miss *[]string) {
	switch v.Kind() {
	case reflect.Pointer:
		unset(v.Elem(), path, miss)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Name == "Unknown" {
				continue
			}
			if v.Field(i).IsZero() {
				*miss = append(*miss, path+"."+f.Name)
				continue
			}
			unset(v.Field(i), path+"."+f.Name, miss)
		}
	}
}

func TestEveryKindComesBack(t *testing.T) {
	for k := KindThread; k < kindCount; k++ {
		t.Run(k.String(), func(t *testing.T) {
			body := full(k)
			if body == nil || reflect.TypeOf(body) != reflect.TypeOf(NewBody(k)) {
				t.Fatalf("a %T, want a %T", body, NewBody(k))
			}
			var miss []string
			unset(reflect.ValueOf(body), k.String(), &miss)
			if len(miss) > 0 {
				t.Errorf("not tried: %v", miss)
			}
			r := &Record{
				Pos: 1 << 60, At: 1796000000000, W: 3, Log: 4, Seq: 5, Tag: 1<<63 + 1, Prev: 1<<63 - 1,
				Entry: Entry{Kind: k, Run: "run", Logged: true, N: 2, Opens: true, Body: body},
			}
			b, err := r.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			got, err := ParseRecord(b)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, r) {
				again, _ := got.Marshal()
				t.Errorf("wrote\n%s\nread\n%s", b, again)
			}
		})
	}
}

func TestRecordsThatCannotBeRead(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"nothing", ``},
		{"no object", `[]`},
		{"an unknown kind", `{"p":1,"t":1,"k":"run.paused","a":1,"v":0,"b":{}}`},
		{"no kind", `{"p":1,"t":1,"a":1,"v":0,"b":{}}`},
		{"no body", `{"p":1,"t":1,"k":"step","a":1,"v":0}`},
		{"a body of another type", `{"p":1,"t":1,"k":"step","a":1,"v":0,"b":[]}`},
		{"a negative position", `{"p":-1,"t":1,"k":"step","a":1,"v":0,"b":{}}`},
		{"a name twice", `{"p":1,"p":2,"t":1,"k":"step","a":1,"v":0,"b":{}}`},
		{"a text that is none", `{"p":1,"t":1,"k":"message","a":1,"v":0,"b":{"message":{"parts":[{"text":{}}]}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if r, err := ParseRecord([]byte(c.text)); err == nil {
				t.Errorf("read %+v", r)
			}
		})
	}
	if _, err := (&Record{Entry: Entry{Kind: kindCount, Body: &StepBody{}}}).Marshal(); err == nil {
		t.Error("wrote a kind that has no name")
	}
}

func TestUnknownMembersSurvive(t *testing.T) {
	const later = `"later":{"a":[1,"x"]}`
	text := `{"schema":1,"pos":3,"tag":5,` + later + `,"info":{` + later + `},"exists":true,` +
		`"tail":[{"id":"m","role":"user","status":"complete","created":1,"parts":[{"id":"p","type":"text","text":"t",` + later + `}],` + later + `}],` +
		`"runs":[{"id":"r","status":"suspended","agent":"a","message":"m","answer":"a","segments":["s"],` +
		`"parts":[{"id":"p","type":"text",` + later + `}],` +
		`"interrupts":[{"id":"i","kind":"otp","status":"open",` + later + `}],` + later + `}]}`
	s, err := ParseState([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // and a change of each
		got := written(t, s)
		if n := strings.Count(got, later); n != 7 {
			t.Errorf("%d of 7 are left in\n%s", n, got)
		}
		if strings.Contains(got, "Unknown") {
			t.Errorf("a name of ours is in\n%s", got)
		}
		s = s.Clip()
		for _, e := range []Entry{
			NewEntry(KindAnswer, "r", &AnswerBody{Interrupt: "i", Status: InterruptAnswered}),
			NewEntry(KindRunResumed, "r", &RunResumedBody{Segment: "s2"}),
			NewEntry(KindTextDelta, "r", &DeltaBody{Part: "p", Text: "x"}),
		} {
			s = s.Apply(&Record{Entry: e})
		}
	}
	r, err := ParseRecord([]byte(`{"p":1,"t":1,"k":"message","a":1,"v":0,"b":{"message":{"id":"m","status":"complete","created":1,` + later + `}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := r.Marshal(); !strings.Contains(string(b), later) {
		t.Errorf("the record is written again as %s", b)
	}
}

func TestZeroesAreNotWritten(t *testing.T) {
	b, err := json.Marshal(&Message{ID: "m", Parts: []*Part{{ID: "p", Type: PartText, Text: Text("t")}}})
	if err != nil || string(b) != `{"id":"m","role":"","status":"","created":0,"parts":[{"id":"p","type":"text","text":"t"}]}` {
		t.Errorf("%s %v", b, err)
	}
}

func TestNewerStatesAreRefused(t *testing.T) {
	s, err := ParseState(nil)
	if err != nil || s.Schema != SchemaVersion || s.Exists {
		t.Errorf("nothing is %+v %v", s, err)
	}
	if _, err := ParseState([]byte(`{"schema":1,"pos":1,"tag":1}`)); err != nil {
		t.Error(err)
	}
	for _, text := range []string{`{"schema":2,"pos":1,"tag":1}`, `{"schema":2,"pos":"of another type"}`} {
		if _, err := ParseState([]byte(text)); err == nil || !strings.Contains(err.Error(), "upgrade this edge") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestStatesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory()
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			h.step(t)
		}
		text := written(t, h.st)
		got, err := ParseState([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if again := written(t, got); again != text {
			t.Fatalf("wrote\n%s\nread\n%s", text, again)
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	for k := KindThread; k < kindCount; k++ {
		b, _ := (&Record{Pos: 1, Tag: 2, Entry: Entry{Kind: k, Run: "r", Body: full(k)}}).Marshal()
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err != nil {
			return
		}
		text, err := r.Marshal()
		if err != nil {
			t.Fatalf("read %+v, cannot write it: %v", r, err)
		}
		again, err := ParseRecord(text)
		if err != nil {
			t.Fatalf("wrote %s, cannot read it: %v", text, err)
		}
		if b, _ := again.Marshal(); string(b) != string(text) {
			t.Fatalf("wrote\n%s\nthen\n%s", text, b)
		}
		_ = opened().st.Apply(r) // whatever it is, folding survives it
	})
}

func FuzzParseState(f *testing.F) {
	h := opened()
	h.answered("")
	run, _ := h.start(h.message("", "ann"))
	h.active(run)
	h.asks(run, 2)
	b, _ := h.st.Marshal()
	f.Add(b)
	f.Add([]byte(`{"schema":1,"pos":1,"tag":1,"runs":[null],"tail":[null]}`))
	f.Add([]byte(`{"schema":1,"tail":[{"parts":[null]}],"runs":[{"parts":[null],"interrupts":[null]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseState(b)
		if err != nil {
			return
		}
		if _, err := s.Marshal(); err != nil {
			t.Fatalf("cannot write what was read: %v", err)
		}
		s, _ = s.Clip().Compact()
		for _, r := range h.recs {
			s = s.Apply(r)
		}
	})
}
