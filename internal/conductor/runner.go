package conductor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

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
	// appendTime is how long an append may take at least, at most twice as long.
	appendTime = 5 * time.Second
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

// answered is what an append brought.
type answered struct {
	res journal.Appended
	err error
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

// loop is a runner while it runs.
type loop struct {
	*runner
	ctx      context.Context
	callCtx  context.Context
	hangUp   context.CancelFunc
	state    *chat.State // of the thread, when the attempt began
	events   chan agent.Event
	ended    chan agent.Outcome
	writes   chan write    // nil until there is one
	appended chan answered // has room for the one answer that is not read at the end
	timeout  chan struct{}
	wake     chan struct{} // when the owner has something to do
	alarm    *time.Timer   // rings wake
	alarmAt  int64         // for when alarm is set
	repair   *agent.Repair
	wg       sync.WaitGroup
	pause    time.Duration
	stopped  bool
	leaving  bool             // its call was told to end, so that another edge makes it again
	quit     <-chan time.Time // when the upstream of a run that may be lost is closed
}

// wait waits for the call and the appender, which end with their contexts.
func (l *loop) wait() {
	l.hangUp()
	if l.writes != nil {
		close(l.writes)
	}
	done := make(chan struct{})
	go func() { l.wg.Wait(); close(done) }()
	l.unsaved = l.owner.unsaved
	for {
		select {
		case <-l.events:
			l.unsaved = true
		case <-done:
			l.unsaved = l.unsaved || len(l.events) > 0 // nobody adds any more
			return
		}
	}
}

// never is longer than any run.
const never = 1 << 62

// ring has a loop look, without waiting for it.
func ring(bell chan<- struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// turn waits for one thing to happen and acts on it.
func (l *loop) turn() {
	l.lease()
	events := l.events
	if l.owner.Backlog() > backlogLimit || l.owner.Lapsed() {
		events = nil
	}
	if at := l.owner.Wake(); at != 0 && at != l.alarmAt {
		l.alarmAt = at
		l.alarm.Reset(time.Duration(max(0, at-l.now())) * time.Millisecond)
	}
	select {
	case ev := <-events:
		l.entries(l.repair.Event(ev))
		switch {
		case l.repair.Full():
			l.hangUp() // nothing that it says counts any more
		case l.repair.Halted() && l.callCtx.Err() == nil:
			l.hangUp()
			l.tellStopped(true)
		}
	case out := <-l.ended:
		if !l.leaving {
			l.finish(out)
		}
	case a := <-l.appended:
		l.settle(a)
	case <-l.bell:
		l.read()
	case <-l.quit:
		l.quit = nil
		l.forsake()
	case <-l.wake:
		l.alarmAt = 0
		l.do(l.owner.Tick(l.now(), l.tag()))
	case <-l.timeout:
		l.timeout = nil
		l.stop(chat.Stop{Cause: chat.CauseTimeout})
	case <-l.ctx.Done():
		l.owner.Over()
	}
}

func (l *loop) now() int64  { return l.c.o.Now() }
func (l *loop) tag() uint64 { return l.c.o.Random() >> 1 }

func (l *loop) entries(es []chat.Entry) {
	if len(es) == 0 {
		return
	}
	for _, e := range es {
		l.held.add(e)
	}
	l.do(l.owner.Entries(es, l.now(), l.tag()))
}

// rest takes what an agent had said before its call ended.
func (l *loop) rest() {
	for {
		select {
		case ev := <-l.events:
			l.entries(l.repair.Event(ev))
		default:
			return
		}
	}
}

// finish takes what the agent said before it ended, then ends the segment.
func (l *loop) finish(out agent.Outcome) {
	l.rest()
	if l.ctx.Err() != nil {
		l.owner.Over()
		return
	}
	es, out := l.repair.End(out)
	l.entries(es)
	for _, i := range out.Interrupts {
		if i.Deadline == 0 {
			i.Deadline = l.deadline()
		}
	}
	l.do(l.owner.Finish(out, l.now(), l.tag()))
}

// deadline is when a question that is asked now is given up, or 0: its run says,
// else the realm.
func (l *loop) deadline() int64 {
	wait := l.own.Origin.Park
	if wait == 0 && l.realm != nil {
		wait = l.realm.PauseTimeout.Milliseconds()
	}
	if wait <= 0 {
		return 0
	}
	return l.now() + wait
}

// settle takes an append's answer; one that did not come is asked for again.
func (l *loop) settle(a answered) {
	if a.err == nil {
		l.pause = firstPause
		l.stopped = l.stopped || a.res.Result == journal.Sealed
		switch a.res.Result {
		case journal.Gap, journal.WrongEpoch, journal.Ended, journal.Fenced:
			l.span.Event(a.res.Result.String(), "")
			l.c.rooms.Acknowledged(l.key, journal.Notice{Resync: true})
		}
		if a.res.Result == journal.Stored {
			l.c.rooms.Acknowledged(l.key, journal.Notice{Epoch: l.owner.Epoch, Records: a.res.Records})
		}
		l.do(l.owner.Appended(a.res, l.tag()))
		return
	}
	if errors.Is(a.err, journal.ErrTooLarge) || errors.Is(a.err, journal.ErrClosed) {
		l.do(l.owner.Shut(false))
		return
	}
	if l.pause == 0 {
		l.pause = firstPause
	}
	l.span.Event("retry", "append")
	l.do(l.owner.Retry())
}

func (l *loop) read() {
	l.mu.Lock()
	mails := l.mails
	l.mails = nil
	l.mu.Unlock()
	for _, m := range mails {
		switch {
		case m.record != nil:
			if b, ok := m.record.Body.(*chat.RunDetachBody); ok {
				l.detach(b.Calls)
				continue
			}
			if m.record.Kind == chat.KindRunStop {
				l.stopped = true
			}
			l.do(l.owner.Seen(m.record))
		case m.epoch == room.CloseEpoch, m.shut:
			// Somebody else has the run, or the store has lost it; restoring it
			// finds out which.
			l.span.Event("epoch", "")
			l.do(l.owner.Shut(true))
		case m.hand != nil && l.leaves():
			l.leave()
		case m.hand != nil:
			m.hand <- l.handOver()
		case m.epoch == room.CloseDeleted:
			l.do(l.owner.Shut(false))
		}
	}
}

// stop ends the run from outside, although it is our own: so that a time-out
// and a cancel go one way.
func (l *loop) stop(s chat.Stop) {
	l.wg.Go(func() {
		pause, ends := firstPause, outage{what: "a run could not be ended"}
		for {
			err := l.c.stopRun(l.ctx, l.key, l.own.ID, s)
			if err != nil && l.callCtx.Err() != nil {
				return
			}
			ends.note(l.c.o.Logger, err, "realm", l.key.Realm)
			if err == nil || !sleep(l.callCtx, &pause) { // its owner has let it go
				return
			}
		}
	})
}

// do does what the owner asks for.
func (l *loop) do(d Do) {
	switch {
	case d.Abort:
		l.hangUp()
		l.tellStopped(l.stopped)
		if d.Lost {
			l.restore()
		}
	case d.Open:
		d, err := l.c.carryOn(l.ctx, &Command{ID: newCommand(), Key: l.key, Decide: DecideOpen(&l.owner)})
		l.report("open", err)
		if l.lost(d, err) {
			l.restore()
		}
		if err == nil {
			l.held.active(l.own.ID, l.now())
		}
		l.do(l.owner.Opened(err == nil))
	case d.End:
		l.end()
	}
	if d.Append != nil {
		l.append(*d.Append)
	}
	if d.Call {
		if out, ok := l.repair.Unasked(); ok {
			l.ended <- out // which it has room for, since nothing was called
		} else {
			l.startCall()
		}
		l.entries(l.repair.Begin())
	}
}

// tellStopped tells an agent that can be told that its run was stopped, or that
// one of its calls waits for an approval, which ends its part of the run for now.
func (l *loop) tellStopped(stopped bool) {
	l.mu.Lock()
	call := l.call
	l.mu.Unlock()
	c, ok := l.agent.(agent.Canceller)
	if !ok || call == nil || !stopped {
		return
	}
	l.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), 10*time.Second)
		defer cancel()
		c.Cancel(ctx, call)
	})
}

