package smooth

import (
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/room"
)

// Name is the dialect's, in the origins of runs too.
const Name = "smooth"

// Variant is the protocol's one version as rooms see it.
type Variant struct{}

// Dialect names the dialect to whom asks who is present.
func (Variant) Dialect() string { return Name }

// Encoded is a record that may concern a turn. It is shared and never changed;
// the member writes the frames, since they carry its own requestId.
type Encoded struct {
	rec *chat.Record
	run *chat.Run // after the record, or before it where the record ended it
}

// Encode implements room.Variant: nil for what the protocol does not show.
func (Variant) Encode(c *room.Change) any {
	switch c.Record.Kind {
	case chat.KindTextDelta, chat.KindReasoningDelta, chat.KindTextStart,
		chat.KindToolStart, chat.KindToolEnd, chat.KindToolResult, chat.KindTodos, chat.KindStep, chat.KindCustom,
		chat.KindRunTaken, chat.KindRunActive, chat.KindRunSuspended, chat.KindRunResumed, chat.KindAnswer, chat.KindRunEnd:
	default:
		return nil
	}
	run := c.Run()
	if run == nil {
		return nil
	}
	return &Encoded{rec: c.Record, run: run}
}
