package pingerchips

import (
	"slices"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// tree is the graph of a thread's messages, as far as it was loaded: list is in
// the order of the log, oldest first.
type tree struct {
	list []*chat.Message
	at   map[string]int
	// root is the key of each message's group of siblings (PIN-232).
	root map[string]string
	// group has the siblings of each root, oldest first.
	group map[string][]string
}

func newTree(list []*chat.Message) *tree {
	t := &tree{list: list, at: make(map[string]int, len(list)), root: make(map[string]string, len(list)), group: make(map[string][]string)}
	for i, m := range list {
		t.at[m.ID] = i
	}
	for _, m := range list {
		r := t.rootOf(m)
		t.root[m.ID] = r
		t.group[r] = append(t.group[r], m.ID)
	}
	return t
}

// rootOf follows forkOf to the first of a group. A message that claims to
// replace one under another parent is a group of its own; so is one that is
// linked to itself in a circle, from where the circle began.
func (t *tree) rootOf(m *chat.Message) string {
	for n := 0; m.ForkOf != "" && n <= len(t.list); n++ {
		i, known := t.at[m.ForkOf]
		if !known || t.list[i].Parent != m.Parent {
			break
		}
		m = t.list[i]
	}
	return m.ID
}

func (t *tree) message(id string) *chat.Message {
	if i, ok := t.at[id]; ok {
		return t.list[i]
	}
	return nil
}

// chosen is the sibling that stands for a group: the one that was selected, if
// it is there, or the newest (PIN-233).
func (t *tree) chosen(root string, selections map[string]string) string {
	siblings := t.group[root]
	if id := selections[root]; id != "" && slices.Contains(siblings, id) {
		return id
	}
	return siblings[len(siblings)-1]
}

// view is the path that selections choose (PIN-234). A message whose parent is
// older than the list is shown, since it cannot be told.
func (t *tree) view(selections map[string]string) []*chat.Message {
	kept := make(map[string]bool, len(t.list))
	var path []*chat.Message
	for _, m := range t.list {
		if _, known := t.at[m.Parent]; known && !kept[m.Parent] {
			continue
		}
		if t.chosen(t.root[m.ID], selections) != m.ID {
			continue
		}
		kept[m.ID] = true
		path = append(path, m)
	}
	return path
}

// reveal makes selections that show the message: it and what it hangs under are
// chosen in their groups. Where that is the default nothing is.
func (t *tree) reveal(id string, choose func(root, id string)) {
	for n := 0; n <= len(t.list); n++ {
		m := t.message(id)
		if m == nil {
			return
		}
		if r := t.root[id]; len(t.group[r]) > 1 {
			choose(r, id)
		}
		id = m.Parent
	}
}

// children are the messages that hang under one, oldest first.
func (t *tree) children(id string) []string {
	all := []string{}
	for _, m := range t.list {
		if m.Parent == id {
			all = append(all, m.ID)
		}
	}
	return all
}

// ends are the messages of a part of the tree that hang under none, and those
// that nothing hangs under.
func (t *tree) ends(part []*chat.Message) (roots, leaves []string) {
	parents := make(map[string]bool, len(t.list))
	for _, m := range t.list {
		parents[m.Parent] = true
	}
	roots, leaves = []string{}, []string{}
	for _, m := range part {
		if m.Parent == "" {
			roots = append(roots, m.ID)
		}
		if !parents[m.ID] {
			leaves = append(leaves, m.ID)
		}
	}
	return roots, leaves
}

// choices are one join's selections (PIN-243), root to chosen, in the order in
// which they were made. A choice of a message that is not there yet counts once
// it is: that is how an own answer that is made anew will be shown.
type choices struct {
	chosen map[string]string
	order  []string
}

func (c *choices) set(root, id string) {
	c.clear(root)
	if c.chosen == nil {
		c.chosen = make(map[string]string)
	}
	if len(c.order) >= maxSelections {
		delete(c.chosen, c.order[0])
		c.order = slices.Delete(c.order, 0, 1)
	}
	c.chosen[root] = id
	c.order = append(c.order, root)
}

func (c *choices) clear(root string) {
	if _, ok := c.chosen[root]; ok {
		delete(c.chosen, root)
		c.order = slices.DeleteFunc(c.order, func(r string) bool { return r == root })
	}
}

func (c *choices) reset() { *c = choices{} }

// append appends the selections that count in a tree.
func (c *choices) append(b []byte, t *tree) []byte {
	b = append(b, '{')
	first := true
	for _, root := range c.order {
		if id := c.chosen[root]; t.root[id] == root {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = quoted(append(quoted(b, root), ':'), id)
		}
	}
	return append(b, '}')
}
