package edge

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// shelfNote begins the kinds of what dialects keep.
const shelfNote = "note."

// noted is a note as the shelf has it.
type noted struct {
	// Owner is a principal's key, "" of a shared note.
	Owner string `json:"owner,omitempty"`
	Data  []byte `json:"data"`
}

func (d desk) Note(ctx context.Context, p identity.Principal, kind, id string) (dialect.Note, error) {
	v, err := d.h.journal.Shelf().Get(ctx, p.Realm, shelfNote+kind, shelfID(p.Tenant, id))
	if errors.Is(err, journal.ErrNotFound) {
		return dialect.Note{}, chat.ErrNoThread
	}
	if err != nil {
		return dialect.Note{}, err
	}
	var n noted
	if err := json.Unmarshal(v.Data, &n); err != nil {
		return dialect.Note{}, err
	}
	if n.Owner != "" && n.Owner != p.Key() {
		return dialect.Note{}, chat.ErrNoThread
	}
	return dialect.Note{Kind: kind, ID: id, Shared: n.Owner == "", Data: n.Data, Version: v.Version}, nil
}

func (d desk) PutNote(ctx context.Context, p identity.Principal, n dialect.Note, ttl time.Duration) (bool, error) {
	w := noted{Data: n.Data}
	if !n.Shared {
		w.Owner = p.Key()
	}
	data, err := json.Marshal(w)
	if err != nil {
		return false, err
	}
	_, ok, err := d.h.journal.Shelf().Put(ctx, journal.Put{
		Realm: p.Realm, Kind: shelfNote + n.Kind, ID: shelfID(p.Tenant, n.ID), Data: data, Version: n.Version, TTL: ttl,
	})
	return ok, err
}
