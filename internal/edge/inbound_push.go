package edge

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent/socket"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/dialect/pingerchips"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// spoken is the last text that an agent has said through an attempt at a run. The
// journal may not have it if this edge loses the run.
type spoken struct {
	text string
	to   conductor.Attempt
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
	if err = s.push(ctx, event, p); err != nil && ctx.Err() != nil {
		err = errors.Join(conductor.ErrBusy, err)
	}
	return true, err
}

func (s *agentSeat) push(ctx context.Context, event string, p pingerchips.AgentPush) error {
	switch event {
	case pingerchips.PushStart:
		return s.start(ctx, p)
	case pingerchips.PushResume:
		return s.resume(ctx, p.Run)
	case pingerchips.PushEnd:
		return s.end(ctx, p)
	}
	r, err := s.run(ctx, p.Run, chat.RunActive)
	switch {
	case err != nil:
		return err
	case r.Status != chat.RunActive:
		return pingerchips.ErrNotActive
	case event == pingerchips.PushToken:
		return s.say(ctx, p.Run, p.Content)
	}
	ask := socket.Push{Suspend: &socket.Suspend{Call: p.Call, Tool: p.Tool, Args: p.Args}}
	return s.finish(ctx, p.Run, ask, func(r *chat.Run) bool { return r == nil || r.Status == chat.RunSuspended })
}

// start takes a run up, or begins one that nobody has asked for (PIN-193).
func (s *agentSeat) start(ctx context.Context, p pingerchips.AgentPush) error {
	r, err := s.run(ctx, p.Run, chat.RunPending)
	if errors.Is(err, chat.ErrUnknownRun) && r == nil {
		return s.begin(ctx, p)
	}
	if err != nil {
		return err
	}
	if err := s.h.conductor.TakeUpRun(ctx, s.key, p.Run); err != nil {
		if errors.Is(err, conductor.ErrNotPending) {
			return pingerchips.ErrNotPending
		}
		return err
	}
	return s.until(ctx, func(st *chat.State) bool { r := st.Run(p.Run); return r == nil || r.Status != chat.RunPending })
}

// begin begins a run of the agent's own. The client whom it names owns it, as if
// he had a token of the app; without one it is the agent's.
func (s *agentSeat) begin(ctx context.Context, p pingerchips.AgentPush) error {
	by := s.who.Subject
	if p.Owner != "" {
		by = identity.Subject{Issuer: identity.IssuerApp + strings.TrimPrefix(by.Issuer, identity.IssuerAgent), ID: p.Owner}
	}
	pos, err := s.h.conductor.BeginRun(ctx, s.who, s.key.Thread, chat.Begin{
		Run: p.Run, Origin: chat.Origin{Dialect: pingerchips.Variant{}.Dialect(), By: chat.Subject(by)},
	})
	if errors.Is(err, chat.ErrDuplicateRun) { // somebody was faster
		_, err = s.run(ctx, p.Run, chat.RunActive)
	}
	if err != nil {
		return err
	}
	return s.until(ctx, func(st *chat.State) bool { return st.Pos >= pos })
}

func (s *agentSeat) resume(ctx context.Context, run string) error {
	r, err := s.run(ctx, run, chat.RunSuspended)
	switch {
	case err != nil:
		return err
	case r.Status != chat.RunSuspended:
		return chat.ErrNotSuspended
	}
	if err := s.h.conductor.ResumeRun(ctx, s.key, run); err != nil {
		return err
	}
	return s.until(ctx, func(st *chat.State) bool { r := st.Run(run); return r == nil || r.Status == chat.RunActive })
}

// end ends a run; one that is pending or waits counts as taken up first (PIN-201).
func (s *agentSeat) end(ctx context.Context, p pingerchips.AgentPush) error {
	r, err := s.run(ctx, p.Run, chat.RunActive)
	if err != nil {
		return err
	}
	switch r.Status {
	case chat.RunPending:
		err = s.start(ctx, p)
	case chat.RunSuspended:
		err = s.resume(ctx, p.Run)
	}
	if err != nil {
		return err
	}
	if err := s.finish(ctx, p.Run, socket.Push{End: p.Status}, func(r *chat.Run) bool { return r == nil }); err != nil {
		return err
	}
	// Who was faster may have ended it in another way: then this push did nothing
	// (PIN-200).
	if st, _ := s.h.rooms.Peek(s.key); st != nil {
		for i := len(st.Tail) - 1; i >= 0; i-- {
			if m := st.Tail[i]; m.Run == p.Run && m.Role == chat.Assistant {
				if m.Ran != nil && m.Ran.Status != p.Status {
					return chat.ErrRunEnded
				}
				break
			}
		}
	}
	return nil
}

// say passes a text on. It is kept until the run ends, for the case that this edge
// loses the run.
func (s *agentSeat) say(ctx context.Context, run, text string) error {
	return s.sayIf(ctx, run, text, func(spoken) bool { return true })
}

