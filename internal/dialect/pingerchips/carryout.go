package pingerchips

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/chat/shape"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// name is how the dialect is called in the journal.
const name = "pingerchips"

// command is one of the protocol's pushes: the verb that it needs, and what it
// does. view is a view:update, pushed behind the reply to this member alone.
type command struct {
	verb identity.Verb
	do   func(m *member, ctx context.Context, payload []byte) (response, view []byte, err error)
}

var commands = map[string]command{
	pushSend:         {identity.UserMessage, (*member).send},
	pushEdit:         {identity.UserMessage, (*member).edit},
	pushRegenerate:   {identity.UserMessage, (*member).regenerate},
	pushCancel:       {identity.CancelOwn, (*member).cancel},
	pushApproval:     {identity.ToolApproval, (*member).approve},
	pushLoadOlder:    {identity.Subscribe, (*member).loadOlder},
	pushBranchSelect: {identity.Subscribe, (*member).branchSelect},
	pushBranchReset:  {identity.Subscribe, (*member).branchReset},
	pushTreeGet:      {identity.Subscribe, (*member).treeGet},
	pushTreeSiblings: {identity.Subscribe, (*member).treeSiblings},
	pushTreeNode:     {identity.Subscribe, (*member).treeNode},
	pushViewGet:      {identity.Subscribe, (*member).viewGet},
}

// agentVerbs are what the pushes of agents need, which only an agent has
// (PIN-190).
var agentVerbs = map[string]identity.Verb{
	"run:start": identity.RunLifecycle, "run:end": identity.RunLifecycle,
	"run:suspend": identity.RunLifecycle, "run:resume": identity.RunLifecycle,
	"run:token": identity.Token,
}

func (m *member) command(ctx context.Context, event string, payload []byte) ([]byte, []byte, error) {
	c, known := commands[event]
	if !known {
		return nil, nil, m.agentPush(ctx, event, payload)
	}
	st := m.seat.State()
	if !m.may(st, c.verb) && (c.verb != identity.CancelOwn || !m.may(st, identity.CancelAny)) {
		return nil, nil, missing(c.verb)
	}
	return c.do(m, ctx, payload)
}

func (m *member) agentPush(ctx context.Context, event string, payload []byte) error {
	verb, known := agentVerbs[event]
	if known && !m.may(m.seat.State(), verb) {
		return missing(verb)
	}
	if m.agent != nil {
		if known, err := m.agent.Push(ctx, event, payload); known {
			return err
		}
	}
	return unknownEvent(event)
}

func (m *member) send(ctx context.Context, payload []byte) ([]byte, []byte, error) {
	c, err := parseSend(payload)
	if err != nil {
		return nil, nil, err
	}
	if !c.Placed {
		if c.Parent, err = m.tip(ctx); err != nil {
			return nil, nil, err
		}
	}
	b, err := m.say(ctx, c)
	return b, nil, err
}

func (m *member) edit(ctx context.Context, payload []byte) ([]byte, []byte, error) {
	c, err := parseEdit(payload)
	if err != nil {
		return nil, nil, err
	}
	b, err := m.say(ctx, c)
	if err == nil {
		m.choose(ctx, c.Fork, c.Message)
	}
	return b, nil, err
}

func (m *member) say(ctx context.Context, c sendCommand) ([]byte, error) {
	begun, err := m.socket.server.o.Desk.Send(ctx, m.who, dialect.Send{
		Thread: m.thread, Dialect: name, Run: c.Run, Fork: c.Fork, Parent: c.Parent,
		Message: &chat.Message{ID: c.Message, Role: chat.User, Parts: []*chat.Part{
			{ID: c.Message, Type: chat.PartText, Text: chat.Text(c.Text)},
		}},
	})
	m.acked = max(m.acked, begun.Log)
	return accepted(begun), err
}

