package conductor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Key is the thread of that id as the principal sees it.
func Key(p identity.Principal, thread string) chat.Key {
	return chat.Key{Realm: p.Realm, Tenant: p.Tenant, Thread: thread}
}

// Allow decides whether a principal may do something to a thread, through the
// one function that decides access. A thread that nobody made and one that is
// not his are the same error.
func Allow(p identity.Principal, verb identity.Verb, key chat.Key, st *chat.State, starter chat.Subject) error {
	if !st.Exists {
		return chat.ErrNoThread
	}
	t := threadOf(key, st)
	if identity.Allow(p, identity.Subscribe, t) != nil {
		return chat.ErrNoThread
	}
	if identity.Allow(p, verb, t, identity.Subject(starter)) != nil {
		return chat.ErrNoThread
	}
	return nil
}

func threadOf(key chat.Key, st *chat.State) identity.Thread {
	return identity.Thread{
		Realm: key.Realm, Tenant: key.Tenant, ID: key.Thread,
		Owner: identity.Subject(st.Info.Owner), Open: st.Info.Owner.Zero(),
	}
}

// allowed puts the decision on access before a decision on a command.
func allowed(p identity.Principal, verb identity.Verb, key chat.Key, decide func(*View) (Plan, error)) func(*View) (Plan, error) {
	return func(v *View) (Plan, error) {
		if err := Allow(p, verb, key, v.State, chat.Subject{}); err != nil {
			return Plan{}, err
		}
		return decide(v)
	}
}

// Create opens a thread that belongs to the principal, and returns what is now
// known of it.
func (c *Conductor) Create(ctx context.Context, p identity.Principal, thread string, info chat.Info) (chat.Info, error) {
	key := Key(p, thread)
	info.Owner, info.Created = chat.Subject(p.Subject), c.o.Now()
	own := identity.Thread{Realm: key.Realm, Tenant: key.Tenant, ID: thread, Owner: p.Subject}
	if identity.Allow(p, identity.Create, own) != nil {
		return chat.Info{}, chat.ErrNoThread
	}
	_, err := c.carry(ctx, &Command{ID: newCommand(), Key: key, Decide: func(v *View) (Plan, error) {
		entries, err := v.State.Create(info)
		return Plan{Entries: entries}, err
	}})
	return info, err
}

// StartRun accepts a user's message and begins the run that answers it. The
// caller has filled in the dialect's part of s; ids and agent are given here.
func (c *Conductor) StartRun(ctx context.Context, p identity.Principal, thread string, s chat.Start) (run, segment string, err error) {
	s.Run = NewID()
	s, _, err = c.start(ctx, p, thread, s)
	if err != nil {
		return "", "", err
	}
	return s.Run, s.Segment, nil
}

// start is StartRun of a run whose id is given. It returns what was asked for
// with all ids, and also of a refused command what it was decided on.
func (c *Conductor) start(ctx context.Context, p identity.Principal, thread string, s chat.Start) (chat.Start, done, error) {
	key := Key(p, thread)
	realm, err := c.admit(ctx, p, key)
	if err != nil {
		return s, done{}, err
	}
	s.Answer = NewID()
	s.Segment, s.WithdrawSegment = NewSegment(), NewSegment()
	s.Upstream, s.SameUpstream = NewID(), realm.SameUpstream
	if s.SameUpstream {
		s.Upstream = thread
	}
	s.MaxRuns = realm.MaxRuns
	s.Origin.By = chat.Subject(p.Subject)
	m := *s.Message
	m.By, m.Created = s.Origin.By, c.o.Now()
	s.Message = &m
	ids := []string{m.ID, chat.RunNode(s.Run)}
	if s.Fork != "" {
		ids = append(ids, s.Fork)
	}
	if s.Parent != "" {
		ids = append(ids, s.Parent)
	}
	d, err := c.carry(ctx, &Command{
		ID: newCommand(), Key: key, IDs: ids,
		Decide: allowed(p, identity.UserMessage, key, func(v *View) (Plan, error) {
			chosen := s
			if chosen.Agent = v.State.Info.Agent; chosen.Agent == "" {
				chosen.Agent = realm.Default
			}
			if err := c.toolNames(key, chosen.Agent, chosen.Tools); err != nil {
				return Plan{}, err
			}
			s.Agent = chosen.Agent
			p, err := DecideStart(chosen, c.starter(key.Realm, chosen.Agent))(v)
			return c.await(p, key.Realm), err
		}),
	})
	if err != nil {
		return s, d, err
	}
	noted(ctx, thread, s.Run)
	c.takeUp(key, s.Run, d, nil)
	c.queue(key, s.Agent, s.Run, s.Origin.By)
	c.wake(key, s.Agent, s.Run)
	c.trim(key, d.View.Meta)
	return s, d, nil
}

