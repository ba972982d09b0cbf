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
// process, and lets an operator stop a run, close a connection, delete a thread
// or drain this edge; each such act is a line in the log. No answer holds what
// people or agents wrote. Who may ask is Caddy's to say, as for all of its admin
// endpoint; a page in a browser that wants something done must be of the endpoint
// itself and say so by a header.
//
//	GET  /parlance/ui/
//	GET  /parlance/stats
//	GET  /parlance/ready
//	GET  /parlance/edges
//	GET  /parlance/pulse
//	GET  /parlance/members
//	GET  /parlance/find?id=<thread, run or segment>
//	GET  /parlance/threads
//	GET  /parlance/realms/{realm}/threads/{id}[?tenant=<tenant>]
//	DELETE /parlance/realms/{realm}/threads/{id}[?tenant=<tenant>]
//	POST /parlance/realms/{realm}/threads/{id}/members/{member}/close[?tenant=<tenant>]
//	GET  /parlance/realms/{realm}/threads/{id}/records[?tenant=<tenant>&from=<cursor>&follow=1]
//	GET  /parlance/runs[?stuck=1]
//	GET  /parlance/runs/{id}
//	POST /parlance/runs/{id}/cancel
//	POST /parlance/drain
//	POST /parlance/edges/{name}/drain
//
// Each answer is an array with an entry for each journal; records are a line of
// JSON each.
type AdminAPI struct {
	// operator names who asks, where the endpoint is served to users that Caddy
	// knows; nil is Caddy's own admin endpoint.
	operator func(*http.Request) string
}

// CaddyModule returns the Caddy module information.
func (AdminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.parlance", New: func() caddy.Module { return new(AdminAPI) }}
}

// Routes implements caddy.AdminRouter.
func (a *AdminAPI) Routes() []caddy.AdminRoute {
	const get, post, remove = http.MethodGet, http.MethodPost, http.MethodDelete
	return []caddy.AdminRoute{
		{Pattern: uiPath, Handler: caddy.AdminHandlerFunc(a.ui)},
		route("/parlance/stats", does{get: a.stats}),
		route("/parlance/ready", does{get: a.ready}),
		route("/parlance/edges", does{get: a.edges}),
		route("/parlance/pulse", does{get: a.pulse}),
		route("/parlance/members", does{get: a.members}),
		route("/parlance/find", does{get: a.find}),
		route("/parlance/threads", does{get: a.threads}),
		route("/parlance/realms/{realm}/threads/{id}", does{get: a.thread, remove: a.acts("delete", a.remove)}),
		route("/parlance/realms/{realm}/threads/{id}/members/{member}/close", does{post: a.acts("close", a.closeMember)}),
		{Pattern: "/parlance/realms/{realm}/threads/{id}/records", Handler: caddy.AdminHandlerFunc(a.records)},
		route("/parlance/runs", does{get: a.runs}),
		route("/parlance/runs/{id}", does{get: a.run}),
		route("/parlance/runs/{id}/cancel", does{post: a.acts("cancel", a.cancel)}),
		route("/parlance/drain", does{post: a.acts("drain", a.drain)}),
		route("/parlance/edges/{name}/drain", does{post: a.acts("drain", a.drainNamed)}),
	}
}

// answer is what a request gets: a status and a value for JSON.
type answer func(r *http.Request) (status int, v any, err error)

// does is what answers, by method.
type does map[string]answer

func route(pattern string, answers does) caddy.AdminRoute {
	return caddy.AdminRoute{Pattern: pattern, Handler: caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		f := answers[r.Method]
		if f == nil {
			w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(answers)), ", "))
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
		w.Header().Set("X-Content-Type-Options", "nosniff")
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
