package redisjournal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/redis/go-redis/v9"
)

const (
	// maxValue bounds a value of the shelf, in bytes.
	maxValue = 64 << 10
	// longest is how long a value may live at most.
	longest = 100 * 365 * 24 * time.Hour
	// maxPage bounds a page of a list.
	maxPage = 1000
)

var (
	shelfPut    = load("shelf_put")
	shelfDelete = load("shelf_delete")
)

// shelf has a hash for each value (version, data, owner, expiry, when it was
// made), and for each owner a sorted set of names by when they were made and
// one by when they expire. All of a realm's kind is in one slot, so that a value
// may go from one owner's list to another's in one step.
//
// The deadline decides whether a value is there; Redis's own expiry only cleans
// up, and may come later.
type shelf struct {
	j    *Journal
	link *link
	keys keyspace
}

// shelfKeys name what is on the shelf of a realm's kind.
type shelfKeys struct{ value, list, expiry string }

func (s *shelf) keysOf(realm, kind string) shelfKeys {
	n := escape(realm) + ":" + escape(kind)
	head := s.keys.heads[s.keys.hash(n)]
	return shelfKeys{value: head + "s:" + n + ":", list: head + "l:" + n + ":", expiry: head + "e:" + n + ":"}
}

func checkNames(names ...string) error {
	for _, n := range names {
		if len(n) > maxName {
			return fmt.Errorf("%w: a name of %d bytes", journal.ErrTooLarge, len(n))
		}
	}
	return nil
}

func (s *shelf) shift() int64 { return s.link.shift().Milliseconds() }

// now is the time of the server that has the key.
func (s *shelf) now(t time.Time) int64 { return t.UnixMilli() + s.shift() }

var shelfFields = []string{"v", "d", "o", "e", "m"}

// stored is a value as it came from Redis; made is its place on the list.
func stored(id string, c *redis.SliceCmd, now int64) (v journal.Value, made string, err error) {
	f, err := c.Result()
	if err != nil {
		return v, "", fmt.Errorf("redisjournal: the shelf: %w", err)
	}
	if len(f) != len(shelfFields) || f[0] == nil {
		return v, "", journal.ErrNotFound
	}
	var text [5]string
	for i := range text {
		text[i], _ = f[i].(string)
	}
	version, verr := strconv.ParseUint(text[0], 10, 64)
	expires, xerr := strconv.ParseInt(text[3], 10, 64)
	if verr != nil || xerr != nil {
		return v, "", errDamaged
	}
	if expires != 0 && expires <= now {
		return v, "", journal.ErrNotFound
	}
	return journal.Value{ID: id, Data: []byte(text[1]), Version: version, Owner: text[2], Expires: expires}, text[4], nil
}

// get reads values with the server's time.
func (s *shelf) get(ctx context.Context, k shelfKeys, ids ...string) ([]*redis.SliceCmd, int64, error) {
	cmds := make([]*redis.SliceCmd, len(ids))
	clock, err := s.link.timed(ctx, k.value, func(p redis.Pipeliner) {
		for i, id := range ids {
			cmds[i] = p.HMGet(ctx, k.value+escape(id), shelfFields...)
		}
	})
	if err != nil {
		return nil, 0, fmt.Errorf("redisjournal: the shelf: %w", err)
	}
	return cmds, s.now(clock), nil
}

// Get implements journal.Shelf.
func (s *shelf) Get(ctx context.Context, realm, kind, id string) (journal.Value, error) {
	if err := checkNames(realm, kind, id); err != nil {
		return journal.Value{}, err
	}
	if err := s.j.begin(ctx); err != nil {
		return journal.Value{}, err
	}
	defer s.j.leave()
	cmds, now, err := s.get(ctx, s.keysOf(realm, kind), id)
	if err != nil {
		return journal.Value{}, err
	}
	v, _, err := stored(id, cmds[0], now)
	return v, err
}

