package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/edge"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// Pingerchips configures the Pingerchips dialect. It is served where a handler has
// an app.
type Pingerchips struct {
	// The path of the Phoenix socket: WebSockets are at `websocket` below it,
	// long-polling at `longpoll`. Default: `/socket/*`.
	Path string `json:"path,omitempty"`

	// The largest message that a client or an agent may send, in bytes.
	// Default: 2 MiB.
	Frame int64 `json:"frame,omitempty"`

	// Where the back ends of apps get tokens for their users, or `off`.
	// Default: `/api/chat/auth`.
	AuthPath string `json:"auth_path,omitempty"`

	// How a member that comes back is told of entries that changed several slots
	// at once: as one `batch`, the default, or as a `change` for each.
	ReplayMulti string `json:"replay_multi,omitempty"`

	// What the slot `messages` shows in entries of the log: `window`, the newest
	// 50, which is the default, or `full`, all of them up to 1 MiB. Snapshots show
	// the newest 50.
	MessagesSlot string `json:"messages_slot,omitempty"`

	// Also shows reasoning, calls of tools, subagents and lists of todos, in slots
	// `ext:…` beside the log, which version 1 of the protocol has no form for.
	Extensions bool `json:"extensions,omitempty"`
}

// PingerchipsApp is an application whose back end signs tokens for its users, and
// whose agents join by its secret.
type PingerchipsApp struct {
	// The public key, which stands in the topics of the app's threads.
	Key string `json:"key"`

	// The secret; two while one is replaced by another, of which the first signs.
	// At least 16 bytes each. Keep them in placeholders such as `{env.NAME}` and
	// `{file./path}`, which are replaced when the configuration is loaded.
	Secrets []string `json:"secrets"`

	// The part of the realm that the app's threads are in. Two apps of a realm
	// have two.
	Tenant string `json:"tenant,omitempty"`

	// Takes tokens of the older form too, which are bound to a socket.
	LegacyTokens bool `json:"legacy_tokens,omitempty"`
}

// Bounds of an app's secrets.
const (
	minSecret  = 16 // bytes
	maxSecrets = 2
)

// Where the dialect is by default.
const (
	pingerchipsPath = "/socket/"
	tokenPath       = "/api/chat/auth"
)

func (h *Handler) makePingerchips() error {
	if h.Pingerchips == nil && len(h.Apps) == 0 {
		return nil
	}
	var p Pingerchips
	if h.Pingerchips != nil {
		p = *h.Pingerchips
	}
	if len(h.Apps) == 0 {
		return errors.New("it needs an app, whose tokens let clients in: write `app KEY { secret … }`")
	}
	site := &edge.Pingerchips{Path: pingerchipsPath, Frame: p.Frame, Auth: tokenPath}
	var err error
	if p.Path != "" {
		if site.Path, err = folder(p.Path); err != nil {
			return err
		}
	}
	if p.Frame < 0 {
		return errors.New("frame must not be negative")
	}
	if other := h.site.Pilotoo.Path; strings.HasPrefix(site.Path, other) || strings.HasPrefix(other, site.Path) {
		return fmt.Errorf("its path %s and pilotoo's %s are one in the other", site.Path, other)
	}
	switch p.AuthPath {
	case "":
	case "off":
		site.Auth = ""
	default:
		if site.Auth, err = plainPath(p.AuthPath); err != nil {
			return fmt.Errorf("auth_path: %w", err)
		}
	}
	switch p.ReplayMulti {
	case "", "batch":
	case "change":
		h.site.Rules.ReplayApart = true
	default:
		return fmt.Errorf("replay_multi must be batch or change, not %q", p.ReplayMulti)
	}
	switch p.MessagesSlot {
	case "", "window":
	case "full":
		h.site.Rules.AllMessages = true
	default:
		return fmt.Errorf("messages_slot must be window or full, not %q", p.MessagesSlot)
	}
	h.site.Rules.Extensions = p.Extensions
	h.site.Pingerchips = site
	return nil
}

