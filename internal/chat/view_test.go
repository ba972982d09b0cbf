package chat

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestView(t *testing.T) {
	user := func(id, parent, fork string) *Message {
		return &Message{ID: id, Role: User, Parent: parent, ForkOf: fork}
	}
	reply := func(id, parent string) *Message { return &Message{ID: id, Role: Assistant, Parent: parent} }
	line := []*Message{user("m1", "", ""), reply("a1", "m1"), user("m2", "a1", ""), reply("a2", "m2"), user("m3", "a2", ""), reply("a3", "m3")}
	with := func(more ...*Message) []*Message { return append(slices.Clone(line), more...) }
	for _, c := range []struct {
		name string
		list []*Message
		want string
	}{
		{"a line is all shown", line, "m1 a1 m2 a2 m3 a3"},
		{"PIL-039 C11 what was replaced and what followed it are not", with(user("m4", "a1", "m2")), "m1 a1 m4"},
		{"PIL-039 this run's message and reply are", with(user("m4", "a1", "m2"), reply("a4", "m4")), "m1 a1 m4 a4"},
		{"C11 of siblings the newest", with(user("m4", "a1", "m2"), user("m5", "a1", "m2")), "m1 a1 m5"},
		{"C11 a replacement is replaced", with(user("m4", "a1", "m2"), reply("a4", "m4"), user("m5", "a1", "m4")), "m1 a1 m5"},
		{"C11 the first message is replaced", with(user("m4", "", "m1")), "m4"},
		{"C11 a late answer below what was replaced", with(user("m4", "a1", "m2"), reply("late", "m3")), "m1 a1 m4"},
		{"C11 replaced at two depths", with(user("m4", "a2", "m3"), user("m5", "a1", "m2")), "m1 a1 m5"},
		{"PIL-042 PIL-039 a branch no longer shown comes back", with(user("m4", "a1", "m2"), reply("a4", "m4"), user("m5", "a2", "m3")), "m1 a1 m2 a2 m5"},
		{"messages that merely share a parent are no alternatives", with(user("x", "a2", "")), "m1 a1 m2 a2 m3 a3 x"},
		{"what is older than the list cannot be told", with(user("m4", "a1", "m2"))[2:], "m4"},
		{"a cycle of replacements ends", []*Message{user("a", "", "b"), user("b", "", "a")}, "a b"},
		{"empty", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := shown(View(c.list)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestWhole(t *testing.T) {
	list := []*Message{{ID: "m1"}, {ID: "m2", ForkOf: "m1"}, {ID: "m3", ForkOf: "m2"}}
	if !Whole(list) || !Whole(nil) || Whole(list[1:]) || Whole(list[2:]) {
		t.Error("a list is not whole where it replaces what is older")
	}
}

// TestViewAsPeopleExpect: what is shown is a path where only forks have
// branched, the newest fork's message is on it, and nothing that was replaced.
func TestViewIsOnePath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := opened()
		replaced := map[string]bool{}
		last := ""
		for range rapid.IntRange(1, 40).Draw(t, "messages") {
			fork := ""
			if len(h.st.Tail) > 0 && rapid.IntRange(0, 2).Draw(t, "fork") == 0 {
				fork = rapid.SampledFrom(h.st.Tail).Filter(func(m *Message) bool { return m.Role == User }).Draw(t, "at").ID
			}
			last, _ = h.answered(fork)
			if fork != "" {
				replaced[fork] = true
				delete(replaced, last)
			}
			view := View(h.st.Tail)
			up := ""
			for _, m := range view {
				if m.Parent != up {
					t.Fatalf("PIL-039 %s is shown after %s, its parent is %s: %s", m.ID, up, m.Parent, shown(view))
				}
				up = m.ID
			}
			if n := len(view); n < 2 || view[n-2].ID != last || h.st.Head != view[n-1].ID {
				t.Fatalf("PIL-039 the newest message %s is not last in %s, the head is %s", last, shown(view), h.st.Head)
			}
			for _, m := range view {
				if m.ID == fork {
					t.Fatalf("PIL-038 %s was replaced, and is shown", fork)
				}
			}
		}
	})
}

func TestNodesOf(t *testing.T) {
	h := opened()
	m1, a1 := h.answered("")
	n, ok := h.nodes[m1]
	if !ok || n.Role != User || h.nodes[a1].Role != Assistant || h.nodes[a1].Parent != m1 {
		t.Errorf("PIL-036 the index has %+v", h.nodes)
	}
	m := &Message{ID: "a", Role: Assistant, Parts: []*Part{{ID: "a", Type: PartText}, {ID: "a-1", Type: PartText}, {ID: "c", Type: PartTool}}}
	nodes := NodesOf([]Entry{{Kind: KindRunEnd, Body: &RunEndBody{Message: m}}})
	if nodes["a-1"].Role != Assistant || len(nodes) != 2 {
		t.Errorf("PIL-035 the ids that windows are shown are not all taken: %+v", nodes)
	}
	if _, ok := h.nodes[RunNode("r2")]; !ok {
		t.Errorf("the run is not in %+v", h.nodes)
	}
}