// Put implements journal.Shelf. The version is chosen here, at random: no
// version comes twice, and a put whose answer was lost can be made again.
func (s *shelf) Put(ctx context.Context, p journal.Put) (uint64, bool, error) {
	if len(p.Data) > maxValue {
		return 0, false, fmt.Errorf("%w: a value of %d bytes", journal.ErrTooLarge, len(p.Data))
	}
	if p.TTL < 0 || p.TTL > longest {
		return 0, false, fmt.Errorf("redisjournal: a value that lives for %s", p.TTL)
	}
	if err := checkNames(p.Realm, p.Kind, p.ID, p.Owner); err != nil {
		return 0, false, err
	}
	if err := s.j.begin(ctx); err != nil {
		return 0, false, err
	}
	defer s.j.leave()
	k := s.keysOf(p.Realm, p.Kind)
	version := rand.Uint64()>>1 | 1
	must := ""
	if p.Version != 0 {
		must = strconv.FormatUint(p.Version, 10)
	}
	ttl := int64(0)
	if p.TTL > 0 {
		ttl = max(1, p.TTL.Milliseconds())
	}
	ok, err := s.change(p.Owner, func(owner string) *redis.Cmd {
		name, mine, other := escape(p.ID), escape(p.Owner), escape(owner)
		return s.link.run(ctx, s.link.read, shelfPut,
			[]string{k.value + name, k.list + mine, k.expiry + mine, k.list + other, k.expiry + other},
			s.shift(), must, strconv.FormatUint(version, 10), p.Data, p.Owner, name, ttl, owner)
	})
	if err != nil || !ok {
		return 0, false, err
	}
	return version, true, nil
}

// Delete implements journal.Shelf. A value that is not there is no error.
func (s *shelf) Delete(ctx context.Context, realm, kind, id string) error {
	if err := checkNames(realm, kind, id); err != nil {
		return err
	}
	if err := s.j.begin(ctx); err != nil {
		return err
	}
	defer s.j.leave()
	k := s.keysOf(realm, kind)
	_, err := s.change("", func(owner string) *redis.Cmd {
		return s.link.run(ctx, s.link.write, shelfDelete,
			[]string{k.value + escape(id), k.list + escape(owner), k.expiry + escape(owner)}, escape(id), owner)
	})
	return err
}

// change calls f with the owner that a value is believed to have, and again
// with the one that it turns out to have: a script names all its keys.
func (s *shelf) change(owner string, f func(owner string) *redis.Cmd) (bool, error) {
	for range 16 {
		text, err := f(owner).Text()
		if err != nil {
			return false, fmt.Errorf("redisjournal: the shelf: %w", err)
		}
		switch {
		case text == string(answerOK):
			return true, nil
		case text == string(answerLost):
			return false, nil
		case text == "" || text[0] != answerAlready:
			return false, errAnswer
		}
		owner = text[1:]
	}
	return false, errors.New("redisjournal: a value changes its owner all the time")
}

// List implements journal.Shelf: newest first by when a value was first put; a
// later change does not move it. After a value that has gone the list is empty.
func (s *shelf) List(ctx context.Context, realm, kind, owner, after string, limit int) ([]journal.Value, error) {
	if err := checkNames(realm, kind, owner, after); err != nil {
		return nil, err
	}
	if err := s.j.begin(ctx); err != nil {
		return nil, err
	}
	defer s.j.leave()
	limit = min(limit, maxPage)
	k := s.keysOf(realm, kind)
	list, member := k.list+escape(owner), ""
	from := int64(0)
	if after != "" {
		member = escape(after)
		rank, err := s.link.read.ZRevRank(ctx, list, member).Result()
		if errors.Is(err, redis.Nil) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("redisjournal: the shelf: %w", err)
		}
		from = rank + 1
	}
	var out []journal.Value
	// Names whose values have gone are few: each put takes some away.
	for len(out) < limit {
		want := int64(limit - len(out))
		names, err := s.link.read.ZRevRange(ctx, list, from, from+want-1).Result()
		if err != nil {
			return nil, fmt.Errorf("redisjournal: the shelf: %w", err)
		}
		if len(names) == 0 {
			break
		}
		from += int64(len(names))
		page, err := s.page(ctx, k, owner, names)
		if err != nil {
			return nil, err
		}
		out = append(out, page...)
	}
	return out, nil
}

// page reads the values of names on an owner's list.
func (s *shelf) page(ctx context.Context, k shelfKeys, owner string, names []string) ([]journal.Value, error) {
	ids := make([]string, 0, len(names))
	for _, n := range names {
		id, ok := unescape(n)
		if !ok {
			return nil, errDamaged
		}
		ids = append(ids, id)
	}
	cmds, now, err := s.get(ctx, k, ids...)
	if err != nil {
		return nil, err
	}
	var out []journal.Value
	for i, id := range ids {
		v, _, err := stored(id, cmds[i], now)
		switch {
		case errors.Is(err, journal.ErrNotFound):
		case err != nil:
			return nil, err
		case v.Owner == owner:
			out = append(out, v)
		}
	}
	return out, nil
}
