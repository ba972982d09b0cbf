package agui

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// sent returns the requests that the agent makes for the calls.
func sent(t *testing.T, c Config, version string, calls ...*agent.Call) (bodies []string, header http.Header) {
	t.Helper()
	a := serve(t, c, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies, header = append(bodies, string(b)), r.Header
		r.Body = http.NoBody
		events(`{"type":"RUN_STARTED"`+version+`}`, `{"type":"RUN_FINISHED"}`)(w, r)
	})
	for _, call := range calls {
		if _, out := fold(t.Context(), a, call); out.Status != chat.RunComplete {
			t.Fatalf("got %+v", out)
		}
	}
	return bodies, header
}

// messagesOf cuts the messages out of an input.
func messagesOf(body string) string {
	_, rest, _ := strings.Cut(body, `"messages":`)
	list, _, _ := strings.Cut(rest, `,"tools":`)
	return list
}

func assistant(parts ...*chat.Part) *chat.Message {
	return &chat.Message{ID: "a1", Role: chat.Assistant, Parts: parts}
}

func say(id, text string) *chat.Part {
	return &chat.Part{ID: id, Type: chat.PartText, Text: chat.Text(text)}
}

func did(id, result string) *chat.Part {
	return &chat.Part{ID: id, Type: chat.PartTool, Name: "f", Text: chat.Text("{}"), Done: result != "", Result: result, ResultID: id + "r"}
}

func TestInput(t *testing.T) {
	call := newCall()
	call.State, call.Traceparent = jsontext.Value(`{"a":1}`), "00-abc-def-01"
	call.Tools = call.Tools[:1]
	bodies, h := sent(t, Config{Header: http.Header{"Authorization": {"Bearer x"}, "Accept": {"*/*"}}, Forwarded: []byte(`{"p":1}`)}, "", call)
	want := `{"threadId":"up","runId":"seg","protocolVersion":"1.0","state":{"a":1},"messages":[{"id":"u1","role":"user","content":"hi"}],` +
		`"tools":[{"name":"where","description":"d","parameters":{"type":"object"}}],"context":[],"forwardedProps":{"p":1}}`
	if bodies[0] != want {
		t.Errorf("got  %s\nwant %s", bodies[0], want)
	}
	if h.Get("Accept") != "text/event-stream" || h.Get("Content-Type") != "application/json" || h.Get("Authorization") != "Bearer x" || h.Get("Traceparent") != "00-abc-def-01" {
		t.Errorf("got %v", h)
	}
	if bodies, _ := sent(t, Config{Legacy: true}, "", newCall()); strings.Contains(bodies[0], "protocolVersion") {
		t.Errorf("0.x: got %s", bodies[0])
	}
}

