package redisjournal

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/journal/blobstore"
)

// blobs are in the storage that all edges share, while they do.
type blobs struct {
	j     *Journal
	proof *proof
	store *blobstore.Blobs // nil without a storage
}

func newBlobs(j *Journal, boot string) *blobs {
	b := &blobs{j: j, proof: newProof(j, boot)}
	if j.opts.Storage != nil {
		b.store = blobstore.New(j.opts.Storage, escape(j.keys.prefix)+"/files", j.log)
	}
	return b
}

// enter begins an operation; it needs a storage.
func (b *blobs) enter(ctx context.Context) error {
	if b.store == nil {
		return fmt.Errorf("%w: configure a Caddy storage that all edges share", journal.ErrNoBlobs)
	}
	return b.j.begin(ctx)
}

// PutBlob implements journal.Blobs. It fails with journal.ErrNoBlobs if there is
// no storage, or one that another edge does not share.
func (b *blobs) PutBlob(ctx context.Context, realm, id string, r io.Reader, limit int64) (int64, error) {
	if err := b.enter(ctx); err != nil {
		return 0, err
	}
	defer b.j.leave()
	if err := b.proof.check(ctx); err != nil {
		return 0, err
	}
	return b.store.PutBlob(ctx, realm, id, r, limit)
}

// OpenBlob implements journal.Blobs. The reader may outlive the journal.
func (b *blobs) OpenBlob(ctx context.Context, realm, id string) (io.ReadSeekCloser, int64, error) {
	if err := b.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer b.j.leave()
	return b.store.OpenBlob(ctx, realm, id)
}

// DeleteBlob implements journal.Blobs. Without a storage there is none.
func (b *blobs) DeleteBlob(ctx context.Context, realm, id string) error {
	err := b.enter(ctx)
	if errors.Is(err, journal.ErrNoBlobs) {
		return nil
	}
	if err != nil {
		return err
	}
	defer b.j.leave()
	return b.store.DeleteBlob(ctx, realm, id)
}
