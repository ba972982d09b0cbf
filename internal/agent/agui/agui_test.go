package agui

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts an endpoint and an agent that speaks with it.
func serve(t *testing.T, c Config, h http.HandlerFunc) *Agent {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	if c.URL == "" {
		c.URL = s.URL + "/agent"
	}
	if c.CancelURL != "" {
		c.CancelURL = s.URL + c.CancelURL
	}
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// events answers any request with events.
func events(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, l := range lines {
			fmt.Fprintf(w, "data: %s\n\n", l)
		}
	}
}

func user(id, text string) *chat.Message {
	return &chat.Message{ID: id, Role: chat.User, Parts: []*chat.Part{{ID: id + "p", Type: chat.PartText, Text: chat.Text(text)}}}
}

func newCall(messages ...*chat.Message) *agent.Call {
	if messages == nil {
		messages = []*chat.Message{user("u1", "hi")}
	}
	return &agent.Call{
		Key: chat.Key{Thread: "t"}, Run: "run", Segment: "seg", Upstream: "up", Messages: messages,
		Tools: []chat.ClientTool{
			{Name: "where", Description: "d", Arguments: jsontext.Value(`{"type":"object"}`), Kind: chat.ToolBlocking},
			{Name: "draw", Kind: chat.ToolOneWay},
		},
	}
}

// fold runs a call through a repair and a fold, as a conductor does.
func fold(ctx context.Context, a agent.Agent, call *agent.Call) (*chat.State, agent.Outcome) {
	run := &chat.Run{ID: "run", Status: chat.RunActive, Answer: "A", Segments: []string{"seg"}, Tools: call.Tools, State: call.State}
	s := &chat.State{Exists: true, Runs: []*chat.Run{run}}
	r := agent.NewRepair(run)
	apply := func(entries []chat.Entry) {
		for _, e := range entries {
			s = s.Apply(&chat.Record{Entry: e})
		}
	}
	out := a.Run(ctx, call, func(ev agent.Event) error {
		apply(r.Event(ev))
		return nil
	})
	entries, out := r.End(out)
	apply(entries)
	return s, out
}

// seen writes what a thread holds of the run.
func seen(s *chat.State, out agent.Outcome) string {
	var b strings.Builder
	run := s.Runs[0]
	for _, p := range run.Parts {
		fmt.Fprintf(&b, "%s", p.Type)
		if p.Name != "" {
			fmt.Fprintf(&b, " %s %s<%s", p.ID, p.Name, p.Parent)
		}
		fmt.Fprintf(&b, " %q", p.Text)
		if p.Done {
			fmt.Fprintf(&b, " = %q", p.Result)
		}
		if p.Encrypted != "" {
			fmt.Fprintf(&b, " encrypted %s", p.Encrypted)
		}
		if p.Open {
			b.WriteString(" OPEN")
		}
		b.WriteString("\n")
	}
	for _, sub := range run.Subagents {
		fmt.Fprintf(&b, "subagent %s %s<%s running=%v\n", sub.ID, sub.Name, sub.Call, sub.Running)
	}
	if s.Todos != nil {
		fmt.Fprintf(&b, "todos %v\n", s.Todos)
	}
	if len(run.State) > 0 {
		fmt.Fprintf(&b, "state %s\n", run.State)
	}
	fmt.Fprintf(&b, "%s %s %s", out.Status, out.Code, out.Text)
	for _, i := range out.Interrupts {
		fmt.Fprintf(&b, "\n%s %s call=%s %s", i.Kind, i.Upstream, i.Call, i.Payload)
	}
	return b.String()
}

