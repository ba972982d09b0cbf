package pingerchips

import (
	"context"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/wire/phoenix"
)

// Socket is one connection. It holds nothing of a principal: each join brings
// its own credential.
type Socket struct {
	server *Server
	visit  *dialect.Visit

	mu      sync.Mutex
	pace    *rate.Limiter
	joined  int
	clients map[string]int // joins by client: each is counted as a connection of his
}

// Ended is told by the wire when the connection is over.
func (k *Socket) Ended(reason string) { k.visit.Ended(reason) }

// limited says whether something comes too soon after others.
func (k *Socket) limited() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pace == nil {
		r := k.visit.Site.Rules()
		if r.CommandsPerSecond == 0 {
			r.CommandsPerSecond = defaultRate
		}
		if r.CommandBurst == 0 {
			r.CommandBurst = max(defaultBurst, int(r.CommandsPerSecond))
		}
		k.pace = rate.NewLimiter(rate.Limit(r.CommandsPerSecond), r.CommandBurst)
	}
	if k.pace.AllowN(k.server.o.Now(), 1) {
		return false
	}
	k.server.o.Counts.OverCommands.Add(1)
	return true
}

// join admits a client or an agent to a topic. It may block on the journal.
func (k *Socket) join(ctx context.Context, ch *phoenix.Channel, payload []byte) (*member, error) {
	app, thread, ok := parseTopic(ch.Topic())
	if !ok {
		return nil, badTopic
	}
	if k.limited() {
		k.visit.Connection.Limited()
		return nil, rateLimited
	}
	c, err := parseJoin(payload)
	if err != nil {
		return nil, err
	}
	j, err := identity.Apps(k.visit.Site.App).Join(identity.Join{
		AppKey: app, Thread: thread, Auth: c.Auth, ClientID: c.ClientID, Secret: c.Secret, AgentID: c.AgentID, Socket: ch.SocketID(),
	}, k.server.o.Now())
	if err != nil {
		k.server.o.Logger.Debug("a join was refused", "site", k.visit.Site.Name(), "reason", identity.Reason(err))
		k.visit.Connection.Denied()
		return nil, err
	}
	m := &member{socket: k, ch: ch, who: j.Principal, thread: thread, client: k.client(j.Principal)}
	if err := k.enter(m.client); err != nil {
		return nil, err
	}
	if err := m.open(ctx, c, j.Agent); err != nil {
		k.leave(m.client)
		return nil, err
	}
	k.visit.Connection.Admitted(m.who)
	return m, nil
}

// client is by whom connections are counted: the principal, or for one whose
// name is his own choice the network that he is in.
func (k *Socket) client(p identity.Principal) string {
	who := p.Key()
	if strings.HasPrefix(p.Subject.Issuer, identity.IssuerJoin) {
		who = network(k.visit.Creds.RemoteIP)
	}
	return k.visit.Site.Name() + "\x00" + who
}

// network is the address, or what one customer has of IPv6.
func network(ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return ip
	}
	bits := 64
	if a = a.Unmap(); a.Is4() {
		bits = 32
	}
	p, err := a.WithZone("").Prefix(bits)
	if err != nil {
		return ip
	}
	return p.String()
}

// enter counts a join, within the limits of the connection and of its client.
func (k *Socket) enter(client string) error {
	rules := k.visit.Site.Rules()
	most := MaxChannels
	if n := rules.RoomsPerConnection; n > 0 {
		most = min(most, n)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.joined >= most {
		k.server.o.Counts.OverRooms.Add(1)
		return tooManyTopics
	}
	if k.clients[client] == 0 && !k.server.count(client, rules.ConnectionsPerClient) {
		k.server.o.Counts.OverClient.Add(1)
		return tooManyConns
	}
	k.clients[client]++
	k.joined++
	return nil
}

func (k *Socket) leave(client string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.joined--
	if k.clients[client]--; k.clients[client] == 0 {
		delete(k.clients, client)
		k.server.discount(client)
	}
}

// open finds the thread, or makes it spring up, and takes a seat in it. What is
// to be sent first is made ready, at one position of the thread.
func (m *member) open(ctx context.Context, c joinCommand, agent bool) error {
	desk := m.socket.server.o.Desk
	if err := desk.Open(ctx, m.who, m.thread); err != nil {
		return m.unseen(err)
	}
	if c.AfterBad {
		return invalidAfter
	}
	if c.ViewBad {
		return invalidPayload
	}
	m.view = c.View
	rules := m.socket.visit.Site.Rules()
	v := Variant{Full: rules.AllMessages, Extensions: rules.Extensions}
	var err error
	if m.seat, err = desk.Join(ctx, m.who, m.thread, v, m); err != nil {
		return m.unseen(err)
	}
	st := m.seat.State()
	if c.Resumes && c.After > st.Log {
		m.seat.Reach(ctx, c.After)
		st = m.seat.State()
	}
	if v.Full {
		m.past = m.pastOf(ctx, st, spanOf(st))
	}
	if c.Resumes && c.After < st.Log {
		if m.first, err = m.replay(ctx, st, v, c.After); err != nil {
			m.seat.Leave()
			return err
		}
	}
	m.first = append(m.first, m.socket.server.shown.of(m.ch.Topic(), st, v))
	m.serves = m.socket.server.o.Agents != nil && agent
	return nil
}

// unseen words that the principal may not watch the thread (PIN-052).
func (m *member) unseen(err error) error {
	if errIs(err, chat.ErrNoThread) {
		return missingSubscribe(m.thread)
	}
	return err
}

// replay is what the thread logged after a log_id, or nothing if it is not kept
// or more than a join is sent (PIN-060, PIN-067).
func (m *member) replay(ctx context.Context, st *chat.State, v Variant, after uint64) ([]*phoenix.Frame, error) {
	all, ok, err := m.socket.server.o.Desk.Replay(ctx, m.who, m.thread, m.seat, v, after)
	if err != nil || !ok {
		return nil, err
	}
	size := 0
	for _, e := range all {
		if size += e.(*Encoded).entry.size(); size > MaxReplay {
			return nil, nil
		}
	}
	apart := m.socket.visit.Site.Rules().ReplayApart
	frames := make([]*phoenix.Frame, 0, len(all))
	size = 0
	var old *past
	for _, e := range all {
		e := e.(*Encoded)
		if s := e.entry.shows; s != nil && !old.covers(*s) {
			old = m.pastOf(ctx, st, *s) // the first shows the most of what is older
		}
		for _, f := range e.replayed(m.ch.Topic(), old, apart) {
			if size += f.Size(); size > MaxReplay {
				return nil, nil
			}
			frames = append(frames, f)
		}
	}
	return frames, nil
}
