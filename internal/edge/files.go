package edge

import (
	"context"
	"errors"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// file is an upload as the shelf knows it.
type file struct {
	chat.Attachment
	Tenant string       `json:"tenant,omitempty"`
	Owner  chat.Subject `json:"owner"`
	// Thread is the one that the file was put for and goes with, or "".
	Thread string `json:"thread,omitempty"`
}

func (d desk) PutFile(ctx context.Context, p identity.Principal, thread string, f chat.Attachment, r io.Reader, limit int64) (chat.Attachment, error) {
	own := identity.Thread{Realm: p.Realm, Tenant: p.Tenant, Owner: p.Subject}
	if identity.Allow(p, identity.UserMessage, own) != nil {
		return chat.Attachment{}, chat.ErrNoThread
	}
	f.ID = uuid.NewString()
	n, err := d.h.journal.Blobs().PutBlob(ctx, p.Realm, f.ID, r, limit)
	if err != nil {
		return chat.Attachment{}, err
	}
	f.Size = n
	data, err := json.Marshal(file{Attachment: f, Tenant: p.Tenant, Owner: chat.Subject(p.Subject), Thread: thread})
	if err == nil {
		_, _, err = d.h.journal.Shelf().Put(ctx, journal.Put{Realm: p.Realm, Kind: shelfFile, ID: f.ID, Data: data, Owner: p.Key()})
	}
	if err != nil {
		err = errors.Join(err, d.h.journal.Blobs().DeleteBlob(context.WithoutCancel(ctx), p.Realm, f.ID))
	}
	return f, err
}

func (d desk) File(ctx context.Context, p identity.Principal, id string) (chat.Attachment, error) {
	f, err := d.file(ctx, p.Realm, id)
	if err != nil {
		return chat.Attachment{}, err
	}
	t := identity.Thread{Realm: p.Realm, Tenant: f.Tenant, Owner: identity.Subject(f.Owner)}
	if identity.Allow(p, identity.Subscribe, t) != nil {
		return chat.Attachment{}, chat.ErrNoThread
	}
	return f.Attachment, nil
}

func (d desk) file(ctx context.Context, realm, id string) (file, error) {
	var f file
	if _, err := uuid.Parse(id); err != nil {
		return f, chat.ErrNoThread
	}
	v, err := d.h.journal.Shelf().Get(ctx, realm, shelfFile, id)
	if errors.Is(err, journal.ErrNotFound) {
		return f, chat.ErrNoThread
	}
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(v.Data, &f)
}

func (d desk) DropFile(ctx context.Context, p identity.Principal, id string) error {
	if _, err := d.File(ctx, p, id); err != nil {
		return err
	}
	return d.h.dropFile(ctx, p.Realm, id)
}

func (d desk) OpenFile(ctx context.Context, p identity.Principal, id string) (chat.Attachment, io.ReadSeekCloser, error) {
	f, err := d.File(ctx, p, id)
	if err != nil {
		return chat.Attachment{}, nil, err
	}
	r, _, err := d.h.journal.Blobs().OpenBlob(ctx, p.Realm, id)
	if errors.Is(err, journal.ErrNotFound) {
		err = chat.ErrNoThread
	}
	return f, r, err
}

// dropFiles removes the files that were put for a thread, after it is gone.
func (d desk) dropFiles(ctx context.Context, p identity.Principal, thread string, ids []string) {
	for _, id := range ids {
		f, err := d.file(ctx, p.Realm, id)
		if err != nil || f.Tenant != p.Tenant || f.Thread != thread {
			continue
		}
		if err := d.h.dropFile(ctx, p.Realm, id); err != nil {
			d.h.logger.Warn("a deleted thread's file could not be removed", "realm", p.Realm, "error", err)
		}
	}
}

func (h *Hub) dropFile(ctx context.Context, realm, id string) error {
	return errors.Join(
		h.journal.Shelf().Delete(ctx, realm, shelfFile, id),
		h.journal.Blobs().DeleteBlob(ctx, realm, id))
}

// openFor returns an attachment's bytes for an agent: what stands in a thread's
// message may be read by whoever answers it.
func (h *Hub) openFor(ctx context.Context, key chat.Key, id string) (io.ReadCloser, error) {
	r, _, err := h.journal.Blobs().OpenBlob(ctx, key.Realm, id)
	return r, err
}
