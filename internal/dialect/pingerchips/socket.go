package pingerchips

import (
	"context"
	"crypto/rand"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// Socket is one connection. It holds nothing of a principal: each join brings
// its own credential.
type Socket struct {
	server *Server
	visit  *dialect.Visit
	id     string

	mu      sync.Mutex
	pace    *rate.Limiter
	joined  int
	clients map[string]int // joins by client: each is counted as a connection of his
}

// Open takes a connection in; Closed lets it go.
func (s *Server) Open(v *dialect.Visit) *Socket {
	return &Socket{server: s, visit: v, id: rand.Text(), clients: make(map[string]int)}
}

// Channel is a join of a topic, as its wire gives it. None of its methods blocks.
type Channel interface {
	// Send queues a push. Exempt ones are not counted against the bound of the
	// connection's queue; a connection that is too slow for others is closed, in
	// the way that its client comes back from, and then there is an error.
	Send(p *Push, exempt bool) error
	// Fail says that the channel broke: its client joins again. Close says that
	// it is over: its client does not.
	Fail()
	Close()
}

// Member is a join that succeeded.
type Member = member

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
	return !k.pace.AllowN(k.server.o.Now(), 1)
}

// Join admits a client or an agent to a topic (PIN-045 to PIN-067). It may block
// on the journal. The response is that of the reply, which the wire queues before
// it calls Member.Begin; a Member that is not begun is to be Left.
func (k *Socket) Join(ctx context.Context, topic string, payload []byte, ch Channel) (m *Member, response []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	m, err = k.join(ctx, topic, payload, ch)
	if err != nil {
		reason, _ := refusal(err)
		k.server.report("phx_join", err)
		return nil, nil, reason
	}
	return m, append(quoted([]byte(`{"socket_id":`), k.id), '}'), nil
}

func (k *Socket) join(ctx context.Context, topic string, payload []byte, ch Channel) (*member, error) {
	app, thread, ok := parseTopic(topic)
	if !ok {
		return nil, badTopic
	}
	if k.limited() {
		return nil, rateLimited
	}
	c, err := parseJoin(payload)
	if err != nil {
		return nil, err
	}
	j, err := identity.Apps(k.visit.Site.App).Join(identity.Join{
		AppKey: app, Thread: thread, Auth: c.Auth, ClientID: c.ClientID, Secret: c.Secret, AgentID: c.AgentID, Socket: k.id,
	}, k.server.o.Now())
	if err != nil {
		k.server.o.Logger.Debug("a join was refused", "site", k.visit.Site.Name(), "reason", identity.Reason(err))
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
		return tooManyTopics
	}
	if k.clients[client] == 0 && !k.server.count(client, rules.ConnectionsPerClient) {
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
	var err error
	if m.seat, err = desk.Join(ctx, m.who, m.thread, Variant{}, m); err != nil {
		return m.unseen(err)
	}
	st := m.seat.State()
	if c.Resumes && c.After < st.Log {
		if m.first, err = m.replay(ctx, c.After); err != nil {
			m.seat.Leave()
			return err
		}
	}
	m.first = append(m.first, m.socket.server.shown.of(st))
	if m.socket.server.o.Agents != nil && agent {
		m.agent = m.socket.server.o.Agents.Join(m.who, m.thread, func(p *Push) error { return m.ch.Send(p, false) })
	}
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
func (m *member) replay(ctx context.Context, after uint64) ([]*Push, error) {
	all, ok, err := m.socket.server.o.Desk.Replay(ctx, m.who, m.thread, m.seat, Variant{}, after)
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
	pushes := make([]*Push, 0, len(all))
	size = 0
	for _, e := range all {
		for _, p := range e.(*Encoded).replayed(apart) {
			if size += len(p.Payload) + 256; size > MaxReplay {
				return nil, nil
			}
			pushes = append(pushes, p)
		}
	}
	return pushes, nil
}
