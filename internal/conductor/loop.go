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
			l.tellStopped(true, false)
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
		l.tellStopped(l.stopped, d.Lost)
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
// A run that was lost may have been stopped too, and the news of that be on its way.
func (l *loop) tellStopped(stopped, lost bool) {
	l.mu.Lock()
	call := l.call
	l.mu.Unlock()
	c, ok := l.agent.(agent.Canceller)
	if !ok || call == nil || !stopped && !lost {
		return
	}
	l.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), 10*time.Second)
		defer cancel()
		if !stopped {
			if _, err := l.c.FindRun(ctx, l.key, l.own.ID); !errors.Is(err, chat.ErrRunEnded) {
				return
			}
		}
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
