package pingerchips

import (
	"context"
	"sync"
	"weak"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// span is what a state has of the thread's messages: chunks full pages of older
// ones, which the journal has, and its tail.
type span struct {
	chunks int
	tail   []*chat.Message
}

func spanOf(st *chat.State) span { return span{st.Chunks, st.Tail} }

// past are messages of a thread by their ordinals, from on; list is immutable, as
// ordinals and messages are.
type past struct {
	from int
	list []*chat.Message
}

// whole is all that the slot messages shows at a span: the newest that fit. It
// depends on the span alone, if p covers it.
func (p *past) whole(s span) []*chat.Message {
	all, _ := p.fit(s)
	return all
}

// covers says that nothing is missing in p that a span shows.
func (p *past) covers(s span) bool {
	_, ok := p.fit(s)
	return ok
}

func (p *past) fit(s span) (all []*chat.Message, ok bool) {
	room, first := MaxSlot, len(s.tail)
	for first > 0 && s.fits(s.tail[first-1], len(s.tail)-first, &room) {
		first--
	}
	stored := s.chunks * chat.ChunkSize
	if first > 0 || stored == 0 {
		return s.tail[first:], true
	}
	if p == nil || stored > p.from+len(p.list) || stored < p.from {
		return s.tail, false
	}
	older := p.list[:stored-p.from]
	first = len(older)
	for first > 0 && s.fits(older[first-1], len(s.tail)+len(older)-first, &room) {
		first--
	}
	all = append(make([]*chat.Message, 0, len(older)-first+len(s.tail)), older[first:]...)
	return append(all, s.tail...), first > 0 || p.from == 0
}

// fits takes a message's room, unless there is none; n are shown already.
func (s span) fits(m *chat.Message, n int, room *int) bool {
	size := windowSize([]*chat.Message{m})
	if *room -= size; *room < 0 && n >= Window {
		return false
	}
	return true
}

// pasts lets the members of a thread share one past.
type pasts struct {
	mu  sync.Mutex
	all map[pastKey]weak.Pointer[past]
}

// pastKey names a thread's stored pages; born tells it from one that was deleted.
type pastKey struct {
	realm, tenant, thread string
	born                  uint64
	chunks                int
}

// maxPasts is how many are remembered before those that nobody has are forgotten.
const maxPasts = 256

func (p *pasts) get(k pastKey) *past {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[k].Value()
}

func (p *pasts) put(k pastKey, v *past) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = make(map[pastKey]weak.Pointer[past])
	}
	if len(p.all) >= maxPasts {
		for k, w := range p.all {
			if w.Value() == nil {
				delete(p.all, k)
			}
		}
	}
	if len(p.all) < maxPasts {
		p.all[k] = weak.Make(v)
	}
}

// pastPages is how many pages of older messages are read at once.
const pastPages = 8

// pastOf loads what a span shows of older messages. Where they cannot be read the
// slot shows what there is: a join is not refused for its history.
func (m *member) pastOf(ctx context.Context, st *chat.State, s span) *past {
	k := pastKey{m.who.Realm, m.who.Tenant, m.thread, st.Born, s.chunks}
	old := m.socket.server.pasts.get(k)
	if old.covers(s) {
		return old
	}
	p := &past{from: s.chunks * chat.ChunkSize}
	at := *st
	at.Chunks, at.Tail = s.chunks, s.tail
	// What came before s may have shown more of what is older.
	for size := windowSize(s.tail); p.from > 0 && (size <= 2*MaxSlot || !p.covers(s)); {
		from := max(0, p.from-pastPages*chat.ChunkSize)
		all, err := m.load(ctx, &at, from, p.from)
		if err != nil {
			return p
		}
		size += windowSize(all)
		p = &past{from: from, list: append(all[:len(all):len(all)], p.list...)}
	}
	m.socket.server.pasts.put(k, p)
	return p
}