func TestMessages(t *testing.T) {
	thought := &chat.Part{ID: "r", Type: chat.PartReasoning, Text: chat.Text("hm"), Encrypted: "E"}
	plain := &chat.Part{ID: "q", Type: chat.PartReasoning, Text: chat.Text("hm")}
	broken := did("k", "ok")
	broken.Text, broken.Encrypted = chat.Text(`{"a`), "F"
	for _, c := range []struct {
		name  string
		parts []*chat.Part
		want  string
	}{
		{
			"texts with the calls that follow them",
			[]*chat.Part{say("t1", "a"), did("k1", "x"), did("k2", "y"), say("t2", "b")},
			`{"id":"t1","role":"assistant","content":"a","toolCalls":[{"id":"k1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"k2","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
				`{"id":"k1r","role":"tool","content":"x","toolCallId":"k1"},{"id":"k2r","role":"tool","content":"y","toolCallId":"k2"},{"id":"t2","role":"assistant","content":"b"}`,
		},
		{
			"a call before any text",
			[]*chat.Part{did("k1", "x")},
			`{"id":"k1","role":"assistant","toolCalls":[{"id":"k1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"id":"k1r","role":"tool","content":"x","toolCallId":"k1"}`,
		},
		{
			"a call that a stop left without a result does not dangle",
			[]*chat.Part{{ID: "k1", Type: chat.PartTool, Name: "f"}},
			`{"id":"k1","role":"assistant","toolCalls":[{"id":"k1","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
				`{"id":"k1-result","role":"tool","content":"the run ended before this call had a result","toolCallId":"k1","error":"the run ended before this call had a result"}`,
		},
		{
			"PIL-069 a one-way call's empty result",
			[]*chat.Part{{ID: "k1", Type: chat.PartTool, Name: "draw", Done: true, ResultID: "x"}},
			`{"id":"k1","role":"assistant","toolCalls":[{"id":"k1","type":"function","function":{"name":"draw","arguments":"{}"}}]},{"id":"x","role":"tool","content":"","toolCallId":"k1"}`,
		},
		{
			"encrypted values go back, arguments are JSON, empty texts stay",
			[]*chat.Part{thought, plain, say("t0", ""), say("t1", "a"), broken},
			`{"id":"r","role":"reasoning","content":"hm","encryptedValue":"E"},{"id":"t1","role":"assistant","content":"a","toolCalls":[{"id":"k","type":"function","function":{"name":"f","arguments":"{}"},"encryptedValue":"F"}]},` +
				`{"id":"kr","role":"tool","content":"ok","toolCallId":"k"}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bodies, _ := sent(t, Config{}, "", newCall(user("u1", "hi"), assistant(c.parts...), user("u2", "on")))
			want := `[{"id":"u1","role":"user","content":"hi"},` + c.want + `,{"id":"u2","role":"user","content":"on"}]`
			if got := messagesOf(bodies[0]); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	t.Run("plain reasoning travels once the agent is known to speak 1.0", func(t *testing.T) {
		call := func() *agent.Call { return newCall(assistant(plain), user("u2", "on")) }
		bodies, _ := sent(t, Config{}, `,"protocolVersion":"1.0"`, call(), call())
		if strings.Contains(bodies[0], "reasoning") || !strings.Contains(bodies[1], `{"id":"q","role":"reasoning","content":"hm"}`) {
			t.Errorf("got %s", bodies)
		}
	})
}

func TestAttachments(t *testing.T) {
	files := func() *agent.Call {
		m := user("u1", "look")
		m.Attachments = []chat.Attachment{{ID: "f1", MediaType: "image/png", Name: "a.png", Size: 3}, {ID: "f2", MediaType: "application/pdf", Size: 3}}
		call := newCall(m)
		call.Open = func(_ context.Context, id string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("abc")), nil
		}
		return call
	}
	for _, c := range []struct {
		name, version string
		cfg           Config
		want          string
	}{
		{"1.0", `,"protocolVersion":"1.0"`, Config{}, `[{"type":"text","text":"look"},{"type":"image","source":{"type":"data","value":"YWJj","mimeType":"image/png"}},{"type":"document","source":{"type":"data","value":"YWJj","mimeType":"application/pdf"}}]`},
		{"0.x", "", Config{}, `[{"type":"text","text":"look"},{"type":"binary","mimeType":"image/png","data":"YWJj","filename":"a.png"},{"type":"binary","mimeType":"application/pdf","data":"YWJj"}]`},
		{"beyond the bound", `,"protocolVersion":"1.0"`, Config{MaxAttachments: 5}, `[{"type":"text","text":"look"},{"type":"image","source":{"type":"data","value":"YWJj","mimeType":"image/png"}},{"type":"text","text":"[an attachment of type application/pdf is not shown]"}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			// The first answer tells what the agent speaks.
			bodies, _ := sent(t, c.cfg, c.version, newCall(), files())
			if got := messagesOf(bodies[1]); got != `[{"id":"u1","role":"user","content":`+c.want+`}]` {
				t.Errorf("got %s", got)
			}
		})
	}
	t.Run("one that cannot be read fails the run, an older one does not", func(t *testing.T) {
		a := serve(t, Config{}, events(`{"type":"RUN_FINISHED"}`))
		call := files()
		call.Open = func(context.Context, string) (io.ReadCloser, error) { return nil, errors.New("secret place") }
		if _, out := fold(t.Context(), a, call); out.Code != chat.CodeAgentError || strings.Contains(out.Text, "secret") {
			t.Errorf("got %+v", out)
		}
		call.Messages = append(call.Messages, user("u2", "on"))
		if _, out := fold(t.Context(), a, call); out.Status != chat.RunComplete {
			t.Errorf("got %+v", out)
		}
	})
}

func TestResume(t *testing.T) {
	ask := func(kind chat.InterruptKind, upstream, call string, status chat.InterruptStatus, answer string) *chat.Interrupt {
		return &chat.Interrupt{Kind: kind, Upstream: upstream, Call: call, Status: status, Answer: jsontext.Value(answer)}
	}
	resumed := func(answers ...*chat.Interrupt) *agent.Call {
		call := newCall()
		call.Answers = answers
		call.Draft = []*chat.Part{say("t1", "a"), {ID: "k1", Type: chat.PartTool, Name: "where", Text: chat.Text("{}")}, {ID: "k2", Type: chat.PartTool, Name: "f", Text: chat.Text("{}")}}
		return call
	}
	const draft = `{"id":"t1","role":"assistant","content":"a","toolCalls":[{"id":"k1","type":"function","function":{"name":"where","arguments":"{}"}},{"id":"k2","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	both := []*chat.Interrupt{ask(chat.InterruptClientTool, "", "k1", chat.InterruptAnswered, `{"city":"Oslo"}`), ask(chat.InterruptApproval, "i2", "k2", chat.InterruptAnswered, `true`)}
	t.Run("PIL-068 a client tool's answer is a tool message; an approval is a resume entry and its call stays open", func(t *testing.T) {
		bodies, _ := sent(t, Config{}, "", resumed(both...))
		if got, want := messagesOf(bodies[0]), `[{"id":"u1","role":"user","content":"hi"},`+draft+`,{"id":"k1-result","role":"tool","content":"{\"city\":\"Oslo\"}","toolCallId":"k1"}]`; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if !strings.HasSuffix(bodies[0], `"resume":[{"interruptId":"i2","status":"resolved","payload":{"approved":true}}]}`) {
			t.Errorf("got %s", bodies[0])
		}
	})
	t.Run("with a limited history only the tool message travels", func(t *testing.T) {
		bodies, _ := sent(t, Config{History: HistoryNone}, "", resumed(both...))
		if got, want := messagesOf(bodies[0]), `[{"id":"u1","role":"user","content":"hi"},{"id":"k1-result","role":"tool","content":"{\"city\":\"Oslo\"}","toolCallId":"k1"}]`; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
	t.Run("PIL-047 what was withdrawn, declined or expired is cancelled", func(t *testing.T) {
		call := resumed(
			ask(chat.InterruptClientTool, "i1", "k1", chat.InterruptExpired, ""),
			ask(chat.InterruptQuestion, "i2", "", chat.InterruptDeclined, ""),
			ask(chat.InterruptApproval, "i3", "", chat.InterruptAnswered, `{"approved":false,"reason":"no"}`),
			ask(chat.InterruptQuestion, "i4", "", chat.InterruptAnswered, `""`),
		)
		call.Withdrawn = []*chat.Interrupt{ask(chat.InterruptQuestion, "i5", "", chat.InterruptWithdrawn, ""), ask(chat.InterruptClientTool, "", "k", chat.InterruptWithdrawn, "")}
		bodies, _ := sent(t, Config{}, "", call)
		_, got, _ := strings.Cut(bodies[0], `"resume":`)
		want := `[{"interruptId":"i1","status":"cancelled"},{"interruptId":"i2","status":"cancelled"},{"interruptId":"i3","status":"resolved","payload":{"approved":false,"reason":"no"}},` +
			`{"interruptId":"i4","status":"resolved","payload":""},{"interruptId":"i5","status":"cancelled"}]}`
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if !strings.Contains(bodies[0], `"content":"no answer: expired","toolCallId":"k1","error":"no answer: expired"`) {
			t.Errorf("got %s", bodies[0])
		}
	})
	t.Run("0.x is resumed by a command", func(t *testing.T) {
		bodies, _ := sent(t, Config{Forwarded: []byte(`{"p":1}`)}, "", resumed(ask(chat.InterruptQuestion, legacyAsk+"0", "", chat.InterruptAnswered, `{"x":1}`)))
		if !strings.HasSuffix(bodies[0], `"forwardedProps":{"command":{"resume":{"x":1}},"p":1}}`) {
			t.Errorf("got %s", bodies[0])
		}
	})
}

// TestGatedResume: what an agent is told of a call that the gateway asked about.
func TestGatedResume(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		status       chat.InterruptStatus
		call         string
		messages     string
		resume       string
	}{
		{
			"SMO-152 approved: the call is the agent's to go on with", "true", chat.InterruptAnswered, "c1",
			`,{"id":"c1","role":"assistant","toolCalls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}]`,
			`[{"interruptId":"c1","status":"resolved","payload":{"approved":true}}]`,
		},
		{
			"SMO-152 denied: the refusal is its result", "false", chat.InterruptAnswered, "c1",
			`,{"id":"c1","role":"assistant","toolCalls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
				`{"id":"c1r","role":"tool","content":"Denied by human: user rejected the action","toolCallId":"c1"}]`, "",
		},
		{
			"a subagent's call that was denied has no message", "", chat.InterruptExpired, "",
			`,{"id":"c1","role":"assistant","toolCalls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
				`{"id":"c1r","role":"tool","content":"the run ended before this call had a result","toolCallId":"c1","error":"the run ended before this call had a result"}]`,
			`[{"interruptId":"c1","status":"resolved","payload":{"approved":false}}]`,
		},
	} {
		call := newCall()
		call.Draft = []*chat.Part{did("c1", "")}
		call.Answers = []*chat.Interrupt{{
			Kind: chat.InterruptApproval, Gate: chat.GateAgent, Upstream: "c1", Call: c.call, Status: c.status, Answer: jsontext.Value(c.answer),
		}}
		bodies, _ := sent(t, Config{}, "", call)
		if got := messagesOf(bodies[0]); !strings.HasSuffix(got, c.messages) {
			t.Errorf("%s: messages %s", c.name, got)
		}
		_, got, _ := strings.Cut(bodies[0], `"resume":`)
		if got = strings.TrimSuffix(got, "}"); got != c.resume {
			t.Errorf("%s: resume %s", c.name, got)
		}
	}
	withdrawn := newCall()
	withdrawn.Withdrawn = []*chat.Interrupt{{Kind: chat.InterruptApproval, Gate: chat.GateAgent, Upstream: "c1", Call: "c1", Status: chat.InterruptWithdrawn}}
	if bodies, _ := sent(t, Config{}, "", withdrawn); strings.Contains(bodies[0], "resume") {
		t.Errorf("the agent is told of a question that it did not ask: %s", bodies[0])
	}
}
