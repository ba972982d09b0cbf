package filejournal

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// writer writes to one thread, alone.
type writer struct {
	j     *Journal
	key   chat.Key
	epoch uint64
	rev   journal.Rev
	run   string
	fence uint64
	w     uint64
	runs  int
}

func newWriter(j *Journal, id string) *writer {
	return &writer{j: j, key: chat.Key{Realm: "r", Thread: id}}
}

// resume takes up the thread where it is.
func (w *writer) resume(ctx context.Context) error {
	s, err := w.j.Load(ctx, journal.Load{Key: w.key})
	if err != nil {
		return err
	}
	w.epoch, w.rev, w.run = s.Meta.Epoch, s.Meta.Rev, ""
	for id, r := range s.Meta.Runs {
		w.run, w.fence, w.w = id, r.Fence, r.W
	}
	if !s.Exists {
		w.epoch, w.rev = 0, journal.Rev{}
	}
	return nil
}

func (w *writer) commit(ctx context.Context, runs []journal.RunChange, entries ...chat.Entry) (journal.Committed, error) {
	c := journal.Commit{
		Key: w.key, Epoch: w.epoch, Rev: w.rev, NewEpoch: fresh(), Tag: fresh(), Entries: entries, Runs: runs,
		Nodes: chat.NodesOf(entries), Result: []byte("{}"),
	}
	binary.LittleEndian.PutUint64(c.Command.ID[:], rand.Uint64())
	for _, ch := range runs {
		if ch.New {
			c.Segments = []string{"seg-" + w.key.Thread + ch.Run}
		}
	}
	res, err := w.j.Commit(ctx, c)
	if err != nil {
		return res, err
	}
	if res.Result != journal.Done {
		return res, fmt.Errorf("commit: %s", res.Result)
	}
	w.epoch, w.rev = res.Epoch, res.Rev
	return res, nil
}

func (w *writer) open(ctx context.Context) error {
	_, err := w.commit(ctx, nil, chat.NewEntry(chat.KindThread, "", &chat.ThreadBody{Info: chat.Info{Title: "Trips"}}))
	return err
}

func (w *writer) start(ctx context.Context) error {
	w.runs++
	w.run, w.w = fmt.Sprintf("run-%d-%x", w.runs, rand.Uint32()), 0
	q := &chat.Message{ID: "q-" + w.run, Role: chat.User, Status: chat.MessageComplete, Parts: []*chat.Part{
		{ID: "p", Type: chat.PartText, Text: chat.Text("How far is it from here to the sea, and what is the way?")},
	}}
	res, err := w.commit(ctx, []journal.RunChange{{Run: w.run, New: true, NewOwner: true, Owner: "edge"}},
		chat.NewEntry(chat.KindMessage, "", &chat.MessageBody{Message: q}),
		chat.NewEntry(chat.KindRunPending, w.run, &chat.RunPendingBody{Run: &chat.Run{
			ID: w.run, Status: chat.RunPending, Message: q.ID, Answer: "a-" + w.run,
			Parts: []*chat.Part{{ID: "p1", Type: chat.PartText, Open: true}},
		}}))
	w.fence = res.Fences[w.run]
	return err
}

func (w *writer) write(text string) journal.Append {
	return journal.Append{
		Key: w.key, Epoch: w.epoch, Run: w.run, Fence: w.fence, W: w.w, Tag: fresh(),
		Entries: []chat.Entry{chat.NewEntry(chat.KindTextDelta, w.run, &chat.DeltaBody{Part: "p1", Text: text})},
	}
}

func (w *writer) say(ctx context.Context, text string) (*chat.Record, error) {
	res, err := w.j.Append(ctx, w.write(text))
	if err != nil {
		return nil, err
	}
	if res.Result != journal.Stored {
		return nil, fmt.Errorf("append: %s", res.Result)
	}
	w.w++
	return res.Records[0], nil
}

func (w *writer) end(ctx context.Context) error {
	run := w.run
	w.run = ""
	_, err := w.commit(ctx, []journal.RunChange{{Run: run, End: true}}, chat.Entry{
		Kind: chat.KindRunEnd, Run: run, Logged: true, N: 1, Body: &chat.RunEndBody{Status: chat.RunComplete, Message: &chat.Message{
			ID: "a-" + run, Role: chat.Assistant, Status: chat.MessageComplete, Parts: []*chat.Part{
				{ID: "p1", Type: chat.PartText, Text: chat.Text("It is three hours on foot: down to the river, then along it.")},
			},
		}},
	})
	return err
}

func (w *writer) state(ctx context.Context) (*chat.State, journal.Meta, error) {
	s, err := w.j.Load(ctx, journal.Load{Key: w.key})
	if err != nil {
		return nil, s.Meta, err
	}
	return s.State(nil), s.Meta, nil
}

func (w *writer) trim(ctx context.Context) (journal.Result, error) {
	st, _, err := w.state(ctx)
	if err != nil {
		return 0, err
	}
	base, pages := st.Compact()
	return w.j.Trim(ctx, journal.Trim{Key: w.key, Epoch: w.epoch, Base: base, FirstPage: st.Chunks, Pages: pages})
}