// admit returns the realm's configuration, if the principal may begin one more
// run there.
func (c *Conductor) admit(ctx context.Context, p identity.Principal, key chat.Key) (*Realm, error) {
	realm := c.o.Realm(p.Realm)
	if realm == nil {
		return nil, chat.ErrNoThread
	}
	if most, by := realm.MaxClientRuns, chat.Subject(p.Subject); most > 0 {
		at := c.runsOf(key, by)
		if at >= most || at+c.waitingOf(ctx, key, by, most-at) >= most {
			return nil, chat.ErrTooManyRuns
		}
	}
	return realm, nil
}

// runsOf counts the runs of this edge that somebody began; those wait no more.
func (c *Conductor) runsOf(key chat.Key, by chat.Subject) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for a, r := range c.runners {
		delete(c.queued, runKey{a.key, a.run})
		if a.key.Realm == key.Realm && a.key.Tenant == key.Tenant && r.own.Origin.By == by {
			n++
		}
	}
	return n
}

// AnswerQuestion settles one question, and takes the run up with the last.
func (c *Conductor) AnswerQuestion(ctx context.Context, p identity.Principal, thread string, a chat.Answer, check func(*chat.Interrupt) error) (Resumption, error) {
	key := Key(p, thread)
	a.By, a.Segment = chat.Subject(p.Subject), NewSegment()
	if a.Status == "" {
		a.Status = chat.InterruptAnswered
	}
	var out Resumption
	d, err := c.carry(ctx, &Command{
		ID: newCommand(), Key: key,
		Decide: allowed(p, identity.ToolApproval, key, func(v *View) (Plan, error) {
			if r, _ := v.State.RunOfInterrupt(a.Interrupt); r != nil {
				if err := c.toolNames(key, r.Agent, a.Tools); err != nil {
					return Plan{}, err
				}
			}
			return c.settle(v, key.Realm, a, check, &out)
		}),
	})
	if err != nil {
		return Resumption{}, err
	}
	if d.Result == journal.DoneBefore {
		out.Segment = string(d.Before)
	}
	if out.Segment != "" {
		c.takeUp(key, out.Run, d, nil)
	}
	c.wake(key, out.awaited, out.Run)
	return out, nil
}

// settle decides on an answer to a question: with the last one the run is taken
// up, or waits for its agent to go on.
func (c *Conductor) settle(v *View, realm string, a chat.Answer, check func(*chat.Interrupt) error, into *Resumption) (Plan, error) {
	boot := c.o.Boot
	r, _ := v.State.RunOfInterrupt(a.Interrupt)
	if r != nil {
		boot = c.starter(realm, r.Agent)
		a.Held = c.DialsIn(realm, r.Agent)
	}
	p, err := DecideAnswer(a, boot, check, into)(v)
	if err != nil || !a.Held || opens(r, a.Interrupt) {
		return p, err
	}
	into.awaited = r.Agent
	return c.awaitResume(p, realm, r), nil
}

// toolNames refuses client tools that the agent could not tell from its own.
func (c *Conductor) toolNames(key chat.Key, name string, tools []chat.ClientTool) error {
	realm := c.o.Realm(key.Realm)
	if realm == nil || len(tools) == 0 {
		return nil
	}
	box, ok := realm.Agents[name].(agent.Toolbox)
	if !ok {
		return nil
	}
	own := box.Tools()
	for _, t := range tools {
		if slices.Contains(own, t.Name) {
			return chat.ErrToolName
		}
	}
	return nil
}

// Cancel stops the run whose current segment is the given one, and returns
// when it has ended. suspended allows to stop one that waits for an answer.
func (c *Conductor) Cancel(ctx context.Context, p identity.Principal, segment string, suspended bool) error {
	key, err := c.find(ctx, p, segment)
	if err != nil {
		return err
	}
	find := func(st *chat.State) *chat.Run {
		r := st.RunOfSegment(segment)
		if r == nil || r.Segment() != segment {
			return nil
		}
		if Allow(p, identity.CancelOwn, key, st, r.Origin.By) != nil {
			return nil
		}
		return r
	}
	err = c.stop(ctx, key, find, chat.Stop{Cause: chat.CauseUser, By: chat.Subject(p.Subject)}, suspended)
	if errors.Is(err, chat.ErrNoThread) {
		return chat.ErrUnknownRun
	}
	return err
}

