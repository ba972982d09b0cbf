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

// ErrAbsent: nobody waits for a push of that run here, not yet or not any more.
var ErrAbsent = errors.New("no run waits for this push")

// Options say how patient an agent is borne with.
type Options struct {
	// Idle ends a run whose agent has given no sign of life for so long; 0 is
	// DefaultIdle, less than 0 is no limit.
	Idle time.Duration
}

// Agent is a configured agent that dials in. Whichever process joins with the
// secret may push for each of its runs, and several may (PIN-206).
type Agent struct {
	idle time.Duration

	mu       sync.Mutex
	sessions map[place]*session
}

var (
	_ agent.Agent   = (*Agent)(nil)
	_ agent.Inbound = (*Agent)(nil)
)

type place struct {
	key chat.Key
	run string
}

// session is one segment of a run that is served or waits to be.
type session struct {
	start   sync.Once
	leave   sync.Once
	taken   chan struct{} // closed by the agent's run:start
	running chan struct{} // closed when Run has been called
	gone    chan struct{} // closed when nobody serves the segment any more
	pushes  chan request
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
	return &Agent{idle: o.Idle, sessions: make(map[place]*session)}
}

// enter makes the session of a call, or returns the one that Ready has made.
func (a *Agent) enter(c *agent.Call) *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := place{c.Key, c.Run}
	s := a.sessions[p]
	if s == nil {
		s = &session{taken: make(chan struct{}), running: make(chan struct{}), gone: make(chan struct{}), pushes: make(chan request)}
		a.sessions[p] = s
	}
	return s
}

func (a *Agent) leave(c *agent.Call, s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := (place{c.Key, c.Run}); a.sessions[p] == s {
		delete(a.sessions, p)
	}
	s.leave.Do(func() { close(s.gone) })
}

func (a *Agent) find(key chat.Key, run string) *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions[place{key, run}]
}

// Ready implements agent.Inbound: it waits for Start. A run that is given up
// meanwhile, or whose segment cannot be opened, is left at the context's end.
func (a *Agent) Ready(ctx context.Context, c *agent.Call) error {
	s := a.enter(c)
	select {
	case <-s.taken:
		context.AfterFunc(ctx, func() {
			select {
			case <-s.running: // Run leaves it
			default:
				a.leave(c, s)
			}
		})
		return nil
	case <-ctx.Done():
		a.leave(c, s)
		return ctx.Err()
	}
}

// Start takes up a pending run, and returns when it is served. Errors are
// ErrAbsent and the context's.
func (a *Agent) Start(ctx context.Context, key chat.Key, run string) error {
	s := a.find(key, run)
	if s == nil {
		return ErrAbsent
	}
	s.start.Do(func() { close(s.taken) })
	return s.wait(ctx, s.running)
}

func (s *session) wait(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-s.gone:
		return ErrAbsent
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Push says something of an active run. Its order is that of the calls. Errors
// are ErrAbsent, also where another push ended the segment first, and the
// context's.
func (a *Agent) Push(ctx context.Context, key chat.Key, run string, p Push) error {
	s := a.find(key, run)
	if s == nil {
		return ErrAbsent
	}
	if err := s.wait(ctx, s.running); err != nil {
		return err
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
