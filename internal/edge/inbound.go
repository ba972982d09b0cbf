package edge

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/agent/socket"
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
	key  chat.Key
	out  func(event string, payload []byte) error
	stop func()

	mu      sync.Mutex
	changed chan struct{}              // closed and replaced with each record of a run's life
	told    map[string]map[string]bool // decisions, by run and question
}

// pushTimeout bounds how long a push waits for its run.
const pushTimeout = 10 * time.Second

// Join implements pingerchips.Agents.
func (i inbound) Join(p identity.Principal, thread string, out func(event string, payload []byte) error) pingerchips.Agent {
	s := &agentSeat{
		h: i.h, key: conductor.Key(p, thread), out: out, stop: func() {},
		changed: make(chan struct{}), told: make(map[string]map[string]bool),
	}
	ctx, cancel := context.WithTimeout(context.Background(), pushTimeout)
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
func (s *agentSeat) Leave() { s.stop() }

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

// Push implements pingerchips.Agent. It returns when the thread has what the push
// did; of a token, when it is queued.
func (s *agentSeat) Push(ctx context.Context, event string, payload []byte) (bool, error) {
	p, known, err := pingerchips.ParseAgentPush(event, payload)
	if !known || err != nil {
		return known, err
	}
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	if err = s.push(ctx, event, p); errors.Is(err, socket.ErrAbsent) {
		// Another push, or a person, was faster: the thread says what came of it.
		if _, err = s.run(ctx, p.Run); err == nil {
			err = conductor.ErrBusy
		}
	}
	return true, err
}

func (s *agentSeat) push(ctx context.Context, event string, p pingerchips.AgentPush) error {
	r, err := s.run(ctx, p.Run)
	if err != nil {
		return err
	}
	switch event {
	case pingerchips.PushStart:
		switch r.Status {
		case chat.RunActive:
			return nil // PIN-193
		case chat.RunSuspended:
			return pingerchips.ErrNotPending
		}
		return s.start(ctx, p.Run)
	case pingerchips.PushResume:
		if r.Status != chat.RunSuspended {
			return chat.ErrNotSuspended
		}
		return s.resume(ctx, p.Run)
	case pingerchips.PushEnd:
		return s.end(ctx, r, p)
	}
	if r.Status != chat.RunActive {
		return pingerchips.ErrNotActive
	}
	if event == pingerchips.PushToken {
		return s.say(ctx, p.Run, socket.Push{Text: &p.Content})
	}
	if err := s.say(ctx, p.Run, socket.Push{Suspend: &socket.Suspend{Call: p.Call, Tool: p.Tool, Args: p.Args}}); err != nil {
		return err
	}
	return s.until(ctx, p.Run, func(r *chat.Run) bool { return r == nil || r.Status == chat.RunSuspended })
}

// end ends a run; one that is pending or waits counts as taken up first (PIN-201).
func (s *agentSeat) end(ctx context.Context, r *chat.Run, p pingerchips.AgentPush) (err error) {
	switch r.Status {
	case chat.RunPending:
		err = s.start(ctx, p.Run)
	case chat.RunSuspended:
		err = s.resume(ctx, p.Run)
	}
	if err == nil {
		err = s.say(ctx, p.Run, socket.Push{End: p.Status})
	}
	if err != nil {
		return err
	}
	return s.until(ctx, p.Run, func(r *chat.Run) bool { return r == nil })
}

func (s *agentSeat) start(ctx context.Context, run string) error {
	a, err := s.agent(ctx, run)
	if err != nil {
		return err
	}
	if err := s.served(ctx, func() error { return a.Start(ctx, s.key, run) }); err != nil {
		return err
	}
	return s.until(ctx, run, func(r *chat.Run) bool { return r == nil || r.Status != chat.RunPending })
}

func (s *agentSeat) resume(ctx context.Context, run string) error {
	err := s.h.conductor.ResumeRun(ctx, s.key, run)
	if err != nil {
		return err
	}
	return s.until(ctx, run, func(r *chat.Run) bool { return r == nil || r.Status == chat.RunActive })
}

func (s *agentSeat) say(ctx context.Context, run string, p socket.Push) error {
	a, err := s.agent(ctx, run)
	if err != nil {
		return err
	}
	return s.served(ctx, func() error { return a.Push(ctx, s.key, run, p) })
}

// grace is how long an owner may take from the commit that gave it a run, which
// an agent may have seen already, until it serves the run.
const grace = 2 * time.Second

// served tries for as long as the run's owner may need.
func (s *agentSeat) served(ctx context.Context, f func() error) error {
	deadline := time.Now().Add(grace)
	for {
		err := f()
		if !errors.Is(err, socket.ErrAbsent) || time.Now().After(deadline) || !pause(ctx) {
			return err
		}
	}
}

func pause(ctx context.Context) bool {
	t := time.NewTimer(5 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// agent finds who serves a run: on this edge, or nobody.
func (s *agentSeat) agent(ctx context.Context, run string) (*socket.Agent, error) {
	var found *socket.Agent
	err := s.served(ctx, func() error {
		switch a := s.h.conductor.AgentOf(s.key, run).(type) {
		case *socket.Agent:
			found = a
		case nil:
			return socket.ErrAbsent
		default:
			return chat.ErrUnknownRun // it is another kind of agent's
		}
		return nil
	})
	return found, err
}

// run is a live run as the room has it, or, where that has not caught up with
// what somebody else has just been told, the store.
func (s *agentSeat) run(ctx context.Context, id string) (*chat.Run, error) {
	if st, _ := s.h.rooms.Peek(s.key); st != nil {
		if r := st.Run(id); r != nil && r.Stop == nil {
			return r, nil
		}
	}
	return s.h.conductor.FindRun(ctx, s.key, id)
}

// until waits for a run to be so in the room; the run is nil once it has ended.
func (s *agentSeat) until(ctx context.Context, run string, is func(*chat.Run) bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		st, _ := s.h.rooms.Peek(s.key)
		if st == nil || is(st.Run(run)) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
