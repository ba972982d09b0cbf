package filejournal

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// roster is in memory: all edges of a folder are in one process.
type roster struct {
	clock func() time.Time

	mu      sync.Mutex
	edges   map[string]announced
	threads map[chat.Key]map[string]journal.Attendance // by thread and edge
}

type announced struct {
	edge  journal.Edge
	until time.Time
}

func (r *roster) Announce(_ context.Context, e journal.Edge) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.edges == nil {
		r.edges = make(map[string]announced)
	}
	r.edges[e.Boot] = announced{e, r.clock().Add(journal.OwnerDeadline)}
	return nil
}

func (r *roster) Edges(context.Context) ([]journal.Edge, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
	edges := make([]journal.Edge, 0, len(r.edges))
	for _, a := range r.edges {
		edges = append(edges, a.edge)
	}
	slices.SortFunc(edges, func(a, b journal.Edge) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Boot, b.Boot))
	})
	return edges, nil
}

// forget drops the edges whose lease has run out; r.mu is held.
func (r *roster) forget() {
	now := r.clock()
	for boot, a := range r.edges {
		if !a.until.After(now) {
			r.drop(boot)
		}
	}
}

func (r *roster) leave(boot string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(boot)
}

func (r *roster) drop(boot string) {
	delete(r.edges, boot)
	for key, edges := range r.threads {
		if delete(edges, boot); len(edges) == 0 {
			delete(r.threads, key)
		}
	}
}

func (r *roster) Attend(_ context.Context, key chat.Key, a journal.Attendance) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	edges := r.threads[key]
	switch {
	case a.Count > 0 && edges == nil:
		if r.threads == nil {
			r.threads = make(map[chat.Key]map[string]journal.Attendance)
		}
		r.threads[key] = map[string]journal.Attendance{a.Boot: a}
	case a.Count > 0:
		edges[a.Boot] = a
	default:
		if delete(edges, a.Boot); len(edges) == 0 {
			delete(r.threads, key)
		}
	}
	return nil
}

func (r *roster) Present(_ context.Context, key chat.Key) ([]journal.Attendance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
	there := make([]journal.Attendance, 0, len(r.threads[key]))
	for boot, a := range r.threads[key] {
		if _, lives := r.edges[boot]; lives {
			there = append(there, a)
		}
	}
	slices.SortFunc(there, func(a, b journal.Attendance) int { return cmp.Compare(a.Boot, b.Boot) })
	return there, nil
}
