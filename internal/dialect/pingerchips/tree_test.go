package pingerchips_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// answerOf is the answer to a message, as the newest view has it.
func (w *window) answerOf(message string) string {
	w.t.Helper()
	for _, n := range w.ok("tree:get", `{"limit":1000}`).Nodes {
		if deref(n.ParentID) == message && n.Role == "assistant" {
			return n.MessageID
		}
	}
	w.t.Fatalf("no answer to %s", message)
	return ""
}

func TestEdit(t *testing.T) {
	s := serve(t, nil)
	w, v := s.join("t1", "ann"), s.join("t1", "bob")
	w.talk("m1", "one")
	a1 := w.answerOf("m1")
	w.talk("m2", "two")
	v.over(0, "r-m2")
	edit := func(w *window, target, fresh, run, text string) frame {
		return w.call("edit", fmt.Sprintf(`{"messageId":%q,"newMessageId":%q,"runId":%q,"text":%q}`, target, fresh, run, text))
	}
	n := v.count()
	f := edit(v, "m1", "m1b", "r-m1b", "uno") // PIN-165: also another user's
	if r := read(t, f); !f.ok || r.MessageID != "m1b" || r.RunID != "r-m1b" || r.Status != "ok" || r.Serial == 0 {
		t.Fatalf("PIN-160 PIN-161 PIN-162 %s", f.payload)
	}
	list := v.over(n, "r-m1b")
	if list[1].event != "batch" || !strings.Contains(string(list[1].payload), `"status":"pending"`) {
		t.Errorf("PIN-094 PIN-164 first comes %s", list[1].payload)
	}
	c := newClient(t, "edit")
	c.frames(v.all())
	byID := map[string]said{}
	for _, m := range messagesOf(t, c) {
		byID[m.MessageID] = m
	}
	if m := byID["m1b"]; m.Role != "user" || deref(m.Content) != "uno" || deref(m.ForkOf) != "m1" || m.ParentID != nil || m.MsgRegenerate != nil || m.OwnerClientID != "bob" {
		t.Errorf("PIN-163 PIN-154 the new message is %+v", m)
	}
	if _, ok := byID["m1"]; !ok {
		t.Error("PIN-163 the old one is gone")
	}
	refused := func(name, target, fresh, run, text, reason string) {
		t.Helper()
		if f := edit(w, target, fresh, run, text); f.ok || string(f.payload) != `{"reason":"`+reason+`"}` {
			t.Errorf("%s: %s", name, f.payload)
		}
	}
	refused("PIN-165 an unknown target", "nobody", "x1", "x1", "x", "not_found")
	refused("PIN-165 an answer", a1, "x2", "x2", "x", "invalid_target")
	refused("PIN-122 no text", "m1", "x3", "x3", " ", "invalid payload")
	refused("PIN-130 a run that was", "m1", "x4", "r-m1", "x", "run_exists")
	if r := read(t, edit(w, "m1", "m1b", "other", "x")); r.Status != "duplicate" || r.RunID != "r-m1b" {
		t.Errorf("PIN-165 the id is taken: %s", r.raw)
	}
	s.joinAs("t1", s.token("x", "chat:subscribe:t1")).refuses("PIN-160", "edit", `{}`, "forbidden: missing publish:user_message")
	if got := idsOf(w.ok("view:get", `{}`).Messages); !strings.HasPrefix(got, "m1b ") || strings.Contains(got, "m2") {
		t.Errorf("PIN-233 the default view is %s", got)
	}
}