// end commits the segment's end, for as long as the journal may yet take it: an
// outage ends nobody's run.
func (l *loop) end() {
	unasked := false
	decide := DecideFinish(&l.owner, l.now(), func(r *chat.Run, i *chat.Interrupt) (chat.InterruptStatus, jsontext.Value) {
		if l.c.o.Unasked == nil {
			return "", nil
		}
		status, value := l.c.o.Unasked(l.key.Realm, r, i)
		unasked = unasked || status != ""
		return status, value
	})
	if l.owner.left() {
		decide = DecideLeave(&l.owner, l.now())
	}
	d, err := l.c.carryOn(l.ctx, &Command{ID: newCommand(), Key: l.key, Decide: decide})
	l.report("end", err)
	lost := l.lost(d, err)
	l.owner.Over()
	if lost {
		l.restore()
	}
	if err != nil {
		return
	}
	l.c.trim(l.key, d.View.Meta)
	if unasked {
		// Where this edge is lost now, the question is due for any other.
		l.report("settle", l.c.expire(l.ctx, journal.DueItem{Key: l.key, Run: l.own.ID}))
	}
}

// lost says whether a commit that found the run lost found that the store has
// lost records of it.
func (l *loop) lost(d done, err error) bool {
	return errors.Is(err, ErrLost) && d.View != nil && l.owner.Lost(d.View)
}

