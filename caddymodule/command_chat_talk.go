package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// How long parlance-chat tries to come back to a gateway.
const (
	chatPause   = 250 * time.Millisecond
	chatPauses  = 5 * time.Second
	chatGiveUp  = 2 * time.Minute
	shownBefore = 20 // messages of the past that a person is shown
)

// chatTalk is one conversation as far as it was shown. One goroutine runs it.
type chatTalk struct {
	site   *chatSite
	screen *chatScreen
	thread string

	line   *chatLine // nil while there is none
	synced bool      // this line has brought the history
	acks   map[int]func(chatAck)
	number int

	seen  map[string]uint64 // the last envelope of each segment
	shown map[string]int    // how many bytes of each message were shown
	began bool              // a history was shown

	sent   *chatMessage // the newest own message; nil before the first
	taken  bool         // it was accepted
	run    string       // its segment in flight, or "", or unknownRun
	paused bool         // the segment has ended with a question
	ask    *chatAsk     // what the conversation waits on
	answer json.RawMessage
	stop   bool // the person wants the run to end
	failed bool
	fatal  error // there is nothing to talk to
}

// unknownRun is that of a message which was accepted, and not said to be by whom.
const unknownRun = "?"

type chatMessage struct {
	ThreadID  string `json:"threadId"`
	MessageID string `json:"messageId"`
	Input     string `json:"input"`
}

// chatAsk is an open question.
type chatAsk struct {
	InterruptID string          `json:"interruptId"`
	Payload     json.RawMessage `json:"payload"`
	RunID       string          `json:"runId"`
}

