package pingerchips_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// visitor is a client with its windows, one after the other: it goes, and comes
// back with the last log_id that it had.
type visitor struct {
	name   string
	w      *window
	c      *client
	folded int // frames of w that c has folded
	asked  [][2]string
}

// ask sends a push whose reply nobody waits for.
func (v *visitor) ask(event, payload string) {
	v.w.ask(event, payload)
	v.asked = append(v.asked, [2]string{event, payload})
}

// again sends once more what may have been lost with a connection, as a client does
// that had no answer: what was done before is a duplicate.
func (v *visitor) again() {
	for _, a := range v.asked {
		v.w.ask(a[0], a[1])
	}
}

func (v *visitor) catchUp() {
	all := v.w.all()
	v.c.frames(all[v.folded:])
	v.folded = len(all)
}

// until folds what comes until ok.
func (v *visitor) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for v.catchUp(); !ok() || v.c.signal != ""; v.catchUp() {
		v.w.wait(what+" at "+v.c.what, func() bool { return len(v.w.seen) > v.folded })
	}
}

// idle says that no run is shown to live.
func (v *visitor) idle() bool {
	for k, info := range v.c.slots {
		if strings.HasPrefix(k, "run:") && strings.Contains(info, `"endedAt":null`) {
			return false
		}
	}
	return v.c.loaded
}

// Invariants 1, 2, 4, 6 and 7: whatever clients do at once on two edges of one
// journal, each sees one order of the same entries, each run ends once, a stream
// is there while its run lives, and who goes and comes back has missed nothing.
func TestManyClientsOnTwoEdges(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			sites := pair(t, store.open(t), nil)
			thread := 0
			rapid.Check(t, func(r *rapid.T) {
				if thread++; thread > rounds {
					return
				}
				wander(t, r, sites, fmt.Sprint("t", thread))
			})
		})
	}
}

var texts = []string{"hi", "some more words", "words /ask", "/ask2 done", "words /fail", "first /slow", "/tool x /think", "/long 300", "a /ask b /ask c"}

func wander(t *testing.T, r *rapid.T, sites []*site, thread string) {
	caps := []string{"chat:subscribe:*", "chat:publish:user_message:*", "chat:publish:cancel_any:*", "chat:publish:tool_approval:*"}
	enter := func(i int, more ...string) *window {
		s := sites[rapid.IntRange(0, len(sites)-1).Draw(r, "edge")]
		return s.joinAs(thread, s.token(fmt.Sprint("u", i), caps...), more...)
	}
	var all []*visitor
	for i := range 3 {
		v := &visitor{name: fmt.Sprint("u", i), c: newClient(t, fmt.Sprintf("%s u%d", thread, i))}
		v.w = enter(i)
		all = append(all, v)
	}
	var runs, messages []string
	for step := range rapid.IntRange(3, 14).Draw(r, "steps") {
		i := rapid.IntRange(0, len(all)-1).Draw(r, "who")
		v := all[i]
		id := fmt.Sprintf("%s-m%d", thread, step)
		some := func(from []string) string {
			if len(from) == 0 {
				return "nobody"
			}
			return rapid.SampledFrom(from).Draw(r, "which")
		}
		text := rapid.SampledFrom(texts).Draw(r, "text")
		switch what := rapid.IntRange(0, 9).Draw(r, "what"); what {
		case 0, 1, 2:
			v.ask("send", fmt.Sprintf(`{"messageId":%q,"runId":"r-%s","text":%q}`, id, id, text))
			runs, messages = append(runs, "r-"+id), append(messages, id)
		case 3:
			v.ask("edit", fmt.Sprintf(`{"messageId":%q,"newMessageId":%q,"runId":"r-%s","text":%q}`, some(messages), id, id, text))
			runs, messages = append(runs, "r-"+id), append(messages, id)
		case 4:
			v.catchUp()
			for _, m := range messagesOf(t, v.c) {
				if m.Role == "assistant" {
					v.ask("regenerate", fmt.Sprintf(`{"messageId":%q,"runId":"r-%s"}`, m.MessageID, id))
					runs = append(runs, "r-"+id)
					break
				}
			}
		case 5: // two at once
			run := some(runs)
			v.w.ask("cancel", `{"runId":`+quote(run)+`}`)
			all[(i+1)%len(all)].w.ask("cancel", `{"runId":`+quote(run)+`}`)
		case 6, 7:
			v.decide(t, all[(i+1)%len(all)])
		case 8: // goes, and comes back to another edge
			v.w.conn.close()
			v.catchUp()
			old := v.c
			v.w, v.folded = enter(i, after(old.log)), 0
			v.c = newClient(t, old.what+" back")
			v.c.resumes(old)
			v.c.logs, v.c.ends, v.c.states = old.logs, old.ends, old.states
			v.again()
		default:
			v.w.ok("view:get", `{}`)
			v.asked = nil
		}
	}
	settle(t, all, runs)
	everyReplay(t, r, sites, thread, all[0].c)
}