func (l *loop) report(what string, err error) {
	if err == nil || errors.Is(err, ErrLost) || l.ctx.Err() != nil {
		return
	}
	l.c.o.Logger.Error("a run's owner could not commit", "what", what, "realm", l.key.Realm, "error", err)
}

// restore ends the run in the new epoch with the whole text.
func (l *loop) restore() {
	held := l.held.run(l.own.ID)
	if held == nil || l.ctx.Err() != nil {
		return
	}
	_, err := l.c.carryOn(l.ctx, &Command{
		ID: newCommand(), Key: l.key, IDs: []string{held.Message, held.Answer, chat.RunNode(held.ID)},
		Decide: DecideRestore(Held{Run: held, Born: l.state.Born, Boot: l.c.o.Boot, Fence: l.owner.Fence}, l.now()),
	})
	l.report("restore", err)
}

// append has a write made. There is one at a time, so nothing waits here.
func (l *loop) append(a journal.Append) {
	if l.writes == nil {
		l.writes = make(chan write, 1)
		l.wg.Go(l.writer)
	}
	l.writes <- write{a, l.pause}
	if l.pause > 0 {
		l.pause = min(2*l.pause, lastPause)
	}
}

// write is an append to be made after a pause, if that is longer than the first.
type write struct {
	journal.Append
	pause time.Duration
}

// writer makes a loop's appends. It is one goroutine, and one context does for many
// appends, since there may be an append for each token.
func (l *loop) writer() {
	for w, more := l.next(); more; {
		w, more = l.write(w)
	}
}

// next waits for an append, and for as long as it is to be put off.
func (l *loop) next() (w write, more bool) {
	if w, more = <-l.writes; w.pause > firstPause {
		sleep(l.ctx, &w.pause)
	}
	return w, more
}

// write makes w and what comes within appendTime, and returns what comes next.
func (l *loop) write(w write) (next write, more bool) {
	ctx, cancel := context.WithTimeout(l.ctx, 2*appendTime)
	defer cancel()
	for renew := time.Now().Add(appendTime); ; {
		res, err := l.c.j.Append(ctx, w.Append)
		l.appended <- answered{res, err}
		if w, more = l.next(); !more || time.Now().After(renew) {
			return w, more
		}
	}
}
