package conductor

import (
	"context"
	"testing"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// deletion is a delete on its way to the store.
type deletion struct{}

func (l *link) Delete(ctx context.Context, key chat.Key, epoch uint64) (journal.Result, error) {
	return carried(l, deletion{}, func() (journal.Result, error) { return l.Journal.Delete(ctx, key, epoch) })
}

// onDelete calls f before, or after, the first delete of an edge.
func (e *edge) onDelete(before, after func() error) {
	once := func(f func() error) func(any) error {
		first := true
		return func(call any) error {
			if _, ok := call.(deletion); !ok || f == nil || !first {
				return nil
			}
			first = false
			return f()
		}
	}
	e.link.set(once(before), once(after))
}

func TestWhatADeleteMeets(t *testing.T) {
	remake := func(e *edge) error {
		if _, err := e.Delete(context.Background(), ann, "t"); err != nil {
			return err
		}
		_, err := e.Create(context.Background(), ann, "t", chat.Info{Title: "anew"})
		return err
	}
	for name, c := range map[string]struct {
		before, after func(e *edge) error
		want          error
		left          bool
	}{
		"another has deleted it and made it anew": {before: remake, want: chat.ErrNoThread, left: true},
		"another has deleted it": {before: func(e *edge) error {
			_, err := e.Delete(context.Background(), ann, "t")
			return err
		}},
		"it has no answer, and is not carried out": {before: func(*edge) error { return errCut }},
		"its answer is lost":                       {after: func(*edge) error { return errCut }},
		"the store is in another epoch": {before: func(e *edge) error {
			snap, err := e.w.j.Load(context.Background(), journal.Load{Key: Key(ann, "t")})
			if err != nil {
				return err
			}
			base := snap.State(nil).Clip()
			seen := journal.Cursor{Epoch: snap.Meta.Epoch, Pos: base.Pos, Tag: base.Tag}
			base.Pos, base.Log, base.Tag = base.Pos+journal.PositionJump, base.Log+journal.PositionJump, 77
			_, err = e.w.j.Reset(context.Background(), journal.Reset{Key: Key(ann, "t"), Seen: seen, NewEpoch: 78, Tag: 77, Base: base})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.edge(echoes()), w.edge(echoes())
			a.create("t")
			with := func(f func(e *edge) error) func() error {
				if f == nil {
					return nil
				}
				return func() error { return f(b) }
			}
			a.onDelete(with(c.before), with(c.after))
			if _, err := a.Delete(context.Background(), ann, "t"); err != c.want {
				t.Errorf("delete: %v, want %v", err, c.want)
			}
			snap, err := w.j.Load(t.Context(), journal.Load{Key: Key(ann, "t")})
			if err != nil || snap.Exists != c.left {
				t.Errorf("the thread is there: %v, %v", snap.Exists, err)
			}
		})
	}
}
