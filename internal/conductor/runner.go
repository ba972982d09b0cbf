package conductor

import (
	"context"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
	"github.com/parlance-gateway/parlance/internal/room"
)

// Bounds of a runner.
const (
	// backlogLimit is how many entries may wait for the journal before the
	// agent is made to wait.
	backlogLimit = 256
	eventBuffer  = 64
)

// runner drives one Owner: it is the loop, the appender and the agent's call of
// one attempt at one segment.
type runner struct {
	c     *Conductor
	key   chat.Key
	own   *chat.Run // what the attempt began with
	owner Owner
	realm *Realm
	agent agent.Agent
	call  *agent.Call

	// above is the span of what began the attempt, span its own.
	above string
	span  Span

	held held

	mu    sync.Mutex
	mails []mail
	bell  chan struct{}
	gone  chan struct{} // closed when it has let go
	// unsaved says, once it has let go, that something was said in vain.
	unsaved bool
}

// mail is what a runner is told by others; it never blocks its sender.
type mail struct {
	record *chat.Record
	epoch  room.CloseReason
	shut   bool
	// hand asks to let the run go to another edge; the answer says whether it did.
	hand chan<- bool
}

func (r *runner) post(m mail) {
	r.mu.Lock()
	r.mails = append(r.mails, m)
	r.mu.Unlock()
	ring(r.bell)
}

// takeUp starts the attempt that a command of this edge has just made, or, if
// the command's first reply was lost, the one that the store has. with is as
// for own.
func (c *Conductor) takeUp(key chat.Key, run string, d done, with agent.Agent) {
	if d.Result == journal.Done {
		st := d.after()
		if r := st.Run(run); r != nil && d.owner(run) == c.o.Boot { // else another edge takes it up
			c.own(key, d.Epoch, d.Fences[run], r, st, with, d.above)
		}
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.o.CommandTimeout)
	defer cancel()
	snap, err := c.j.Load(ctx, journal.Load{Key: key})
	if err != nil || !snap.Exists {
		return // the sweep finds it
	}
	st := snap.State(nil)
	m, ok := snap.Meta.Runs[run]
	if r := st.Run(run); ok && r != nil && m.Owner == c.o.Boot {
		c.own(key, snap.Meta.Epoch, m.Fence, r, st, with, d.above)
	}
}

// own starts a runner for an attempt that this edge owns. with is the agent,
// where that is not the one that the realm's configuration has for the run; above
// is the span of what began the attempt.
func (c *Conductor) own(key chat.Key, epoch, fence uint64, run *chat.Run, st *chat.State, with agent.Agent, above string) {
	a := attempt{key, run.ID, fence}
	realm := c.o.Realm(key.Realm)
	r := &runner{
		c: c, key: key, own: run, realm: realm, above: above, span: noSpan{}, bell: make(chan struct{}, 1), gone: make(chan struct{}),
		owner: Owner{Key: key, Epoch: epoch, Run: run.ID, Fence: fence, Boot: c.o.Boot},
		held:  held{state: (&chat.State{Runs: []*chat.Run{run}}).Clip()},
	}
	for _, p := range run.Parts {
		if p.Type == chat.PartText {
			r.owner.textLen += len(p.Text)
		}
	}
	if realm != nil {
		r.agent, r.owner.Pace = realm.Agents[run.Agent], realm.Pace.Milliseconds()
	}
	if with != nil {
		r.agent = with
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runners[a] != nil || c.ctx.Err() != nil {
		return
	}
	c.runners[a] = r
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		ctx := c.ctx
		ctx, r.span = c.begin(ctx, Work{Kind: WorkSegment, Key: key, Run: run, Fence: fence, Above: above})
		r.run(ctx, st)
		r.endSpan()
		close(r.gone)
		c.mu.Lock()
		delete(c.runners, a)
		c.mu.Unlock()
	}()
}

func (r *runner) run(ctx context.Context, st *chat.State) {
	unwatch, err := r.c.rooms.Watch(ctx, r.key, &room.Watcher{
		Change: func(c *room.Change) {
			if !c.Record.Kind.Streams() && c.Record.Run == r.own.ID {
				r.post(mail{record: c.Record})
			}
		},
		Epoch: func(why room.CloseReason) { r.post(mail{epoch: why}) },
		Meta:  r.asked(),
	})
	if err != nil {
		return
	}
	defer unwatch()
	callCtx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	l := &loop{
		runner: r, ctx: ctx, callCtx: callCtx, hangUp: hangUp, state: st,
		events: make(chan agent.Event, eventBuffer), ended: make(chan agent.Outcome, 1),
		appended: make(chan answered, 1), wake: make(chan struct{}, 1), repair: agent.NewRepair(r.own),
	}
	defer l.wait()
	// Timers of which nothing waits: in a select that is entered for each token
	// they would be set and unset each time.
	l.alarm = time.AfterFunc(never, func() { ring(l.wake) })
	defer l.alarm.Stop()
	if g, ok := r.agent.(agent.Gated); ok {
		l.repair.Gate(g.Confirm)
	}
	if r.realm != nil && r.realm.RunTimeout > 0 {
		l.timeout = make(chan struct{}, 1)
		defer time.AfterFunc(r.time(), func() { ring(l.timeout) }).Stop()
	}
	l.missed()
	l.do(l.owner.Start(l.own.Status == chat.RunPending))
	for r.owner.Phase != PhaseOver {
		l.turn()
	}
}

// time is how long the segment may yet take. That of a run which outlives its
// owners counts from when its agent took it up (PIN-185); after a pause, and for
// others, from the attempt's own beginning.
func (r *runner) time() time.Duration {
	limit := r.realm.RunTimeout
	if _, ok := r.agent.(agent.Inbound); ok && len(r.own.Segments) == 1 && r.own.Status == chat.RunActive {
		limit -= time.Duration(r.c.o.Now()-r.own.Started) * time.Millisecond
	}
	return min(max(0, limit), r.realm.RunTimeout)
}

// missed finds out whether the run was stopped or ended between the commit that
// began the attempt and the first look at the room.
func (l *loop) missed() {
	st, _ := l.c.rooms.Peek(l.key)
	if st == nil || st.Born != l.state.Born || st.Pos < l.state.Pos {
		return
	}
	if r := st.Run(l.own.ID); r == nil || r.Stop != nil {
		l.post(mail{record: &chat.Record{Entry: chat.Entry{Kind: chat.KindRunStop, Run: l.own.ID}}})
	}
}
