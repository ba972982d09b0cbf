package conductor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// A storage of blobs cannot be searched. So whoever is about to write an
// archive's blob, or to delete a thread that has some, says so on the shelf
// first: a list of blobs that may be nobody's. Each edge goes through it now and
// then, and asks the thread of each that is old enough whether it names it.
const (
	kindLoose  = "loose"
	looseOwner = "archives"
	// looseAge is how old an entry must be: far beyond archiveTime, and beyond a
	// failover of the store that takes back what it had said.
	looseAge = time.Hour
	// looseLimit bounds how many are asked about in one go, loosePage how many are
	// read at once.
	looseLimit = 1000
	loosePage  = 100
)

// loose is what the shelf has of a blob that may be nobody's, by its id.
type loose struct {
	Key chat.Key `json:"key"`
	// Epoch and Rev are those that the commit of its stub needs; 0 if there will
	// be none.
	Epoch uint64 `json:"epoch,omitempty"`
	Rev   uint64 `json:"rev,omitempty"`
	// At is in Unix milliseconds.
	At int64 `json:"at"`
}

// loosen puts a blob on the list.
func (c *Conductor) loosen(ctx context.Context, l loose, blob string) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, _, err = c.j.Shelf().Put(ctx, journal.Put{Realm: ownRealm, Kind: kindLoose, ID: blob, Data: data, Owner: looseOwner})
	return err
}

// dropBlob deletes a blob that nobody names, and takes it off the list. What
// fails is done by whoever tidies.
func (c *Conductor) dropBlob(ctx context.Context, key chat.Key, blob string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := c.o.Archives.DeleteBlob(ctx, key.Realm, blob)
	if err == nil {
		err = c.j.Shelf().Delete(ctx, ownRealm, kindLoose, blob)
	}
	if err != nil && c.ctx.Err() == nil {
		c.o.Logger.Warn("an archive that nobody needs could not be removed yet", "realm", key.Realm, "error", err)
	}
}

// tidy goes through the blobs that may be nobody's.
func (c *Conductor) tidy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := c.tidyNow(ctx)
	if c.ctx.Err() == nil {
		c.tidies.note(c.o.Logger, err)
	}
}

func (c *Conductor) tidyNow(ctx context.Context) error {
	type entry struct {
		loose
		blob string
	}
	var old []entry // the newest first; so the oldest stand on the last pages
	var errs []error
	for after := ""; ; {
		some, err := c.j.Shelf().List(ctx, ownRealm, kindLoose, looseOwner, after, loosePage)
		if err != nil {
			return err
		}
		for _, v := range some {
			e := entry{blob: v.ID}
			if err := json.Unmarshal(v.Data, &e.loose); err != nil {
				errs = append(errs[:min(len(errs), loosePage)], err)
			} else if c.o.Now()-e.At >= looseAge.Milliseconds() {
				old = append(old, e)
			}
			after = v.ID
		}
		old = old[max(0, len(old)-looseLimit):]
		if len(some) < loosePage {
			break
		}
	}
	for _, e := range slices.Backward(old) {
		errs = append(errs, c.whose(ctx, e.loose, e.blob))
	}
	return errors.Join(errs...)
}

// whose finds out whether a thread names a blob, and deletes one that it does
// not name and never will: because a commit came after the revision at which it
// would have been named, or else because this is such a commit.
func (c *Conductor) whose(ctx context.Context, l loose, blob string) error {
	snap, err := c.j.Load(ctx, journal.Load{Key: l.Key})
	if err != nil {
		return err
	}
	if snap.Exists {
		named := slices.ContainsFunc(snap.State(nil).Archives, func(a chat.Archive) bool { return a.Blob == blob })
		if named {
			return c.j.Shelf().Delete(ctx, ownRealm, kindLoose, blob)
		}
		if m := snap.Meta; m.Epoch == l.Epoch && m.Rev.N <= l.Rev {
			res, err := c.j.Commit(ctx, journal.Commit{
				Key: l.Key, Command: newCommand(), Epoch: m.Epoch, Rev: m.Rev, Tag: c.o.Random() >> 1,
			})
			if err != nil || res.Result != journal.Done {
				return err // the next time
			}
		}
	}
	c.dropBlob(ctx, l.Key, blob)
	return nil
}

// filesOf returns the ids of the attachments that a thread's messages name. An
// archive that is damaged is passed over: it must not keep a thread from being
// deleted. The error is ErrPages if one cannot be read just now.
func (c *Conductor) filesOf(ctx context.Context, key chat.Key, st *chat.State) (ids []string, err error) {
	take := func(list []*chat.Message) {
		for _, m := range list {
			for _, a := range m.Attachments {
				ids = append(ids, a.ID)
			}
		}
	}
	take(st.Tail)
	o := c.older(key, st)
	defer o.close()
	for page := st.Chunks - 1; page >= st.Archived(); page-- {
		list, err := o.pages(ctx, page, page+1)
		if err != nil {
			return nil, err
		}
		take(list)
	}
	for _, a := range st.Archives {
		some, err := c.filesOfArchive(ctx, key, st.Born, a)
		switch {
		case errors.Is(err, errSpoilt):
			c.o.Logger.Warn("attachments of a damaged archive stay behind", "realm", key.Realm, "error", err)
		case err != nil:
			return nil, pagesError(err)
		}
		ids = append(ids, some...)
	}
	return ids, nil
}

func (c *Conductor) filesOfArchive(ctx context.Context, key chat.Key, born uint64, a chat.Archive) ([]string, error) {
	u, err := unpack(ctx, c.o.Archives, key, born, a)
	if err != nil {
		return nil, err
	}
	defer u.close()
	return u.files()
}

// dropArchives deletes the blobs of a thread that is gone.
func (c *Conductor) dropArchives(ctx context.Context, key chat.Key, st *chat.State) {
	for _, a := range st.Archives {
		c.dropBlob(ctx, key, a.Blob)
	}
}
