package pingerchips_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/parlance-gateway/parlance/internal/edge"
)

// Invariants 1, 2, 4, 6 and 7 where agents dial in: whatever clients and agents do
// at once on two edges, in order and out of it, each sees one order of the same
// entries, each run ends once and as the one says whose push was accepted, a
// question has one answer, and Pilotoo sees each run whole, with one end.
func TestAgentsAndClientsOnTwoEdges(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			sites := pair(t, store.open(t), func(c *edge.Site) { inboundSite(0)(c); withPeople(c) })
			thread := 0
			rapid.Check(t, func(r *rapid.T) {
				if thread++; thread > rounds {
					return
				}
				(&schedule{t: t, r: r, sites: sites, thread: fmt.Sprint("t", thread)}).run()
			})
		})
	}
}

// pushed is a push whose reply will be looked at.
type pushed struct {
	w                      *window
	ref                    int
	event, run, call, word string
}

// schedule is what clients and agents do to one thread.
type schedule struct {
	t      *testing.T
	r      *rapid.T
	sites  []*site
	thread string

	visitors []*visitor
	agents   []*window
	pilot    *pilot
	pushed   []pushed
	runs     []string
	calls    []string // of a run, as run + " " + call
	said     map[string]string
	lost     map[string]bool // runs of which some reply was lost
	trace    []string
}

func (s *schedule) site() *site {
	return s.sites[rapid.IntRange(0, len(s.sites)-1).Draw(s.r, "edge")]
}

func (s *schedule) agent() *window {
	w, _, reason := s.site().attempt(topicOf(s.thread), `{"secret":`+quote(secret)+`,"agent_id":"w1"}`)
	if reason != "" {
		s.t.Fatal(reason)
	}
	w.after(0, "the snapshot", event("snapshot"))
	return w
}

func (s *schedule) push(w *window, event, run, call, word, payload string) {
	s.trace = append(s.trace, event+" "+payload)
	s.pushed = append(s.pushed, pushed{w, w.ask(event, payload), event, run, call, word})
}

func (s *schedule) some(from []string) string {
	if len(from) == 0 {
		return "nobody"
	}
	return rapid.SampledFrom(from[max(0, len(from)-4):]).Draw(s.r, "which")
}

func (s *schedule) run() {
	defer func() {
		if s.t.Failed() {
			s.t.Logf("%s:\n%s", s.thread, strings.Join(s.trace, "\n"))
		}
	}()
	s.said, s.lost = map[string]string{}, map[string]bool{}
	caps := []string{"chat:subscribe:*", "chat:publish:user_message:*", "chat:publish:cancel_any:*", "chat:publish:tool_approval:*"}
	enter := func(i int, more ...string) *window {
		at := s.site()
		return at.joinAs(s.thread, at.token(fmt.Sprint("u", i), caps...), more...)
	}
	for i := range 2 {
		v := &visitor{name: fmt.Sprint("u", i), c: newClient(s.t, fmt.Sprintf("%s u%d", s.thread, i))}
		v.w = enter(i)
		s.visitors = append(s.visitors, v)
	}
	s.agents = []*window{s.agent(), s.agent()}
	s.pilot = s.site().pilot(s.t, "pete")
	if h := s.pilot.call("thread:messages", `{"threadId":`+quote(s.thread)+`}`); !h.OK {
		s.t.Fatal("Pilotoo cannot watch the thread")
	}
	for step := range rapid.IntRange(4, 24).Draw(s.r, "steps") {
		s.step(step, enter)
	}
	s.end()
}

