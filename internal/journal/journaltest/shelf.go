package journaltest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/journal"
)

func (b *bench) put(p journal.Put) (uint64, bool) {
	b.Helper()
	v, ok, err := b.Hubs[0].Shelf().Put(b.ctx, p)
	b.no(err)
	return v, ok
}

func (b *bench) noValue(realm, kind, id string) {
	b.Helper()
	if v, err := b.Hubs[1].Shelf().Get(b.ctx, realm, kind, id); !errors.Is(err, journal.ErrNotFound) {
		b.Fatalf("got %q, %v", v.Data, err)
	}
}

var shelfCases = []testCase{
	{"a value is put only over the version that it has", func(b *bench) {
		b.noValue("r", "k", "id")
		p := journal.Put{Realm: "r", Kind: "k", ID: "id", Data: []byte("one")}
		v1, ok := b.put(p)
		b.equal("put of a new one", ok, true)
		_, ok = b.put(p)
		b.equal("put as if new", ok, false)
		p.Version, p.Data = v1, []byte("two")
		v2, ok := b.put(p)
		b.equal("put over its version", ok, true)
		_, ok = b.put(p)
		b.equal("put over an old version", ok, false)
		got, err := b.Hubs[1].Shelf().Get(b.ctx, "r", "k", "id")
		b.no(err)
		b.equal("value", string(got.Data), "two")
		b.equal("version, id, expires", [3]any{got.Version, got.ID, got.Expires}, [3]any{v2, "id", int64(0)})
	}},
	{"of many that put at once one wins", func(b *bench) {
		version := uint64(0)
		for round := range 5 {
			won := make(chan uint64, 16)
			var all sync.WaitGroup
			for i := range 16 {
				all.Go(func() {
					v, ok, err := b.Hubs[i%2].Shelf().Put(b.ctx, journal.Put{Realm: "r", Kind: "k", ID: "id", Version: version, Data: []byte{byte(i)}})
					if err != nil {
						b.Error(err)
					} else if ok {
						won <- v
					}
				})
			}
			all.Wait()
			b.equal(fmt.Sprintf("winners of round %d", round), len(won), 1)
			version = <-won
		}
	}},
	{"a value that was deleted and made again is not the old one", func(b *bench) {
		v1, _ := b.put(journal.Put{Realm: "r", Kind: "k", ID: "id"})
		b.no(b.Hubs[1].Shelf().Delete(b.ctx, "r", "k", "id"))
		b.no(b.Hubs[1].Shelf().Delete(b.ctx, "r", "k", "id"))
		b.noValue("r", "k", "id")
		v2, ok := b.put(journal.Put{Realm: "r", Kind: "k", ID: "id"})
		b.equal("made again", ok, true)
		if v1 == v2 {
			b.Fatal("it has the version of the old one")
		}
	}},
	{"a value lives as long as it was given, and no longer on the list", func(b *bench) {
		p := journal.Put{Realm: "r", Kind: "k", ID: "id", Owner: "me", TTL: time.Minute}
		v, _ := b.put(p)
		b.Advance(50 * time.Second)
		p.Version = v
		v, ok := b.put(p) // another minute
		b.equal("put again", ok, true)
		b.Advance(50 * time.Second)
		_, err := b.Hubs[1].Shelf().Get(b.ctx, "r", "k", "id")
		b.no(err)
		b.Advance(15 * time.Second)
		b.noValue("r", "k", "id")
		list, err := b.Hubs[0].Shelf().List(b.ctx, "r", "k", "me", "", 10)
		b.no(err)
		b.equal("list", len(list), 0)
		p.Version = v
		_, ok = b.put(p)
		b.equal("put over what has gone", ok, false)
		p.Version, p.TTL = 0, 0
		_, ok = b.put(p)
		b.equal("put anew", ok, true)
		b.Advance(1000 * time.Hour)
		_, err = b.Hubs[1].Shelf().Get(b.ctx, "r", "k", "id")
		b.no(err)
	}},
	{"a value that has expired is none, also for who puts it", func(b *bench) {
		p := journal.Put{Realm: "r", Kind: "k", ID: "id", TTL: 10 * time.Second}
		p.Version, _ = b.put(p)
		b.Advance(11 * time.Second)
		b.noValue("r", "k", "id")
		_, ok := b.put(p)
		b.equal("put over what has expired", ok, false)
		p.Version = 0
		_, ok = b.put(p)
		b.equal("put anew", ok, true)
	}},
	{"an owner's values are listed newest first, by page", func(b *bench) {
		var want []string
		for i := range 25 {
			id := fmt.Sprintf("v%d", (i*7)%25)
			b.put(journal.Put{Realm: "r", Kind: "k", ID: id, Owner: "me", Data: []byte(id)})
			b.put(journal.Put{Realm: "r", Kind: "k", ID: "other-" + id, Owner: "you"})
			b.put(journal.Put{Realm: "r", Kind: "k", ID: "unlisted-" + id})
			b.put(journal.Put{Realm: "r2", Kind: "k", ID: id, Owner: "me"})
			b.put(journal.Put{Realm: "r", Kind: "k2", ID: id, Owner: "me"})
			b.Advance(time.Millisecond)
			want = append([]string{id}, want...)
		}
		var got []string
		after := ""
		for range 10 {
			page, err := b.Hubs[1].Shelf().List(b.ctx, "r", "k", "me", after, 10)
			b.no(err)
			if len(page) == 0 {
				break
			}
			for _, v := range page {
				b.equal("data", string(v.Data), v.ID)
				b.equal("owner", v.Owner, "me")
				got = append(got, v.ID)
			}
			after = got[len(got)-1]
		}
		b.equal("list", got, want)
	}},
	{"a value may change its owner", func(b *bench) {
		v, _ := b.put(journal.Put{Realm: "r", Kind: "k", ID: "id", Owner: "me"})
		b.put(journal.Put{Realm: "r", Kind: "k", ID: "id", Owner: "you", Version: v})
		for owner, want := range map[string]int{"me": 0, "you": 1} {
			list, err := b.Hubs[1].Shelf().List(b.ctx, "r", "k", owner, "", 10)
			b.no(err)
			b.equal("list of "+owner, len(list), want)
		}
	}},
	{"names are kept apart", func(b *bench) {
		for i, n := range [][3]string{{"a", "b", "c"}, {"ab", "", "c"}, {"a", "", "bc"}, {"a", "b:c", ""}, {"", "a", "b:c"}, {"a:b", "c", "x"}, {"a", "b", "c:x"}} {
			_, ok := b.put(journal.Put{Realm: n[0], Kind: n[1], ID: n[2] + "!", Data: []byte{byte(i)}})
			b.equal(fmt.Sprint(n), ok, true)
		}
	}},
	{"F50 a value has at most 64 KiB", func(b *bench) {
		p := journal.Put{Realm: "r", Kind: "k", ID: "id", Data: bytes.Repeat([]byte{0xff}, 64<<10)}
		_, ok := b.put(p)
		b.equal("64 KiB", ok, true)
		p.ID, p.Data = "larger", append(p.Data, 0)
		if _, _, err := b.Hubs[0].Shelf().Put(b.ctx, p); !errors.Is(err, journal.ErrTooLarge) {
			b.Fatalf("one more: %v", err)
		}
	}},
}
