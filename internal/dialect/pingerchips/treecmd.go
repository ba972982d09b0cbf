package pingerchips

import (
	"context"
	"slices"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// loadOlder pages backwards through all branches (PIN-175, PIN-179).
func (m *member) loadOlder(ctx context.Context, payload []byte) ([]byte, []byte, error) {
	c, err := parsePage(payload, DefaultPage, MaxPage)
	if err != nil {
		return nil, nil, err
	}
	st := m.seat.State()
	all, older, err := m.page(ctx, st, c)
	if err != nil {
		return nil, nil, err
	}
	b := messages([]byte(`{"messages":`), all)
	return append(truth(b, "has_older", older), '}'), nil, nil
}

// page is a page of all messages in the order of the log, and whether there are
// older ones.
func (m *member) page(ctx context.Context, st *chat.State, c pageCommand) ([]*chat.Message, bool, error) {
	to, err := m.end(ctx, st, c.Before)
	if err != nil {
		return nil, false, err
	}
	from := max(0, to-c.Limit)
	all, err := m.load(ctx, st, from, to)
	return all, from > 0, err
}

// branchSelect chooses a sibling for this join (PIN-235 to PIN-237).
func (m *member) branchSelect(ctx context.Context, payload []byte) ([]byte, []byte, error) {
	c, err := parseSelect(payload)
	if err != nil {
		return nil, nil, err
	}
	st := m.seat.State()
	t, err := m.tree(ctx, st)
	if err != nil {
		return nil, nil, err
	}
	root, known := t.root[c.Message]
	if !known {
		if _, err := m.end(ctx, st, c.Message); err != nil {
			return nil, nil, err
		}
		root = c.Message // further back than a view looks: shown as it is
	}
	siblings := t.group[root]
	switch {
	case c.Indexed && len(siblings) > 0:
		m.view.set(root, siblings[min(max(c.Index, 0), int64(len(siblings)-1))])
	case c.Indexed:
	case c.Selected == "":
		m.view.clear(root)
	case slices.Contains(siblings, c.Selected):
		m.view.set(root, c.Selected)
	case c.Selected != c.Message:
		return nil, nil, notSibling
	}
	return m.selections(t), m.update(t), nil
}

func (m *member) branchReset(ctx context.Context, payload []byte) ([]byte, []byte, error) {
	if _, err := readObject(payload); err != nil {
		return nil, nil, err
	}
	t, err := m.tree(ctx, m.seat.State())
	if err != nil {
		return nil, nil, err
	}
	m.view.reset()
	return m.selections(t), m.update(t), nil
}

func (m *member) selections(t *tree) []byte {
	return append(m.view.append([]byte(`{"selections":`), t), '}')
}

// update is the view:update of the member's choices (PIN-110, PIN-115).
func (m *member) update(t *tree) []byte {
	b := messages([]byte(`{"messages":`), newest(t.view(m.view.chosen), Window))
	return append(m.view.append(key(b, "selections"), t), '}')
}

// viewGet pages through the member's view (PIN-242).
func (m *member) viewGet(ctx context.Context, payload []byte) ([]byte, []byte, error) {
	c, err := parsePage(payload, DefaultPage, MaxPage)
	if err != nil {
		return nil, nil, err
	}
	st := m.seat.State()
	var all []*chat.Message
	var older bool
	var t *tree
	if st.Forked {
		all, older, t, err = m.path(ctx, st, c)
	} else {
		all, older, err = m.page(ctx, st, c)
		t = newTree(nil)
	}
	if err != nil {
		return nil, nil, err
	}
	b := messages([]byte(`{"messages":`), all)
	b = m.view.append(key(b, "selections"), t)
	b = truth(b, "has_older", older)
	return append(logID(b, st.Log), '}'), nil, nil
}

// path is a page of the view of a thread with branches.
func (m *member) path(ctx context.Context, st *chat.State, c pageCommand) ([]*chat.Message, bool, *tree, error) {
	to, err := m.end(ctx, st, c.Before)
	if err != nil {
		return nil, false, nil, err
	}
	first := max(0, st.Count()-maxTree)
	if first = min(first, max(0, to-c.Limit)); st.Count()-first > 2*maxTree {
		first = st.Count() - 2*maxTree
	}
	all, err := m.load(ctx, st, first, st.Count())
	if err != nil {
		return nil, false, nil, err
	}
	t := newTree(all)
	path := t.view(m.view.chosen)
	for n := len(path); n > 0 && t.at[path[n-1].ID] >= to-first; n-- {
		path = path[:n-1]
	}
	page := newest(path, c.Limit)
	return page, first > 0 || len(page) < len(path), t, nil
}

// treeGet pages through the tree without content (PIN-239).
func (m *member) treeGet(ctx context.Context, payload []byte) ([]byte, []byte, error) {
	c, err := parsePage(payload, DefaultNodes, MaxNodes)
	if err != nil {
		return nil, nil, err
	}
	st := m.seat.State()
	to, err := m.end(ctx, st, c.Before)
	if err != nil {
		return nil, nil, err
	}
	from := max(0, to-c.Limit)
	all, err := m.load(ctx, st, from, min(st.Count(), from+maxTree))
	if err != nil {
		return nil, nil, err
	}
	part := all[:min(to-from, len(all))]
	roots, leaves := newTree(all).ends(part)
	b := list([]byte(`{"nodes":`), part, func(b []byte, n *chat.Message) []byte { return append(node(b, n), '}') })
	b = ids(key(b, "roots"), roots)
	b = ids(key(b, "leaves"), leaves)
	b = logID(b, st.Log)
	return append(truth(b, "has_older", from > 0), '}'), nil, nil
}

// around is the tree with a message in it, however far back that is.
func (m *member) around(ctx context.Context, payload []byte) (string, *tree, error) {
	id, err := parseMessage(payload)
	if err != nil {
		return "", nil, err
	}
	st := m.seat.State()
	at, err := m.end(ctx, st, id)
	if err != nil {
		return "", nil, err
	}
	from := min(at, max(0, st.Count()-maxTree))
	all, err := m.load(ctx, st, max(0, from-maxTree), min(st.Count(), from+maxTree))
	return id, newTree(all), err
}

// treeSiblings tells of a message's group (PIN-240).
func (m *member) treeSiblings(ctx context.Context, payload []byte) ([]byte, []byte, error) {
	id, t, err := m.around(ctx, payload)
	if err != nil {
		return nil, nil, err
	}
	root := t.root[id]
	b := quoted([]byte(`{"groupId":`), root)
	b = ids(key(b, "siblings"), t.group[root])
	b = number(b, "index", int64(slices.Index(t.group[root], id)))
	return append(field(b, "selectedId", t.chosen(root, m.view.chosen)), '}'), nil, nil
}

// treeNode tells of one message (PIN-241).
func (m *member) treeNode(ctx context.Context, payload []byte) ([]byte, []byte, error) {
	id, t, err := m.around(ctx, payload)
	if err != nil {
		return nil, nil, err
	}
	b := message([]byte(`{"message":`), t.message(id))
	b = ids(key(b, "children"), t.children(id))
	return append(ids(key(b, "siblings"), t.group[t.root[id]]), '}'), nil, nil
}
