package pilotoo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
)

// command reads a command and returns what carries it out; ok is false for a
// name that is none. A command that cannot be read is refused when its turn
// comes, so that answers keep the order of their commands.
func (n *session) command(name string, arg json.RawMessage, reply answer) (run func(), ok bool) {
	var f func(ctx context.Context) error
	switch name {
	case commandStart:
		f = func(ctx context.Context) error { return parsed(ctx, arg, ParseStart, reply, n.start) }
	case commandResume:
		f = func(ctx context.Context) error { return parsed(ctx, arg, ParseResume, reply, n.resume) }
	case commandCancel:
		f = func(ctx context.Context) error { return parsed(ctx, arg, ParseCancel, reply, n.cancel) }
	case commandDetach:
		f = func(ctx context.Context) error { return parsed(ctx, arg, ParseDetach, reply, n.detach) }
	case commandMessages:
		f = func(ctx context.Context) error { return parsed(ctx, arg, ParseMessages, reply, n.messages) }
	default:
		return nil, false
	}
	return func() {
		ctx, noted := n.conn.Begin(n.server.ctx, name)
		err := f(ctx)
		noted.Done(codeOf(err))
		if err != nil {
			reply.refuse(name, err)
		}
	}, true
}

func parsed[C any](ctx context.Context, arg json.RawMessage, parse func([]byte) (C, error), reply answer, do func(context.Context, C, answer) error) error {
	c, err := parse(arg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	return do(ctx, c, reply)
}

// hold returns the session's view of a thread with its feed held, joined anew
// where it was none; fresh says so. The caller releases it after its answer, or
// drops a fresh one whose command failed.
func (n *session) hold(ctx context.Context, thread string) (v *view, fresh bool, err error) {
	n.mu.Lock()
	v, count := n.views[thread], len(n.views)
	n.mu.Unlock()
	if v != nil {
		v.seat.Hold()
		return v, false, nil
	}
	limit := n.site.Rules().RoomsPerConnection
	if limit == 0 {
		limit = MaxRooms
	}
	if count >= limit {
		n.server.o.Counts.OverRooms.Add(1)
		return nil, false, invalid("this connection watches %d conversations already; open another", count)
	}
	v = &view{session: n}
	if v.seat, err = n.server.o.Desk.Join(ctx, n.who, thread, Variant{}, v); err != nil {
		return nil, false, err
	}
	return v, true, nil
}

// keep makes a fresh view the session's, and releases its feed.
func (n *session) keep(thread string, v *view, fresh bool) {
	if fresh {
		n.mu.Lock()
		if n.closed {
			n.mu.Unlock()
			v.seat.Leave()
			return
		}
		if n.views == nil {
			n.views = make(map[string]*view)
		}
		n.views[thread] = v
		n.mu.Unlock()
	}
	v.seat.Release()
}

func (n *session) drop(v *view, fresh bool) {
	if fresh {
		v.seat.Leave()
		return
	}
	v.seat.Release()
}

// messages answers with the history and joins the room, in one step: the feed
// is held at the position that the answer shows (PIL-156, PIL-167).
func (n *session) messages(ctx context.Context, c MessagesCommand, reply answer) error {
	v, fresh, err := n.hold(ctx, c.ThreadID)
	if err != nil {
		return err
	}
	limit := n.site.Rules().History
	if limit == 0 {
		limit = DefaultHistory
	}
	h := history{state: v.seat.State(), limit: limit}
	if h.messages, err = n.server.o.Desk.History(ctx, n.who, c.ThreadID, h.state, limit); err != nil {
		n.drop(v, fresh)
		return err
	}
	h.live, h.truncated = v.seat.Live()
	reply.ok(h.append(nil))
	n.keep(c.ThreadID, v, fresh)
	return nil
}

func (n *session) start(ctx context.Context, c StartCommand, reply answer) error {
	v, fresh, err := n.hold(ctx, c.ThreadID)
	if errors.Is(err, chat.ErrNoThread) && n.site.Rules().AutoCreate {
		if _, made := n.server.o.Desk.Create(ctx, n.who, dialect.NewThread{ID: c.ThreadID}); made != nil {
			return err
		}
		v, fresh, err = n.hold(ctx, c.ThreadID)
	}
	if err != nil {
		return err
	}
	started, err := n.begin(ctx, c)
	if err != nil {
		n.drop(v, fresh)
		return err
	}
	reply.ok(append(member([]byte(`{"ok":true`), "runId", started.Segment), '}'))
	n.keep(c.ThreadID, v, fresh)
	return nil
}

// begin stores inline attachments and starts the run; what a refused command
// stored is dropped.
func (n *session) begin(ctx context.Context, c StartCommand) (dialect.Started, error) {
	m := &chat.Message{ID: c.MessageID, Role: chat.User}
	if c.Input != "" {
		m.Parts = []*chat.Part{{ID: c.MessageID, Type: chat.PartText, Text: chat.Text(c.Input)}}
	}
	var stored []string
	err := func() error {
		for i, a := range c.Attachments {
			f, err := n.attach(ctx, c.ThreadID, i, a)
			if err != nil {
				return err
			}
			if a.ID == "" {
				stored = append(stored, f.ID)
			}
			m.Attachments = append(m.Attachments, f)
		}
		return nil
	}()
	var started dialect.Started
	if err == nil {
		started, err = n.server.o.Desk.Start(ctx, n.who, dialect.Start{
			Thread: c.ThreadID, Dialect: dialectName, Message: m, Fork: c.ForkFrom, Tools: c.ClientTools,
			OneRun: true, RefuseWaiting: n.site.Rules().RefuseWaiting,
		})
	}
	if err != nil && !fault(err) {
		// A fault may hide a success: then the files may be in use.
		for _, id := range stored {
			_ = n.server.o.Desk.DropFile(context.WithoutCancel(ctx), n.who, id)
		}
	}
	return started, err
}

func (n *session) attach(ctx context.Context, thread string, i int, a Attachment) (chat.Attachment, error) {
	if a.ID == "" {
		return n.server.o.Desk.PutFile(ctx, n.who, thread, a.stored(), bytes.NewReader(a.Data), MaxAttachmentBytes)
	}
	f, err := n.server.o.Desk.File(ctx, n.who, a.ID)
	if errors.Is(err, chat.ErrNoThread) {
		return f, invalid("attachments[%d]: there is no upload of this id", i)
	}
	return f, err
}

func (n *session) resume(ctx context.Context, c ResumeCommand, reply answer) error {
	v, fresh, err := n.hold(ctx, c.ThreadID)
	if err != nil {
		return err
	}
	a, err := n.server.o.Desk.Answer(ctx, n.who, dialect.Answer{
		Thread: c.ThreadID, Interrupt: c.InterruptID, Value: c.Answer, Tools: c.ClientTools,
		Check: func(i *chat.Interrupt) error { return checkAnswer(i, c.Answer) },
	})
	if err != nil {
		n.drop(v, fresh)
		return err
	}
	b := []byte(`{"ok":true`)
	if a.Segment != "" {
		b = member(b, "runId", a.Segment)
	}
	reply.ok(append(b, '}'))
	n.keep(c.ThreadID, v, fresh)
	return nil
}

// quiet holds every feed of the session while a command that names no thread
// is carried out, so that its answer precedes what it causes (PIL-159).
func (n *session) quiet(do func() error, reply answer) error {
	n.mu.Lock()
	held := make([]*view, 0, len(n.views))
	for _, v := range n.views {
		held = append(held, v)
	}
	n.mu.Unlock()
	for _, v := range held {
		v.seat.Hold()
	}
	err := do()
	if err == nil {
		reply.ok([]byte(`{"ok":true}`))
	}
	for _, v := range held {
		v.seat.Release()
	}
	return err
}

func (n *session) cancel(ctx context.Context, c CancelCommand, reply answer) error {
	return n.quiet(func() error { return n.server.o.Desk.Cancel(ctx, n.who, c.RunID, false) }, reply)
}

func (n *session) detach(ctx context.Context, c DetachCommand, reply answer) error {
	return n.quiet(func() error { return n.server.o.Desk.Detach(ctx, n.who, c.RunID, c.ToolCallID) }, reply)
}
