package smooth

import (
	"net/http"
	"net/url"
	"strings"
)

// originAllowed decides on a browser's page; what sends no Origin is no browser.
func originAllowed(r *http.Request, origins func(string, *http.Request) bool) bool {
	origin := r.Header.Get("Origin")
	switch {
	case origin == "":
		return true
	case origins != nil:
		return origins(origin, r)
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && u.User == nil && strings.EqualFold(u.Host, r.Host) &&
		(u.Scheme == "https" || u.Scheme == "http" && r.TLS == nil)
}

func headerHas(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		for v := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(v), token) {
				return true
			}
		}
	}
	return false
}
