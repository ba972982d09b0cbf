package edge

import (
	"context"
	"fmt"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// RecordView is what an operator sees of a record: who did what and when, and
// how much was written, never what. What does not apply is left out.
type RecordView struct {
	Epoch uint64 `json:"epoch"`
	Pos   uint64 `json:"pos"`
	At    int64  `json:"at"` // Unix milliseconds
	Kind  string `json:"kind"`
	Run   string `json:"run,omitempty"`
	// W is how many records the run's owner had appended before in this attempt.
	W   uint64 `json:"w,omitempty"`
	Log uint64 `json:"log,omitempty"`
	// Edge is the name of the edge that committed the record, Fence the attempt by
	// which it owned the run, if it did; where a record's kind keeps them.
	Edge  string `json:"edge,omitempty"`
	Fence uint64 `json:"fence,omitempty"`
	// Size is how many bytes of content the record has.
	Size int `json:"size,omitempty"`

	Message   string        `json:"message,omitempty"`
	Role      string        `json:"role,omitempty"`
	Agent     string        `json:"agent,omitempty"`
	Dialect   string        `json:"dialect,omitempty"`
	Segment   string        `json:"segment,omitempty"`
	Status    string        `json:"status,omitempty"`
	Cause     string        `json:"cause,omitempty"`
	Code      string        `json:"code,omitempty"`
	Interrupt string        `json:"interrupt,omitempty"`
	Question  string        `json:"question,omitempty"` // the kind of the interrupt
	Deadline  int64         `json:"deadline,omitempty"`
	Call      string        `json:"call,omitempty"`
	Tool      string        `json:"tool,omitempty"`
	By        *chat.Subject `json:"by,omitempty"`
}

// Cursor is where the record stands.
func (v *RecordView) Cursor() string { return fmt.Sprintf("%d.%d", v.Epoch, v.Pos) }

func viewRecord(epoch uint64, r *chat.Record) RecordView {
	by := chat.WriterOf(r.Body)
	v := RecordView{
		Epoch: epoch, Pos: r.Pos, At: r.At, Kind: r.Kind.String(), Run: r.Run, W: r.W, Log: r.Log,
		Edge: by.Edge, Fence: by.Fence,
	}
	v.describe(r.Body)
	return v
}

// describe takes from a body what is no content.
func (v *RecordView) describe(body chat.Body) {
	switch b := body.(type) {
	case *chat.ThreadBody:
		v.by(b.Info.Owner)
		v.Agent = b.Info.Agent
	case *chat.MessageBody:
		v.message(b.Message)
	case *chat.RunPendingBody:
		v.by(b.Run.Origin.By)
		v.Agent, v.Dialect, v.Segment, v.Message = b.Run.Agent, b.Run.Origin.Dialect, b.Run.Segment(), b.Run.Message
	case *chat.RunResumedBody:
		v.Segment = b.Segment
	case *chat.RunStopBody:
		v.by(b.Stop.By)
		v.Cause, v.Code = string(b.Stop.Cause), b.Stop.Code
	case *chat.RunEndBody:
		v.Status, v.Cause, v.Code, v.Segment = string(b.Status), string(b.Cause), b.Code, b.Segment
		if b.Message != nil {
			v.message(b.Message)
			v.Status = string(b.Status)
		}
	case *chat.DeltaBody:
		v.Size = len(b.Text)
	case *chat.EncryptedBody:
		v.Size = len(b.Value)
	case *chat.ToolStartBody:
		v.Call, v.Tool = b.Call, b.Name
	case *chat.ToolEndBody:
		v.Call = b.Call
	case *chat.ToolResultBody:
		v.Call, v.Size = b.Call, len(b.Content)
	case *chat.InterruptBody:
		v.Interrupt, v.Question, v.Deadline = b.Interrupt.ID, string(b.Interrupt.Kind), b.Interrupt.Deadline
		v.Call, v.Tool, v.Size = b.Interrupt.Call, b.Interrupt.Tool, len(b.Interrupt.Payload)
	case *chat.AnswerBody:
		v.by(b.By)
		v.Interrupt, v.Status, v.Size = b.Interrupt, string(b.Status), len(b.Value)
	case *chat.StateBody:
		v.Size = len(b.State)
	case *chat.ActivityBody:
		v.Size = len(b.Content)
	case *chat.CustomBody:
		v.Size = len(b.Value)
	case *chat.SubagentStartBody:
		v.Call, v.Agent = b.Subagent.Call, b.Subagent.Name
	case *chat.SubagentEndBody:
		if b.Failed {
			v.Status = string(chat.RunError)
		}
	}
}

func (v *RecordView) message(m *chat.Message) {
	v.by(m.By)
	v.Message, v.Role, v.Status = m.ID, string(m.Role), string(m.Status)
	for _, p := range m.Parts {
		v.Size += len(p.Text) + len(p.Result)
	}
}

func (v *RecordView) by(s chat.Subject) {
	if !s.Zero() {
		v.By = &s
	}
}

// Records gives f the thread's records after a cursor, in order: once those that
// are kept, if any, and with follow those that come, until ctx ends. With a cursor of another
// epoch, or one below what is kept, it begins with the oldest record that there
// is. An error of f ends it. A thread that is not there, or was deleted, is
// chat.ErrNoThread.
func (h *Hub) Records(ctx context.Context, key chat.Key, from journal.Cursor, follow bool, f func([]RecordView) error) error {
	wake := make(chan struct{}, 1)
	if follow {
		defer h.journal.Follow(key, func(journal.Notice) {
			select {
			case wake <- struct{}{}:
			default:
			}
		})()
	}
	for {
		snap, err := h.journal.Load(ctx, journal.Load{Key: key, From: from})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("%w: %w", conductor.ErrUnavailable, err)
		case !snap.Exists:
			return chat.ErrNoThread
		}
		views := make([]RecordView, 0, len(snap.Records))
		for _, r := range snap.Records {
			if snap.Meta.Epoch != from.Epoch || r.Pos > from.Pos {
				views = append(views, viewRecord(snap.Meta.Epoch, r))
			}
		}
		if err := f(views); err != nil {
			return err
		}
		from = journal.Cursor{Epoch: snap.Meta.Epoch, Pos: snap.Meta.Pos, Tag: snap.Meta.Tag}
		if !follow {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