func (m *member) regenerate(ctx context.Context, payload []byte) ([]byte, []byte, error) {
	c, err := parseRegenerate(payload)
	if err != nil {
		return nil, nil, err
	}
	begun, err := m.socket.server.o.Desk.Regenerate(ctx, m.who, dialect.Regenerate{
		Thread: m.thread, Dialect: name, Message: c.Message, Run: c.Run, Placed: c.Placed, Parent: c.Parent,
	})
	m.acked = max(m.acked, begun.Log)
	if err == nil && begun.Answer != "" {
		m.choose(ctx, c.Message, begun.Answer)
	}
	return accepted(begun), nil, err
}

// accepted is the response to send, edit and regenerate (PIN-123, PIN-125).
func accepted(c conductor.Begun) []byte {
	b := quoted([]byte(`{"messageId":`), c.Message)
	b = field(b, "runId", c.Run)
	b = number(b, "serial", int64(c.Log))
	if c.Before {
		return append(b, `,"status":"duplicate"}`...)
	}
	return append(b, `,"status":"ok"}`...)
}

func (m *member) cancel(ctx context.Context, payload []byte) ([]byte, []byte, error) {
	run, err := parseCancel(payload)
	if err != nil {
		return nil, nil, err
	}
	return nil, nil, m.socket.server.o.Desk.CancelRun(ctx, m.who, m.thread, run)
}

func (m *member) approve(ctx context.Context, payload []byte) ([]byte, []byte, error) {
	c, err := parseApproval(payload)
	if err != nil {
		return nil, nil, err
	}
	return nil, nil, m.socket.server.o.Desk.Decide(ctx, m.who, dialect.Decision{
		Thread: m.thread, Run: c.Run, Name: c.Call,
		Settle: func(i *chat.Interrupt) (chat.InterruptStatus, jsontext.Value, error) { return settle(i, c.Approved) },
	})
}

// settle says yes or no to a question. One that needs more can only be declined
// (PIN-253).
func settle(i *chat.Interrupt, approved bool) (chat.InterruptStatus, jsontext.Value, error) {
	word := "false"
	if approved {
		word = "true"
	}
	if i.Kind == chat.InterruptApproval {
		for _, v := range []jsontext.Value{jsontext.Value(word), jsontext.Value(`{"approved":` + word + `}`)} {
			if len(i.Schema) == 0 || shape.Check(i.Schema, v) == nil {
				return chat.InterruptAnswered, v, nil
			}
		}
	}
	if approved {
		return "", nil, answerRequired
	}
	return chat.InterruptDeclined, nil, nil
}

// choose lets the member see its own new branch (PIN-233). What cannot be found
// is not chosen: then the default shows the newest anyway.
func (m *member) choose(ctx context.Context, target, made string) {
	t, err := m.tree(ctx, m.seat.State())
	if err != nil {
		return
	}
	old := t.message(target)
	if old == nil {
		return
	}
	t.reveal(old.Parent, m.view.set)
	m.view.set(t.root[target], made)
}

// tip is the last message of the member's view, or "" of an empty one (PIN-129).
func (m *member) tip(ctx context.Context) (string, error) {
	st := m.seat.State()
	if !st.Forked {
		return st.Last(), nil
	}
	t, err := m.tree(ctx, st)
	if err != nil {
		return "", err
	}
	path := t.view(m.view.chosen)
	if len(path) == 0 {
		return "", nil
	}
	return path[len(path)-1].ID, nil
}

// tree loads the thread's messages, as far back as a view looks.
func (m *member) tree(ctx context.Context, st *chat.State) (*tree, error) {
	all, err := m.load(ctx, st, max(0, st.Count()-maxTree), st.Count())
	if err != nil {
		return nil, err
	}
	return newTree(all), nil
}

func (m *member) load(ctx context.Context, st *chat.State, from, to int) ([]*chat.Message, error) {
	all, err := m.socket.server.o.Desk.Messages(ctx, m.who, m.thread, st, from, to)
	if errors.Is(err, conductor.ErrPages) {
		m.socket.server.report("messages", err)
		return nil, noArchive
	}
	return all, err
}

// end is the ordinal of the message that a page ends before, or of the end.
func (m *member) end(ctx context.Context, st *chat.State, before string) (int, error) {
	if before == "" {
		return st.Count(), nil
	}
	return m.socket.server.o.Desk.Ordinal(ctx, m.who, m.thread, st, before)
}