func TestRegenerate(t *testing.T) {
	s := serve(t, nil)
	w := s.join("t1", "ann")
	w.talk("m1", "one")
	a1 := w.answerOf("m1")
	n := w.count()
	ask := func(rest string) string { return `{"messageId":` + quote(a1) + rest + `}` }
	r := w.ok("regenerate", ask(`,"runId":"r-new","parentId":"m1"`))
	if r.MessageID != a1 || r.RunID != "r-new" || r.Status != "ok" || r.Serial == 0 {
		t.Errorf("PIN-150 PIN-151 PIN-152 the reply is %s", r.raw)
	}
	list := w.over(n, "r-new")
	if list[1].event != "change" || !strings.Contains(string(list[1].payload), `"key":"run:r-new"`) || !strings.Contains(string(list[1].payload), `"previous":null`) {
		t.Errorf("PIN-094 first comes %s %s", list[1].event, list[1].payload)
	}
	c := newClient(t, "regenerate")
	c.frames(w.all())
	said := messagesOf(t, c)
	made := said[len(said)-1]
	if deref(made.ForkOf) != a1 || deref(made.MsgRegenerate) != a1 || deref(made.ParentID) != "m1" || made.Role != "assistant" || len(said) != 3 {
		t.Errorf("PIN-153 PIN-157 PIN-220 the new answer is %+v", made)
	}
	if again := w.ok("regenerate", ask(`,"runId":"r-new"`)); again.Status != "duplicate" || again.Serial != r.Serial || again.MessageID != a1 {
		t.Errorf("PIN-156 the same again: %s, first it was %s", again.raw, r.raw)
	}
	w.refuses("PIN-156 a run of another purpose", "regenerate", ask(`,"runId":"r-m1"`), "run_exists")
	w.refuses("PIN-155 another parent", "regenerate", ask(`,"runId":"x","parentId":"m2"`), "invalid_parent")
	w.refuses("PIN-155 no parent", "regenerate", ask(`,"runId":"x","parentId":null`), "invalid_parent")
	w.refuses("PIN-155 an unknown target", "regenerate", `{"messageId":"nobody","runId":"x"}`, "not_found")
	w.refuses("PIN-155 a user's message", "regenerate", `{"messageId":"m1","runId":"x"}`, "invalid_target")
	w.refuses("PIN-151 no run id", "regenerate", ask(``), "invalid payload")
	s.joinAs("t1", s.token("x", "chat:subscribe:t1")).refuses("PIN-150", "regenerate", ask(`,"runId":"x"`), "forbidden: missing publish:user_message")
	n = w.count()
	w.ok("regenerate", ask(`,"runId":"r-third"`)) // PIN-155: the parent is derived
	w.over(n, "r-third")
	if g := w.ok("tree:siblings", `{"messageId":`+quote(a1)+`}`); len(g.Siblings) != 3 || g.GroupID != a1 {
		t.Errorf("PIN-155 PIN-232 the group is %s", g.raw)
	}
}

