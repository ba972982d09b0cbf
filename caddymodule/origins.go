package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/parlance-gateway/parlance/internal/wire/engineio"
)

// origin is a configured origin: a scheme ("" for http and https), and a host
// with its port, or what must stand in front of suffix.
type origin struct {
	scheme, host string
	below        bool // of *.host
}

// origins makes the decision on requests from pages of other hosts; nil admits
// the site's own host only.
func (h *Handler) origins() (func(string, *http.Request) bool, error) {
	if len(h.Origins) == 0 {
		return nil, nil
	}
	list := make([]origin, 0, len(h.Origins))
	for _, text := range h.Origins {
		if text == "*" {
			if h.ambient() {
				return nil, errors.New("* would let every web page act as whoever visits it, " +
					"because this handler takes cookies or Caddy's own sign-in: name the hosts, or use auth jwt without a cookie")
			}
			return func(string, *http.Request) bool { return true }, nil
		}
		o, err := parseOrigin(text)
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return func(text string, r *http.Request) bool {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			return false
		}
		if engineio.SameHost(text, r) {
			return true
		}
		for _, o := range list {
			if o.is(u) {
				return true
			}
		}
		return false
	}, nil
}

// ambient says whether a browser sends by itself what admits its user.
func (h *Handler) ambient() bool {
	if len(h.Auth) == 0 {
		return true
	}
	for _, a := range h.Auth {
		if a.JWT == nil || a.JWT.Cookie != "" {
			return true
		}
	}
	return false
}

func parseOrigin(text string) (origin, error) {
	o := origin{host: strings.ToLower(text)}
	if scheme, host, ok := strings.Cut(o.host, "://"); ok {
		o.scheme, o.host = scheme, host
	}
	o.host, o.below = strings.CutPrefix(o.host, "*.")
	u, err := url.Parse("https://" + o.host)
	if err != nil || u.Host != o.host || o.host == "" || u.Hostname() == "" || strings.Contains(o.host, "*") {
		return o, fmt.Errorf("%q is no origin: write it like https://app.example.com, app.example.com:8080 or *.example.com", text)
	}
	switch o.scheme {
	case "", "http", "https":
		return o, nil
	}
	return o, fmt.Errorf("%q is no origin of a web page: its scheme is neither http nor https", text)
}

func (o origin) is(u *url.URL) bool {
	if o.scheme != "" && u.Scheme != o.scheme || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	host := strings.ToLower(u.Host)
	if o.below {
		return strings.HasSuffix(host, "."+o.host)
	}
	return host == o.host
}
