package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// readyTimeout bounds what a probe asks the journal.
const readyTimeout = 2 * time.Second

// Why a handler is not ready, as load balancers are told it. The reasons in full
// are for operators: the admin API has them.
const (
	notStarted = "starting"
	notStaying = "draining"
	noJournal  = "journal"
)

// makeProbes finds the paths that load balancers ask. Pilotoo's routes have one
// that answers while the process serves, and readiness stands beside it; where
// those routes are switched off, the root is somebody else's.
func (h *Handler) makeProbes() error {
	beside := h.site.Pilotoo != nil && h.site.Pilotoo.Routes
	var err error
	if h.Health != "" {
		if h.health, err = plainPath(h.Health); err != nil {
			return fmt.Errorf("health: %w", err)
		}
	}
	switch h.Ready {
	case "":
		if beside {
			h.ready = h.site.Pilotoo.Prefix + "/ready"
		}
	case "off":
	default:
		if h.ready, err = plainPath(h.Ready); err != nil {
			return fmt.Errorf("ready: %w", err)
		}
	}
	if h.health != "" && h.health == h.ready {
		return errors.New("health and ready need paths of their own")
	}
	return nil
}

// plainPath reads the path of one resource.
func plainPath(path string) (string, error) {
	prefix, err := folder(path)
	if err != nil {
		return "", err
	}
	if prefix != path+"/" {
		return "", errors.New("a path names one resource: it ends neither in / nor in *")
	}
	return path, nil
}

// probe answers a load balancer, whoever it is: neither answer tells more than
// one word. It answers while a configuration starts and while the hub drains.
func (h *Handler) probe(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path == "" || r.URL.Path != h.health && r.URL.Path != h.ready {
		return false
	}
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return true
	}
	header.Set("Content-Type", "text/plain; charset=utf-8")
	status, word := http.StatusOK, "ok"
	if r.URL.Path == h.ready {
		word = "ready"
		if reason := h.app.notReady(r.Context()); reason != "" {
			status, word = http.StatusServiceUnavailable, reason
			header.Set("Retry-After", "5")
		}
	}
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, word+"\n")
	}
	return true
}

// notReady says in one word why no new sockets are taken, or "".
func (a *App) notReady(ctx context.Context) string {
	select {
	case <-a.current:
	default:
		return notStarted
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	switch {
	case a.hub.draining.Load():
		return notStaying
	case a.hub.hub.Ready(ctx) != nil:
		return noJournal
	}
	return ""
}
