package pilotoo

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// envelopeJSON is an envelope as a client reads it.
type envelopeJSON struct {
	V        int       `json:"v"`
	ThreadID string    `json:"threadId"`
	RunID    string    `json:"runId"`
	Sequence uint64    `json:"sequence"`
	Event    eventJSON `json:"event"`
}

type eventJSON struct {
	Type            string         `json:"type"`
	Message         jsontext.Value `json:"message"`
	Code            string         `json:"code"`
	MessageID       string         `json:"messageId"`
	Role            string         `json:"role"`
	Delta           string         `json:"delta"`
	ToolCallID      string         `json:"toolCallId"`
	ToolCallName    string         `json:"toolCallName"`
	ParentMessageID string         `json:"parentMessageId"`
	Content         string         `json:"content"`
	InterruptID     string         `json:"interruptId"`
	Payload         jsontext.Value `json:"payload"`
	Todos           jsontext.Value `json:"todos"`
	Name            string         `json:"name"`
	TaskID          string         `json:"taskId"`
	ChildThreadID   string         `json:"childThreadId"`
	Status          string         `json:"status"`
	Detached        bool           `json:"detached"`
}

func readEnvelope(t failer, b []byte) envelopeJSON {
	t.Helper()
	var e envelopeJSON
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return e
}

type messageJSON struct {
	ID        string `json:"id"`
	Role      string `json:"role"`
	Content   string `json:"content"`
	CreatedAt string `json:"createdAt"`
	ToolCalls []struct {
		ID        string  `json:"id"`
		Name      string  `json:"name"`
		Arguments string  `json:"arguments"`
		Result    *string `json:"result"`
	} `json:"toolCalls"`
	Reasoning   string         `json:"reasoning"`
	Attachments jsontext.Value `json:"attachments"`
	Task        jsontext.Value `json:"task"`
}

type historyJSON struct {
	OK       bool          `json:"ok"`
	Messages []messageJSON `json:"messages"`
	Replay   *struct {
		Envelopes []jsontext.Value `json:"envelopes"`
		Truncated bool             `json:"truncated"`
	} `json:"replay"`
	PendingInterrupt *struct {
		InterruptID string         `json:"interruptId"`
		Payload     jsontext.Value `json:"payload"`
		RunID       string         `json:"runId"`
	} `json:"pendingInterrupt"`
	Todos jsontext.Value `json:"todos"`
	Task  jsontext.Value `json:"task"`
}

func readHistory(t failer, b []byte) historyJSON {
	t.Helper()
	var h historyJSON
	if err := json.Unmarshal(b, &h); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return h
}

// client folds a history and envelopes into a transcript, as a window does. It
// also holds them to the order that a window relies on.
type client struct {
	t         failer
	texts     map[string]string
	calls     map[string]string
	todos     string
	pending   string
	segments  map[string]*segmentFold
	joined    bool // nothing of earlier runs was seen
	envelopes int
}

// segmentFold is what is open in a segment.
type segmentFold struct {
	last     uint64
	open     map[string]string // block id to kind
	subs     map[string]bool
	paused   bool
	asked    bool
	terminal string
}

func newClient(t failer) *client {
	return &client{t: t, texts: map[string]string{}, calls: map[string]string{}, segments: map[string]*segmentFold{}}
}

func (c *client) history(h historyJSON) {
	for _, m := range h.Messages {
		c.message(m)
	}
	if h.Replay != nil {
		for _, b := range h.Replay.Envelopes {
			c.envelope(b)
		}
	}
	// These are the newest of all runs, also of those that the replay is not of.
	c.todos = string(h.Todos)
	c.pending = ""
	if h.PendingInterrupt != nil {
		c.pending = h.PendingInterrupt.InterruptID
	}
	c.joined = true
}

func (c *client) message(m messageJSON) {
	c.texts[m.ID] = m.Content
	for _, k := range m.ToolCalls {
		result := "none"
		if k.Result != nil {
			result = *k.Result
		}
		c.calls[k.ID] = fmt.Sprintf("%s(%s)=%s", k.Name, k.Arguments, result)
	}
}

