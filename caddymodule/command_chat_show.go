package caddymodule

import (
	"context"
	"encoding/json"
)

// history asks for the conversation as it is; from its answer on, its events come.
func (c *chatTalk) history(ctx context.Context) {
	c.synced = false
	clear(c.acks) // whoever waited on the line before waits for nothing
	c.send(ctx, "thread:messages", map[string]string{"threadId": c.thread}, func(a chatAck) {
		if !a.OK {
			if !c.began || a.Error.Code == "CONVERSATION_NOT_FOUND" {
				c.fatal = &refusedError{plain(a.Error.Message)}
			} else if c.line != nil {
				_ = c.line.ws.CloseNow() // and try again
			}
			return
		}
		c.synced = true
		c.catchUp(ctx, &a)
		if !c.began || !c.busy() {
			c.ready()
		}
		c.began = true
	})
}

// catchUp shows what a history has and this talk has not shown, and finds its own
// run again.
func (c *chatTalk) catchUp(ctx context.Context, a *chatAck) {
	accepted, answered := false, false
	first := len(a.Messages) - shownBefore
	for i, m := range a.Messages {
		switch {
		case m.Role == "user":
			own := c.sent != nil && m.ID == c.sent.MessageID
			if accepted, answered = own, false; c.shown[m.ID] == 0 && !own && (c.began || i >= first) {
				c.screen.said(m.Content)
			}
			c.shown[m.ID] = 1
		default:
			answered = true
			if c.screen.interactive && (c.began || i >= first) || accepted {
				c.message(m.ID, m.Content)
			}
			c.shown[m.ID] = max(1, len(m.Content))
		}
	}
	has := false
	for i := range a.Messages {
		has = has || c.sent != nil && a.Messages[i].ID == c.sent.MessageID
	}
	resuming := c.answer != nil
	c.ask, c.paused = nil, false
	switch p := a.PendingInterrupt; {
	case p != nil:
		c.ask, c.run, c.taken = p, "", true
	case c.sent != nil && !c.taken && !has:
		c.start(ctx)
	case c.sent != nil:
		c.taken = true
	}
	if resuming && c.ask == nil {
		c.answer = nil
	}
	if a.Replay != nil {
		c.adopt(a, resuming || has && (c.run == "" || c.run == unknownRun))
		if has && c.run == "" && c.ask == nil && !answered {
			c.run = unknownRun // its agent was not called yet
		}
	}
	if c.run != "" && !c.flying(a) && (a.Replay == nil || answered) {
		c.run = "" // it has ended meanwhile
	}
	if a.Replay != nil {
		for i := range a.Replay.Envelopes {
			c.event(ctx, &a.Replay.Envelopes[i])
		}
	}
	if resuming && c.ask != nil {
		c.reply(ctx)
	}
	if c.stop && c.run != "" {
		c.cancel(ctx)
	}
}

// adopt finds the segment that answers the own message, where its id is not
// known: the one that shows the message, or that goes on after a question.
func (c *chatTalk) adopt(a *chatAck, look bool) {
	for i := range a.Replay.Envelopes {
		e := &a.Replay.Envelopes[i]
		if !look || e.Event.Type != "RUN_STARTED" {
			continue
		}
		var m struct{ ID string }
		_ = json.Unmarshal(e.Event.Message, &m)
		if m.ID == "" || c.sent != nil && m.ID == c.sent.MessageID {
			c.run = e.RunID
		}
	}
}

// flying says whether the own run is among those that go on.
func (c *chatTalk) flying(a *chatAck) bool {
	if a.Replay == nil {
		return false
	}
	for i := range a.Replay.Envelopes {
		if a.Replay.Envelopes[i].RunID == c.run {
			return true
		}
	}
	return false
}

// message shows of a whole message what was not shown yet.
func (c *chatTalk) message(id, content string) {
	if n := c.shown[id]; n < len(content) {
		c.screen.text(content[n:])
	}
	c.screen.rest()
}

// event shows an event that was not shown yet.
func (c *chatTalk) event(ctx context.Context, e *chatEnvelope) {
	if e.ThreadID != c.thread || e.Sequence <= c.seen[e.RunID] {
		return
	}
	c.seen[e.RunID] = e.Sequence
	if e.Event.Type == "RUN_STARTED" {
		c.started(ctx, e)
	}
	own := e.RunID == c.run
	if !own && !c.screen.interactive {
		return
	}
	switch v := &e.Event; v.Type {
	case "TEXT_MESSAGE_START":
		c.screen.rest()
	case "TEXT_MESSAGE_CONTENT":
		c.screen.text(v.Delta)
		c.shown[v.MessageID] += len(v.Delta)
	case "TEXT_MESSAGE_END":
		c.screen.rest()
	case "TOOL_CALL_START":
		if c.screen.interactive {
			c.screen.note("tool " + v.ToolCallName)
		}
	case "INTERRUPT":
		if c.ask == nil {
			c.ask = &chatAsk{v.InterruptID, v.Payload, e.RunID}
		}
	case "RUN_PAUSED":
		c.paused = c.paused || own
	case "RUN_FINISHED":
		c.ended(own, "", false)
	case "RUN_CANCELLED":
		c.ended(own, "stopped", false)
	case "RUN_ERROR":
		var text string
		_ = json.Unmarshal(v.Message, &text)
		c.ended(own, "the run failed: "+text+" ("+v.Code+")", own)
	}
}

// started takes the beginning of a segment.
func (c *chatTalk) started(ctx context.Context, e *chatEnvelope) {
	var m struct{ ID, Content string }
	_ = json.Unmarshal(e.Event.Message, &m) // there is none where a run goes on
	switch {
	case m.ID == "" && c.ask != nil && c.answer == nil:
		c.screen.note("answered elsewhere")
		c.ask, c.run, c.paused = nil, e.RunID, false
	case c.sent != nil && m.ID == c.sent.MessageID:
		if c.taken, c.run = true, e.RunID; c.stop {
			c.cancel(ctx)
		}
	case m.ID != "" && c.shown[m.ID] == 0:
		c.screen.said(m.Content)
		c.shown[m.ID] = 1
	}
}

// ended takes the end of a segment, which may be that of a question's asking.
func (c *chatTalk) ended(own bool, note string, failed bool) {
	c.screen.rest()
	if note != "" {
		c.screen.note(note)
	}
	c.failed = c.failed || failed
	if own {
		if c.run = ""; !c.paused {
			c.ask = nil
		}
		c.paused = false
	}
	if !c.busy() {
		c.ready()
	}
}
