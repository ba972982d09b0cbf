package caddymodule

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// upstreamTransport carries what Parlance forwards for other services. It
// belongs to the process, so a reload costs no connections.
var upstreamTransport = &http.Transport{
	Proxy:                  http.ProxyFromEnvironment,
	ForceAttemptHTTP2:      true,
	MaxIdleConnsPerHost:    32,
	IdleConnTimeout:        90 * time.Second,
	TLSHandshakeTimeout:    10 * time.Second,
	ResponseHeaderTimeout:  time.Minute,
	MaxResponseHeaderBytes: 64 << 10,
}

// upstream forwards requests to the service at base.
func (h *Handler) upstream(base string) (http.Handler, error) {
	base, err := replaced(base)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(base)
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Host == "" ||
		target.RawQuery != "" || target.Fragment != "" {
		return nil, errors.New("not an http or https URL without a query")
	}
	return &httputil.ReverseProxy{
		Transport:     upstreamTransport,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(h.logger.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.SetXForwarded()
			if ip, ok := caddyhttp.GetVar(p.In.Context(), caddyhttp.ClientIPVarKey).(string); ok && ip != "" {
				p.Out.Header.Set("X-Forwarded-For", ip)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				h.logger.Warn("the upstream of the routes does not answer", "host", target.Host, "error", err)
			}
			w.WriteHeader(http.StatusBadGateway)
		},
	}, nil
}