func (c *client) envelope(b []byte) {
	e := readEnvelope(c.t, b)
	s := c.segments[e.RunID]
	if s == nil {
		s = &segmentFold{open: map[string]string{}, subs: map[string]bool{}}
		c.segments[e.RunID] = s
	}
	fail := func(id, what string) { c.t.Fatalf("%s %s in %s", id, what, b) }
	switch {
	case e.V != Major || e.ThreadID != key.Thread:
		fail("PIL-136 PIL-137", "another v or thread")
	case e.Sequence != s.last+1:
		fail("PIL-138 PIL-140 PIL-141", fmt.Sprintf("number %d after %d", e.Sequence, s.last))
	case (e.Sequence == 1) != (e.Event.Type == runStarted):
		fail("PIL-139", "RUN_STARTED is not the first, or not alone")
	case s.terminal != "":
		fail("PIL-099 PIL-130", "something follows "+s.terminal)
	case s.paused && e.Event.Type != runFinished:
		fail("PIL-120", "no RUN_FINISHED after RUN_PAUSED")
	case s.asked && !s.paused && e.Event.Type != interrupt && e.Event.Type != runPaused:
		fail("PIL-118 PIL-121", "something between INTERRUPT and RUN_PAUSED")
	}
	s.last = e.Sequence
	c.envelopes++
	if why := c.event(s, e.Event); why != "" {
		fail(why, "broken")
	}
}

// event folds one event; it returns the requirement that was broken, or "".
func (c *client) event(s *segmentFold, e eventJSON) string {
	begin := func(id, kind string) string {
		if s.open[id] != "" {
			return "PIL-114 PIL-115 begun twice"
		}
		s.open[id] = kind
		return ""
	}
	within := func(id, kind string) string {
		if s.open[id] != kind {
			return "PIL-114 PIL-115 PIL-116 not begun"
		}
		return ""
	}
	finish := func(id, kind string) string {
		why := within(id, kind)
		delete(s.open, id)
		return why
	}
	switch e.Type {
	case runStarted:
		if len(e.Message) > 0 {
			var m messageJSON
			if err := json.Unmarshal(e.Message, &m); err != nil || m.Role != "user" {
				return "PIL-112 PIL-113"
			}
			c.message(m)
		} else {
			c.pending = ""
		}
	case textStart:
		c.texts[e.MessageID] = ""
		return begin(e.MessageID, "text")
	case textContent:
		c.texts[e.MessageID] += e.Delta
		return within(e.MessageID, "text")
	case textEnd:
		return finish(e.MessageID, "text")
	case reasonStart:
		return begin(e.MessageID, "reasoning")
	case reasonContent:
		return within(e.MessageID, "reasoning")
	case reasonEnd:
		return finish(e.MessageID, "reasoning")
	case toolStart:
		c.calls[e.ToolCallID] = e.ToolCallName + "()=none"
		return begin(e.ToolCallID, "call")
	case toolArgs:
		head, _ := strings.CutSuffix(c.calls[e.ToolCallID], ")=none")
		c.calls[e.ToolCallID] = head + e.Delta + ")=none"
		return within(e.ToolCallID, "call")
	case toolEnd:
		return finish(e.ToolCallID, "call")
	case toolResult:
		head, _, _ := strings.Cut(c.calls[e.ToolCallID], ")=")
		c.calls[e.ToolCallID] = head + ")=" + e.Content
	case interrupt:
		if len(s.open) > 0 || len(s.subs) > 0 {
			return "PIL-121 open blocks before INTERRUPT"
		}
		if c.pending == "" || !s.asked {
			c.pending = e.InterruptID
		}
		s.asked = true
	case runPaused:
		if !s.asked {
			return "PIL-118 a pause without a question"
		}
		s.paused = true
	case subagentStarted:
		if s.subs[e.ToolCallID] {
			return "PIL-127 begun twice"
		}
		s.subs[e.ToolCallID] = true
	case subagentEnded:
		if !s.subs[e.ToolCallID] || e.Name == "" {
			return "PIL-127 not begun"
		}
		delete(s.subs, e.ToolCallID)
	case todosSnapshot:
		c.todos = string(e.Todos)
	case runFinished, runCancelled, runError:
		if len(s.open) > 0 || len(s.subs) > 0 {
			return "PIL-099 PIL-127 open blocks before " + e.Type
		}
		s.terminal = e.Type
	default:
		return "PIL-110 an unknown type"
	}
	return ""
}
