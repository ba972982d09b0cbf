package conductor

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// DefaultArchiveOver is how many messages a thread may have in its journal
// before any of them are archived.
const DefaultArchiveOver = 500

const (
	// archiveTime bounds the work on one thread, and archiveLease how long no
	// other edge begins it. That only one does saves work; what keeps an archive
	// right is the commit, which is of the very revision that was packed.
	archiveTime  = 10 * time.Minute
	archiveLease = 15 * time.Minute
	// archiveAgain is when a thread is looked at again whose archiving came to
	// nothing.
	archiveAgain = time.Hour
	// archiveBusy is the least that one waits while this edge archives another,
	// and a tenth of the most.
	archiveBusy = time.Minute
	// restAnyway is when a long thread is looked at where nothing says that it is
	// archived: so that what is configured later holds for it too.
	restAnyway = 30 * 24 * time.Hour
)

// The shelf's realm and kinds of what belongs to no realm of its own. No realm
// is called so.
const (
	ownRealm      = ""
	kindArchiving = "archiving"
)

// restUntil is when somebody must look whether a thread that nobody writes to is
// to be archived, in Unix milliseconds; 0 is never.
func (c *Conductor) restUntil(realm string, st *chat.State) int64 {
	over, after := DefaultArchiveOver, time.Duration(0)
	r := c.o.Realm(realm)
	if r == nil {
		over = 2 * chat.ChunkSize // the least that may be configured
	} else {
		after = r.ArchiveAfter
		if r.ArchiveOver > 0 {
			over = r.ArchiveOver
		}
	}
	switch {
	case len(st.Runs) > 0, st.Chunks <= st.Archived(), st.Count()-st.Archived()*chat.ChunkSize <= over:
		return 0
	case r == nil: // an edge that has it shall say
		return c.o.Now() + archiveAgain.Milliseconds()
	case after <= 0:
		return c.o.Now() + restAnyway.Milliseconds()
	}
	return max(1, st.Quiet()+after.Milliseconds())
}

// rest looks at a thread whose rest is over: it is archived, or rests on.
func (c *Conductor) rest(ctx context.Context, key chat.Key, m journal.Meta, st *chat.State) error {
	if len(m.Runs) > 0 {
		return nil
	}
	now := c.o.Now()
	if c.o.Realm(key.Realm) == nil && now-c.since < archiveBusy.Milliseconds() {
		return nil // the configuration is on its way
	}
	until := c.restUntil(key.Realm, st)
	due := until != 0 && until <= now
	switch {
	case until == 0:
		until = now + restAnyway.Milliseconds()
	case due && !c.archiving.CompareAndSwap(false, true):
		due = false
		until = now + archiveBusy.Milliseconds() + int64(c.o.Random()%uint64(9*archiveBusy.Milliseconds()))
	case due:
		until = now + archiveAgain.Milliseconds()
	}
	res, err := c.j.Trim(ctx, journal.Trim{Key: key, Epoch: m.Epoch, Base: st, FirstPage: st.Chunks, Rest: until})
	if !due {
		return err
	}
	if err != nil || res != journal.OK {
		c.archiving.Store(false)
		return err
	}
	c.apart(func(ctx context.Context) {
		defer c.archiving.Store(false)
		err := c.archive(ctx, key)
		if ctx.Err() == nil {
			c.archives.note(c.o.Logger, err)
		}
	})
	return nil
}

// archive moves the full pages of a thread out of the journal, if no other edge
// is about to.
func (c *Conductor) archive(ctx context.Context, key chat.Key) error {
	ctx, cancel := context.WithTimeout(ctx, archiveTime)
	defer cancel()
	id := strconv.Quote(key.Realm) + strconv.Quote(key.Tenant) + key.Thread
	_, ok, err := c.j.Shelf().Put(ctx, journal.Put{
		Realm: ownRealm, Kind: kindArchiving, ID: id, Data: []byte(c.o.Boot), TTL: archiveLease,
	})
	if err != nil || !ok {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = c.j.Shelf().Delete(ctx, ownRealm, kindArchiving, id) // it expires
	}()
	for {
		more, err := c.archiveSome(ctx, key)
		if err != nil || !more {
			return err
		}
	}
}

