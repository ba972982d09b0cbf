package phoenix

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

// The events of the protocol itself.
const (
	eventJoin  = "phx_join"
	eventLeave = "phx_leave"
	eventReply = "phx_reply"
	eventClose = "phx_close"
	eventError = "phx_error"

	topicPhoenix   = "phoenix"
	eventHeartbeat = "heartbeat"
)

// Status is what a reply says of its push. Clients have callbacks by its name;
// other words than these two are legal.
type Status string

// The statuses that clients know.
const (
	OK    Status = "ok"
	Error Status = "error"
)

// Frame is a push of the server to a topic, encoded once. It is immutable: any
// number of channels of its topic may be sent it, at once and without copying;
// each one's join_ref is filled in while it is written.
type Frame struct {
	topic string
	tail  []byte // all that follows the join_ref
}

// NewFrame encodes a push. Payload is a JSON object in valid UTF-8, or nil for
// {}; it is copied.
func NewFrame(topic, event string, payload []byte) *Frame {
	return &Frame{topic, tail("", topic, event, payload)}
}

// Topic is the topic the frame was encoded for.
func (f *Frame) Topic() string { return f.topic }

// Size is about the frame's length on a WebSocket, in bytes.
func (f *Frame) Size() int { return len(f.tail) + 8 }

// tail encodes all of a frame that follows the join_ref.
func tail(ref Ref, topic, event string, payload []byte) []byte {
	if len(payload) == 0 {
		payload = emptyObject
	}
	b := make([]byte, 0, len(ref)+len(topic)+len(event)+len(payload)+16)
	b = appendRef(append(b, ','), ref)
	b = quote(append(b, ','), topic)
	b = quote(append(b, ','), event)
	return append(append(append(b, ','), payload...), ']')
}

var emptyObject = []byte("{}")

func replyTail(ref Ref, topic string, status Status, response []byte) []byte {
	if len(response) == 0 {
		response = emptyObject
	}
	b := make([]byte, 0, len(ref)+len(topic)+len(status)+len(response)+64)
	b = appendRef(append(b, ','), ref)
	b = quote(append(b, ','), topic)
	b = append(b, `,"`+eventReply+`",{"status":`...)
	b = quote(b, string(status))
	b = append(append(b, `,"response":`...), response...)
	return append(b, '}', ']')
}

// closeTail and errorTail carry the join_ref in both places, as the reference's do.
func closeTail(joinRef Ref, topic string) []byte { return tail(joinRef, topic, eventClose, nil) }

func errorTail(joinRef Ref, topic string, payload []byte) []byte {
	return tail(joinRef, topic, eventError, payload)
}

// reason is the response of a refusal.
func reason(s string) []byte { return append(quote([]byte(`{"reason":`), s), '}') }

// headOf is what a frame begins with.
func headOf(joinRef Ref) string {
	if joinRef == "" {
		return "[null"
	}
	return "[" + string(joinRef)
}

func appendRef(b []byte, ref Ref) []byte {
	if ref == "" {
		return append(b, "null"...)
	}
	return append(b, ref...)
}

// quote appends s as a JSON string.
func quote(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // what is no UTF-8 is replaced
	return b
}

// entryOverhead is what a queued frame costs beside its bytes.
const entryOverhead = 32

// entry is a queued frame: what is its own, and what it shares with others.
type entry struct {
	head   string
	tail   []byte
	answer bool // counts against AnswerBytes
}

func (e *entry) size() int { return len(e.head) + len(e.tail) }
func (e *entry) cost() int { return e.size() + ws.HeaderSize(e.size()) + entryOverhead }
