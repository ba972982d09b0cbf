package caddymodule

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
)

func init() {
	caddy.RegisterModule(AdminAPI{})
}

// AdminAPI shows on Caddy's admin endpoint what lives in this process.
type AdminAPI struct{}

// CaddyModule returns the Caddy module information.
func (AdminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.parlance", New: func() caddy.Module { return new(AdminAPI) }}
}

// Routes implements caddy.AdminRouter.
func (a *AdminAPI) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: "/parlance/stats", Handler: caddy.AdminHandlerFunc(a.stats)}}
}

// hubStats is one journal with what lives on it right now.
type hubStats struct {
	Journal string `json:"journal"`
	Ready   bool   `json:"ready"`
	Error   string `json:"error,omitempty"`
	Sockets int    `json:"sockets"`
	Rooms   int    `json:"rooms"`
	Runs    int    `json:"runs"`
}

func (a *AdminAPI) stats(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: errors.New("method not allowed")}
	}
	var found []*pooled
	hubs.Range(func(_, value any) bool {
		if p, ok := value.(*pooled); ok {
			found = append(found, p)
		}
		return true
	})
	list := make([]hubStats, 0, len(found))
	for _, p := range found {
		list = append(list, p.stats(r))
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(list)
}

func (p *pooled) stats(r *http.Request) hubStats {
	s := p.hub.Stats()
	out := hubStats{Journal: p.key.String(), Ready: true, Sockets: s.Sockets, Rooms: s.Rooms, Runs: s.Runs}
	if err := p.hub.Ready(r.Context()); err != nil {
		out.Ready, out.Error = false, err.Error()
	}
	return out
}

// Interface guard
var _ caddy.AdminRouter = (*AdminAPI)(nil)