// archiveSome makes one archive: the blob, then the commit of its stub, then the
// trim that drops the pages. A stop between any two of these leaves the thread as
// it was, with a blob that is loose; or archived, with pages that the next trim
// drops.
func (c *Conductor) archiveSome(ctx context.Context, key chat.Key) (more bool, err error) {
	snap, err := c.j.Load(ctx, journal.Load{Key: key})
	if err != nil || !snap.Exists || snap.Meta.Pos != snap.Meta.Floor || len(snap.Meta.Runs) > 0 {
		return false, err
	}
	st := snap.State(nil)
	if until := c.restUntil(key.Realm, st); until == 0 || until > c.o.Now() {
		return false, nil
	}
	a, err := c.pack(ctx, key, snap.Meta, st)
	if err != nil {
		return false, err
	}
	res, err := c.commitArchive(ctx, key, snap.Meta, a)
	switch {
	case err != nil:
		return false, err // it may yet be there: whoever tidies finds out
	case res.Result != journal.Done && res.Result != journal.DoneBefore:
		// Somebody wrote; or it was stored so long ago that the thread has forgotten
		// the command.
		return false, c.whose(ctx, loose{Key: key, Epoch: snap.Meta.Epoch, Rev: snap.Meta.Rev.N}, a.Blob)
	}
	c.o.Logger.Info("older messages were archived", "realm", key.Realm, "messages", a.Pages*chat.ChunkSize)
	return true, c.trimNow(ctx, key)
}

// pack writes the next archive's blob and reads it back.
func (c *Conductor) pack(ctx context.Context, key chat.Key, m journal.Meta, st *chat.State) (chat.Archive, error) {
	id := uuid.NewString()
	if err := c.loosen(ctx, loose{Key: key, Epoch: m.Epoch, Rev: m.Rev.N, At: c.o.Now()}, id); err != nil {
		return chat.Archive{}, err
	}
	o := c.older(key, st)
	defer o.close()
	first := st.Archived()
	p := &packing{first: first, next: first, end: min(st.Chunks, first+chat.MaxArchive), page: func(n int) ([]*chat.Message, error) {
		return o.pages(ctx, n, n+1)
	}}
	_, err := c.o.Archives.PutBlob(ctx, key.Realm, id, p, archiveLimit)
	a := p.stub(key, st.Born, id)
	if err == nil {
		err = c.checkArchive(ctx, key, st.Born, a)
	}
	if err != nil {
		c.dropBlob(ctx, key, id)
	}
	return a, err
}

// checkArchive reads all of an archive: what a storage took and does not give
// back must not cost the pages.
func (c *Conductor) checkArchive(ctx context.Context, key chat.Key, born uint64, a chat.Archive) error {
	u, err := unpack(ctx, c.o.Archives, key, born, a)
	if err != nil {
		return err
	}
	defer u.close()
	for n := a.First; n < a.End(); n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := u.page(n); err != nil {
			return err
		}
	}
	_, err = u.files()
	return err
}

// commitArchive commits the stub at the revision that was packed, and tries
// until the store has said what became of it.
func (c *Conductor) commitArchive(ctx context.Context, key chat.Key, m journal.Meta, a chat.Archive) (journal.Committed, error) {
	commit := journal.Commit{
		Key: key, Command: newCommand(), Epoch: m.Epoch, Rev: m.Rev, Tag: c.o.Random() >> 1,
		Entries: []chat.Entry{chat.NewEntry(chat.KindArchive, "", &chat.ArchiveBody{Archive: a})},
	}
	pause := firstPause
	for {
		res, err := c.j.Commit(ctx, commit)
		if err == nil {
			if res.Epoch != 0 {
				c.rooms.Acknowledged(key, journal.Notice{Epoch: res.Epoch, Rev: res.Rev, Records: res.Records})
			}
			return res, nil
		}
		if errors.Is(err, journal.ErrClosed) || !sleep(ctx, &pause) {
			return res, err
		}
	}
}
