package caddymodule

import (
	"encoding/json"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Operator serves the operator's page, with what of the admin endpoint it needs,
// below a path of the site, to users whom one of Caddy's own authentication
// handlers has named. To everybody else the path is not there.
type Operator struct {
	// Where the page is served: `/ops/`.
	Path string `json:"path"`

	// The users, as `{http.auth.user.id}` names them.
	Users []string `json:"users"`

	path string
	mux  *http.ServeMux
}

// adminPath is what stands before the paths of the admin endpoint.
const adminPath = "/parlance/"

// readOperator reads:
//
//	operator <path> <user...>
func (h *Handler) readOperator(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 2 {
		return d.ArgErr()
	}
	h.Operator = &Operator{Path: args[0], Users: args[1:]}
	return nil
}

func (o *Operator) make() (err error) {
	if o.path, err = folder(o.Path); err != nil {
		return err
	}
	if len(o.Users) == 0 || slices.Contains(o.Users, "") {
		return errors.New("it must name the users who may see it")
	}
	o.mux = http.NewServeMux()
	api := &AdminAPI{operator: caddyUser}
	for _, route := range api.Routes() {
		o.mux.HandleFunc(route.Pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := route.Handler.ServeHTTP(w, r); err != nil {
				writeProblem(w, err)
			}
		})
	}
	return nil
}

// writeProblem answers an error as the admin endpoint does.
func writeProblem(w http.ResponseWriter, err error) {
	e := caddy.APIError{HTTPStatus: http.StatusInternalServerError, Err: errors.New("internal error")}
	_ = errors.As(err, &e)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(e.HTTPStatus)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": e.Err.Error()})
}

// serve answers a request for the operator's page, or returns false.
func (o *Operator) serve(w http.ResponseWriter, r *http.Request) bool {
	if o == nil || !strings.HasPrefix(r.URL.Path+"/", o.path) || !slices.Contains(o.Users, caddyUser(r)) {
		return false
	}
	rest, below := strings.CutPrefix(r.URL.Path, o.path)
	if !below || rest == "" || rest == "ui" {
		w.Header().Set("Location", o.path+"ui/")
		w.WriteHeader(http.StatusTemporaryRedirect)
		return true
	}
	asked := r.Clone(r.Context())
	asked.URL.Path = adminPath + rest
	if raw, ok := strings.CutPrefix(r.URL.RawPath, o.path); ok {
		asked.URL.RawPath = adminPath + raw
	} else if r.URL.RawPath != "" {
		return false
	}
	// ServeMux would lead to where a path means, which is outside of here.
	if at := asked.URL.EscapedPath(); strings.TrimSuffix(at, "/") != path.Clean(at) {
		return false
	}
	if _, pattern := o.mux.Handler(asked); pattern == "" {
		return false // the site's own path beside it
	}
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	o.mux.ServeHTTP(w, asked)
	return true
}

// caddyUser is whom Caddy's authentication has named, or "".
func caddyUser(r *http.Request) string {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	user, _ := repl.GetString("http.auth.user.id")
	return user
}
