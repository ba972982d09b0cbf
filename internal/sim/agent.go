package sim

import (
	"fmt"

	"github.com/parlance-gateway/parlance/internal/agent"
	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/conductor"
)

// The agents by name: one bears to be called again before it has said anything.
const (
	plain    = "plain"
	retrying = "retrying"
)

// script is one call of an agent: what it says and when, and how it ends.
type script struct {
	a       *attempt
	steps   []step
	out     agent.Outcome
	hang    bool
	stopped bool
	subs    []string
}

type step struct {
	delay   int64
	entries []chat.Entry
}

// newScript draws what an agent says to a segment: text, thinking, tools, todos,
// subagents, state; then it completes, fails, asks or hangs.
func (w *world) newScript(a *attempt) *script {
	s := &script{a: a}
	run, tempo := a.o.Run, w.between(1, 200)
	say := func(k chat.Kind, b chat.Body) {
		s.steps = append(s.steps, step{w.between(0, tempo), []chat.Entry{chat.NewEntry(k, run, b)}})
	}
	if w.calm {
		tempo /= 8
	} else if w.chance(0.4) {
		s.steps = append(s.steps, step{w.between(0, 8000), nil})
	}
	for range w.rnd.IntN(5) {
		switch id := w.id("p"); w.rnd.IntN(6) {
		case 0, 1, 2:
			say(chat.KindTextStart, &chat.BlockBody{Part: id})
			for i := range w.rnd.IntN(40) {
				say(chat.KindTextDelta, &chat.DeltaBody{Part: id, Text: fmt.Sprintf("%d ", i)})
			}
			say(chat.KindTextEnd, &chat.BlockBody{Part: id})
		case 3:
			say(chat.KindToolStart, &chat.ToolStartBody{Call: id, Name: "tool"})
			say(chat.KindToolArgs, &chat.DeltaBody{Part: id, Text: "{}"})
			say(chat.KindToolEnd, &chat.ToolEndBody{Call: id})
			say(chat.KindToolResult, &chat.ToolResultBody{Call: id, Message: id + "r", Content: "ok"})
		case 4:
			say(chat.KindTodos, &chat.TodosBody{Todos: []chat.Todo{{Content: id, Status: "pending"}}})
			say(chat.KindState, &chat.StateBody{State: []byte(`{"s":"` + id + `"}`)})
		case 5:
			s.subs = append(s.subs, id)
			say(chat.KindSubagentStart, &chat.SubagentStartBody{Subagent: chat.Subagent{ID: id, Call: id}})
		}
	}
	s.out = agent.Outcome{Status: chat.RunComplete}
	switch r := w.rnd.IntN(12); {
	case r == 0:
		s.out = agent.Failed("BOOM", "it broke")
	case r < 3 && !w.calm:
		s.hang = true
	case r < 6 && len(a.begun.Segments) < 3:
		s.out = agent.Outcome{Status: chat.RunSuspended}
		for range 1 + w.rnd.IntN(2) {
			s.out.Interrupts = append(s.out.Interrupts, &chat.Interrupt{
				ID: w.id("i"), Kind: chat.InterruptApproval, Deadline: a.p.now() + w.between(500, 9000),
			})
		}
	}
	return s
}

// next says the next thing in its time.
func (s *script) next() {
	w := s.a.p.e.w
	if len(s.steps) == 0 {
		s.end()
		return
	}
	w.after(s.steps[0].delay, func() {
		switch {
		case s.over():
		case s.a.o.Backlog() > backlog:
			w.after(20, s.next)
		default:
			st := s.steps[0]
			s.steps = s.steps[1:]
			s.say(st.entries)
			s.next()
		}
	})
}

func (s *script) over() bool {
	return s.stopped || s.a.p.dead || s.a.o.Phase != conductor.PhaseStreaming
}

func (s *script) say(entries []chat.Entry) {
	w := s.a.p.e.w
	if len(entries) > 0 {
		w.checker.said(s.a, entries)
		s.a.hold(entries...)
		s.a.do(s.a.o.Entries(entries, s.a.p.now(), w.random()))
	}
}

// end ends the call; one that hangs is ended by the run's time limit.
func (s *script) end() {
	w, p := s.a.p.e.w, s.a.p
	if s.hang {
		w.after(8000, func() {
			if !s.over() {
				p.cancel(s.a.o.Key, s.a.o.Run, chat.CauseTimeout, func(result) {})
			}
		})
		return
	}
	for _, id := range s.subs {
		s.say([]chat.Entry{chat.NewEntry(chat.KindSubagentEnd, s.a.o.Run, &chat.SubagentEndBody{ID: id})})
	}
	s.subs = nil
	if s.over() {
		return
	}
	w.log("agent of %s ends: %s", s.a.o.Run, s.out.Status)
	s.a.do(w.bug.finishing(s.a, s.out))
}

// detach lets subagents go: they end in this run, as detached.
func (s *script) detach(calls []string) {
	if s.over() {
		return
	}
	for _, id := range calls {
		for i, sub := range s.subs {
			if sub == id {
				s.subs = append(s.subs[:i:i], s.subs[i+1:]...)
				s.say([]chat.Entry{chat.NewEntry(chat.KindSubagentEnd, s.a.o.Run, &chat.SubagentEndBody{ID: id, Detached: true})})
				break
			}
		}
	}
}
