package echo

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// turn is one call being answered. out is set once it has ended.
type turn struct {
	agent *Agent
	ctx   context.Context
	call  *agent.Call
	emit  func(agent.Event) error
	out   *agent.Outcome

	step   int
	blocks int
	text   string // the open text block, or ""
}

func (t *turn) end(o agent.Outcome) {
	if t.out == nil {
		t.out = &o
	}
}

// send emits an event; false once the turn has ended.
func (t *turn) send(ev agent.Event) bool {
	if t.out != nil {
		return false
	}
	if t.emit(ev) != nil {
		t.end(agent.Outcome{Status: chat.RunCancelled})
	}
	return t.out == nil
}

// pause waits; false once the turn has ended.
func (t *turn) pause(d time.Duration) bool {
	if t.out == nil && !wait(t.ctx, d, nil) {
		t.end(agent.Outcome{Status: chat.RunCancelled})
	}
	return t.out == nil
}

// wait waits for d, or less if early is closed; false when the context ended.
func wait(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-early:
	}
	return ctx.Err() == nil
}

// say streams words, each with the space after it.
func (t *turn) say(text string, delay time.Duration) {
	t.openText()
	for text != "" {
		w := word(text)
		text = text[len(w):]
		if !t.send(agent.Event{Kind: chat.KindTextDelta, ID: t.text, Text: w}) || !t.pause(delay) {
			return
		}
	}
}

func (t *turn) openText() {
	if t.text != "" {
		t.send(agent.Event{Kind: chat.KindTextDelta, ID: t.text, Text: " "})
		return
	}
	t.text = t.id("t")
	t.send(agent.Event{Kind: chat.KindTextStart, ID: t.text})
}

func (t *turn) closeText() {
	if t.text != "" {
		t.send(agent.Event{Kind: chat.KindTextEnd, ID: t.text})
		t.text = ""
	}
}

// id names a block or call: unique within the thread, the same each time.
func (t *turn) id(kind string) string {
	t.blocks++
	return t.call.Segment + "-" + kind + strconv.Itoa(t.blocks)
}

// toolCall announces a call and returns its id.
func (t *turn) toolCall(name, args string) string {
	id := t.id("c")
	t.send(agent.Event{Kind: chat.KindToolStart, ID: id, Name: name, Parent: t.text})
	t.closeText()
	for args != "" {
		w := word(args)
		args = args[len(w):]
		t.send(agent.Event{Kind: chat.KindToolArgs, ID: id, Text: w})
	}
	t.send(agent.Event{Kind: chat.KindToolEnd, ID: id})
	return id
}

func (t *turn) result(call, content string) {
	t.send(agent.Event{Kind: chat.KindToolResult, ID: call, Text: content})
}

func (t *turn) do(a action) {
	switch a.do {
	case "":
		t.say(a.words, t.agent.delay)
	case "/long":
		t.long(a.n)
	case "/tool":
		id := t.toolCall(lookupTool, `{"word": "echo"}`)
		t.pause(t.agent.delay)
		t.result(id, "a sound that comes back")
		t.say("The tool says: an echo is a sound that comes back.", t.agent.delay)
	case "/ask", "/ask2", "/client":
		t.ask(a)
	case "/plan":
		t.plan()
	case "/think":
		t.think("The words were heard. Now they are to be said again.")
	case "/fail":
		t.end(agent.Failed(chat.CodeAgentError, "the echo agent was told to fail"))
	case "/slow":
		t.say("Waiting ", t.agent.delay)
		if t.out == nil {
			<-t.ctx.Done()
		}
		t.end(agent.Outcome{Status: chat.RunCancelled})
	case "/sub":
		t.subagent()
	}
}

func (t *turn) long(n int) {
	if n == 0 {
		return
	}
	t.openText()
	for i := 1; i <= n; i++ {
		w := "word" + strconv.Itoa(i)
		if i < n {
			w += " "
		}
		if !t.send(agent.Event{Kind: chat.KindTextDelta, ID: t.text, Text: w}) || !t.pause(0) {
			return
		}
	}
}

func (t *turn) think(text string) {
	t.closeText()
	id := t.id("r")
	t.send(agent.Event{Kind: chat.KindReasoningStart, ID: id})
	for text != "" {
		w := word(text)
		text = text[len(w):]
		if !t.send(agent.Event{Kind: chat.KindReasoningDelta, ID: id, Text: w}) || !t.pause(t.agent.delay) {
			return
		}
	}
	t.send(agent.Event{Kind: chat.KindReasoningEnd, ID: id})
}

// plan works through a list: each snapshot is the whole of it.
func (t *turn) plan() {
	things := []string{"Listen", "Think", "Say it again"}
	for done := 0; done <= len(things); done++ {
		todos := make([]chat.Todo, len(things))
		for i, what := range things {
			todos[i] = chat.Todo{ID: strconv.Itoa(i + 1), Content: what, Status: "pending"}
			if i < done {
				todos[i].Status = "completed"
			} else if i == done {
				todos[i].Status = "in_progress"
			}
		}
		if !t.send(agent.Event{Kind: chat.KindTodos, Todos: todos}) || !t.pause(2*t.agent.delay) {
			return
		}
	}
	t.say("All "+strconv.Itoa(len(things))+" things are done.", t.agent.delay)
}

// value writes a JSON string or object of strings, in the order given.
func value(pairs ...string) jsontext.Value {
	var b strings.Builder
	b.WriteByte('{')
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := jsontext.AppendQuote(nil, pairs[i])
		text, _ := jsontext.AppendQuote(nil, pairs[i+1])
		b.Write(name)
		b.WriteByte(':')
		b.Write(text)
	}
	b.WriteByte('}')
	return jsontext.Value(b.String())
}
