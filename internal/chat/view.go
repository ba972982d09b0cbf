package chat

// View returns the messages of the default view, oldest first: of every group
// of siblings the newest, and nothing that hangs below another (C11). Replacing
// a message that is not shown any more shows its branch again (PIL-039). list is
// in the order of the records; a message whose parent is not in it is shown,
// since what is older than the list cannot be told.
//
// A group is what follows forkOf to one root; messages that merely share a
// parent are no alternatives, all of them are shown.
func View(list []*Message) []*Message {
	forked := false
	for _, m := range list {
		if m.ForkOf != "" {
			forked = true
			break
		}
	}
	if !forked {
		return list
	}
	byID := make(map[string]*Message, len(list))
	for _, m := range list {
		byID[m.ID] = m
	}
	root := func(m *Message) string {
		id := m.ID
		for n := 0; m != nil && m.ForkOf != "" && n <= len(list); n++ {
			id = m.ForkOf
			m = byID[id]
		}
		return id
	}
	newest := make(map[string]string, len(list))
	for _, m := range list {
		newest[root(m)] = m.ID
		if m.ForkOf == "" {
			continue
		}
		for up, n := byID[m.Parent], 0; up != nil && n <= len(list); up, n = byID[up.Parent], n+1 {
			newest[root(up)] = up.ID
		}
	}
	kept := make(map[string]bool, len(list))
	view := make([]*Message, 0, len(list))
	for _, m := range list {
		_, known := byID[m.Parent]
		if newest[root(m)] == m.ID && (!known || kept[m.Parent]) {
			kept[m.ID] = true
			view = append(view, m)
		}
	}
	return view
}

// Whole says that the view of the list can be told from it: no message in it
// replaces one that is older than the list. Where it is not, the list may have
// messages that hang below what was replaced.
func Whole(list []*Message) bool {
	known := make(map[string]bool, len(list))
	for _, m := range list {
		if m.ForkOf != "" && !known[m.ForkOf] {
			return false
		}
		known[m.ID] = true
	}
	return true
}

// Node is what an index tells of an id without loading its message.
type Node struct {
	Role   Role   `json:"role,omitempty"`
	Parent string `json:"parent,omitempty"`
	ForkOf string `json:"forkOf,omitempty"`
	// Run says that the id is a run's, not a message's: then Parent is the
	// message that it answers, ForkOf the one that it makes anew, By who began it.
	Run bool    `json:"run,omitzero"`
	By  Subject `json:"by,omitzero"`
	// Of is the message that the id is only a part of, or "".
	Of string `json:"of,omitempty"`
}

// Message says that the id is a message's own.
func (n *Node) Message() bool { return !n.Run && n.Of == "" }

// NodesOf returns what the id index must learn from the entries. Ids of runs
// are prefixed, so that a run and a message may have the same id.
func NodesOf(entries []Entry) map[string]Node {
	nodes := make(map[string]Node)
	add := func(m *Message) {
		if m == nil {
			return
		}
		nodes[m.ID] = Node{Role: m.Role, Parent: m.Parent, ForkOf: m.ForkOf}
		// A dialect that shows one message per text part shows the parts' ids.
		for _, p := range m.Parts {
			if p.Type == PartText && p.ID != m.ID {
				nodes[p.ID] = Node{Role: m.Role, Parent: m.Parent, Of: m.ID}
			}
		}
	}
	for _, e := range entries {
		switch b := e.Body.(type) {
		case *MessageBody:
			add(b.Message)
		case *RunPendingBody:
			nodes[RunNode(b.Run.ID)] = Node{Run: true, Parent: b.Run.Message, ForkOf: b.Run.Regen, By: b.Run.Origin.By}
		case *RunEndBody:
			add(b.Message)
		}
	}
	return nodes
}

// RunNode is the id under which the index knows a run.
func RunNode(run string) string { return "run\x00" + run }