// find is the thread of a segment, if the principal is within its walls.
func (c *Conductor) find(ctx context.Context, p identity.Principal, segment string) (chat.Key, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.CommandTimeout)
	defer cancel()
	pause := firstPause
	for {
		key, err := c.j.Segment(ctx, segment)
		switch {
		case err == nil && key.Realm == p.Realm && key.Tenant == p.Tenant:
			return key, nil
		case err == nil, errors.Is(err, journal.ErrNotFound):
			return chat.Key{}, chat.ErrUnknownRun
		case errors.Is(err, journal.ErrClosed) || !sleep(ctx, &pause):
			return chat.Key{}, ErrUnavailable
		}
	}
}

// stopRun ends a run from outside for a reason of the gateway's own.
func (c *Conductor) stopRun(ctx context.Context, key chat.Key, run string, s chat.Stop) error {
	find := func(st *chat.State) *chat.Run { return st.Run(run) }
	err := c.stop(ctx, key, find, s, true)
	if errors.Is(err, chat.ErrUnknownRun) || errors.Is(err, chat.ErrNoThread) {
		return nil
	}
	return err
}

// stop is the seal and then the end: two commits of one command. Whoever
// writes the end, the command that sealed has succeeded.
func (c *Conductor) stop(ctx context.Context, key chat.Key, find func(*chat.State) *chat.Run, s chat.Stop, suspended bool) error {
	return c.stopIf(ctx, key, "", func(*View) error { return nil }, find, s, suspended)
}

// stopIf is stop where may does not refuse; what the index says of node is in
// the view that it is given.
func (c *Conductor) stopIf(ctx context.Context, key chat.Key, node string, may func(*View) error, find func(*chat.State) *chat.Run, s chat.Stop, suspended bool) error {
	id := newCommand()
	var run string
	var ended bool
	decide := DecideStop(find, s, NewSegment(), suspended, &run, &ended)
	d, err := c.carry(ctx, &Command{ID: id, Key: key, IDs: []string{node}, Decide: func(v *View) (Plan, error) {
		if err := may(v); err != nil {
			return Plan{}, err
		}
		return decide(v)
	}})
	if err != nil || ended {
		return err
	}
	if d.Result == journal.DoneBefore {
		run = string(d.Before)
	}
	id.Step = 1
	// The run is sealed: it ends even if the client goes away meanwhile.
	_, err = c.carry(context.WithoutCancel(ctx), &Command{ID: id, Key: key, Decide: DecideEndSealed(run, c.o.Now())})
	if errors.Is(err, ErrSealLost) {
		return c.stopIf(ctx, key, node, may, find, s, suspended)
	}
	return err
}

// DetachCalls asks a run's owner to move subagents to the background.
func (c *Conductor) DetachCalls(ctx context.Context, p identity.Principal, segment, call string) error {
	key, err := c.find(ctx, p, segment)
	if err != nil {
		return err
	}
	var run string
	decide := allowed(p, identity.Detach, key, DecideDetach(segment, call, &run))
	_, err = c.carry(ctx, &Command{ID: newCommand(), Key: key, Decide: func(v *View) (Plan, error) {
		if r := v.State.RunOfSegment(segment); r != nil && !c.detaches(key, r.Agent) {
			return Plan{}, chat.ErrNoSubagent
		}
		return decide(v)
	}})
	if errors.Is(err, chat.ErrNoThread) {
		return chat.ErrUnknownRun
	}
	return err
}

// Load returns a thread's state, if the principal may do verb to it. The store
// is asked in any case; what a room has only makes the answer smaller.
func (c *Conductor) Load(ctx context.Context, p identity.Principal, verb identity.Verb, key chat.Key) (*chat.State, error) {
	st, _, err := c.view(ctx, p, verb, key)
	return st, err
}

// view is Load, with the epoch.
func (c *Conductor) view(ctx context.Context, p identity.Principal, verb identity.Verb, key chat.Key) (*chat.State, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	st, from := c.rooms.Peek(key)
	snap, err := c.j.Load(ctx, journal.Load{Key: key, From: from})
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if !snap.Exists {
		return nil, 0, chat.ErrNoThread
	}
	st = snap.State(st)
	return st, snap.Meta.Epoch, Allow(p, verb, key, st, chat.Subject{})
}
