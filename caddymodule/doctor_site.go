package caddymodule

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/parlance-gateway/parlance/internal/identity"
)

// handler looks at one site.
func (d *doctor) handler(ctx context.Context, h *Handler, s *caddyhttp.Server, logging *caddy.Logging) {
	site := h.site.Realm
	for i, a := range h.Agents {
		name := fmt.Sprintf("%s: agent %s", site, h.site.Agents[i].Name)
		switch a.Kind {
		case kindAGUI:
			d.endpoint(ctx, name, a)
		case kindEcho:
			d.well(name, "it is built in")
		case kindSocket:
			d.well(name, "it dials in; nothing is asked of it here")
		}
	}
	private := s != nil && len(s.Listen) > 0 && !slices.ContainsFunc(s.Listen, func(l string) bool { return !localListener(l) })
	if len(h.Auth) == 0 && !private {
		d.warn(site+": auth", "there is none: whoever reaches the site may talk, known by a cookie only",
			"Write `auth jwt { … }` or `auth caddy` if your agent is not for everybody.")
	}
	for _, a := range h.Auth {
		if a.JWT != nil && a.JWT.JWKS != "" {
			d.keySet(site+": auth jwt", h, a.JWT)
		}
	}
	if h.Smooth != nil && h.Smooth.OTP != nil {
		for what, address := range map[string]string{"send": h.Smooth.OTP.Send, "verify": h.Smooth.OTP.Verify} {
			d.hook(ctx, site+": otp "+what, address)
		}
	}
	if (h.Smooth != nil || len(h.Apps) > 0) && s != nil && s.Logs != nil {
		d.accessLog(site+": access log", logging)
	}
}

func localListener(l string) bool {
	a, err := caddy.ParseNetworkAddress(l)
	return err == nil && (a.IsUnixNetwork() || a.IsFdNetwork() || loopback(a.Host))
}

// endpoint asks an AG-UI agent whether it is there, without beginning a run: by
// HEAD, and where that is not found by a POST that is no input of a run.
func (d *doctor) endpoint(ctx context.Context, subject string, a *Agent) {
	address, err := replaced(a.URL)
	if err != nil {
		d.fail(subject, "its address: "+err.Error(), "Set what the placeholder names.")
		return
	}
	header := http.Header{}
	for name, values := range a.Headers {
		for _, v := range values {
			v, _ = replaced(v) // it was looked at when the site was made
			header.Add(name, v)
		}
	}
	code := d.call(ctx, subject, http.MethodHead, address, header)
	if code == http.StatusNotFound {
		code = d.call(ctx, subject, http.MethodPost, address, header)
	}
	switch {
	case code == 0: // it was told
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		d.fail(subject, fmt.Sprintf("it refuses us (%d)", code), "Give it what it asks for, such as `header Authorization \"Bearer {env.AGENT_TOKEN}\"`.")
	case code == http.StatusNotFound:
		d.fail(subject, "there is nothing at its path (404)", "Mend the path of its address.")
	case code >= 500:
		d.warn(subject, fmt.Sprintf("it answers, with an error of its own (%d)", code), "See its log.")
	default:
		d.well(subject, "it is there")
	}
}

func (d *doctor) hook(ctx context.Context, subject, address string) {
	address, err := replaced(address)
	if err != nil {
		d.fail(subject, err.Error(), "Set what the placeholder names.")
		return
	}
	switch code := d.call(ctx, subject, http.MethodHead, address, nil); {
	case code == 0:
	case code >= 500:
		d.warn(subject, fmt.Sprintf("it answers, with an error of its own (%d)", code), "See its log.")
	default:
		d.well(subject, "it is there")
	}
}

// maxSkew is how far a clock may be off before tokens fail (the default leeway).
const maxSkew = 30 * time.Second

// call asks an address and returns the status, or 0 when it has told what is
// wrong. The answer's Date is held against our clock.
func (d *doctor) call(ctx context.Context, subject, method, address string, header http.Header) int {
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	var body *strings.Reader
	req, err := http.NewRequestWithContext(ctx, method, address, http.NoBody)
	if method == http.MethodPost {
		body = strings.NewReader("{}")
		req, err = http.NewRequestWithContext(ctx, method, address, body)
	}
	if err != nil {
		d.fail(subject, "its address is none", "Write an http or https URL.")
		return 0
	}
	if header != nil {
		req.Header = header.Clone()
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		text, mend := unreachable(err)
		d.fail(subject, text, mend)
		return 0
	}
	_ = resp.Body.Close()
	client.CloseIdleConnections()
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		d.fail(subject, fmt.Sprintf("it sends us elsewhere (%d), and redirects are not followed", resp.StatusCode), "Write the address that it means.")
		return 0
	}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		if off := time.Since(at).Round(time.Second); off > maxSkew || off < -maxSkew {
			d.fail("clock", fmt.Sprintf("this machine's is %v off from that of %s", off.Abs(), req.URL.Host), "Let NTP set both; tokens and signatures expire by the clock.")
		}
	}
	return resp.StatusCode
}