// makeApps reads the apps; no error repeats what may be a secret.
func (h *Handler) makeApps() error {
	for _, a := range h.Apps {
		if a == nil {
			return errors.New("an app is null")
		}
		if !chat.ValidID(a.Key) || strings.Contains(a.Key, ":") {
			return errors.New("an app's key is not 1 to 128 characters without a colon")
		}
		if slices.ContainsFunc(h.site.Apps, func(b identity.App) bool { return b.Key == a.Key }) {
			return fmt.Errorf("app %q is there twice", a.Key)
		}
		made, err := a.make()
		if err != nil {
			return fmt.Errorf("app %q: %w", a.Key, err)
		}
		made.Realm = h.site.Realm
		h.site.Apps = append(h.site.Apps, made)
	}
	return nil
}

func (a *PingerchipsApp) make() (identity.App, error) {
	made := identity.App{Key: a.Key, Tenant: a.Tenant, Legacy: a.LegacyTokens}
	if a.Tenant != "" && !chat.ValidID(a.Tenant) {
		return made, errors.New("tenant: not a name of 1 to 128 characters")
	}
	if len(a.Secrets) == 0 {
		return made, errors.New("it has no secret: write `secret {env.NAME}` in its block")
	}
	if len(a.Secrets) > maxSecrets {
		return made, errors.New("more than two secrets: one is replaced by another, not by many")
	}
	for _, s := range a.Secrets {
		s, err := replaced(s)
		if err != nil {
			return made, fmt.Errorf("secret: %w", err)
		}
		if s = strings.TrimRight(s, "\r\n"); len(s) < minSecret {
			return made, fmt.Errorf("secret: it has fewer than %d bytes", minSecret)
		}
		if slices.Contains(made.Secrets, s) {
			return made, errors.New("secret: both are the same")
		}
		made.Secrets = append(made.Secrets, s)
	}
	return made, nil
}

// readPingerchips reads:
//
//	pingerchips [<path>] {
//		frame         <size>
//		auth_path     <path>|off
//		replay_multi  batch|change
//		messages_slot window|full
//		extensions
//	}
func (h *Handler) readPingerchips(d *caddyfile.Dispenser) error {
	p := new(Pingerchips)
	h.Pingerchips = p
	if d.NextArg() {
		p.Path = d.Val()
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	return readBlock(d, "pingerchips", map[string]option{
		"frame":         size(d, &p.Frame),
		"auth_path":     text(d, &p.AuthPath),
		"replay_multi":  text(d, &p.ReplayMulti),
		"messages_slot": text(d, &p.MessagesSlot),
		"extensions":    flag(&p.Extensions),
	}, nil)
}

// readApp reads:
//
//	app <key> {
//		secret <secret>
//		tenant <name>
//		legacy_tokens
//	}
func (h *Handler) readApp(d *caddyfile.Dispenser) error {
	if !d.NextArg() || d.Val() == "" {
		return d.Err("app needs its key")
	}
	a := &PingerchipsApp{Key: d.Val()}
	if d.NextArg() {
		return d.Err("app has one argument, its key: the secret stands in its block")
	}
	h.Apps = append(h.Apps, a)
	return readBlock(d, "an app", map[string]option{
		"secret": many(func() error {
			var s string
			if !d.Args(&s) || s == "" || d.NextArg() { // which is not to be repeated
				return d.Err("secret needs one value: put it in quotes")
			}
			a.Secrets = append(a.Secrets, s)
			return nil
		}),
		"tenant":        text(d, &a.Tenant),
		"legacy_tokens": flag(&a.LegacyTokens),
	}, nil)
}

// opensChannels says whether a request would open a Phoenix socket. A polling
// one that is open carries its token.
func (h *Handler) opensChannels(r *http.Request) bool {
	p := h.site.Pingerchips
	if p == nil || r.Method != http.MethodGet {
		return false
	}
	switch r.URL.Path {
	case p.Path + "websocket":
		return true
	case p.Path + "longpoll":
		return r.Header.Get("X-Phoenix-Longpoll-Token") == "" && r.URL.Query().Get("token") == ""
	}
	return false
}
