package conductor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// Granted is everything that a principal may do to a thread.
func Granted(p identity.Principal, key chat.Key, st *chat.State) identity.Verbs {
	return identity.Granted(p, threadOf(key, st))
}

// Open makes sure that a thread is there for a principal that may watch it by a
// capability. A thread that springs up so has no owner (PIN-016).
func (c *Conductor) Open(ctx context.Context, p identity.Principal, thread string) error {
	key := Key(p, thread)
	if st, _ := c.rooms.Peek(key); st != nil {
		return nil
	}
	free := identity.Thread{Realm: key.Realm, Tenant: key.Tenant, ID: thread, Open: true}
	if identity.Allow(p, identity.Subscribe, free) != nil {
		return chat.ErrNoThread
	}
	_, err := c.carry(ctx, &Command{ID: newCommand(), Key: key, Decide: func(v *View) (Plan, error) {
		if v.State.Exists {
			return Plan{}, nil
		}
		entries, err := v.State.Create(chat.Info{Created: c.o.Now()})
		return Plan{Entries: entries}, err
	}})
	return err
}

// Begun is what a command began, or what an equal one began before it (Before).
type Begun struct {
	Message, Run string
	// Answer is the id that the run's message has or will have; of a run that
	// began before it may be "".
	Answer string
	// Log is the number of the entry that accepted the command.
	Log    uint64
	Before bool
}

// Send is StartRun for a dialect whose clients mint the ids of runs too. A
// message id that the thread has already is no error (PIN-125).
func (c *Conductor) Send(ctx context.Context, p identity.Principal, thread string, s chat.Start) (Begun, error) {
	s, d, err := c.start(ctx, p, thread, s)
	if errors.Is(err, chat.ErrDuplicateMessage) && d.View != nil {
		return c.sentBefore(ctx, Key(p, thread), d.View, s.Message.ID)
	}
	if err != nil {
		return Begun{}, err
	}
	out := Begun{Message: s.Message.ID, Run: s.Run, Answer: s.Answer}
	out.Log, err = c.logOf(ctx, Key(p, thread), d, s.Run)
	return out, err
}

func (c *Conductor) sentBefore(ctx context.Context, key chat.Key, v *View, id string) (Begun, error) {
	if n := v.Lookup(id); n == nil || !n.Message() {
		return Begun{}, chat.ErrReserved
	}
	_, m, err := c.search(ctx, key, v.State, func(m *chat.Message) bool { return m.ID == id })
	if err != nil {
		return Begun{}, err
	}
	return Begun{Message: id, Run: m.Run, Log: m.Log, Before: true}, nil
}

// Regenerate begins a run that makes an answer anew. One that was asked for in
// the same words before is no error (PIN-156).
func (c *Conductor) Regenerate(ctx context.Context, p identity.Principal, thread string, g chat.Regenerate) (Begun, error) {
	key := Key(p, thread)
	realm, err := c.admit(ctx, p, key)
	if err != nil {
		return Begun{}, err
	}
	g.Answer, g.Segment, g.Upstream, g.MaxRuns = NewID(), NewSegment(), NewID(), realm.MaxRuns
	if realm.SameUpstream {
		g.Upstream = thread
	}
	g.Origin.By = chat.Subject(p.Subject)
	d, err := c.carry(ctx, &Command{
		ID: newCommand(), Key: key, IDs: []string{g.Message, chat.RunNode(g.Run)},
		Decide: allowed(p, identity.UserMessage, key, func(v *View) (Plan, error) {
			chosen := g
			if chosen.Agent = v.State.Info.Agent; chosen.Agent == "" {
				chosen.Agent = realm.Default
			}
			entries, err := v.State.Regenerate(chosen, v.Lookup)
			if err != nil {
				return Plan{}, err
			}
			g.Agent = chosen.Agent
			return c.await(Plan{
				Entries: entries, Segments: []string{g.Segment},
				Runs: []journal.RunChange{{Run: g.Run, New: true, NewOwner: true, Owner: c.o.Boot, Agent: chosen.Agent}},
			}, key.Realm), nil
		}),
	})
	if errors.Is(err, chat.ErrDuplicateRun) && d.View != nil {
		return c.regeneratedBefore(ctx, key, d.View, g)
	}
	if err != nil {
		return Begun{}, err
	}
	c.takeUp(key, g.Run, d, nil)
	c.queue(key, g.Agent, g.Run, g.Origin.By)
	c.wake(key, g.Agent, g.Run)
	out := Begun{Message: g.Message, Run: g.Run, Answer: g.Answer}
	out.Log, err = c.logOf(ctx, key, d, g.Run)
	return out, err
}