func (s *schedule) step(step int, enter func(int, ...string) *window) {
	i := rapid.IntRange(0, 1).Draw(s.r, "who")
	v, a := s.visitors[i], s.agents[rapid.IntRange(0, 1).Draw(s.r, "agent")]
	id := fmt.Sprintf("%s-m%d", s.thread, step)
	run := s.some(s.runs)
	about := `{"runId":` + quote(run)
	switch rapid.IntRange(0, 15).Draw(s.r, "what") {
	case 0, 1:
		run = "r-" + id
		if f := v.w.call("send", fmt.Sprintf(`{"messageId":%q,"runId":%q,"text":"hi"}`, id, run)); !f.ok {
			if r := read(s.t, f).Reason; r != "too many runs" {
				s.t.Fatalf("PIN-120 %s", f.payload)
			}
			return
		}
		s.runs = append(s.runs, run)
		if rapid.Bool().Draw(s.r, "at once") {
			s.push(a, "run:start", run, "", "", `{"runId":`+quote(run)+`}`)
		}
	case 2: // a run of the agent's own
		run = "own-" + id
		s.push(a, "run:start", run, "", "", `{"runId":`+quote(run)+`,"ownerClientId":"u0"}`)
		s.runs = append(s.runs, run)
	case 3, 4:
		s.runs = append(s.runs, run) // one that nobody knows is begun
		s.push(a, "run:start", run, "", "", about+`}`)
	case 5, 6, 7:
		text := s.said[run] + rapid.SampledFrom([]string{"one ", "two ", "😀 ", "x"}).Draw(s.r, "text")
		if rapid.IntRange(0, 5).Draw(s.r, "anew") == 0 {
			text = "other "
		}
		s.said[run] = text
		s.push(a, "run:token", run, "", "", about+`,"content":`+quote(text)+`}`)
	case 8:
		call := fmt.Sprint("call-", step)
		s.calls = append(s.calls, run+" "+call)
		s.push(a, "run:suspend", run, call, "", about+`,"toolCallId":`+quote(call)+`,"toolName":"mail","args":{"n":1}}`)
	case 9, 10: // two answers at once
		run, call, ok := strings.Cut(s.some(s.calls), " ")
		if !ok {
			return
		}
		for n, yes := range []string{"true", "false"} {
			s.push(s.visitors[(i+n)%2].w, "tool_approval", run, call, yes, fmt.Sprintf(`{"runId":%q,"toolCallId":%q,"approved":%s}`, run, call, yes))
		}
	case 11:
		s.push(a, "run:resume", run, "", "", about+`}`)
	case 12: // a person and the agent at once, or two agents
		other, event, word := s.agents[0], "run:end", "error"
		if rapid.Bool().Draw(s.r, "person") {
			other, event, word = v.w, "cancel", "cancelled"
		}
		s.push(s.agents[1], "run:end", run, "", "complete", about+`,"reason":"complete"}`)
		if event == "cancel" {
			s.push(other, event, run, "", word, about+`}`)
		} else {
			s.push(other, event, run, "", word, about+`,"reason":"error"}`)
		}
	case 13: // goes, and comes back to any edge
		v.w.ok("view:get", `{}`)
		s.replies()
		v.w.conn.close()
		v.catchUp()
		old := v.c
		v.w, v.folded = enter(i, after(old.log)), 0
		v.c = newClient(s.t, old.what+" back")
		v.c.resumes(old)
		v.c.logs, v.c.ends, v.c.states = old.logs, old.ends, old.states
	case 14: // the agent goes, perhaps without hearing what came of its pushes
		if rapid.Bool().Draw(s.r, "heard") {
			s.replies()
		}
		n := 0
		if a == s.agents[1] {
			n = 1
		}
		for _, p := range s.pushed {
			if p.w == a {
				s.lost[p.run] = true
			}
		}
		a.conn.close()
		s.agents[n] = s.agent()
	default:
		v.w.ok("view:get", `{}`)
	}
}

// replies waits for what came of all pushes so far, but those whose connection is
// gone.
func (s *schedule) replies() {
	for _, p := range s.pushed {
		p.w.wait("the reply to "+p.event, func() bool {
			if p.w.closed != "" {
				return true
			}
			for _, f := range p.w.seen {
				if f.ref == p.ref {
					return true
				}
			}
			return false
		})
	}
}

func (s *schedule) end() {
	t := s.t
	s.replies()
	for _, run := range s.runs {
		s.cancel(run)
	}
	s.replies()
	// What an agent had asked for when it went may come after that.
	for v, deadline := s.visitors[0], time.Now().Add(patience); !v.idle() && time.Now().Before(deadline); v.catchUp() {
		select {
		case <-v.w.bell:
		case <-time.After(200 * time.Millisecond):
			for k, info := range v.c.slots {
				if run, ok := strings.CutPrefix(k, "run:"); ok && strings.Contains(info, `"endedAt":null`) {
					s.cancel(run)
				}
			}
			s.replies()
		}
	}
	s.winners()
	settle(t, s.visitors, nil)
	last := s.visitors[0].c
	for n, w := range s.agents { // PIN-104: agents see what everybody sees
		v := &visitor{w: w, c: newClient(t, fmt.Sprintf("%s agent %d", s.thread, n))}
		v.until(t, "the last entry", func() bool { return v.c.log >= last.log })
		if v.c.folded() != last.folded() {
			t.Fatalf("PIN-104 PIN-186 an agent has\n%s\nwant\n%s", v.c.folded(), last.folded())
		}
		s.decisions(w)
		w.conn.close()
	}
	s.envelopes(last)
	everyReplay(t, s.r, s.sites, s.thread, last)
}

func (s *schedule) cancel(run string) {
	s.push(s.visitors[0].w, "cancel", run, "", "cancelled", `{"runId":`+quote(run)+`}`)
}

