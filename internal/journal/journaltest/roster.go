package journaltest

import (
	"fmt"
	"slices"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// boots are the edges that a hub knows to live.
func (b *bench) boots(hub int) []string {
	b.Helper()
	edges, err := b.Hubs[hub].Roster().Edges(b.ctx)
	b.no(err)
	boots := []string{}
	for _, e := range edges {
		boots = append(boots, e.Boot)
	}
	return boots
}

// present is who is in a thread's rooms, as boot and subject.
func (b *bench) present(hub int, key chat.Key) []string {
	b.Helper()
	list, err := b.Hubs[hub].Roster().Present(b.ctx, key)
	b.no(err)
	out := []string{}
	for _, a := range list {
		for _, m := range a.Members {
			out = append(out, a.Boot+" "+m.Subject.ID)
		}
	}
	return out
}

func (b *bench) announce(hub int, e journal.Edge) {
	b.Helper()
	b.no(b.Hubs[hub].Roster().Announce(b.ctx, e))
}

func (b *bench) attend(hub int, key chat.Key, boot string, ids ...string) {
	b.Helper()
	a := journal.Attendance{Boot: boot, Count: len(ids)}
	for _, id := range ids {
		a.Members = append(a.Members, journal.Attending{Subject: chat.Subject{Issuer: "i", ID: id}, Dialect: "d", Since: 7})
	}
	b.no(b.Hubs[hub].Roster().Attend(b.ctx, key, a))
}

var rosterCases = []testCase{
	{"an edge that has announced itself is known to all, as it said, by name", func(b *bench) {
		b.equal("edges of none", b.boots(1), []string{})
		e := journal.Edge{
			Boot: "b1", Name: "two", Version: "1.2", Schema: 3, Started: 1700000000000,
			Agents: map[string][]string{"r": {"a", "b"}}, Sockets: 4, Rooms: 5, Runs: 6,
		}
		b.announce(0, e)
		b.announce(1, journal.Edge{Boot: "b2", Name: "one"})
		b.announce(1, journal.Edge{Boot: "b0", Name: "two"})
		for hub := range b.Hubs {
			b.equal("edges", b.boots(hub), []string{"b2", "b0", "b1"})
		}
		edges, err := b.Hubs[1].Roster().Edges(b.ctx)
		b.no(err)
		b.equal("what it said", fmt.Sprint(edges[2]), fmt.Sprint(e))
		e.Draining, e.Runs = true, 0
		b.announce(0, e)
		edges, err = b.Hubs[1].Roster().Edges(b.ctx)
		b.no(err)
		b.equal("what it said last", fmt.Sprint(edges[2]), fmt.Sprint(e))
	}},
	{"an edge that is silent for longer than its deadline is gone, with those who were on it", func(b *bench) {
		th := b.thread()
		b.announce(0, journal.Edge{Boot: "b1"})
		b.announce(1, journal.Edge{Boot: "b2"})
		b.attend(0, th.key, "b1", "ann")
		b.attend(1, th.key, "b2", "bob")
		b.Advance(journal.OwnerDeadline / 2)
		b.announce(1, journal.Edge{Boot: "b2"})
		b.equal("edges before", b.boots(0), []string{"b1", "b2"})
		b.equal("present before", b.present(1, th.key), []string{"b1 ann", "b2 bob"})
		b.Advance(journal.OwnerDeadline/2 + time.Second)
		for hub := range b.Hubs {
			b.equal("edges", b.boots(hub), []string{"b2"})
			b.equal("present", b.present(hub, th.key), []string{"b2 bob"})
		}
		b.announce(0, journal.Edge{Boot: "b1"})
		b.equal("edges when it is back", b.boots(1), []string{"b1", "b2"})
	}},
	{"an edge that has left is gone at once, with those who were on it", func(b *bench) {
		th := b.thread()
		b.announce(0, journal.Edge{Boot: "b1"})
		b.announce(1, journal.Edge{Boot: "b2"})
		b.attend(0, th.key, "b1", "ann")
		b.attend(1, th.key, "b2", "bob")
		b.no(b.Hubs[0].Leave(b.ctx, "b1"))
		b.equal("edges", b.boots(1), []string{"b2"})
		b.equal("present", b.present(1, th.key), []string{"b2 bob"})
	}},
	{"what an edge says of a thread takes the place of what it said before", func(b *bench) {
		th := b.thread()
		b.announce(0, journal.Edge{Boot: "b1"})
		b.announce(0, journal.Edge{Boot: "b2"})
		b.equal("none", b.present(1, th.key), []string{})
		b.attend(0, th.key, "b1", "ann", "bob")
		b.attend(0, th.key, "b2", "cat")
		b.equal("two edges", b.present(1, th.key), []string{"b1 ann", "b1 bob", "b2 cat"})
		b.attend(0, th.key, "b1", "bob")
		b.equal("one has gone", b.present(1, th.key), []string{"b1 bob", "b2 cat"})
		b.attend(0, th.key, "b1")
		b.attend(0, th.key, "b1")
		b.equal("nobody is left there", b.present(1, th.key), []string{"b2 cat"})
	}},
	{"those beyond the limit are counted", func(b *bench) {
		th := b.thread()
		b.announce(0, journal.Edge{Boot: "b1"})
		a := journal.Attendance{Boot: "b1", Count: 5000, Members: make([]journal.Attending, journal.MaxAttending)}
		b.no(b.Hubs[0].Roster().Attend(b.ctx, th.key, a))
		list, err := b.Hubs[1].Roster().Present(b.ctx, th.key)
		b.no(err)
		b.equal("edges", len(list), 1)
		b.equal("count", list[0].Count, 5000)
		b.equal("members", len(list[0].Members), journal.MaxAttending)
	}},
	{"threads are kept apart, and an edge that nobody knows has nobody", func(b *bench) {
		b.announce(0, journal.Edge{Boot: "b1"})
		keys := []chat.Key{
			{Realm: "r", Thread: "t"},
			{Realm: "r:t"},
			{Realm: "r", Tenant: "t"},
			{Realm: "r", Tenant: ":", Thread: "t"},
			{Realm: "r", Thread: ":t"},
			{Realm: "r{t}", Thread: "%3a"},
			{Realm: "r", Tenant: "%3a", Thread: "t"},
		}
		for i, key := range keys {
			b.attend(0, key, "b1", fmt.Sprint(i))
			b.attend(1, key, "unknown", "eve")
		}
		for i, key := range keys {
			if got := b.present(1, key); !slices.Equal(got, []string{"b1 " + fmt.Sprint(i)}) {
				b.Fatalf("%+v: %v", key, got)
			}
		}
	}},
}
