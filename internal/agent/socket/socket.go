// Package socket serves runs by agents that dial in: a process that holds an app's
// secret joins a thread, takes up its runs and pushes its whole text so far, again
// and again. This package makes deltas of that text for everybody else.
//
// It owes the rules of agent.Agent. Who may push, what a push looks like on the
// wire and what a thread's state allows is for its caller.
package socket

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// DefaultIdle is how long an agent that has taken a run up may give no sign of
// life (PIN-185).
const DefaultIdle = 5 * time.Minute

// ErrAbsent: the call does not wait for a push, not yet or not any more.
var ErrAbsent = errors.New("no run waits for this push")

// Options say how patient an agent is borne with, and how it is woken.
type Options struct {
	// Idle ends a run whose agent has given no sign of life for so long; 0 is
	// DefaultIdle, less than 0 is no limit.
	Idle time.Duration
	// Waker tells the agent of runs that wait for it; nil tells nobody.
	Waker *Waker
}

// Agent is a configured agent that dials in. Whichever process joins with the
// secret may push for each of its runs, and several may (PIN-206).
type Agent struct {
	idle  time.Duration
	waker *Waker

	mu       sync.Mutex
	sessions map[*agent.Call]*session
}

var (
	_ agent.Agent   = (*Agent)(nil)
	_ agent.Inbound = (*Agent)(nil)
	_ agent.History = (*Agent)(nil)
)

// session is one attempt at a segment that is served.
type session struct {
	gone   chan struct{} // closed when nobody serves it any more
	pushes chan request
}

type request struct {
	push Push
	done chan error // capacity 1
}

// Push is what an agent says of an active run: one of its fields is set.
type Push struct {
	// Text is the whole of what the run has said so far.
	Text *string
	// Suspend asks for a decision.
	Suspend *Suspend
	// End is the run's terminal status.
	End chat.RunStatus
}

// Suspend is a tool call that waits for a decision. Args is a JSON object.
type Suspend struct {
	Call, Tool string
	Args       []byte
}

// New makes an agent.
func New(o Options) *Agent {
	if o.Idle == 0 {
		o.Idle = DefaultIdle
	}
	return &Agent{idle: o.Idle, waker: o.Waker, sessions: make(map[*agent.Call]*session)}
}

// History implements agent.History: the agent reads the thread that it joined.
func (a *Agent) History() int { return 0 }

// Wakes implements agent.Inbound.
func (a *Agent) Wakes() bool { return a.waker != nil }

// Wake implements agent.Inbound.
func (a *Agent) Wake(ctx context.Context, key chat.Key, run string, waits func(context.Context) bool) error {
	if a.waker == nil {
		return nil
	}
	return a.waker.Wake(ctx, key.Realm+"\x00"+key.Tenant, key.Thread, run, waits)
}

// enter makes the session of a call.
func (a *Agent) enter(c *agent.Call) *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &session{gone: make(chan struct{}), pushes: make(chan request)}
	a.sessions[c] = s
	return s
}

func (a *Agent) leave(c *agent.Call, s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.sessions, c)
	close(s.gone)
}

func (a *Agent) find(c *agent.Call) *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions[c]
}

// Push says something of an active run to one call for it: an edge that has lost a
// run and got it back may serve two for a moment. Its order is that of the calls.
// Errors are ErrAbsent, also where c is nil or another push ended the segment
// first, and the context's.
func (a *Agent) Push(ctx context.Context, c *agent.Call, p Push) error {
	s := a.find(c)
	if s == nil {
		return ErrAbsent
	}
	r := request{p, make(chan error, 1)}
	select {
	case s.pushes <- r:
	case <-s.gone:
		return ErrAbsent
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
