package edge

import (
	"context"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/dialect/pingerchips"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/room"
)

// inbound seats agents that dial in.
type inbound struct{ h *Hub }

// agentSeat is an agent's place in a thread: it hears of decisions, and its
// pushes reach the runs that wait for them.
type agentSeat struct {
	h    *Hub
	who  identity.Principal
	key  chat.Key
	out  func(event string, payload []byte) error
	stop func()
	ctx  context.Context // ends when the agent leaves
	quit context.CancelFunc
	wg   sync.WaitGroup

	speaks  sync.Mutex // held while a text is passed on, so that texts keep their order
	mu      sync.Mutex
	changed chan struct{}              // closed and replaced with each record of a run's life
	told    map[string]map[string]bool // decisions, by run and question
	said    map[string]spoken          // the last text of each live run that was said from here
}

// pushTimeout bounds how long a push waits for its run.
const pushTimeout = 10 * time.Second

// Join implements pingerchips.Agents.
func (i inbound) Join(p identity.Principal, thread string, out func(event string, payload []byte) error) pingerchips.Agent {
	s := &agentSeat{
		h: i.h, who: p, key: conductor.Key(p, thread), out: out, stop: func() {},
		changed: make(chan struct{}), told: make(map[string]map[string]bool), said: make(map[string]spoken),
	}
	s.ctx, s.quit = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(s.ctx, pushTimeout)
	defer cancel()
	stop, err := i.h.rooms.Watch(ctx, s.key, &room.Watcher{Change: s.change, Epoch: func(room.CloseReason) { s.ring() }})
	if err != nil {
		i.h.logger.Warn("an agent is not told of decisions", "realm", p.Realm, "error", err)
		return s
	}
	s.stop = stop
	// Decisions that nobody was there for (PIN-172).
	if st, _ := i.h.rooms.Peek(s.key); st != nil {
		for _, r := range st.Runs {
			s.queued(r)
		}
	}
	return s
}

// Leave implements pingerchips.Agent.
func (s *agentSeat) Leave() {
	s.mu.Lock()
	s.quit() // under the lock, so that nothing begins after the wait has
	s.mu.Unlock()
	s.stop()
	s.wg.Wait()
	s.h.conductor.Release(s.key)
}

func (s *agentSeat) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// change is told of every record of the thread. It does not block.
func (s *agentSeat) change(c *room.Change) {
	switch c.Record.Kind {
	case chat.KindAnswer:
		if r := c.After.Run(c.Record.Run); r != nil {
			s.queued(r)
		}
	case chat.KindRunResumed, chat.KindRunEnd:
		s.mu.Lock()
		delete(s.told, c.Record.Run)
		delete(s.said, c.Record.Run)
		s.mu.Unlock()
	}
	if !c.Record.Kind.Streams() {
		s.ring()
	}
}

// queued tells of the decisions that a suspended run has and its agent has not
// acted on.
func (s *agentSeat) queued(r *chat.Run) {
	if r.Status != chat.RunSuspended || r.Stop != nil {
		return
	}
	for _, i := range r.Interrupts {
		if i.Alias == "" || i.Segment != len(r.Segments)-1 || i.Status == chat.InterruptOpen || i.Status == chat.InterruptWithdrawn {
			continue
		}
		s.mu.Lock()
		told := s.told[r.ID][i.ID]
		if !told {
			if s.told[r.ID] == nil {
				s.told[r.ID] = make(map[string]bool)
			}
			s.told[r.ID][i.ID] = true
		}
		s.mu.Unlock()
		if !told {
			_ = s.out(pingerchips.EventApproval, pingerchips.Approval(r.ID, i.Alias, approves(i)))
		}
	}
}

// approves says whether a decision is a yes, in whichever words of whichever
// dialect.
func approves(i *chat.Interrupt) bool {
	if i.Status != chat.InterruptAnswered {
		return false
	}
	var yes bool
	if json.Unmarshal(i.Answer, &yes) == nil {
		return yes
	}
	var o struct {
		Approved jsontext.Value `json:"approved"`
	}
	return json.Unmarshal(i.Answer, &o) == nil && string(o.Approved) == "true"
}