func TestTree(t *testing.T) {
	s := serve(t, nil)
	w, v := s.join("t1", "ann"), s.join("t1", "ann")
	w.talk("m1", "one")
	a1 := w.answerOf("m1")
	w.talk("m2", "two")
	edit := func(target, fresh string) {
		n := w.count()
		w.ok("edit", fmt.Sprintf(`{"messageId":%q,"newMessageId":%q,"runId":%q,"text":"x"}`, target, fresh, "r-"+fresh))
		w.over(n, "r-"+fresh)
	}
	edit("m2", "m2b")
	edit("m2b", "m2c")
	log := *w.ok("view:get", `{}`).LogID
	answers := map[string]string{}
	for _, m := range []string{"m1", "m2", "m2b", "m2c"} {
		answers[m] = w.answerOf(m)
	}
	view := func(w *window) string { w.t.Helper(); return idsOf(w.ok("view:get", `{}`).Messages) }
	path := func(m string) string { return "m1 " + a1 + " " + m + " " + answers[m] }
	for _, w := range []*window{w, v} {
		if got := view(w); got != path("m2c") {
			t.Errorf("PIN-233 PIN-234 the default view is %s", got)
		}
	}
	selects := func(w *window, payload string, want map[string]string) []said {
		t.Helper()
		n := w.count()
		r := w.ok("branch:select", payload)
		if !maps.Equal(r.Selections, want) {
			t.Errorf("PIN-112 PIN-235 %s gives %s", payload, r.raw)
		}
		list := w.after(n, "view:update", event("view:update"))
		u := read(t, list[len(list)-1])
		if list[0].ref == 0 || len(list) != 2 || !maps.Equal(u.Selections, want) || u.LogID != nil {
			t.Errorf("PIN-110 PIN-113 PIN-244 then comes %s", u.raw)
		}
		return u.Messages
	}
	m2 := map[string]string{"m2": "m2"}
	if got := idsOf(selects(w, `{"messageId":"m2b","selectedId":"m2"}`, m2)); got != path("m2") {
		t.Errorf("PIN-110 PIN-230 the view is %s", got)
	}
	selects(w, `{"messageId":"m2c","selectedId":"m2"}`, m2) // PIN-237
	selects(w, `{"messageId":"m2","index":1}`, map[string]string{"m2": "m2b"})
	selects(w, `{"messageId":"m2","index":-5}`, m2)
	selects(w, `{"messageId":"m2","index":99}`, map[string]string{"m2": "m2c"})
	selects(w, `{"messageId":"m1","selectedId":"m1"}`, map[string]string{"m2": "m2c", "m1": "m1"}) // PIN-237: a group of one
	selects(w, `{"messageId":"m2","selectedId":"m2b"}`, map[string]string{"m2": "m2b", "m1": "m1"})
	if view(w) != path("m2b") || view(v) != path("m2c") {
		t.Errorf("PIN-111 PIN-113 the views are %s and %s", view(w), view(v))
	}
	for _, f := range v.all() {
		if f.event == "view:update" {
			t.Errorf("PIN-111 the other window was sent %s", f.payload)
		}
	}
	w.refuses("PIN-236 an unknown message", "branch:select", `{"messageId":"nobody","selectedId":"m2"}`, "not_found")
	w.refuses("PIN-236 no sibling", "branch:select", `{"messageId":"m2","selectedId":"m1"}`, "not_sibling")
	w.refuses("PIN-236 neither", "branch:select", `{"messageId":"m2"}`, "invalid payload")
	w.refuses("PIN-236 both", "branch:select", `{"messageId":"m2","selectedId":"m2","index":0}`, "invalid payload")
	selects(w, `{"messageId":"m2","selectedId":null}`, map[string]string{"m1": "m1"})
	n := w.count()
	if r := w.ok("branch:reset", `{}`); string(r.raw) != `{"selections":{}}` {
		t.Errorf("PIN-238 %s", r.raw)
	}
	w.after(n, "view:update", event("view:update"))

	g := w.ok("tree:siblings", `{"messageId":"m2b"}`)
	if g.GroupID != "m2" || strings.Join(g.Siblings, " ") != "m2 m2b m2c" || g.Index != 1 || g.SelectedID != "m2c" {
		t.Errorf("PIN-232 PIN-240 %s", g.raw)
	}
	if g := w.ok("tree:siblings", `{"messageId":"m1"}`); strings.Join(g.Siblings, " ") != "m1" || g.Index != 0 || g.GroupID != "m1" {
		t.Errorf("PIN-240 a group of one: %s", g.raw)
	}
	w.refuses("PIN-240", "tree:siblings", `{"messageId":"nobody"}`, "not_found")
	node := w.ok("tree:node", `{"messageId":`+quote(a1)+`}`)
	if node.Message == nil || node.Message.MessageID != a1 || node.Message.Content == nil || strings.Join(node.Children, " ") != "m2 m2b m2c" || strings.Join(node.Siblings, " ") != a1 {
		t.Errorf("PIN-241 %s", node.raw)
	}
	w.refuses("PIN-241", "tree:node", `{"messageId":"nobody"}`, "not_found")
	tree := w.ok("tree:get", `{}`)
	if len(tree.Nodes) != 8 || strings.Join(tree.Roots, " ") != "m1" || len(tree.Leaves) != 3 || *tree.HasOlder || *tree.LogID != log || strings.Contains(string(tree.raw), "content") {
		t.Errorf("PIN-239 PIN-231 %s", tree.raw)
	}
	page := w.ok("tree:get", `{"limit":2,"beforeMessageId":"m2b"}`)
	if idsOf(page.Nodes) != "m2 "+answers["m2"] || !*page.HasOlder || strings.Join(page.Leaves, " ") != answers["m2"] {
		t.Errorf("PIN-239 a page: %s", page.raw)
	}
	part := w.ok("view:get", `{"limit":2}`)
	if idsOf(part.Messages) != "m2c "+answers["m2c"] || !*part.HasOlder {
		t.Errorf("PIN-242 a page of the view: %s", part.raw)
	}
	part = w.ok("view:get", `{"limit":2,"beforeMessageId":"m2c"}`)
	if idsOf(part.Messages) != "m1 "+a1 || *part.HasOlder || *part.LogID != log {
		t.Errorf("PIN-242 the page before: %s", part.raw)
	}
	w.refuses("PIN-242", "view:get", `{"beforeMessageId":"nobody"}`, "not_found")
	selects(w, `{"messageId":"m2","selectedId":"m2"}`, m2)
	back := s.join("t1", "ann")
	if view(back) != path("m2c") {
		t.Errorf("PIN-243 a new join's view is %s", view(back))
	}
	v2 := s.joinAs("t1", s.token("ann"), `"selections":{"m2":"m2b","nobody":"m2","m1":"m2","later":"never"}`)
	if got := view(v2); got != path("m2b") {
		t.Errorf("PIN-243 the view of a join with selections is %s", got)
	}
	if r := v2.ok("view:get", `{}`); !maps.Equal(r.Selections, map[string]string{"m2": "m2b"}) {
		t.Errorf("PIN-243 its selections are %v", r.Selections)
	}
	for _, f := range v2.all() {
		if f.event == "view:update" {
			t.Errorf("PIN-111 a join is sent %s", f.payload)
		}
	}
	// PIN-129: without a parent a message hangs at the end of the sender's view;
	// PIN-245: its agent is given that path, whatever others chose.
	w.talk("m3", "three")
	if n := w.ok("tree:node", `{"messageId":"m3"}`); deref(n.Message.ParentID) != answers["m2"] {
		t.Errorf("PIN-129 PIN-245 it hangs under %s", deref(n.Message.ParentID))
	}
	if got := view(w); got != path("m2")+" m3 "+w.answerOf("m3") {
		t.Errorf("PIN-234 the sender's view is %s", got)
	}
	if view(v) != path("m2c") {
		t.Errorf("PIN-114 the other's view is %s", view(v))
	}
}