// decide answers the question that the visitor is shown, at once with another.
func (v *visitor) decide(t *testing.T, other *visitor) {
	v.catchUp()
	for _, f := range v.w.all() {
		if f.event != "run:suspend" {
			continue
		}
		p := read(t, f)
		if i := infoOf(t, v.c, p.RunID); i.SuspendedTool == nil || i.SuspendedTool.ToolCallID != p.ToolCallID {
			continue
		}
		push := fmt.Sprintf(`{"runId":%q,"toolCallId":%q,"approved":false}`, p.RunID, p.ToolCallID)
		v.w.ask("tool_approval", push)
		other.w.ask("tool_approval", push)
		return
	}
}

// settle ends what still runs and compares what all have seen.
func settle(t *testing.T, all []*visitor, runs []string) {
	for _, v := range all { // what was asked for has been answered, in order
		v.w.ok("view:get", `{}`)
	}
	for _, run := range runs {
		f := all[0].w.call("cancel", `{"runId":`+quote(run)+`}`)
		if r := read(t, f).Reason; !f.ok && r != "already_ended" && r != "not_found" {
			t.Fatalf("cancel was refused: %s", f.payload)
		}
	}
	log := uint64(0)
	for _, v := range all {
		v.until(t, "the end of all runs", func() bool { return v.idle() })
		log = max(log, v.c.log)
	}
	for _, v := range all {
		v.until(t, fmt.Sprint("entry ", log), func() bool { return v.c.log >= log })
	}
	for _, v := range all[1:] {
		if v.c.log != all[0].c.log || v.c.folded() != all[0].c.folded() {
			t.Fatalf("PIN-186 %s has at %d\n%s\n%s has at %d\n%s", v.c.what, v.c.log, v.c.folded(), all[0].c.what, all[0].c.log, all[0].c.folded())
		}
		for log, entry := range v.c.logs {
			if other, ok := all[0].c.logs[log]; ok && other != entry {
				t.Fatalf("PIN-022 PIN-186 entry %d is\n%s\nand\n%s", log, entry, other)
			}
		}
	}
	for _, v := range all {
		for run, n := range v.c.ends {
			if n != 1 {
				t.Fatalf("PIN-200 invariant 2: %s saw run %s end %d times", v.c.what, run, n)
			}
		}
		v.w.conn.close()
	}
}

// everyReplay is invariant 4, for every entry that is kept: whoever joins with the
// state of some log_id is led to that of the snapshot, and the replay is what was
// seen live.
func everyReplay(t *testing.T, r *rapid.T, sites []*site, thread string, whole *client) {
	t.Helper()
	var k *conn
	for log := uint64(0); log <= whole.log; log++ {
		if log%90 == 0 { // a connection may join so often
			k = sites[rapid.IntRange(0, len(sites)-1).Draw(r, "edge of a replay")].dial()
		}
		had := whole.states[log]
		if had == nil && log > 0 {
			continue // it came later, with a snapshot
		}
		w, _, reason := k.attempt(topicOf(thread), `{"auth":`+quote(sites[0].token("r", "chat:subscribe:*"))+`,`+after(log)+`}`)
		if reason != "" {
			t.Fatalf("the join was refused: %s", reason)
		}
		w.after(0, "the snapshot", event("snapshot"))
		c := newClient(t, fmt.Sprintf("%s after %d", thread, log))
		if log > 0 {
			c.slots, c.log, c.known = maps.Clone(had), log, true
		}
		c.frames(w.all())
		if uint64(len(c.logs)) != whole.log-log {
			t.Fatalf("PIN-060 invariant 4: after %d come %d entries of %d", log, len(c.logs), whole.log-log)
		}
		for n, entry := range c.logs {
			if live, ok := whole.logs[n]; ok && live != entry {
				t.Fatalf("PIN-061 entry %d is replayed as\n%s\nwas\n%s", n, entry, live)
			}
		}
	}
}
