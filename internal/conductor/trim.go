package conductor

import (
	"context"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// A thread is trimmed when it keeps more than this many records or bytes.
const (
	trimRecords = 10_000
	trimBytes   = 4 << 20
)

// trim moves a thread's floor up if it keeps too much; nobody waits for it.
func (c *Conductor) trim(key chat.Key, m journal.Meta) {
	if m.Pos-m.Floor < trimRecords && m.Bytes < trimBytes {
		return
	}
	c.apart(func(ctx context.Context) {
		if err := c.trimNow(ctx, key); err != nil && ctx.Err() == nil {
			c.o.Logger.Warn("a thread could not be trimmed", "realm", key.Realm, "error", err)
		}
	})
}

func (c *Conductor) trimNow(ctx context.Context, key chat.Key) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	snap, err := c.j.Load(ctx, journal.Load{Key: key})
	if err != nil || !snap.Exists {
		return err
	}
	st := snap.State(nil)
	if snap.Meta.Pos == snap.Meta.Floor {
		return c.rest(ctx, key, snap.Meta, st)
	}
	first := st.Chunks
	base, pages := st.Compact()
	_, err = c.j.Trim(ctx, journal.Trim{
		Key: key, Epoch: snap.Meta.Epoch, Base: base, FirstPage: first, Pages: pages, Rest: c.restUntil(key.Realm, base),
	})
	return err
}
