package pingerchips

import (
	"context"
	"errors"
	"sync"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/room"
)

// member is one join of one topic. Its commands are carried out in the order in
// which they came; a cancel runs beside them, so that a slow command never keeps
// a run from being stopped.
type member struct {
	socket *Socket
	ch     Channel
	who    identity.Principal
	client string
	thread string
	seat   dialect.Seat
	agent  Agent   // or nil
	first  []*Push // the replay and the snapshot, until they are sent
	// view is what the join chose of the tree; only commands in turn touch it.
	view choices

	mu      sync.Mutex
	queue   []waiting
	queued  int // bytes of queue
	beside  int
	working bool
	left    bool
}

// waiting is a command whose turn has not come.
type waiting struct {
	run  func()
	size int
}

// Reply answers a push: with a response, which is a JSON object, or an error.
type Reply func(ok bool, response []byte)

func refuse(reply Reply, r Reason) {
	reply(false, append(quoted([]byte(`{"reason":`), string(r)), '}'))
}

// Begin sends what a join is sent first, and then lets the feed go (PIN-065).
func (m *member) Begin() {
	m.socket.server.mu.Lock()
	m.socket.server.members[m] = struct{}{}
	m.socket.server.mu.Unlock()
	for _, p := range m.first {
		if m.ch.Send(p, true) != nil {
			break
		}
	}
	m.first = nil
	m.seat.Release()
}

// Leave ends the membership; runs go on. It may be called again.
func (m *member) Leave() {
	m.mu.Lock()
	again := m.left
	m.left = true
	m.mu.Unlock()
	if again {
		return
	}
	m.socket.server.mu.Lock()
	delete(m.socket.server.members, m)
	m.socket.server.mu.Unlock()
	if m.agent != nil {
		m.agent.Leave()
	}
	m.seat.Leave()
	m.socket.leave(m.client)
}

// Deliver implements room.Member: it only queues. The signal and its entry are
// queued by one goroutine, so nothing comes between them (PIN-105).
func (m *member) Deliver(encoded any) {
	signal, entry := encoded.(*Encoded).pushes()
	if signal != nil && m.ch.Send(signal, false) != nil {
		return
	}
	_ = m.ch.Send(entry, false)
}

// Close implements room.Member: the client comes back with its log_id, unless
// the thread is no more.
func (m *member) Close(why room.CloseReason) {
	if why == room.CloseDeleted {
		m.ch.Close()
		return
	}
	m.ch.Fail()
}

// check lets go of a principal that may not stay: its channel is over.
func (m *member) check() bool {
	if identity.Apps(m.socket.visit.Site.App).Recheck(m.who) == nil {
		return true
	}
	m.ch.Close()
	return false
}

// Push takes a push off the wire. It does not block.
func (m *member) Push(event string, payload []byte, reply Reply) {
	if !m.check() {
		return
	}
	if m.socket.limited() {
		refuse(reply, rateLimited)
		return
	}
	run := func() { m.carry(event, payload, reply) }
	if event == pushCancel {
		m.runBeside(run, reply)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return
	}
	if len(m.queue) >= queueLimit || (len(m.queue) > 0 && m.queued+len(payload) > queueBytes) {
		refuse(reply, rateLimited)
		return
	}
	m.queue = append(m.queue, waiting{run, len(payload)})
	m.queued += len(payload)
	if !m.working {
		m.working = m.socket.server.spawn(m.work)
	}
}

func (m *member) runBeside(run func(), reply Reply) {
	m.mu.Lock()
	full := m.beside >= besideLimit
	if !full {
		m.beside++
	}
	m.mu.Unlock()
	if full {
		refuse(reply, rateLimited)
		return
	}
	m.socket.server.spawn(func() {
		run()
		m.mu.Lock()
		m.beside--
		m.mu.Unlock()
	})
}

func (m *member) work() {
	for {
		m.mu.Lock()
		if len(m.queue) == 0 || m.left {
			m.working, m.queue, m.queued = false, nil, 0
			m.mu.Unlock()
			return
		}
		next := m.queue[0]
		m.queue[0] = waiting{}
		m.queue = m.queue[1:]
		m.queued -= next.size
		m.mu.Unlock()
		next.run()
	}
}

// carry carries a command out with the feed held: its answer goes first, what it
// caused after it.
func (m *member) carry(event string, payload []byte, reply Reply) {
	ctx, cancel := context.WithTimeout(m.socket.server.ctx, commandTimeout)
	defer cancel()
	m.seat.Hold()
	defer m.seat.Release()
	response, then, err := m.command(ctx, event, payload)
	if err != nil {
		reason, _ := refusal(err)
		m.socket.server.report(event, err)
		refuse(reply, reason)
		return
	}
	if response == nil {
		response = []byte("{}")
	}
	reply(true, response)
	if then != nil {
		_ = m.ch.Send(then, false)
	}
}

func errIs(err, target error) bool { return errors.Is(err, target) }

// may says whether the member has the verb on the thread as it sees it now.
func (m *member) may(st *chat.State, v identity.Verb) bool {
	return m.socket.server.o.Desk.Granted(m.who, m.thread, st).Has(v)
}
