// Package echo is the built-in agent: it says what it is told, word by word,
// and at a word of command does all that an agent can do. It is for a first
// start, for pages that show a chat and for tests. It owes the rules of
// agent.Agent; given the same call it says the same, apart from time.
//
// The words of command, done in the order in which they stand:
//
//	/tool              uses a tool
//	/ask               asks for an approval, /ask2 asks two questions
//	/client NAME {}    calls the client tool NAME with the arguments {}
//	/plan              keeps a list of todos
//	/think             reasons
//	/fail              fails
//	/slow              says a word and hangs until it is cancelled
//	/long N            says N words without a pause
//	/sub               lets a subagent work, which may be detached
package echo

import (
	"context"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// The agent's own tools, beside approvedTool.
const (
	lookupTool = "lookup"
	taskTool   = "task"
)

// DefaultDelay is the pause between two words.
const DefaultDelay = 60 * time.Millisecond

// Config says how fast the agent is.
type Config struct {
	// Delay is the pause between two words; 0 is DefaultDelay, less is none.
	Delay time.Duration
	// Sub is how long a subagent works; 0 is 50 pauses, at most 3 s.
	Sub time.Duration
}

// Agent answers with what it was told.
type Agent struct {
	delay time.Duration
	tick  time.Duration // a subagent's

	mu   sync.Mutex
	subs map[place]*work
}

// Tools implements agent.Toolbox.
func (*Agent) Tools() []string { return []string{lookupTool, approvedTool, taskTool} }

// New makes the agent.
func New(c Config) *Agent {
	a := &Agent{delay: max(c.Delay, 0), subs: make(map[place]*work)}
	if c.Delay == 0 {
		a.delay = DefaultDelay
	}
	a.tick = min(a.delay, maxSub/ticks)
	if c.Sub > 0 {
		a.tick = c.Sub / ticks
	}
	return a
}

// Run answers the call's last message, or goes on where it had asked.
func (a *Agent) Run(ctx context.Context, call *agent.Call, emit func(agent.Event) error) agent.Outcome {
	t := &turn{agent: a, ctx: ctx, call: call, emit: emit}
	script := parse(question(call))
	if len(script) == 0 {
		script = append(script, action{words: received(call)})
	}
	from := 0
	if call.Resumed() {
		from = min(mark(call.State)+1, len(script))
		if from > 0 {
			t.settled(script[from-1])
		}
	}
	for t.step = from; t.step < len(script) && t.out == nil; t.step++ {
		t.do(script[t.step])
	}
	if t.out == nil {
		t.closeText()
	}
	if t.out != nil {
		return *t.out
	}
	return agent.Outcome{Status: chat.RunComplete}
}

// asked is the message to answer, or nil.
func asked(call *agent.Call) *chat.Message {
	for i := len(call.Messages) - 1; i >= 0; i-- {
		if m := call.Messages[i]; m.Role == chat.User {
			return m
		}
	}
	return nil
}

func question(call *agent.Call) string {
	if m := asked(call); m != nil {
		return m.Content()
	}
	return ""
}

// received answers a message without words.
func received(call *agent.Call) string {
	m := asked(call)
	if m == nil || len(m.Attachments) == 0 {
		return "I heard nothing."
	}
	said := "I received"
	for i, f := range m.Attachments {
		if i > 0 {
			said += ","
		}
		said += " a file of type " + f.MediaType
	}
	return said + "."
}

// state remembers, over a pause, which step of the script asked.
type state struct {
	Step int `json:"echoStep"`
}

func mark(v jsontext.Value) int {
	s := state{Step: -1}
	if json.Unmarshal(v, &s) != nil || s.Step < 0 {
		return -1
	}
	return s.Step
}