// chatAck is the answer to a command.
type chatAck struct {
	OK    bool   `json:"ok"`
	RunID string `json:"runId"`
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`

	Messages []struct {
		ID      string `json:"id"`
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	Replay *struct {
		Envelopes []chatEnvelope `json:"envelopes"`
		Truncated bool           `json:"truncated"`
	} `json:"replay"`
	PendingInterrupt *chatAsk `json:"pendingInterrupt"`
}

// chatEnvelope is an event of a run.
type chatEnvelope struct {
	ThreadID string `json:"threadId"`
	RunID    string `json:"runId"`
	Sequence uint64 `json:"sequence"`
	Event    struct {
		Type         string          `json:"type"`
		MessageID    string          `json:"messageId"`
		Delta        string          `json:"delta"`
		ToolCallName string          `json:"toolCallName"`
		InterruptID  string          `json:"interruptId"`
		Payload      json.RawMessage `json:"payload"`
		Code         string          `json:"code"`
		Message      json.RawMessage `json:"message"` // a message, or a text
	} `json:"event"`
}

func newChatTalk(site *chatSite, screen *chatScreen, thread string) *chatTalk {
	return &chatTalk{
		site: site, screen: screen, thread: thread,
		acks: make(map[int]func(chatAck)), seen: make(map[string]uint64), shown: make(map[string]int),
	}
}

// errLeft says that the talk is over, in one's own way.
var errLeft = errors.New("left")

// talk goes on until the input ends or the person leaves.
func (c *chatTalk) talk(ctx context.Context, wg *sync.WaitGroup, lines <-chan string, signals <-chan os.Signal) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type dialed struct {
		line *chatLine
		err  error
	}
	dials := make(chan dialed, 1)
	dial := func(pause time.Duration) {
		wg.Go(func() {
			t := time.NewTimer(pause)
			defer t.Stop()
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
			l, err := c.site.connect(ctx)
			dials <- dialed{l, err}
		})
	}
	dial(0)
	var lost time.Time // when the connection was lost
	pause := chatPause
	for {
		var in <-chan string
		if c.wants() {
			in = lines
		}
		var packets <-chan chatPacket
		if c.line != nil {
			packets = c.line.packets
		}
		select {
		case d := <-dials:
			var refused *refusedError
			switch {
			case d.err == nil:
				c.line = d.line
				wg.Go(func() { d.line.read(ctx) })
				c.history(ctx)
			case !c.began, errors.As(d.err, &refused), time.Since(lost) > chatGiveUp:
				return 1, d.err
			default:
				dial(pause)
				pause = min(2*pause, chatPauses)
			}
		case p, ok := <-packets:
			if !ok {
				if c.line, c.synced = nil, false; lost.IsZero() {
					lost = time.Now()
					c.screen.note("the connection is lost; coming back")
				}
				dial(pause)
				pause = min(2*pause, chatPauses)
				continue
			}
			if c.packet(ctx, p); c.synced {
				lost, pause = time.Time{}, chatPause
			}
		case text, ok := <-in:
			if !ok {
				return c.over(), nil
			}
			if errors.Is(c.typed(ctx, text), errLeft) {
				return c.over(), nil
			}
		case <-signals:
			if !c.busy() || c.stop {
				return boolCode(c.busy() || !c.screen.interactive, exitStopped, 0), nil
			}
			c.stop = true
			c.screen.note("stopping; Ctrl-C again leaves")
			c.cancel(ctx)
		case <-ctx.Done():
			return 1, ctx.Err()
		}
		if c.stop && !c.busy() {
			if c.stop = false; !c.screen.interactive {
				return exitStopped, nil
			}
		}
		if c.fatal != nil || c.screen.err != nil {
			return 1, c.fatal // the caller has the other
		}
	}
}

// over is the exit code of a talk that has nothing more to say.
func (c *chatTalk) over() int {
	switch {
	case c.screen.interactive:
		return 0
	case c.ask != nil:
		return exitAsked
	case c.failed:
		return exitFailed
	}
	return 0
}

// busy says that an own message is being answered.
func (c *chatTalk) busy() bool {
	return c.ask == nil && (c.run != "" || c.sent != nil && !c.taken) || c.answer != nil
}

// wants says that the next line of input may come.
func (c *chatTalk) wants() bool { return c.synced && !c.busy() }

// typed takes a line: the answer to a question, or a message.
func (c *chatTalk) typed(ctx context.Context, text string) error {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		c.ready()
	case c.ask != nil:
		c.answer = chatAnswer(text)
		c.reply(ctx)
	case text == "/quit" && c.screen.interactive:
		return errLeft
	default:
		c.sent, c.taken = &chatMessage{c.thread, uuid.NewString(), text}, false
		c.start(ctx)
	}
	return nil
}

// chatAnswer is what somebody types as a value: yes, no, JSON, or else a text.
func chatAnswer(text string) json.RawMessage {
	switch strings.ToLower(text) {
	case "y", "yes", "approve":
		return json.RawMessage("true")
	case "n", "no", "deny":
		return json.RawMessage("false")
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	b, err := json.Marshal(text)
	if err != nil { // never of a string
		return json.RawMessage("null")
	}
	return b
}

// send sends a command; then is told of its answer, if there is one. What a lost
// connection takes with it is sent again once the history was seen.
func (c *chatTalk) send(ctx context.Context, name string, arg any, then func(chatAck)) {
	if c.line == nil {
		return
	}
	c.number++
	c.acks[c.number] = then
	if err := c.line.send(ctx, c.number, name, arg); err != nil {
		_ = c.line.ws.CloseNow() // its reader says so
	}
}

func (c *chatTalk) start(ctx context.Context) {
	m := c.sent
	c.send(ctx, "run:start", m, func(a chatAck) {
		switch {
		case c.sent != m || c.taken:
		case a.OK:
			c.taken, c.run = true, a.RunID
			if c.stop {
				c.cancel(ctx)
			}
		case a.Error.Code == "DUPLICATE_MESSAGE":
			c.history(ctx) // it was sent before, and has come
		default:
			c.taken, c.failed = true, true
			c.screen.note("refused: " + a.Error.Message)
			c.ready()
		}
	})
}

func (c *chatTalk) reply(ctx context.Context) {
	ask := c.ask
	c.send(ctx, "run:resume", map[string]any{"threadId": c.thread, "interruptId": ask.InterruptID, "answer": c.answer}, func(a chatAck) {
		if c.ask != ask {
			return
		}
		c.answer = nil
		if !a.OK {
			c.screen.note("refused: " + a.Error.Message)
			c.question()
			return
		}
		if c.ask = nil; a.RunID == "" {
			c.history(ctx) // there are more questions
			return
		}
		c.run, c.paused = a.RunID, false
	})
}

func (c *chatTalk) cancel(ctx context.Context) {
	if c.run == "" || c.run == unknownRun || c.paused {
		return
	}
	c.send(ctx, "run:cancel", map[string]string{"runId": c.run}, func(chatAck) {})
}

// packet takes what the gateway said.
func (c *chatTalk) packet(ctx context.Context, p chatPacket) {
	switch p.event {
	case "":
		then := c.acks[p.ack]
		delete(c.acks, p.ack)
		var a chatAck
		if err := json.Unmarshal(p.arg, &a); err == nil && then != nil {
			then(a)
		}
	case "run:event":
		var e chatEnvelope
		if err := json.Unmarshal(p.arg, &e); err == nil && c.synced {
			c.event(ctx, &e)
		}
	}
}

// question shows what is asked.
func (c *chatTalk) question() {
	text := string(c.ask.Payload)
	var known struct{ Question, Title, Message, Prompt, ToolName string }
	if json.Unmarshal(c.ask.Payload, &known) == nil {
		for _, s := range []string{known.Question, known.Message, known.Prompt, known.Title} {
			if s != "" {
				text = s + "  " + text
				break
			}
		}
	}
	c.screen.note("asked: " + text)
	c.screen.prompt("y, n, or a value: ")
}

// ready asks for the next message.
func (c *chatTalk) ready() {
	if c.ask != nil {
		c.question()
		return
	}
	c.screen.prompt("> ")
}