// unreachable says why nobody answers, without the address: it may hold a secret.
func unreachable(err error) (text, mend string) {
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var cert x509.CertificateInvalidError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return "nobody knows the host " + dns.Name, "Mend the name, or this machine's DNS."
	case errors.As(err, &unknown):
		return "its certificate is of an authority that this machine does not trust", "Install the authority's certificate, or mend the address."
	case errors.As(err, &name):
		return "its certificate is for another name", "Use the name of the certificate."
	case errors.As(err, &cert):
		return "its certificate is not valid: " + cert.Error(), "Renew it."
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("it does not answer within %v", doctorPatience), "See whether it runs, and whether a firewall is in between."
	case strings.Contains(err.Error(), "connection refused"):
		return "nobody listens at its address", "Start it, or mend the address."
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "it speaks http, and the address says https", "Write http:// in its address."
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return "it cannot be reached: " + op.Err.Error(), "See whether it runs, and the way to it."
	}
	return "it cannot be reached", "See whether it runs, and the way to it."
}

// keySet fetches a JSON Web Key Set as the site would.
func (d *doctor) keySet(subject string, h *Handler, j *JWT) {
	c, err := h.jwtConfig(j)
	if err != nil {
		d.fail(subject, err.Error(), "Set what the placeholder names.")
		return
	}
	fetched := make(chan error, 1)
	c.OnFetch = func(err error) {
		select {
		case fetched <- err:
		default:
		}
	}
	made, err := identity.NewJWT(c)
	if err != nil {
		d.fail(subject, err.Error(), "README.md has every option.")
		return
	}
	defer made.Close()
	made.Warm()
	select {
	case err := <-fetched:
		if err != nil {
			d.fail(subject, "the key set: "+err.Error(), "Mend the address of jwks, or the server there.")
			return
		}
		d.well(subject, "the key set is there")
	case <-time.After(2 * doctorPatience):
		d.fail(subject, "the key set does not come", "See whether its server can be reached from here.")
	}
}

// accessLog sees whether tokens in addresses get into logs.
func (d *doctor) accessLog(subject string, l *caddy.Logging) {
	const access = "http.log.access"
	logs := map[string]*caddy.CustomLog{}
	if l != nil {
		logs = l.Logs
	}
	if logs["default"] == nil {
		logs = map[string]*caddy.CustomLog{"default": {}}
		if l != nil {
			for name, log := range l.Logs {
				logs[name] = log
			}
		}
	}
	within := func(list []string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(access, s) || strings.HasPrefix(s, access) })
	}
	for name, log := range logs {
		if len(log.Include) > 0 && !within(log.Include) || within(log.Exclude) {
			continue
		}
		if !dropsToken(log.EncoderRaw) {
			d.warn(subject, fmt.Sprintf("the log %q shows the query parameter token, which lets its reader in", name),
				"Write `format filter { request>uri query { delete token } }` into the site's log block.")
			return
		}
	}
	d.well(subject, "tokens are left out")
}

// dropsToken says whether an encoder takes the parameter token, or all of the
// address, out of what it writes.
func dropsToken(raw json.RawMessage) bool {
	var e struct {
		Format string
		Fields map[string]struct {
			Filter  string
			Actions []struct{ Type, Parameter string }
		}
	}
	if json.Unmarshal(raw, &e) != nil || e.Format != "filter" {
		return false
	}
	for field, f := range e.Fields {
		if field != "request>uri" && field != "request" {
			continue
		}
		if f.Filter == "delete" {
			return true
		}
		for _, a := range f.Actions {
			if f.Filter == "query" && a.Parameter == "token" {
				return true
			}
		}
	}
	return false
}

// publicHost says that others than this machine may listen to what passes.
func publicHost(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false // a socket of this machine
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return !ip.IsLoopback()
	}
	return host != "localhost"
}
