package caddymodule

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/parlance-gateway/parlance/internal/agent/socket"
	"github.com/parlance-gateway/parlance/internal/edge"
)

// Wake is how an agent that dials in is told that a run waits for it.
type Wake struct {
	// The address that is called by POST of `{"threadId","runId"}`. Nothing else
	// is ever called, and no redirect is followed.
	URL string `json:"url"`

	// What calls are signed with, at least 16 bytes: `Parlance-Signature` is the
	// hex HMAC-SHA256 of `Parlance-Timestamp`, a dot and the body. Keep it in a
	// placeholder.
	Secret string `json:"secret"`

	// How long one call may take. Default: 10s.
	Timeout caddy.Duration `json:"timeout,omitempty"`
}

// maxWakeTimeout bounds a call: other runs wait for their turn meanwhile.
const maxWakeTimeout = time.Minute

func (h *Handler) makeSocket(a *Agent) (*socket.Agent, error) {
	plain := Agent{Name: a.Name, Kind: a.Kind, Thread: a.Thread, Idle: a.Idle, Wake: a.Wake}
	if !plain.equal(a) {
		return nil, errors.New("socket has the options idle, thread and wake only")
	}
	if len(h.Apps) == 0 {
		return nil, errors.New("it joins by the secret of an app: write `app KEY { secret … }`")
	}
	o := socket.Options{Idle: time.Duration(a.Idle)}
	if a.Wake != nil {
		made, err := a.Wake.make()
		if err != nil {
			return nil, fmt.Errorf("wake: %w", err)
		}
		o.Waker = made
		h.closers = append(h.closers, made.Close)
	}
	return socket.New(o), nil
}

// make reads the options; no error repeats the address or the secret.
func (w *Wake) make() (*socket.Waker, error) {
	o := socket.WakeOptions{Timeout: time.Duration(w.Timeout)}
	address, err := replaced(w.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Fragment != "" || u.User != nil {
		return nil, errors.New("it is no address: write it like https://worker.example.com/wake")
	}
	o.URL = address
	if o.Secret, err = authKey(w.Secret); err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	if o.Secret == nil {
		return nil, errors.New("it has no secret, which its calls are signed with: write `secret {env.NAME}` in its block")
	}
	if o.Timeout < 0 || o.Timeout > maxWakeTimeout {
		return nil, fmt.Errorf("timeout must be above 0 and at most %v", maxWakeTimeout)
	}
	return socket.NewWaker(o), nil
}

// readSocket reads the block of an agent that dials in.
func (a *Agent) readSocket(d *caddyfile.Dispenser) error {
	return readBlock(d, "a socket agent", map[string]option{
		"idle":   duration(d, &a.Idle, true),
		"thread": text(d, &a.Thread),
		"wake": once(func() error {
			if !d.NextArg() || d.Val() == "" {
				return d.Err("wake needs the address that is called")
			}
			w := &Wake{URL: d.Val()}
			a.Wake = w
			if d.NextArg() {
				return d.Err("wake has one argument, its address: the secret stands in its block")
			}
			return readBlock(d, "wake", map[string]option{
				"secret": once(func() error {
					if !d.Args(&w.Secret) || w.Secret == "" || d.NextArg() { // which is not to be repeated
						return d.Err("secret needs one value: put it in quotes")
					}
					return nil
				}),
				"timeout": duration(d, &w.Timeout, false),
			}, nil)
		}),
	}, nil)
}

// appIdle is how long after its last run a thread keeps its log where there is an
// app, whose clients come back by log_id (PIN-067).
const appIdle = 24 * time.Hour

// keep says for how long threads keep their log with the sites of the current
// configuration, where the journal's options do not say it.
func (p *pooled) keep(sites []*edge.Site) {
	idle := time.Duration(0)
	if slices.ContainsFunc(sites, func(s *edge.Site) bool { return len(s.Apps) > 0 }) {
		idle = appIdle
	}
	p.redis.idle.Store(int64(idle))
}

func (n *redisNow) keepIdle() time.Duration { return time.Duration(n.idle.Load()) }
