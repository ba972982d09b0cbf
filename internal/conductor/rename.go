package conductor

import (
	"context"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// Rename gives a thread another title, for all dialects. Who may write in the
// thread may do so.
func (c *Conductor) Rename(ctx context.Context, p identity.Principal, thread, title string) error {
	key := Key(p, thread)
	_, err := c.carry(ctx, &Command{
		ID: newCommand(), Key: key,
		Decide: allowed(p, identity.UserMessage, key, func(v *View) (Plan, error) {
			info := v.State.Info
			if info.Title == title {
				return Plan{}, nil
			}
			info.Title = title
			return Plan{Entries: []chat.Entry{chat.NewEntry(chat.KindThread, "", &chat.ThreadBody{Info: info})}}, nil
		}),
	})
	return err
}