// winners is invariant 7: of what was pushed to end a run or to answer a question
// at most one was accepted, exactly one where all replies are known, and the run
// is what that one said.
func (s *schedule) winners() {
	type outcome struct{ won, lost []string }
	ends, answers := map[string]*outcome{}, map[string]*outcome{}
	for _, p := range s.pushed {
		at, id, refused := ends, p.run, "already_ended"
		switch p.event {
		case "tool_approval":
			at, id, refused = answers, p.run+" "+p.call, "already_decided"
		case "run:end", "cancel":
		default:
			continue
		}
		if at[id] == nil {
			at[id] = &outcome{}
		}
		for _, f := range p.w.all() {
			if f.ref != p.ref {
				continue
			}
			if f.ok {
				at[id].won = append(at[id].won, p.word)
			} else if read(s.t, f).Reason == refused {
				at[id].lost = append(at[id].lost, p.word)
			}
		}
	}
	for what, at := range map[string]map[string]*outcome{"the end of": ends, "an answer to": answers} {
		for id, o := range at {
			run, _, _ := strings.Cut(id, " ")
			if len(o.won) > 1 || len(o.won) == 0 && len(o.lost) > 0 && !s.lost[run] {
				s.t.Fatalf("PIN-200 PIN-139 PIN-174 invariant 7: %s %s was accepted %d times (%v), refused %d times", what, id, len(o.won), o.won, len(o.lost))
			}
		}
	}
	v := s.visitors[0]
	for run, o := range ends {
		if len(o.won) == 0 {
			continue
		}
		v.until(s.t, "the end of "+run, func() bool { return strings.Contains(v.c.slots["run:"+run], `"endedAt":1`) })
		if got := infoOf(s.t, v.c, run).Status; got != o.won[0] {
			s.t.Fatalf("PIN-202 invariant 7: %s was accepted to be %s and is %s", run, o.won[0], got)
		}
	}
}

// decisions holds what an agent was told to one decision for each question.
func (s *schedule) decisions(w *window) {
	told := map[string]bool{}
	for _, f := range w.all() {
		if f.event != "tool_approval" {
			continue
		}
		var p struct {
			RunID, ToolCallID string
			Approved          bool
		}
		if err := json.Unmarshal(f.payload, &p, json.MatchCaseInsensitiveNames(true)); err != nil {
			s.t.Fatal(err)
		}
		id := p.RunID + " " + p.ToolCallID
		if yes, before := told[id]; before && yes != p.Approved {
			s.t.Fatalf("PIN-172 invariant 7: of %s the agent is told both", id)
		}
		told[id] = p.Approved
		for _, q := range s.pushed {
			if q.event != "tool_approval" || q.run+" "+q.call != id {
				continue
			}
			for _, r := range q.w.all() {
				if r.ref == q.ref && r.ok && (q.word == "true") != p.Approved {
					s.t.Fatalf("PIN-171 PIN-172 of %s the agent is told %v", id, p.Approved)
				}
			}
		}
	}
}

// envelopes is invariant 2, as Pilotoo numbers what a run sends: 1..n without a
// hole, one end, and nothing after it.
func (s *schedule) envelopes(last *client) {
	runs := 0
	for k := range last.slots {
		if strings.HasPrefix(k, "run:") {
			runs++
		}
	}
	ended := func() (n int) {
		paused := map[string]bool{} // its end is only that of a segment
		for _, e := range s.pilot.seen {
			switch e.Event.Type {
			case "RUN_PAUSED":
				paused[e.RunID] = true
			case "RUN_FINISHED", "RUN_CANCELLED", "RUN_ERROR":
				if !paused[e.RunID] {
					n++
				}
			}
		}
		return n
	}
	s.pilot.wait("the end of all runs in Pilotoo", func() bool { return ended() >= runs })
	s.pilot.mu.Lock()
	defer s.pilot.mu.Unlock()
	next, over := map[string]int{}, map[string]bool{}
	for _, e := range s.pilot.seen {
		if over[e.RunID] {
			s.t.Fatalf("invariant 2: %s of %s after its end", e.Event.Type, e.RunID)
		}
		if next[e.RunID]++; e.Sequence != next[e.RunID] {
			s.t.Fatalf("invariant 2: %s of %s has the number %d, want %d", e.Event.Type, e.RunID, e.Sequence, next[e.RunID])
		}
		switch e.Event.Type {
		case "RUN_FINISHED", "RUN_CANCELLED", "RUN_ERROR":
			over[e.RunID] = true
		}
	}
	for id := range next {
		if !over[id] {
			s.t.Fatalf("invariant 2: %s has no end", id)
		}
	}
	_ = s.pilot.ws.CloseNow()
}