// regeneratedBefore tells of the run that has the id. The number of one that was
// cancelled before it began is not remembered, and is 0.
func (c *Conductor) regeneratedBefore(ctx context.Context, key chat.Key, v *View, g chat.Regenerate) (Begun, error) {
	n := v.Lookup(chat.RunNode(g.Run))
	if n == nil || n.ForkOf != g.Message {
		return Begun{}, chat.ErrDuplicateRun
	}
	out := Begun{Message: g.Message, Run: g.Run, Before: true}
	if r := v.State.Run(g.Run); r != nil {
		out.Answer, out.Log = r.Answer, r.Log
		return out, nil
	}
	_, m, err := c.search(ctx, key, v.State, func(m *chat.Message) bool { return m.Run == g.Run })
	if errors.Is(err, chat.ErrNoMessage) {
		return out, nil
	}
	if err == nil && m.Ran != nil {
		out.Answer, out.Log = m.ID, m.Ran.Log
	}
	return out, err
}

// logOf is the log number with which a command's run was accepted.
func (c *Conductor) logOf(ctx context.Context, key chat.Key, d done, run string) (uint64, error) {
	for _, r := range d.Records {
		if r.Kind == chat.KindRunPending && r.Run == run {
			return r.Log, nil
		}
	}
	// The reply was lost on the way; what the command did is there.
	st, err := c.state(ctx, key)
	if err != nil {
		return 0, err
	}
	if r := st.Run(run); r != nil {
		return r.Log, nil
	}
	_, m, err := c.search(ctx, key, st, func(m *chat.Message) bool { return m.Run == run })
	if err != nil || m.Ran == nil {
		return 0, err
	}
	return m.Ran.Log, nil
}

func (c *Conductor) state(ctx context.Context, key chat.Key) (*chat.State, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	st, from := c.rooms.Peek(key)
	snap, err := c.j.Load(ctx, journal.Load{Key: key, From: from})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return snap.State(st), nil
}

// CancelRun stops a run by its own id and returns when it has ended. The errors
// are chat.ErrUnknownRun, ErrForeignRun and ErrRunEnded, in this order (PIN-141).
func (c *Conductor) CancelRun(ctx context.Context, p identity.Principal, thread, run string) error {
	key := Key(p, thread)
	may := func(v *View) error {
		r, n := v.State.Run(run), v.Lookup(chat.RunNode(run))
		var by chat.Subject
		switch {
		case !v.State.Exists, r == nil && n == nil:
			return chat.ErrUnknownRun
		case r != nil:
			by = r.Origin.By
		default:
			by = n.By
		}
		if Allow(p, identity.CancelOwn, key, v.State, by) != nil {
			return chat.ErrForeignRun
		}
		if r == nil || r.Stop != nil {
			return chat.ErrRunEnded
		}
		return nil
	}
	find := func(st *chat.State) *chat.Run { return st.Run(run) }
	return c.stopIf(ctx, key, chat.RunNode(run), may, find, chat.Stop{Cause: chat.CauseUser, By: chat.Subject(p.Subject)}, true)
}

