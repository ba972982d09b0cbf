package chat

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Role says who wrote a message.
type Role string

// The two roles a stored message may have; tool results live in parts.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// PartType says what a part of an answer is.
type PartType string

// The parts of an answer.
const (
	PartText      PartType = "text"
	PartReasoning PartType = "reasoning"
	PartTool      PartType = "tool"
)

// Part is a piece of an answer. Its id is fixed when it begins: for text it is
// the message id that Pilotoo and AG-UI show, for a tool it is the call's id.
type Part struct {
	ID   string   `json:"id"`
	Type PartType `json:"type"`
	// Text is the text or reasoning; for a tool its arguments, as the agent
	// wrote them (not promised to be JSON).
	Text Text   `json:"text,omitempty"`
	Name string `json:"name,omitempty"`
	// Parent is the text part that a call follows, or "".
	Parent string `json:"parent,omitempty"`
	// ResultID and Result are a call's result; Done says that there is one.
	ResultID string `json:"resultId,omitempty"`
	Result   string `json:"result,omitempty"`
	Done     bool   `json:"done,omitzero"`
	// Encrypted is an agent's opaque reasoning value: it goes back to the
	// agent, never to a client.
	Encrypted string `json:"encrypted,omitempty"`
	// Open says that the block has begun and not ended.
	Open bool `json:"open,omitzero"`
	// Segment is the index of the segment that began the part.
	Segment int `json:"segment,omitzero"`

	Unknown jsontext.Value `json:",embed"`
}

// Attachment is a file that a user sent along; its bytes are a blob.
type Attachment struct {
	ID        string `json:"id"`
	MediaType string `json:"mediaType"`
	Name      string `json:"name,omitempty"`
	Size      int64  `json:"size"`
}

// MessageStatus says how a message came to be whole.
type MessageStatus string

// A user's message is always complete.
const (
	MessageComplete  MessageStatus = "complete"
	MessageCancelled MessageStatus = "cancelled"
	MessageError     MessageStatus = "error"
)

// Message is a node of a thread's tree, written once and never changed.
type Message struct {
	ID     string        `json:"id"`
	Role   Role          `json:"role"`
	Parent string        `json:"parent,omitempty"`
	ForkOf string        `json:"forkOf,omitempty"`
	Regen  string        `json:"regen,omitempty"`
	Run    string        `json:"run,omitempty"`
	By     Subject       `json:"by,omitzero"`
	Status MessageStatus `json:"status"`
	// Created is in milliseconds since the Unix epoch.
	Created     int64        `json:"created"`
	Parts       []*Part      `json:"parts,omitempty"`
	Attachments []Attachment `json:"attachments,omitempty"`
	// Log is the log number of the record that appended the message, and Ran
	// what became of its run, once that has ended. The fold sets both.
	Log uint64 `json:"log,omitzero"`
	Ran *Ran   `json:"ran,omitempty"`

	Unknown jsontext.Value `json:",embed"`
}

// Ran is what is remembered of a run that has ended, with its messages.
type Ran struct {
	Status RunStatus `json:"status"`
	By     Subject   `json:"by,omitzero"`
	// Log is the number of the record that accepted the run; Started and Ended
	// are in Unix milliseconds.
	Log     uint64 `json:"log,omitzero"`
	Started int64  `json:"started,omitzero"`
	Ended   int64  `json:"ended"`
}

// Content joins the text parts by a blank line, for dialects that show one
// text per message.
func (m *Message) Content() string {
	var b strings.Builder
	for _, t := range texts(m.Parts) {
		if b.Len() > 0 {
			b.WriteString(PartBreak)
		}
		b.Write(t)
	}
	return b.String()
}

// PartBreak stands between the text parts of a message in its content.
const PartBreak = "\n\n"

// texts are the text parts that have any text.
func texts(parts []*Part) []Text {
	var list []Text
	for _, p := range parts {
		if p.Type == PartText && len(p.Text) > 0 {
			list = append(list, p.Text)
		}
	}
	return list
}

// Empty says that the message shows nothing: such messages stand in the tree
// but Pilotoo and smooth hide them (C27).
func (m *Message) Empty() bool {
	for _, p := range m.Parts {
		if p.Type == PartTool || len(p.Text) > 0 {
			return false
		}
	}
	return len(m.Attachments) == 0
}
