package conductor

import (
	"context"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
)

// detaches says whether an agent has the ability to let subagents go.
func (c *Conductor) detaches(key chat.Key, name string) bool {
	realm := c.o.Realm(key.Realm)
	if realm == nil {
		return false
	}
	_, ok := realm.Agents[name].(agent.Detacher)
	return ok
}

// detach lets subagents go on outside: for each a thread of its own, with a run
// that the rest of the work answers. The child thread is there before anybody
// is told of it.
func (l *loop) detach(calls []string) {
	d, ok := l.agent.(agent.Detacher)
	l.mu.Lock()
	call := l.call
	l.mu.Unlock()
	if !ok || call == nil {
		return
	}
	for _, id := range calls {
		l.wg.Go(func() {
			// The work goes on after this run: its context is the conductor's.
			rest, title, err := d.Detach(l.c.ctx, call, id)
			if err != nil {
				l.c.o.Logger.Warn("a subagent could not be detached", "realm", l.key.Realm, "error", err)
				return
			}
			if err := l.c.background(l.c.ctx, l.key, l.state.Info.Owner, id, title, rest); err != nil {
				l.c.o.Logger.Warn("a background task could not begin", "realm", l.key.Realm, "error", err)
			}
		})
	}
}

// background opens a task's thread and begins its run, then tells the parent.
func (c *Conductor) background(ctx context.Context, parent chat.Key, owner chat.Subject, call, title string, rest agent.Agent) error {
	now := c.o.Now()
	child := chat.Key{Realm: parent.Realm, Tenant: parent.Tenant, Thread: NewID()}
	task := chat.Task{ID: NewID(), Status: "running", Title: title, Parent: parent.Thread, Child: child.Thread, Call: call, Created: now, Updated: now}
	question := &chat.Message{
		ID: NewID(), Role: chat.User, By: owner, Created: now, Status: chat.MessageComplete,
		Parts: []*chat.Part{{ID: NewID(), Type: chat.PartText, Text: chat.Text(title)}},
	}
	s := chat.Start{
		Message: question, Run: NewID(), Answer: NewID(), Segment: NewSegment(), Agent: backgroundAgent,
		Origin: chat.Origin{Dialect: "task", By: owner}, Upstream: NewID(),
	}
	d, err := c.carry(ctx, &Command{ID: newCommand(), Key: child, IDs: []string{question.ID}, Decide: func(v *View) (Plan, error) {
		entries, err := v.State.Create(chat.Info{Owner: owner, Title: title, Created: now, Task: &task})
		if err != nil {
			return Plan{}, err
		}
		opened := *v
		opened.State = v.State.Apply(&chat.Record{Entry: entries[0]})
		p, err := DecideStart(s, c.o.Boot)(&opened)
		p.Entries = append(entries, p.Entries...)
		return p, err
	}})
	if err != nil {
		return err
	}
	if err := c.tellTask(ctx, parent, task); err != nil {
		return err
	}
	c.takeUp(child, s.Run, d, rest)
	return nil
}

// backgroundAgent is no configured agent's name: what runs there lives in this
// process only, and is ended, not started again, if the process is lost.
const backgroundAgent = "(background)"

// tellTask writes a task's state into a thread.
func (c *Conductor) tellTask(ctx context.Context, key chat.Key, task chat.Task) error {
	_, err := c.carry(ctx, &Command{ID: newCommand(), Key: key, Decide: func(v *View) (Plan, error) {
		if !v.State.Exists {
			return Plan{}, nil
		}
		return Plan{Entries: []chat.Entry{chat.NewEntry(chat.KindTask, "", &chat.TaskBody{Task: task})}}, nil
	}})
	return err
}

// tellEnds tells both threads of a background task that its run has ended,
// whoever ended it.
func (c *Conductor) tellEnds(key chat.Key, st *chat.State, entries []chat.Entry) {
	if st.Info.Task == nil {
		return
	}
	for _, e := range entries {
		b, ok := e.Body.(*chat.RunEndBody)
		if !ok || c.ctx.Err() != nil {
			continue
		}
		task := *st.Info.Task
		task.Updated = c.o.Now()
		switch b.Status {
		case chat.RunComplete:
			task.Status = "finished"
		case chat.RunCancelled:
			task.Status = "cancelled"
		default:
			task.Status = "error"
		}
		c.apart(func(ctx context.Context) {
			for _, k := range []chat.Key{key, {Realm: key.Realm, Tenant: key.Tenant, Thread: task.Parent}} {
				if err := c.tellTask(ctx, k, task); err != nil && ctx.Err() == nil {
					c.o.Logger.Warn("a task's end could not be told", "realm", key.Realm, "error", err)
				}
			}
		})
	}
}

// apart does work that nobody waits for, until the conductor closes.
func (c *Conductor) apart(f func(context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return
	}
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		f(c.ctx)
	}()
}
