package engineio

import (
	"net/http"
	"net/url"
	"strings"
)

// allowed decides on the request's origin and, if it is a foreign one that may
// come in, says so to the browser (Fetch standard, CORS protocol).
func (a *Accept) allowed(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true // not a browser, or a request of the page's own host
	}
	ok := SameHost(origin, r)
	if a.Origins != nil {
		ok = a.Origins(origin, r)
	}
	if ok {
		// Never "*": the client may send credentials, with which that is void.
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	return ok
}

// SameHost says whether an Origin header names the host that the request was
// sent to. To one that came by TLS no page of plain http is the same: whoever
// is between it and its browser has written it. A request without TLS may have
// lost it at a proxy, so there both will do.
func SameHost(origin string, r *http.Request) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && u.User == nil && strings.EqualFold(u.Host, r.Host) &&
		(u.Scheme == "https" || u.Scheme == "http" && r.TLS == nil)
}

// legal says whether an Origin header has only bytes that a header may have.
func legal(origin string) bool {
	for i := range len(origin) {
		if c := origin[i]; c != '\t' && (c < 0x20 || c == 0x7f) {
			return false
		}
	}
	return true
}

// preflight answers an OPTIONS request.
func (a *Accept) preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Add("Vary", "Access-Control-Request-Headers")
	if !a.allowed(w, r) {
		fail(w, forbidden)
		return
	}
	if r.Header.Get("Origin") != "" {
		h.Set("Access-Control-Allow-Methods", "GET, POST")
		if v := r.Header.Get("Access-Control-Request-Headers"); v != "" && len(v) <= 1024 {
			h.Set("Access-Control-Allow-Headers", v)
		}
		h.Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
}