// Take makes a connection the one that shows the run that find picks, as far as it
// supports that, and returns the run as it was then; nil is none.
func (c *Conductor) Take(ctx context.Context, p identity.Principal, thread, holder string, supports []string, find func(*chat.State) *chat.Run) (run *chat.Run, err error) {
	key := Key(p, thread)
	_, err = c.carry(ctx, &Command{
		ID: newCommand(), Key: key,
		Decide: allowed(p, identity.UserMessage, key, func(v *View) (Plan, error) {
			if run = find(v.State); run == nil {
				return Plan{}, nil
			}
			entries, err := v.State.Take(run.ID, holder, supports)
			return Plan{Entries: entries}, err
		}),
	})
	if err != nil {
		return nil, err
	}
	return run, nil
}

// Settle says what a decision is for a question: answered with a value, or
// declined. Its error leaves the question open.
type Settle func(*chat.Interrupt) (chat.InterruptStatus, jsontext.Value, error)

// DecideQuestion settles the question that a run shows, by its name, and takes
// the run up with the last one.
func (c *Conductor) DecideQuestion(ctx context.Context, p identity.Principal, thread, run, name string, settle Settle) error {
	key := Key(p, thread)
	segment := NewSegment()
	var out Resumption
	d, err := c.carry(ctx, &Command{
		ID: newCommand(), Key: key, IDs: []string{chat.RunNode(run)},
		Decide: allowed(p, identity.ToolApproval, key, func(v *View) (Plan, error) {
			i, err := v.State.Question(run, name, v.Lookup)
			if err != nil {
				return Plan{}, err
			}
			a := chat.Answer{Interrupt: i.ID, By: chat.Subject(p.Subject), Segment: segment}
			if a.Status, a.Value, err = settle(i); err != nil {
				return Plan{}, err
			}
			return c.settle(v, key.Realm, a, nil, &out)
		}),
	})
	if err != nil {
		return err
	}
	if d.Result == journal.DoneBefore {
		out.Segment = string(d.Before)
	}
	if out.Segment != "" {
		c.takeUp(key, out.Run, d, nil)
	}
	c.wake(key, out.awaited, out.Run)
	return nil
}

// Messages returns the messages with the ordinals [from, to) of a thread, on all
// branches and in the order of their records, or ErrPages.
func (c *Conductor) Messages(ctx context.Context, key chat.Key, st *chat.State, from, to int) ([]*chat.Message, error) {
	o := c.older(key, st)
	defer o.close()
	return o.messages(ctx, st, from, to)
}

// Ordinal finds a message by its id, or chat.ErrNoMessage.
func (c *Conductor) Ordinal(ctx context.Context, key chat.Key, st *chat.State, id string) (int, error) {
	if st.Message(id) == nil && st.Chunks > 0 {
		_, from := c.rooms.Peek(key)
		snap, err := c.j.Load(ctx, journal.Load{Key: key, From: from, IDs: []string{id}})
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrPages, err)
		}
		if n, ok := snap.Nodes[id]; !ok || !n.Message() {
			return 0, chat.ErrNoMessage
		}
	}
	at, _, err := c.search(ctx, key, st, func(m *chat.Message) bool { return m.ID == id })
	return at, err
}

// searchPages is how many pages are read at once by a search.
const searchPages = 8

// search finds the newest message that is so, or chat.ErrNoMessage.
func (c *Conductor) search(ctx context.Context, key chat.Key, st *chat.State, is func(*chat.Message) bool) (int, *chat.Message, error) {
	to := st.Count()
	from := st.Chunks * chat.ChunkSize
	o := c.older(key, st)
	defer o.close()
	for {
		list, err := o.messages(ctx, st, from, to)
		if err != nil {
			return 0, nil, err
		}
		for i := len(list) - 1; i >= 0; i-- {
			if is(list[i]) {
				return from + i, list[i], nil
			}
		}
		if from == 0 {
			return 0, nil, chat.ErrNoMessage
		}
		to, from = from, max(0, from-searchPages*chat.ChunkSize)
	}
}
