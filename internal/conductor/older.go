package conductor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// ErrPages: older messages cannot be read.
var ErrPages = errors.New("older messages cannot be read")

// errMoved: pages are not where a state says.
var errMoved = errors.New("pages are not there")

// older reads a thread's older messages for one command, wherever they are: a
// journal's pages, and the archives of those that were moved out of it. It has
// at most one archive open.
type older struct {
	c    *Conductor
	key  chat.Key
	st   *chat.State
	open *unpacking
}

func (c *Conductor) older(key chat.Key, st *chat.State) *older {
	return &older{c: c, key: key, st: st}
}

func (o *older) close() {
	if o.open != nil {
		o.open.close()
		o.open = nil
	}
}

// pages returns the pages [from, to), all of them or ErrPages: a page that
// cannot be read is never left out.
func (o *older) pages(ctx context.Context, from, to int) ([]*chat.Message, error) {
	list, err := o.read(ctx, from, to)
	if errors.Is(err, errMoved) {
		// They may have been archived since the state was seen.
		was := o.st
		if o.st, err = o.c.state(ctx, o.key); err == nil {
			if err = errMoved; o.st.Born == was.Born && o.st.Archived() > was.Archived() {
				list, err = o.read(ctx, from, to)
			}
		}
	}
	if err != nil {
		return nil, pagesError(err)
	}
	return list, nil
}

// pagesError hides of what kind an error is: that no archive can be read must
// not be taken for a client's upload that cannot be kept.
func pagesError(err error) error { return fmt.Errorf("%w: %v", ErrPages, err) }

func (o *older) read(ctx context.Context, from, to int) ([]*chat.Message, error) {
	list := make([]*chat.Message, 0, max(0, to-from)*chat.ChunkSize)
	for ; from < min(to, o.st.Archived()); from++ {
		page, err := o.archived(ctx, from)
		if err != nil {
			return nil, err
		}
		if len(page) != chat.ChunkSize {
			return nil, fmt.Errorf("%w: a page of %d messages", errSpoilt, len(page))
		}
		list = append(list, page...)
	}
	if from >= to {
		return list, nil
	}
	kept, err := o.c.j.Pages(ctx, o.key, from, to)
	if err != nil {
		return nil, err
	}
	if len(kept) != (to-from)*chat.ChunkSize {
		return nil, fmt.Errorf("%w: %d messages on %d pages", errMoved, len(kept), to-from)
	}
	return append(list, kept...), nil
}

func (o *older) archived(ctx context.Context, page int) ([]*chat.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a := o.st.ArchiveOf(page)
	if a == nil {
		return nil, fmt.Errorf("%w: no archive has page %d", errSpoilt, page)
	}
	if o.open == nil || o.open.stub != *a {
		o.close()
		u, err := unpack(ctx, o.c.o.Archives, o.key, o.st.Born, *a)
		if err != nil {
			return nil, err
		}
		o.open = u
	}
	return o.open.page(page)
}

// messages returns the messages with the ordinals [from, to).
func (o *older) messages(ctx context.Context, st *chat.State, from, to int) ([]*chat.Message, error) {
	from, to = max(0, from), min(to, st.Count())
	if from >= to {
		return nil, nil
	}
	stored := st.Chunks * chat.ChunkSize
	if from >= stored {
		return st.Tail[from-stored : to-stored : to-stored], nil
	}
	first, last := from/chat.ChunkSize, (min(to, stored)+chat.ChunkSize-1)/chat.ChunkSize
	list, err := o.pages(ctx, first, last)
	if err != nil {
		return nil, err
	}
	list = slices.Clip(list)
	if to > stored {
		list = append(list, st.Tail[:to-stored]...)
	}
	skip := first * chat.ChunkSize
	return list[from-skip : to-skip : to-skip], nil
}
