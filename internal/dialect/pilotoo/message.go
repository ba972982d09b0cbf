package pilotoo

import (
	"strings"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// message is one message as a history shows it (PIL-160, PIL-161). A message of
// a thread is several of these: one for each text part, with the calls that
// follow it.
type message struct {
	id          string
	role        chat.Role
	content     string
	created     int64
	calls       []*chat.Part
	reasoning   string
	attachments []chat.Attachment
	task        *chat.Task
}

// empty says that there is nothing to show.
func (m *message) empty() bool {
	return m.content == "" && m.reasoning == "" && len(m.calls) == 0 && len(m.attachments) == 0
}

func (m *message) append(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = quoted(b, m.id)
	b = member(b, "role", string(m.role))
	b = member(b, "content", m.content)
	b = instant(append(b, `,"createdAt":`...), m.created)
	for i, c := range m.calls {
		b = append(b, sep(i, `,"toolCalls":[`)...)
		b = append(b, `{"id":`...)
		b = quoted(b, c.ID)
		b = member(b, "name", c.Name)
		b = member(b, "arguments", c.Text)
		if c.Done {
			b = member(b, "result", c.Result)
		}
		b = append(b, '}')
	}
	if len(m.calls) > 0 {
		b = append(b, ']')
	}
	b = optional(b, "reasoning", m.reasoning)
	for i, a := range m.attachments {
		b = append(b, sep(i, `,"attachments":[`)...)
		b = attachment(b, a)
	}
	if len(m.attachments) > 0 {
		b = append(b, ']')
	}
	if m.task != nil {
		b = task(append(b, `,"task":`...), *m.task)
	}
	return append(b, '}')
}

// sep stands before the i-th element of a list that begins with first.
func sep(i int, first string) string {
	if i == 0 {
		return first
	}
	return ","
}

func userMessage(m *chat.Message) *message {
	return &message{id: m.ID, role: chat.User, content: m.Content(), created: m.Created, attachments: m.Attachments}
}

// shown is a message of the thread as this protocol shows it.
func shown(m *chat.Message, tasks []chat.Task) []*message {
	if m.Role == chat.User {
		return []*message{userMessage(m)}
	}
	return split(m.ID, m.Created, m.Parts, tasks)
}

// split shows an answer's parts: a message for each text, with the id of its
// part. Calls stand with the text before them, reasoning with the text or call
// after it. Calls before any text make a message of their own, under the first
// one's id; an answer of mere reasoning is one under the answer's id. A task stands
// with the call that began it. What is empty is left out.
func split(answer string, created int64, parts []*chat.Part, tasks []chat.Task) []*message {
	var list []*message
	var thought []string
	add := func(id string) *message {
		m := &message{id: id, role: chat.Assistant, created: created}
		list = append(list, m)
		return m
	}
	last := func(id string) *message {
		if len(list) == 0 {
			return add(id)
		}
		return list[len(list)-1]
	}
	for _, p := range parts {
		switch p.Type {
		case chat.PartReasoning:
			if len(p.Text) > 0 {
				thought = append(thought, p.Text.String())
			}
		case chat.PartText:
			m := add(p.ID)
			m.content = p.Text.String()
			m.think(thought)
			thought = nil
		case chat.PartTool:
			m := last(p.ID)
			m.calls = append(m.calls, p)
			m.think(thought)
			thought = nil
			for i := range tasks {
				if tasks[i].Call == p.ID {
					m.task = &tasks[i]
				}
			}
		}
	}
	if len(thought) > 0 {
		last(answer).think(thought)
	}
	kept := list[:0]
	for _, m := range list {
		if !m.empty() {
			kept = append(kept, m)
		}
	}
	return kept
}

func (m *message) think(thought []string) {
	if len(thought) == 0 {
		return
	}
	if m.reasoning != "" {
		thought = append([]string{m.reasoning}, thought...)
	}
	m.reasoning = strings.Join(thought, "\n\n")
}
