package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/parlance-gateway/parlance/internal/journal/redisjournal/redistest"
)

// shapes are what models have been made to say so that a page does something;
// X is what it would do.
var shapes = []string{
	`<script>X</script>`, `<img src=x onerror=X>`, `<svg onload=X>`, `<svg><animate onbegin=X attributeName=x dur=1s>`,
	`<iframe srcdoc="<script>parent.X</script>"></iframe>`, `<iframe src=javascript:parent.X></iframe>`, `<a href=javascript:X>go</a>`,
	`<details open ontoggle=X>d</details>`, `<input autofocus onfocus=X>`, `<style>*{background:url(//evil.test/x)}</style>`,
	`<link rel=stylesheet href=//evil.test/x>`, `<base href=//evil.test/>`, `<meta http-equiv=refresh content="0;url=javascript:X">`,
	`<form action=javascript:X><button autofocus>`, `<object data=javascript:X></object>`, `<video><source onerror=X></video>`,
	`<math><mtext><img src onerror=X></mtext></math>`, `<body onload=X>`, `<p style="position:fixed;inset:0" onmouseover=X>p</p>`, `javascript:X`,
}

// contexts are what such a thing may have to break out of; P is the thing.
var contexts = []string{
	`P`, `">P`, `'>P`, `</title>P`, `</textarea></script>P`, `--><!-->P`, `]]>P`, "`${P}`", `\"});P//`, `&lt;b&gt;P&lt;/b&gt;`,
}

// payloads are each shape in each context.
func payloads() []string {
	var list []string
	for i, s := range shapes {
		for j, c := range contexts {
			does := "window.owned=1"
			if (i+j)%2 == 1 {
				does = "alert(1)"
			}
			list = append(list, strings.Replace(c, "P", strings.ReplaceAll(s, "X", does), 1))
		}
	}
	return list
}

// pageAgent is an AG-UI agent for the operator's page: "ask" asks after a word,
// and says a word and then nothing once it is answered; "fail" fails; "corpus N"
// says, as text, tools and code, the N-th fifty of the corpus.
func pageAgent(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Thread   string `json:"threadId"`
		Run      string `json:"runId"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Resume []json.RawMessage `json:"resume"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, "bad input", http.StatusBadRequest)
		return
	}
	var message string
	for _, m := range in.Messages {
		if m.Role == "user" {
			_ = json.Unmarshal(m.Content, &message)
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	say := func(kind string, members map[string]any) {
		members["type"] = kind
		b, _ := json.Marshal(members)
		_, _ = fmt.Fprintf(w, "data: %s\n\n", b)
		_ = flush.Flush()
	}
	ids := func(more map[string]any) map[string]any {
		more["threadId"], more["runId"] = in.Thread, in.Run
		return more
	}
	text := func(s string) {
		id := map[string]any{"messageId": "t-" + in.Run}
		say("TEXT_MESSAGE_START", map[string]any{"messageId": id["messageId"], "role": "assistant"})
		say("TEXT_MESSAGE_CONTENT", map[string]any{"messageId": id["messageId"], "delta": s})
		say("TEXT_MESSAGE_END", id)
	}
	say("RUN_STARTED", ids(map[string]any{}))
	order, number, _ := strings.Cut(message, " ")
	switch {
	case order == "ask" && len(in.Resume) == 0:
		text("Once.")
		say("RUN_FINISHED", ids(map[string]any{"outcome": map[string]any{"type": "interrupt", "interrupts": []any{
			map[string]any{"id": "q", "reason": "confirmation", "message": "go on?"},
		}}}))
	case order == "ask", order == "hang":
		text("Again.")
		<-r.Context().Done()
	case order == "fail":
		say("RUN_ERROR", map[string]any{"message": "as asked", "code": "AS_ASKED"})
	case order == "corpus":
		n, _ := strconv.Atoi(number)
		part := payloads()[50*n : 50*n+50]
		text(strings.Join(part, "\n"))
		for i, s := range part {
			call := fmt.Sprintf("c%d-%d", n, i)
			say("TOOL_CALL_START", map[string]any{"toolCallId": call, "toolCallName": s})
			say("TOOL_CALL_ARGS", map[string]any{"toolCallId": call, "delta": s})
			say("TOOL_CALL_END", map[string]any{"toolCallId": call})
			say("TOOL_CALL_RESULT", map[string]any{"toolCallId": call, "messageId": "r-" + call + in.Run, "content": s})
		}
		say("RUN_ERROR", map[string]any{"message": part[0], "code": part[n]})
	default:
		text(message)
		say("RUN_FINISHED", ids(map[string]any{}))
	}
}

// TestOperatorPage: the operator's page in a real browser, of two edges that share
// a journal, one of which is killed.
func TestOperatorPage(t *testing.T) {
	t.Parallel()
	agent := httptest.NewServer(http.HandlerFunc(pageAgent))
	t.Cleanup(func() {
		agent.CloseClientConnections()
		agent.Close()
	})
	store := redistest.Start(t)
	f := &fleet{t: t, bot: newBot(t)}
	for _, name := range []string{"north", "south"} {
		f.join(nil, "redis redis://"+store.Addr(), "AGENT", agent.URL, "drain 3s", "drain 3s\n\t\tedge "+name,
			// The password is "operator", at the least cost that there is.
			"bind 127.0.0.1", "bind 127.0.0.1\n\tbasic_auth /ops/* {\n\t\tada "+pageHash+"\n\t\tbob "+pageHash+"\n\t}",
			"agent bot", "page /demo/\n\t\toperator /ops/ ada\n\t\tagent bot")
	}
	f.start()
	north, south := f.edges[0], f.edges[1]
	script(t, "operator.mjs", map[string]func() any{
		"corpus": func() any { return payloads() },
		"kill":   func() any { south.kill(); return nil },
		"audit": func() any {
			lines := []json.RawMessage{}
			for line := range strings.Lines(north.log.String()) {
				if strings.Contains(line, `"an operator acted"`) && json.Valid([]byte(line)) {
					lines = append(lines, json.RawMessage(line))
				}
			}
			return lines
		},
	}, "BASE="+north.base, "OTHER="+south.base, "ADMIN="+north.admin)
}

const pageHash = "$2a$04$y8I6kTidJfP0qIqE.w793ump1JqdE2a75.W0TTcD2pLjKmN9ssepO"
