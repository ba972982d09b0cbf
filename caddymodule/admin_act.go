package caddymodule

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/edge"
)

// actHeader must be sent by a page that wants something done. Pages of other
// origins cannot send it without being asked first, and are refused then.
const actHeader = "Parlance-Operator"

// acts makes an answer one that changes something: not for foreign pages, and
// each in the log with who asked.
func (a *AdminAPI) acts(action string, f answer) answer {
	return func(r *http.Request) (int, any, error) {
		if why := a.foreign(r); why != "" {
			return 0, nil, problem(http.StatusForbidden, why)
		}
		status, v, err := f(r)
		a.audit(r, action, err)
		return status, v, err
	}
}

// foreign says why a browser may have been made to send the request by a page
// that is not the operator's, or "". On Caddy's own endpoint a client without any
// of the headers that browsers send is no browser.
func (a *AdminAPI) foreign(r *http.Request) string {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	browser := origin != "" || site != "" || r.Header.Get("Sec-Fetch-Mode") != ""
	switch {
	case !browser && a.operator == nil:
		return ""
	case site != "" && site != "same-origin":
		return "a page of another site asks"
	case a.operator != nil && origin != "" && site == "" && !ownOrigin(origin, r):
		return "a page of another origin asks"
	case r.Header.Get(actHeader) == "":
		return "the header " + actHeader + " is missing"
	}
	return ""
}

// ownOrigin says that an origin is the host that was asked, for browsers that do
// not say themselves where a page is from: a proxy may ask for another host.
func ownOrigin(origin string, r *http.Request) bool {
	_, host, ok := strings.Cut(origin, "://")
	return ok && strings.EqualFold(host, r.Host)
}

// audit says in the log who did what.
func (a *AdminAPI) audit(r *http.Request, action string, err error) {
	list := pooledHubs()
	if len(list) == 0 {
		return
	}
	by, result := "admin endpoint", "done"
	if a.operator != nil {
		by = a.operator(r)
	}
	if err != nil {
		result = "refused"
		var e caddy.APIError
		if errors.As(err, &e) {
			result = e.Err.Error()
		}
	}
	attrs := []any{"action", action, "by", by, "from", askedFrom(r), "result", result}
	for _, name := range []string{"realm", "id", "member", "name"} {
		if v := r.PathValue(name); chat.ValidID(v) {
			attrs = append(attrs, name, v)
		}
	}
	if tenant := r.URL.Query().Get("tenant"); chat.ValidID(tenant) {
		attrs = append(attrs, "tenant", tenant)
	}
	slog.New(list[0].log).Info("an operator acted", attrs...)
}

// askedFrom is the address that a request is from: on a site the client's, as
// Caddy knows it behind trusted proxies.
func askedFrom(r *http.Request) string {
	if ip, ok := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string); ok && ip != "" {
		return ip
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// hubDone is a journal in which something was done.
type hubDone struct {
	Journal string `json:"journal"`
	Deleted string `json:"deleted,omitempty"`
	Closed  string `json:"closed,omitempty"`
}

func (a *AdminAPI) remove(r *http.Request) (int, any, error) {
	key, ok := threadKey(r)
	if !ok {
		return 0, nil, problem(http.StatusNotFound, "no such thread")
	}
	return everywhere("no such thread", func(p *pooled) (hubDone, error) {
		return hubDone{Journal: p.key.String(), Deleted: key.Thread}, p.hub.DeleteThread(r.Context(), key)
	})
}

func (a *AdminAPI) closeMember(r *http.Request) (int, any, error) {
	key, ok := threadKey(r)
	member := r.PathValue("member")
	if !ok || !chat.ValidID(member) {
		return 0, nil, problem(http.StatusNotFound, edge.ErrNoMember.Error())
	}
	here, there := "", new(edge.ElsewhereError)
	status, v, err := everywhere(edge.ErrNoMember.Error(), func(p *pooled) (hubDone, error) {
		err := p.hub.CloseMember(r.Context(), key, member)
		if errors.As(err, &there) {
			here = p.name
		}
		return hubDone{Journal: p.key.String(), Closed: member}, err
	})
	if err != nil && there.Edge != "" {
		return 0, nil, elsewhere(here, there.Edge)
	}
	return status, v, err
}

// elsewhere is what an edge says to a request that is for another.
func elsewhere(here, there string) error {
	return problem(http.StatusConflict, fmt.Sprintf("this is edge %q: send the request to the admin endpoint of edge %q itself", cmp.Or(here, "?"), there))
}
