package pingerchips

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/room"
	"github.com/parlance-gateway/parlance/internal/wire/phoenix"
)

// member is one join of one topic. Its commands are carried out in the order in
// which they came; a cancel runs beside them, so that a slow command never keeps
// a run from being stopped.
type member struct {
	socket *Socket
	ch     *phoenix.Channel
	who    identity.Principal
	client string
	thread string
	seat   dialect.Seat
	serves bool             // it is an agent's
	agent  Agent            // from begin on, or nil
	first  []*phoenix.Frame // the replay and the snapshot, until they are sent
	past   *past            // of the messages, where their slot shows all
	// view is what the join chose of the tree, acked the newest entry that one of
	// its own commands was; only commands in turn touch them.
	view  choices
	acked uint64

	sending sync.Mutex // held over what must not be torn apart

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

// begin sends what a join is sent first, and then lets the feed go (PIN-065).
func (m *member) begin() {
	m.socket.server.mu.Lock()
	m.socket.server.members[m] = struct{}{}
	m.socket.server.mu.Unlock()
	for _, f := range m.first {
		if m.ch.SendExempt(f) != nil {
			break
		}
	}
	m.first = nil
	m.seat.Release()
	if m.serves {
		m.agent = m.socket.server.o.Agents.Join(m.who, m.thread, m.tell)
	}
}

// leave ends the membership; runs go on.
func (m *member) leave() {
	m.mu.Lock()
	m.left = true
	m.mu.Unlock()
	m.socket.server.mu.Lock()
	delete(m.socket.server.members, m)
	m.socket.server.mu.Unlock()
	if m.agent != nil {
		m.agent.Leave()
	}
	m.seat.Leave()
	m.socket.leave(m.client)
}

// Deliver implements room.Member: it only queues. Nothing that is pushed to the
// member comes between a signal and its entry (PIN-105).
func (m *member) Deliver(encoded any) {
	signal, entry := encoded.(*Encoded).frames(m.ch.Topic(), m.past)
	m.sending.Lock()
	defer m.sending.Unlock()
	if signal != nil && m.ch.Send(signal) != nil {
		return // slow or gone: its connection is closed
	}
	_ = m.ch.Send(entry)
}

// tell pushes an event to this member alone.
func (m *member) tell(event string, payload []byte) error {
	m.sending.Lock()
	defer m.sending.Unlock()
	return m.ch.Push(event, payload)
}

// Stamp is the span of the connection's handshake.
func (m *member) Stamp() string { return m.socket.visit.Connection.Stamp() }

// Close implements room.Member: the client comes back with its log_id, unless
// the thread is no more.
func (m *member) Close(why room.CloseReason) {
	if why == room.CloseDeleted {
		m.ch.Close()
		return
	}
	m.ch.Error(nil)
}

// check lets go of a principal that may not stay: its channel is over.
func (m *member) check() bool {
	if identity.Apps(m.socket.visit.Site.App).Recheck(m.who) == nil {
		return true
	}
	m.ch.Close()
	return false
}

// push takes a push off the wire. It does not block.
func (m *member) push(p phoenix.Push) {
	if !m.check() {
		return
	}
	if m.socket.limited() {
		m.socket.visit.Connection.Limited()
		m.refuse(p.Ref, rateLimited)
		return
	}
	run := func() { m.carry(p) }
	if p.Event == pushCancel {
		m.runBeside(run, p.Ref)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return
	}
	if len(m.queue) >= queueLimit || (len(m.queue) > 0 && m.queued+len(p.Payload) > queueBytes) {
		m.socket.server.o.Counts.OverCommands.Add(1)
		m.refuse(p.Ref, rateLimited)
		return
	}
	m.queue = append(m.queue, waiting{run, len(p.Payload)})
	m.queued += len(p.Payload)
	if !m.working {
		m.working = m.socket.server.spawn(m.work)
	}
}

func (m *member) refuse(ref phoenix.Ref, r Reason) {
	_ = m.ch.Reply(ref, phoenix.Error, r.response())
}

func (m *member) runBeside(run func(), ref phoenix.Ref) {
	m.mu.Lock()
	full := m.beside >= besideLimit
	if !full {
		m.beside++
	}
	m.mu.Unlock()
	if full {
		m.socket.server.o.Counts.OverCommands.Add(1)
		m.refuse(ref, rateLimited)
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
func (m *member) carry(p phoenix.Push) {
	ctx, noted := m.socket.visit.Connection.Begin(m.socket.server.ctx, named(p.Event))
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	m.hold(ctx, p.Event)
	defer m.seat.Release()
	defer m.crash(p.Event)
	response, view, err := m.command(ctx, p.Event, p.Payload)
	noted.Done(codeOf(err))
	if err != nil {
		reason, _ := refusal(err)
		m.socket.server.report(p.Event, err)
		m.refuse(p.Ref, reason)
		return
	}
	_ = m.ch.Reply(p.Ref, phoenix.OK, response)
	if view != nil {
		_ = m.tell(eventView, view)
	}
}

// crashed is what a client is told of a command of its own that panicked.
var crashed = []byte(`{"reason":"channel_crash"}`)

// crash ends this channel alone if its command panicked: the client joins again
// (PIN-009).
func (m *member) crash(event string) {
	if v := recover(); v != nil {
		m.socket.server.o.Logger.Error("a command panicked", "command", event, "panic", v, "stack", string(debug.Stack()))
		m.ch.Error(crashed)
	}
}

// hold stops the feed where the thread shows what the member's own commands did:
// an acknowledgement may come before the room has the entry.
func (m *member) hold(ctx context.Context, event string) {
	m.seat.Hold()
	if event == pushCancel { // beside the others
		return
	}
	for range ownTries {
		if m.seat.State().Log >= m.acked {
			break
		}
		m.seat.Release()
		select {
		case <-time.After(ownPause):
		case <-ctx.Done():
		}
		m.seat.Hold()
	}
}

// A command waits so long for the entry of one before it.
const (
	ownPause = 2 * time.Millisecond
	ownTries = 500
)

func errIs(err, target error) bool { return errors.Is(err, target) }

// may says whether the member has the verb on the thread as it sees it now.
func (m *member) may(st *chat.State, v identity.Verb) bool {
	return m.socket.server.o.Desk.Granted(m.who, m.thread, st).Has(v)
}
