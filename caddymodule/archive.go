package caddymodule

import (
	"errors"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/parlance-gateway/parlance/internal/chat"
)

// Archive moves the older messages of threads that have been quiet for long out
// of the journal into files in Caddy's storage.
type Archive struct {
	// How long after its newest message a thread is archived.
	After caddy.Duration `json:"after,omitempty"`

	// Only threads with more messages than this in the journal are archived; their
	// last 50 to 100 stay there. At least 100. Default: 500.
	Over int `json:"over,omitempty"`
}

func (h *Handler) makeArchive() error {
	a := h.Archive
	switch {
	case a == nil:
		return nil
	case a.After <= 0:
		return errors.New("after must be a time above 0")
	case a.Over != 0 && a.Over < 2*chat.ChunkSize:
		return errors.New("over must be at least 100")
	}
	h.site.Limits.ArchiveAfter, h.site.Limits.ArchiveOver = time.Duration(a.After), a.Over
	return nil
}

// readArchive reads:
//
//	archive after <duration> {
//		over <messages>
//	}
func (h *Handler) readArchive(d *caddyfile.Dispenser) error {
	if !d.NextArg() || d.Val() != "after" {
		return d.Err("archive is followed by the word after and a time")
	}
	a := new(Archive)
	h.Archive = a
	if err := duration(d, &a.After, false).read(); err != nil {
		return err
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	return readBlock(d, "archive", map[string]option{"over": number(d, &a.Over)}, nil)
}
