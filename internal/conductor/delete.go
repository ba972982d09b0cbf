package conductor

import (
	"context"
	"errors"
	"fmt"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Delete ends a thread's runs and then the thread, with its archives. It returns
// the ids of the attachments that the thread's messages named. A thread that
// somebody has made anew meanwhile is spared. It fails with ErrPages while the
// storage of its archives does not answer.
func (c *Conductor) Delete(ctx context.Context, p identity.Principal, thread string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*c.o.CommandTimeout)
	defer cancel()
	key := Key(p, thread)
	st, epoch, err := c.view(ctx, p, identity.Delete, key)
	if err != nil {
		return nil, err
	}
	born, pause := st.Born, firstPause
	for range maxDecisions {
		files, res, err := c.deleteIn(ctx, p, key, st, epoch)
		switch {
		case err == nil && res == journal.OK:
			c.dropArchives(ctx, key, st)
			return files, nil
		case errors.Is(err, ErrPages):
			return nil, err
		case err != nil && (errors.Is(err, journal.ErrClosed) || !sleep(ctx, &pause)):
			return nil, err
		}
		// It is not known whether it was deleted, or it is in another epoch.
		st, epoch, err = c.view(ctx, p, identity.Delete, key)
		switch {
		case errors.Is(err, chat.ErrNoThread):
			return files, nil // whoever tidies finds its archives
		case err != nil:
			return nil, err
		case st.Born != born:
			return nil, chat.ErrNoThread
		}
	}
	return nil, ErrBusy
}

// deleteIn deletes a thread whose state in an epoch is given.
func (c *Conductor) deleteIn(ctx context.Context, p identity.Principal, key chat.Key, st *chat.State, epoch uint64) (files []string, res journal.Result, err error) {
	for _, r := range st.Runs {
		if err := c.stopRun(ctx, key, r.ID, chat.Stop{Cause: chat.CauseDeleted, By: chat.Subject(p.Subject)}); err != nil {
			return nil, 0, err
		}
	}
	if files, err = c.filesOf(ctx, key, st); err != nil {
		return nil, 0, err
	}
	// From here on its archives may be nobody's.
	for _, a := range st.Archives {
		if err := c.loosen(ctx, loose{Key: key, At: c.o.Now()}, a.Blob); err != nil {
			return nil, 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	if res, err = c.j.Delete(ctx, key, epoch); err != nil {
		return files, 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return files, res, nil
}
