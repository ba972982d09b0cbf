package room

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// How membership is shared: who came or went marks his room, and once a second
// what was marked is told to the journal's roster, a thread at most once. Nothing
// is written per heartbeat, and nothing of it happens where records are delivered.
const (
	attendEvery = time.Second
	// attendAtOnce bounds the reports under way.
	attendAtOnce = 8
	// attendAgain is after how many rounds a room is told again although nothing
	// changed, since a roster may have been lost with its store.
	attendAgain = 300
)

// attendance is what this edge has told and is to tell of its rooms.
type attendance struct {
	mu    sync.Mutex
	gauge map[string]int // members by dialect
	dirty map[chat.Key]struct{}
	told  map[chat.Key]int // by thread: the round in which it is told again
	round int
}

func (a *attendance) mark(key chat.Key, dialect string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gauge == nil {
		a.gauge, a.dirty, a.told = make(map[string]int), make(map[chat.Key]struct{}), make(map[chat.Key]int)
	}
	if a.gauge[dialect] += n; a.gauge[dialect] == 0 {
		delete(a.gauge, dialect)
	}
	a.dirty[key] = struct{}{}
}

// turn returns what is to be told now.
func (a *attendance) turn() []chat.Key {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.round++
	for key, again := range a.told {
		if a.round >= again {
			a.dirty[key] = struct{}{}
		}
	}
	keys := slices.Collect(maps.Keys(a.dirty))
	clear(a.dirty)
	return keys
}

// knows says whether the thread was told with somebody in it.
func (a *attendance) knows(key chat.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.told[key]
	return ok
}

func (a *attendance) done(key chat.Key, count int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !ok:
		a.dirty[key] = struct{}{}
		if count > 0 {
			a.told[key] = a.round + 1 // it may have been stored
		}
	case count > 0:
		a.told[key] = a.round + attendAgain
	default:
		delete(a.told, key)
	}
}

// Members counts the members of all rooms by dialect.
func (rs *Rooms) Members() map[string]int {
	rs.attended.mu.Lock()
	defer rs.attended.mu.Unlock()
	return maps.Clone(rs.attended.gauge)
}

// Retell tells the roster of all members again: this edge's lease had run out.
func (rs *Rooms) Retell() {
	a := &rs.attended
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.told {
		a.dirty[key] = struct{}{}
	}
}

// attend tells the roster who is in this edge's rooms, until the rooms close.
func (rs *Rooms) attend() {
	defer rs.wg.Done()
	t := time.NewTicker(rs.o.AttendEvery)
	defer t.Stop()
	for {
		select {
		case <-rs.ctx.Done():
			return
		case <-t.C:
		}
		var wg sync.WaitGroup
		slots := make(chan struct{}, attendAtOnce)
		for _, key := range rs.attended.turn() {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				rs.tell(key)
			})
		}
		wg.Wait()
	}
}

func (rs *Rooms) tell(key chat.Key) {
	a := journal.Attendance{Boot: rs.o.Boot}
	rs.mu.Lock()
	r := rs.rooms[key]
	rs.mu.Unlock()
	if r != nil {
		a.Members, a.Count = r.attending()
	}
	if a.Count == 0 && !rs.attended.knows(key) {
		return // he came and went between two rounds
	}
	ctx, cancel := context.WithTimeout(rs.ctx, rs.o.LoadTimeout)
	defer cancel()
	err := rs.j.Roster().Attend(ctx, key, a)
	if err != nil && rs.ctx.Err() == nil {
		rs.o.Logger.Debug("the roster was not told of a room", "realm", key.Realm, "error", err)
	}
	rs.attended.done(key, a.Count, err == nil)
}

// attending names at most journal.MaxAttending of the room's members, those
// that came first of those it names, and counts all.
func (r *Room) attending() ([]journal.Attending, int) {
	r.mu.Lock()
	list := make([]journal.Attending, 0, min(r.attended, journal.MaxAttending))
	for s := range r.seats {
		if len(list) == journal.MaxAttending {
			break
		}
		if s.who != nil {
			list = append(list, *s.who)
		}
	}
	n := r.attended
	r.mu.Unlock()
	slices.SortFunc(list, func(a, b journal.Attending) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Subject.ID, b.Subject.ID))
	})
	return list, n
}

// Attend counts the seat's user as a member, for other edges to see. Once only,
// and after it was decided that he may be there.
func (s *Seat) Attend(who journal.Attending) {
	r := s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.gone || s.who != nil {
		return
	}
	if who.ID == "" {
		who.ID = fmt.Sprintf("%016x%016x", r.rooms.o.Random(), r.rooms.o.Random())
	}
	s.who = &who
	r.attended++
	r.rooms.attended.mark(r.key, who.Dialect, 1)
}

// absent takes back what Attend said; r.mu is held.
func (s *Seat) absent() {
	if s.who == nil {
		return
	}
	r := s.room
	r.attended--
	r.rooms.attended.mark(r.key, s.who.Dialect, -1)
	s.who = nil
}

// Having finds the thread in which a live run of that id is, among those that
// are open on this edge.
func (rs *Rooms) Having(run string) (chat.Key, bool) {
	rs.mu.Lock()
	rooms := slices.Collect(maps.Values(rs.rooms))
	rs.mu.Unlock()
	for _, r := range rooms {
		r.mu.Lock()
		has := r.seq.Ready && r.seq.State.Run(run) != nil
		r.mu.Unlock()
		if has {
			return r.key, true
		}
	}
	return chat.Key{}, false
}