// What a client makes anew it sees, wherever that is; others stay where they are.
func TestOwnBranchesAreChosen(t *testing.T) {
	s := serve(t, nil)
	w, v := s.join("t1", "ann"), s.join("t1", "bob")
	w.talk("m1", "one")
	a1 := w.answerOf("m1")
	w.talk("m2", "two")
	edit := func(target, fresh string) {
		n := w.count()
		w.ok("edit", fmt.Sprintf(`{"messageId":%q,"newMessageId":%q,"runId":%q,"text":"x"}`, target, fresh, "r-"+fresh))
		w.over(n, "r-"+fresh)
	}
	edit("m1", "m1b")
	edit("m2", "m2b") // on the branch that is no longer shown
	if got := idsOf(w.ok("view:get", `{}`).Messages); got != "m1 "+a1+" m2b "+w.answerOf("m2b") {
		t.Errorf("PIN-233 the editor sees %s", got)
	}
	if got := idsOf(v.ok("view:get", `{}`).Messages); got != "m1b "+w.answerOf("m1b") {
		t.Errorf("PIN-233 the others see %s", got)
	}
	n := w.count()
	r := w.ok("regenerate", `{"messageId":`+quote(a1)+`,"runId":"again"}`)
	if got := idsOf(w.ok("view:get", `{}`).Messages); r.Status != "ok" || !strings.HasPrefix(got, "m1 ") {
		t.Errorf("PIN-233 while it is made: %s", got)
	}
	w.over(n, "again")
	got := w.ok("view:get", `{}`).Messages
	if len(got) != 2 || deref(got[1].MsgRegenerate) != a1 {
		t.Errorf("PIN-233 the new answer: %s", idsOf(got))
	}
}

func TestLoadOlder(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	w := s.join("t1", "ann")
	var all []string
	for i := range 66 {
		w.talk(fmt.Sprintf("m%02d", i), "hi")
	}
	for _, n := range w.ok("tree:get", `{"limit":5000}`).Nodes {
		all = append(all, n.MessageID)
	}
	if len(all) != 132 {
		t.Fatalf("PIN-239 %d nodes", len(all))
	}
	c := newClient(t, "PIN-071")
	late := s.join("t1", "late")
	c.frames(late.all())
	if got := idsOf(messagesOf(t, c)); got != strings.Join(all[82:], " ") || !strings.Contains(string(late.all()[1].payload), `"has_older":true`) {
		t.Errorf("PIN-071 PIN-077 the snapshot has %s", got)
	}
	for before := all[82]; ; {
		r := late.ok("load_older", `{"beforeMessageId":`+quote(before)+`,"limit":33}`)
		end := 0
		for all[end] != before {
			end++
		}
		from := max(0, end-33)
		if idsOf(r.Messages) != strings.Join(all[from:end], " ") || *r.HasOlder != (from > 0) || r.Messages[0].Content == nil {
			t.Fatalf("PIN-175 PIN-176 before %s come %s, older %v", before, idsOf(r.Messages), *r.HasOlder)
		}
		if from == 0 {
			break
		}
		before = r.Messages[0].MessageID
	}
	for name, q := range map[string]struct {
		payload string
		n       int
	}{
		"PIN-179 without a message": {`{}`, 50}, "PIN-179 null": {`{"beforeMessageId":null,"limit":null}`, 50},
		"PIN-179 none": {`{"limit":0}`, 1}, "PIN-179 less than none": {`{"limit":-7}`, 1}, "PIN-179 more than there are": {`{"limit":100000}`, 132},
	} {
		if r := late.ok("load_older", q.payload); len(r.Messages) != q.n || r.Messages[q.n-1].MessageID != all[131] {
			t.Errorf("%s: %d messages", name, len(r.Messages))
		}
	}
	if r := late.ok("load_older", `{"beforeMessageId":`+quote(all[0])+`}`); string(r.raw) != `{"messages":[],"has_older":false}` {
		t.Errorf("PIN-176 before the first: %s", r.raw)
	}
	late.refuses("PIN-179", "load_older", `{"beforeMessageId":"nobody"}`, "not_found")
	late.refuses("PIN-179", "load_older", `{"limit":"50"}`, "invalid payload")
	late.refuses("PIN-179", "load_older", `{"limit":1.5}`, "invalid payload")
}
