package caddymodule

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/journal"
)

// hubEdges are the living edges of one journal.
type hubEdges struct {
	Journal string `json:"journal"`
	// Self is the name of this process among them.
	Self  string         `json:"self"`
	Edges []journal.Edge `json:"edges"`
	Error string         `json:"error,omitempty"`
}

func (a *AdminAPI) edges(r *http.Request) (int, any, error) {
	list := []hubEdges{}
	for _, p := range pooledHubs() {
		out := hubEdges{Journal: p.key.String(), Self: p.name}
		var err error
		if out.Edges, err = p.hub.Edges(r.Context()); err != nil {
			out.Error = err.Error()
		}
		if out.Edges == nil {
			out.Edges = []journal.Edge{}
		}
		list = append(list, out)
	}
	return http.StatusOK, list, nil
}

type hubThread struct {
	Journal string          `json:"journal"`
	Thread  edge.ThreadView `json:"thread"`
}

func (a *AdminAPI) thread(r *http.Request) (int, any, error) {
	key, ok := threadKey(r)
	if !ok {
		return 0, nil, problem(http.StatusNotFound, "no such thread")
	}
	return everywhere("no such thread", func(p *pooled) (hubThread, error) {
		t, err := p.hub.Thread(r.Context(), key.Realm, key.Tenant, key.Thread)
		return hubThread{p.key.String(), t}, err
	})
}

// threadKey is the thread that a request's path and query name, if they can.
func threadKey(r *http.Request) (chat.Key, bool) {
	key := chat.Key{Realm: r.PathValue("realm"), Tenant: r.URL.Query().Get("tenant"), Thread: r.PathValue("id")}
	return key, chat.ValidID(key.Realm) && chat.ValidID(key.Thread) && (key.Tenant == "" || chat.ValidID(key.Tenant))
}

type hubRun struct {
	Journal string       `json:"journal"`
	Run     edge.RunView `json:"run"`
}

func (a *AdminAPI) run(r *http.Request) (int, any, error) {
	id := r.PathValue("id")
	if !chat.ValidID(id) {
		return 0, nil, problem(http.StatusNotFound, "no such run")
	}
	return everywhere("no such run", func(p *pooled) (hubRun, error) {
		run, err := p.hub.Run(r.Context(), id)
		return hubRun{p.key.String(), run}, err
	})
}

// hubCancelled is a journal in which a run was stopped.
type hubCancelled struct {
	Journal   string `json:"journal"`
	Cancelled string `json:"cancelled"`
}

func (a *AdminAPI) cancel(r *http.Request) (int, any, error) {
	id := r.PathValue("id")
	if !chat.ValidID(id) {
		return 0, nil, problem(http.StatusNotFound, "no such run, or it has ended")
	}
	return everywhere("no such run, or it has ended", func(p *pooled) (hubCancelled, error) {
		return hubCancelled{p.key.String(), id}, p.hub.CancelRun(r.Context(), id)
	})
}

// everywhere asks each journal for something that one of them may have. A
// journal that cannot say leaves open whether there is such a thing, unless
// another has it.
func everywhere[T any](none string, ask func(*pooled) (T, error)) (int, any, error) {
	found := []T{}
	var failed error
	for _, p := range pooledHubs() {
		v, err := ask(p)
		switch {
		case err == nil:
			found = append(found, v)
		case absent(err):
		default:
			failed = errors.Join(failed, errors.New(p.key.String()+": "+err.Error()))
		}
	}
	switch {
	case len(found) > 0:
		return http.StatusOK, found, nil
	case failed != nil:
		return 0, nil, problem(http.StatusServiceUnavailable, failed.Error())
	}
	return 0, nil, problem(http.StatusNotFound, none)
}

func absent(err error) bool {
	return errors.Is(err, chat.ErrNoThread) || errors.Is(err, edge.ErrNoMember) || errors.Is(err, chat.ErrUnknownRun) || errors.Is(err, journal.ErrNotFound)
}

// hubDrain is how far this process's drain of one journal has come.
type hubDrain struct {
	Journal string `json:"journal"`
	Edge    string `json:"edge"`
	edge.DrainState
}

// drain lets this process take no more sockets and runs, and its sockets come
// back elsewhere. Nothing takes that back but a restart.
func (a *AdminAPI) drain(*http.Request) (int, any, error) {
	list := []hubDrain{}
	for _, p := range pooledHubs() {
		list = append(list, p.letGo())
	}
	return http.StatusAccepted, list, nil
}

// drainNamed is drain for who knows the edge and not the process: it makes sure
// that the two are one.
func (a *AdminAPI) drainNamed(r *http.Request) (int, any, error) {
	name := r.PathValue("name")
	list := []hubDrain{}
	here, known := "", false
	for _, p := range pooledHubs() {
		if p.name == name {
			list = append(list, p.letGo())
			continue
		}
		here = p.name
		edges, err := p.hub.Edges(r.Context())
		known = known || err == nil && slices.ContainsFunc(edges, func(e journal.Edge) bool { return e.Name == name })
	}
	switch {
	case len(list) > 0:
		return http.StatusAccepted, list, nil
	case known:
		return 0, nil, elsewhere(here, name)
	}
	return 0, nil, problem(http.StatusNotFound, "no such edge")
}

// letGo starts to drain the hub, if that has not begun, and leaves it open.
func (p *pooled) letGo() hubDrain {
	p.draining.Store(true)
	if p.hub.BeginDrain(time.Duration(p.drain.Load()), p.spread()) {
		slog.New(p.log).Info("draining for an operator", "journal", p.key.String())
	}
	return hubDrain{p.key.String(), p.name, p.hub.DrainState()}
}
