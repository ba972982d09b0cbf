package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
)

func init() {
	caddy.RegisterModule(AdminAPI{})
}

// adminTimeout bounds what a request to the admin endpoint asks of journals.
const adminTimeout = 10 * time.Second

// AdminAPI shows on Caddy's admin endpoint what lives on the journals of this
// process, and lets an operator stop a run or drain this edge. No answer holds
// what people or agents wrote. Who may ask is Caddy's to say, as for all of its
// admin endpoint.
//
//	GET  /parlance/stats
//	GET  /parlance/ready
//	GET  /parlance/edges
//	GET  /parlance/threads
//	GET  /parlance/realms/{realm}/threads/{id}[?tenant=<tenant>]
//	GET  /parlance/realms/{realm}/threads/{id}/records[?tenant=<tenant>&from=<cursor>&follow=1]
//	GET  /parlance/runs[?stuck=1]
//	GET  /parlance/runs/{id}
//	POST /parlance/runs/{id}/cancel
//	POST /parlance/drain
//	POST /parlance/edges/{name}/drain
//
// Each answer is an array with an entry for each journal; records are a line of
// JSON each.
type AdminAPI struct{}

// CaddyModule returns the Caddy module information.
func (AdminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.parlance", New: func() caddy.Module { return new(AdminAPI) }}
}

// Routes implements caddy.AdminRouter.
func (a *AdminAPI) Routes() []caddy.AdminRoute {
	const get, post = http.MethodGet, http.MethodPost
	return []caddy.AdminRoute{
		route(get, "/parlance/stats", a.stats),
		route(get, "/parlance/ready", a.ready),
		route(get, "/parlance/edges", a.edges),
		route(get, "/parlance/threads", a.threads),
		route(get, "/parlance/realms/{realm}/threads/{id}", a.thread),
		{Pattern: "/parlance/realms/{realm}/threads/{id}/records", Handler: caddy.AdminHandlerFunc(a.records)},
		route(get, "/parlance/runs", a.runs),
		route(get, "/parlance/runs/{id}", a.run),
		route(post, "/parlance/runs/{id}/cancel", a.cancel),
		route(post, "/parlance/drain", a.drain),
		route(post, "/parlance/edges/{name}/drain", a.drainNamed),
	}
}

// answer is what a request gets: a status and a value for JSON.
type answer func(r *http.Request) (status int, v any, err error)

func route(method, pattern string, f answer) caddy.AdminRoute {
	return caddy.AdminRoute{Pattern: pattern, Handler: caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if r.Method != method {
			w.Header().Set("Allow", method)
			return problem(http.StatusMethodNotAllowed, "method not allowed")
		}
		ctx, cancel := context.WithTimeout(r.Context(), adminTimeout)
		defer cancel()
		status, v, err := f(r.WithContext(ctx))
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		return json.NewEncoder(w).Encode(v)
	})}
}

func problem(status int, text string) error {
	return caddy.APIError{HTTPStatus: status, Err: errors.New(text)}
}

// pooledHubs are the process's hubs in the order of their names.
func pooledHubs() []*pooled {
	found := make(map[*pooled]string)
	hubs.Range(func(_, value any) bool {
		if p, ok := value.(*pooled); ok {
			found[p] = p.key.String()
		}
		return true
	})
	return slices.SortedFunc(maps.Keys(found), func(a, b *pooled) int { return strings.Compare(found[a], found[b]) })
}

// hubStats is one journal with what lives on it right now in this process.
type hubStats struct {
	Journal string         `json:"journal"`
	Ready   bool           `json:"ready"`
	Error   string         `json:"error,omitempty"`
	Sockets int            `json:"sockets"`
	Rooms   int            `json:"rooms"`
	Runs    int            `json:"runs"`
	Members map[string]int `json:"members"`
}

func (a *AdminAPI) stats(r *http.Request) (int, any, error) {
	list := []hubStats{}
	for _, p := range pooledHubs() {
		s, members := p.hub.Stats(), p.hub.Members()
		if members == nil {
			members = map[string]int{}
		}
		out := hubStats{Journal: p.key.String(), Ready: true, Sockets: s.Sockets, Rooms: s.Rooms, Runs: s.Runs, Members: members}
		if err := p.hub.Ready(r.Context()); err != nil {
			out.Ready, out.Error = false, err.Error()
		}
		list = append(list, out)
	}
	return http.StatusOK, list, nil
}

// hubReady is why one journal takes no new sockets in this process.
type hubReady struct {
	Journal string `json:"journal"`
	Ready   bool   `json:"ready"`
	Reason  string `json:"reason,omitempty"`
}

func (a *AdminAPI) ready(r *http.Request) (int, any, error) {
	status, list := http.StatusOK, []hubReady{}
	for _, p := range pooledHubs() {
		out := hubReady{Journal: p.key.String(), Ready: true}
		if err := p.hub.Ready(r.Context()); err != nil {
			status, out.Ready, out.Reason = http.StatusServiceUnavailable, false, err.Error()
		}
		list = append(list, out)
	}
	return status, list, nil
}

// Interface guard
var _ caddy.AdminRouter = (*AdminAPI)(nil)