// sayIf is say where still holds of what was said last.
func (s *agentSeat) sayIf(ctx context.Context, run, text string, still func(spoken) bool) error {
	return s.served(ctx, run, func(a *socket.Agent, to conductor.Attempt) error {
		s.speaks.Lock()
		defer s.speaks.Unlock()
		s.mu.Lock()
		last, before := s.said[run]
		s.mu.Unlock()
		if !still(last) {
			return nil
		}
		if err := a.Push(ctx, to.Call(), socket.Push{Text: &text}); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.said[run] = spoken{text, to}
		if (!before || last.to != to) && s.ctx.Err() == nil {
			s.wg.Go(func() { s.stand(run, to) })
		}
		return nil
	})
}

// stand says a text once more that was accepted and then lost with its run:
// another agent had spoken for it through another edge (PIN-206).
func (s *agentSeat) stand(run string, to conductor.Attempt) {
	select {
	case <-to.Gone():
	case <-s.ctx.Done():
		return
	}
	s.speaks.Lock() // what the attempt took last may be about to be noted
	s.mu.Lock()
	last, ok := s.said[run]
	if !to.Unsaved() && last.to == to {
		delete(s.said, run)
	}
	s.mu.Unlock()
	s.speaks.Unlock()
	if !to.Unsaved() || !ok || last.to != to {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, pushTimeout)
	defer cancel()
	r, err := s.h.conductor.FindRun(ctx, s.key, run)
	if err != nil || r.Status != chat.RunActive || strings.HasPrefix(socket.Said(r.Parts), last.text) {
		return
	}
	err = s.sayIf(ctx, run, last.text, func(now spoken) bool { return now == last })
	if err != nil && ctx.Err() == nil {
		s.h.logger.Debug("what an agent said is lost", "realm", s.key.Realm, "run", run, "error", err)
	}
}

// finish says what ends a segment, and returns when the thread shows it. Where
// this edge loses the run meanwhile it is said once more to the next attempt, with
// the text before it.
func (s *agentSeat) finish(ctx context.Context, run string, p socket.Push, is func(*chat.Run) bool) error {
	for {
		var attempt conductor.Attempt
		err := s.served(ctx, run, func(a *socket.Agent, to conductor.Attempt) error {
			attempt = to
			s.speaks.Lock()
			defer s.speaks.Unlock()
			s.mu.Lock()
			last, ok := s.said[run]
			s.mu.Unlock()
			if ok && last.to != to {
				if err := a.Push(ctx, to.Call(), socket.Push{Text: &last.text}); err != nil {
					return err
				}
			}
			return a.Push(ctx, to.Call(), p)
		})
		if err != nil {
			return err
		}
		select {
		case <-attempt.Gone():
		case <-ctx.Done():
			return ctx.Err()
		}
		r, err := s.h.conductor.FindRun(ctx, s.key, run)
		if errors.Is(err, chat.ErrRunEnded) {
			r, err = nil, nil
		}
		if err != nil {
			return err
		}
		if is(r) {
			return s.until(ctx, func(st *chat.State) bool { return is(st.Run(run)) })
		}
	}
}

// served has f speak to the attempt at a run that this edge serves. Where another
// edge has the run this one takes it first.
func (s *agentSeat) served(ctx context.Context, run string, f func(a *socket.Agent, to conductor.Attempt) error) error {
	for {
		to := s.h.conductor.Serving(s.key, run)
		switch a := to.Agent().(type) {
		case *socket.Agent:
			if err := f(a, to); !errors.Is(err, socket.ErrAbsent) {
				return err
			}
		case nil:
			if err := s.take(ctx, run); err != nil {
				return err
			}
		default:
			return chat.ErrUnknownRun // it is another kind of agent's
		}
		// The attempt is about to be served, or has just ended.
		if !pause(ctx) {
			return ctx.Err()
		}
	}
}

func (s *agentSeat) take(ctx context.Context, run string) error {
	if err := s.h.conductor.TakeRun(ctx, s.key, run); err != nil {
		return err
	}
	r, err := s.h.conductor.FindRun(ctx, s.key, run)
	if err == nil && r.Status != chat.RunActive {
		err = pingerchips.ErrNotActive
	}
	return err
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

// run is a live run of an agent that dials in: as the room has it, if that has it
// in the state that is wanted, else as the store has it, since a room may be
// behind what somebody has just been told. The run comes with an error where it is
// another kind of agent's.
func (s *agentSeat) run(ctx context.Context, id string, want chat.RunStatus) (r *chat.Run, err error) {
	if st, _ := s.h.rooms.Peek(s.key); st != nil {
		r = st.Run(id)
	}
	if r == nil || r.Stop != nil || r.Status != want {
		if r, err = s.h.conductor.FindRun(ctx, s.key, id); err != nil {
			return nil, err
		}
	}
	if !s.h.conductor.DialsIn(s.key.Realm, r.Agent) {
		return r, chat.ErrUnknownRun
	}
	return r, nil
}

// until waits for the room to show something.
func (s *agentSeat) until(ctx context.Context, is func(*chat.State) bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		st, _ := s.h.rooms.Peek(s.key)
		if st == nil || is(st) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