func TestStreams(t *testing.T) {
	const started = `{"type":"RUN_STARTED","threadId":"x","runId":"other","protocolVersion":"1.0"}`
	const finished = `{"type":"RUN_FINISHED","threadId":"x","runId":"y"}`
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"a text", []string{
			started, `{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hel"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"lo","rawEvent":{"big":1},"unknown":null}`, `{"type":"TEXT_MESSAGE_END","messageId":"m"}`, finished,
		}, "text \"Hello\"\ncomplete  "},
		{"chunks of two texts and a call have ends of their own", []string{
			started, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}`, `{"type":"TEXT_MESSAGE_CHUNK","delta":"b"}`, `{"type":"RAW","event":{}}`,
			`{"type":"TEXT_MESSAGE_CHUNK","messageId":"n","delta":"c"}`, `{"type":"TOOL_CALL_CHUNK","toolCallId":"k","toolCallName":"f","parentMessageId":"n","delta":"{"}`,
			`{"type":"TOOL_CALL_CHUNK","toolCallId":"k","delta":"}"}`, `{"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"k","content":"ok"}`,
			`{"type":"REASONING_MESSAGE_CHUNK","messageId":"q","delta":"hm"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"o","delta":"d"}`, finished,
		}, "text \"ab\"\ntext \"c\"\ntool k f<A-1 \"{}\" = \"ok\"\nreasoning \"hm\"\ntext \"d\"\ncomplete  "},
		{"anything else of the agent ends a block of chunks, a subagent's does not", []string{
			started, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}`, `{"type":"STEP_STARTED","stepName":"s","subagentRunId":"x"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"b"}`,
			`{"type":"STEP_STARTED","stepName":"s"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"c"}`, finished,
		}, "text \"ab\"\ntext \"c\"\ncomplete  "},
		{"a surrogate pair over two deltas, one doubled name", []string{
			started, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a\ud83d"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\ude00b","delta":"\ude00b"}`, finished,
		}, "text \"a\U0001f600b\"\ncomplete  "},
		{"the user's own words and other roles are no answer", []string{
			started, `{"type":"TEXT_MESSAGE_START","messageId":"u","role":"user"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"u","delta":"me"}`, `{"type":"TEXT_MESSAGE_END","messageId":"u"}`,
			`{"type":"TEXT_MESSAGE_CHUNK","messageId":"s","role":"system","delta":"be"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"assistant","delta":"a"}`, finished,
		}, "text \"a\"\ncomplete  "},
		{"reasoning of 1.0 with an encrypted value", []string{
			started, `{"type":"REASONING_START","messageId":"m"}`, `{"type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning"}`, `{"type":"REASONING_MESSAGE_CONTENT","messageId":"m","delta":"hm"}`,
			`{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"m","encryptedValue":"E"}`, `{"type":"REASONING_MESSAGE_END","messageId":"m"}`, `{"type":"REASONING_END","messageId":"m"}`, finished,
		}, "reasoning \"hm\" encrypted E\ncomplete  "},
		{"thinking of 0.x", []string{
			started, `{"type":"THINKING_START","title":"x"}`, `{"type":"THINKING_TEXT_MESSAGE_START"}`, `{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"h"}`, `{"type":"THINKING_TEXT_MESSAGE_END"}`,
			`{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"m"}`, `{"type":"THINKING_END"}`, finished,
		}, "reasoning \"h\"\nreasoning \"m\"\ncomplete  "},
		{"a result of content parts", []string{
			started, `{"type":"TOOL_CALL_START","toolCallId":"k","toolCallName":"f"}`, `{"type":"TOOL_CALL_RESULT","toolCallId":"k","content":[{"type":"text","text":"a"},{"type":"image","source":{}},{"type":"text","text":"b"}]}`, finished,
		}, "tool k f< \"\" = \"ab\"\ncomplete  "},
		{"state, its patches and its todos", []string{
			started, `{"type":"STATE_SNAPSHOT","snapshot":{"n":12345678901234567890,"todos":[{"id":1,"title":"a","status":"done"}]}}`,
			`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/todos/-","value":"b"},{"op":"replace","path":"/n","value":null}]}`,
			`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/x","value":1},{"op":"remove","path":"/nowhere"}]}`, finished,
		}, "todos [{1 a completed} { b pending}]\nstate {\"n\":null,\"todos\":[{\"id\":1,\"status\":\"done\",\"title\":\"a\"},\"b\"]}\ncomplete  "},
		{"an activity of todos", []string{
			started, `{"type":"ACTIVITY_SNAPSHOT","messageId":"p","activityType":"todos","content":{"todos":["a"]}}`,
			`{"type":"ACTIVITY_DELTA","messageId":"p","activityType":"todos","patch":[{"op":"add","path":"/todos/0","value":{"content":"b","done":true}}]}`,
			`{"type":"ACTIVITY_SNAPSHOT","messageId":"p","activityType":"todos","content":{"todos":[]},"replace":false}`, finished,
		}, "todos [{ b completed} { a pending}]\ncomplete  "},
		{"PIL-126 PIL-127 a subagent at work", []string{
			started, `{"type":"TOOL_CALL_START","toolCallId":"k","toolCallName":"task"}`, `{"type":"TOOL_CALL_END","toolCallId":"k"}`,
			`{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"n","parentToolCallId":"k"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","subagentRunId":"s","delta":"inner"}`,
			`{"type":"TEXT_MESSAGE_CHUNK","messageId":"o","delta":"outer"}`, `{"type":"TEXT_MESSAGE_CHUNK","subagentRunId":"s","delta":"inner"}`,
			`{"type":"SUBAGENT_FINISHED","subagentRunId":"s"}`, finished,
		}, "tool k task< \"\"\ntext \"outer\"\nsubagent s n<k running=false\ncomplete  "},
		{"PIL-119 interrupts", []string{
			started, `{"type":"TOOL_CALL_START","toolCallId":"k","toolCallName":"f"}`,
			`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"tool_call","message":"May I?","toolCallId":"k"},` +
				`{"id":"i2","reason":"input_required","responseSchema":{"type":"string"}},{"id":"i3","reason":"confirmation","responseSchema":{"properties":{"approved":{},"editedArgs":{}}}}]}}`,
		}, "tool k f< \"\"\nsuspended  \napproval i1 call=k {\"reason\":\"tool_call\",\"message\":\"May I?\",\"toolCallId\":\"k\"}\n" +
			"question i2 call= {\"reason\":\"input_required\",\"responseSchema\":{\"type\":\"string\"}}\n" +
			"question i3 call= {\"reason\":\"confirmation\",\"responseSchema\":{\"properties\":{\"approved\":{},\"editedArgs\":{}}}}"},
		{
			"PIL-117 a question of 0.x",
			[]string{started, `{"type":"CUSTOM","name":"on_interrupt","value":"{\"question\":\"Really?\"}"}`, finished},
			"suspended  \nquestion on_interrupt:0 call= {\"reason\":\"on_interrupt\",\"message\":\"Really?\",\"value\":{\"question\":\"Really?\"}}",
		},
		{"a question of 0.x that an outcome asks, too, is asked once", []string{
			started, `{"type":"CUSTOM","name":"on_interrupt","value":"x"}`, `{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"a:b"}]}}`,
		}, "suspended  \nquestion i1 call= {\"reason\":\"a:b\"}"},
		{"PIL-072 a blocking client tool, listed or not", []string{
			started, `{"type":"TOOL_CALL_START","toolCallId":"k","toolCallName":"where"}`, `{"type":"TOOL_CALL_ARGS","toolCallId":"k","delta":"{\"a\":1}"}`, `{"type":"TOOL_CALL_END","toolCallId":"k"}`, finished,
		}, "tool k where< \"{\\\"a\\\":1}\"\nsuspended  \nclient_tool  call=k {\"clientTool\":\"where\",\"arguments\":{\"a\":1}}"},
		{"PIL-069 a one-way client tool", []string{
			started, `{"type":"TOOL_CALL_CHUNK","toolCallId":"k","toolCallName":"draw","delta":"{}"}`, `{"type":"RUN_FINISHED","outcome":{"type":"success","pendingToolCallIds":["k"]}}`,
		}, "tool k draw< \"{}\" = \"\"\ncomplete  "},
		{"PIL-097 cancelled by the agent, 1.0 and 0.x", []string{started, `{"type":"RUN_FINISHED","outcome":{"type":"cancelled"}}`}, "cancelled  "},
		{"cancelled by the agent in 0.x", []string{started, `{"type":"RUN_FINISHED","metadata":{"finishReason":"cancelled"}}`}, "cancelled  "},
		{"PIL-128 an error", []string{started, `{"type":"RUN_ERROR","message":"the quota is used up","code":"QUOTA"}`}, "error QUOTA the quota is used up"},
		{"PIL-131 an error with inner details", []string{started, `{"type":"RUN_ERROR","message":"Traceback (most recent call last):\n File \"x.py\""}`}, "error AGENT_ERROR the agent failed"},
		{"PIL-130 what follows the end is dropped", []string{started, finished, `{"type":"RUN_ERROR","message":"late"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"late"}`}, "complete  "},
		{"PIL-130 a body that ends without an end", []string{started, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"half"}`}, "text \"half\"\nerror UPSTREAM_TRUNCATED the agent's answer broke off"},
		{"an answer that is only in a snapshot", []string{
			started, `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"0","role":"assistant","content":"old"},{"id":"1","role":"user","content":"hi"},` +
				`{"id":"2","role":"assistant","content":"new","toolCalls":[{"id":"k","type":"function","function":{"name":"f","arguments":"{}"}}]},{"id":"3","role":"tool","toolCallId":"k","content":"ok"}]}`, finished,
		}, "text \"new\"\ntool k f<A \"{}\" = \"ok\"\ncomplete  "},
		{"a snapshot before the stream says nothing", []string{
			started, `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"user","content":"hi"},{"id":"2","role":"assistant","content":"half"}]}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"new"}`, finished,
		}, "text \"new\"\ncomplete  "},
		{"a snapshot of what was streamed says nothing new", []string{
			started, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"new"}`, `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"1","role":"user","content":"hi"},{"id":"2","role":"assistant","content":"new"}]}`, finished,
		}, "text \"new\"\ncomplete  "},
		{"nonsense between events", []string{
			`[DONE]`, `{"type":5}`, `[]`, `null`, ``, `{"type":"NEW_EVENT"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":{"a":1}}`, started, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}`, finished,
		}, "text \"a\"\ncomplete  "},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := serve(t, Config{}, events(c.lines...))
			if got := seen(fold(t.Context(), a, newCall())); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// An operator is told that an agent failed, and nothing that it said.
func TestFailureIsLogged(t *testing.T) {
	var log strings.Builder
	a := serve(t, Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, events(`{"type":"RUN_ERROR","message":"about what Ann wrote","code":"QUOTA"}`))
	fold(t.Context(), a, newCall())
	if s := log.String(); !strings.Contains(s, "code=QUOTA") || strings.Contains(s, "Ann") {
		t.Errorf("the log has %q", s)
	}
}

func TestUsageIsKept(t *testing.T) {
	a := serve(t, Config{}, events(`{"type":"RUN_STARTED"}`, `{"type":"RUN_FINISHED","usage":[{"model":"m","inputTokens":3}]}`))
	if _, out := fold(t.Context(), a, newCall()); string(out.Usage) != `[{"model":"m","inputTokens":3}]` {
		t.Errorf("got %s", out.Usage)
	}
}

func TestEmitFails(t *testing.T) {
	a := serve(t, Config{}, events(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}`, `{"type":"RUN_FINISHED"}`))
	n := 0
	out := a.Run(t.Context(), newCall(), func(agent.Event) error {
		n++
		return io.ErrClosedPipe
	})
	if out.Status != chat.RunCancelled || n != 1 {
		t.Errorf("got %+v after %d", out, n)
	}
}
