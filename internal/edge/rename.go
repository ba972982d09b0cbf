package edge

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Rename changes the thread, and then its owner's list to what the thread says:
// of two at once the list has the one that the thread has.
func (d desk) Rename(ctx context.Context, p identity.Principal, thread, title string) error {
	if err := d.h.conductor.Rename(ctx, p, thread, title); err != nil {
		return err
	}
	shelf := d.h.journal.Shelf()
	for range listTries {
		v, err := shelf.Get(ctx, p.Realm, shelfThread, shelfID(p.Tenant, thread))
		if errors.Is(err, journal.ErrNotFound) {
			return nil // nobody lists it
		}
		if err != nil {
			return fmt.Errorf("%w: %w", conductor.ErrUnavailable, err)
		}
		t, err := d.Get(ctx, p, thread)
		if err != nil {
			return err
		}
		var l listed
		if err := json.Unmarshal(v.Data, &l); err != nil || l.Title == t.Title {
			return err
		}
		l.Title = t.Title
		data, err := json.Marshal(l)
		if err != nil {
			return err
		}
		_, ok, err := shelf.Put(ctx, journal.Put{Realm: p.Realm, Kind: shelfThread, ID: v.ID, Data: data, Owner: v.Owner, Version: v.Version})
		if err != nil {
			return fmt.Errorf("%w: %w", conductor.ErrUnavailable, err)
		}
		if ok {
			return nil
		}
	}
	return conductor.ErrBusy
}
