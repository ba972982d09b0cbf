package caddymodule

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
)

// OTP names the back end that sends one-time codes to people, and checks them. It
// makes the codes, keeps them, and counts attempts; Parlance passes on what people
// type.
type OTP struct {
	// The addresses that are called by POST of JSON: https, or http on this
	// machine.
	Send   string `json:"send"`
	Verify string `json:"verify"`

	// The secret that calls are signed with, at least 16 bytes. Keep it in a
	// placeholder.
	Secret string `json:"secret"`

	// How long a call may take, with its repetitions. Default: 5s.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// How many codes go to one address or number in an hour, whichever sessions
	// and edges ask for them; each tenant's count for themselves. Default: 10.
	PerAddress int `json:"per_address,omitempty"`
}

// maxOTPTimeout is below what an action of the dialect may take.
const maxOTPTimeout = 20 * time.Second

// maxPerAddress is more codes than anybody types in an hour.
const maxPerAddress = 1000

func (o *OTP) make() (smooth.Codes, error) {
	w := &smooth.Webhook{Timeout: time.Duration(o.Timeout)}
	var err error
	if w.SendURL, err = hookURL(o.Send); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	if w.VerifyURL, err = hookURL(o.Verify); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	if w.Secret, err = authKey(o.Secret); err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	if w.Secret == nil {
		return nil, errors.New("it has no secret, which its calls are signed with: write `secret {env.NAME}` in its block")
	}
	if w.Timeout < 0 || w.Timeout > maxOTPTimeout {
		return nil, fmt.Errorf("timeout must be above 0 and at most %v", maxOTPTimeout)
	}
	if o.PerAddress < 0 || o.PerAddress > maxPerAddress {
		return nil, fmt.Errorf("per_address must be above 0 and at most %d", maxPerAddress)
	}
	return w, nil
}

// hookURL reads an address that codes are sent to; no error repeats it.
func hookURL(s string) (string, error) {
	if s == "" {
		return "", errors.New("it is missing: write the URL that is called")
	}
	s, err := replaced(s)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Fragment != "" {
		return "", errors.New("it is no URL")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return "", errors.New("codes travel in it: it must be https, or http on this machine")
	}
	return s, nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && net.IP(ip.AsSlice()).IsLoopback()
}

// readOTP reads:
//
//	otp {
//		send        <url>
//		verify      <url>
//		secret      <secret>
//		timeout     <duration>
//		per_address <codes an hour>
//	}
func (p *Smooth) readOTP(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	o := new(OTP)
	p.OTP = o
	return readBlock(d, "otp", map[string]option{
		"send":   text(d, &o.Send),
		"verify": text(d, &o.Verify),
		"secret": once(func() error {
			if !d.Args(&o.Secret) || o.Secret == "" || d.NextArg() { // which is not to be repeated
				return d.Err("secret needs one value: put it in quotes")
			}
			return nil
		}),
		"timeout":     duration(d, &o.Timeout, false),
		"per_address": number(d, &o.PerAddress),
	}, nil)
}
