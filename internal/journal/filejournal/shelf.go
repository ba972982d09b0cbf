package filejournal

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/parlance-gateway/parlance/internal/journal"
	bolt "go.etcd.io/bbolt"
)

// maxValue bounds a value of the shelf, in bytes.
const maxValue = 64 << 10

// shelf is the journal's shelf. Its writes go with the commits.
type shelf struct{ j *Journal }

// stored is a value in the file.
type stored struct {
	Data    []byte `json:"data,omitempty"`
	Version uint64 `json:"version"`
	Owner   string `json:"owner,omitempty"`
	Expires int64  `json:"expires,omitempty"`
	// Made orders an owner's list: the version that the value began with.
	Made uint64 `json:"made"`
}

func (v *stored) expired(now int64) bool { return v.Expires != 0 && v.Expires <= now }

func readValue(tx *bolt.Tx, key []byte) (*stored, error) {
	raw := tx.Bucket(bucketShelf).Get(key)
	if raw == nil {
		return nil, nil
	}
	v := new(stored)
	if err := json.Unmarshal(raw, v); err != nil {
		return nil, fmt.Errorf("filejournal: a value of the shelf: %w", err)
	}
	return v, nil
}

// ownedPrefix begins the keys of an owner's list; after it stand the newest
// first and the id.
func ownedPrefix(realm, kind, owner string) []byte { return encode(realm, kind, owner) }

func ownedKey(key []byte, v *stored) ([]byte, bool) {
	n, ok := decode(key, 3)
	if !ok {
		return nil, false
	}
	k := binary.BigEndian.AppendUint64(ownedPrefix(n[0], n[1], v.Owner), math.MaxUint64-v.Made)
	return append(k, n[2]...), true
}

// removeValue takes a value and what points to it out of the file.
func removeValue(tx *bolt.Tx, key []byte) error {
	v, err := readValue(tx, key)
	if err != nil || v == nil {
		return err
	}
	if v.Owner != "" {
		if k, ok := ownedKey(key, v); ok {
			if err := del(tx, bucketOwned, k); err != nil {
				return err
			}
		}
	}
	if v.Expires != 0 {
		if err := del(tx, bucketExpiring, at(uint64(v.Expires), key)); err != nil {
			return err
		}
	}
	return del(tx, bucketShelf, key)
}

// shelfWrite is a put or, with remove, a delete.
type shelfWrite struct {
	key     []byte
	put     journal.Put
	remove  bool
	now     int64
	version uint64 // out: 0 if the value was not the expected one
}

func (w *shelfWrite) write(tx *bolt.Tx) error {
	w.version = 0
	if w.remove {
		return removeValue(tx, w.key)
	}
	old, err := readValue(tx, w.key)
	if err != nil {
		return err
	}
	was := uint64(0)
	if old != nil && !old.expired(w.now) {
		was = old.Version
	}
	if was != w.put.Version {
		return nil
	}
	// Versions count over the whole shelf, so one that was deleted and made
	// again is not taken for the old one.
	version, err := tx.Bucket(bucketShelf).NextSequence()
	if err != nil {
		return err
	}
	v := &stored{Data: w.put.Data, Version: version, Owner: w.put.Owner, Made: version}
	if was != 0 {
		v.Made = old.Made
	}
	if w.put.TTL > 0 {
		v.Expires = w.now + max(1, w.put.TTL.Milliseconds())
	}
	if err := removeValue(tx, w.key); err != nil {
		return err
	}
	if err := w.store(tx, v); err != nil {
		return err
	}
	w.version = version
	return nil
}

func (w *shelfWrite) store(tx *bolt.Tx, v *stored) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if v.Owner != "" {
		if k, ok := ownedKey(w.key, v); ok {
			if err := put(tx, bucketOwned, k, nil); err != nil {
				return err
			}
		}
	}
	if v.Expires != 0 {
		if err := put(tx, bucketExpiring, at(uint64(v.Expires), w.key), nil); err != nil {
			return err
		}
	}
	return put(tx, bucketShelf, w.key, raw)
}

// Get implements journal.Shelf.
func (sh *shelf) Get(_ context.Context, realm, kind, id string) (journal.Value, error) {
	s, err := sh.j.enter()
	if err != nil {
		return journal.Value{}, err
	}
	defer sh.j.leave()
	var out journal.Value
	err = s.view(func(tx *bolt.Tx) error {
		v, err := readValue(tx, encode(realm, kind, id))
		if err != nil {
			return err
		}
		if v == nil || v.expired(sh.j.now()) {
			return journal.ErrNotFound
		}
		out = v.value(id)
		return nil
	})
	return out, err
}

func (v *stored) value(id string) journal.Value {
	return journal.Value{ID: id, Data: v.Data, Version: v.Version, Owner: v.Owner, Expires: v.Expires}
}

// Put implements journal.Shelf.
func (sh *shelf) Put(ctx context.Context, p journal.Put) (uint64, bool, error) {
	if len(p.Data) > maxValue {
		return 0, false, fmt.Errorf("%w: a value of %d bytes", journal.ErrTooLarge, len(p.Data))
	}
	if p.TTL < 0 || p.TTL > 100*365*24*time.Hour {
		return 0, false, fmt.Errorf("filejournal: a value that lives for %s", p.TTL)
	}
	w := &shelfWrite{put: p}
	if err := sh.write(ctx, w, p.Realm, p.Kind, p.ID, p.Owner); err != nil {
		return 0, false, err
	}
	return w.version, w.version != 0, nil
}

// Delete implements journal.Shelf. A value that is not there is no error.
func (sh *shelf) Delete(ctx context.Context, realm, kind, id string) error {
	return sh.write(ctx, &shelfWrite{remove: true}, realm, kind, id, "")
}

func (sh *shelf) write(ctx context.Context, w *shelfWrite, realm, kind, id, owner string) error {
	if err := checkNames(realm, kind, id, owner); err != nil {
		return err
	}
	s, err := sh.j.enter()
	if err != nil {
		return err
	}
	w.key, w.now = encode(realm, kind, id), sh.j.now()
	result := make(chan error, 1)
	s.commits.add(op{put: w, done: func(err error) {
		sh.j.leave()
		result <- err
	}})
	return wait(ctx, result)
}

// List implements journal.Shelf: newest first by when a value was first put;
// a later change does not move it.
func (sh *shelf) List(_ context.Context, realm, kind, owner, after string, limit int) ([]journal.Value, error) {
	s, err := sh.j.enter()
	if err != nil {
		return nil, err
	}
	defer sh.j.leave()
	now := sh.j.now()
	var out []journal.Value
	err = s.view(func(tx *bolt.Tx) error {
		prefix := ownedPrefix(realm, kind, owner)
		start := prefix
		if after != "" {
			key := encode(realm, kind, after)
			v, err := readValue(tx, key)
			if err != nil || v == nil || v.Owner != owner {
				return err
			}
			start, _ = ownedKey(key, v)
		}
		scan(tx, bucketOwned, start, func(k, _ []byte) bool {
			if !bytes.HasPrefix(k, prefix) || len(out) >= limit {
				return false
			}
			if after != "" && bytes.Equal(k, start) {
				return true
			}
			id := string(k[len(prefix)+8:])
			var v *stored
			if v, err = readValue(tx, encode(realm, kind, id)); err != nil {
				return false
			}
			if v != nil && !v.expired(now) {
				out = append(out, v.value(id))
			}
			return true
		})
		return err
	})
	return out, err
}
