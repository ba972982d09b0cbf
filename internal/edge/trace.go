package edge

import (
	"iter"
	"net/http"

	"github.com/parlance-gateway/parlance/internal/conductor"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/edge/tracing"
	"github.com/parlance-gateway/parlance/internal/room"
)

// FromTrustedPeer marks a request whose own traceparent is to be believed.
func FromTrustedPeer(r *http.Request) *http.Request {
	return r.WithContext(tracing.WithCaller(r.Context()))
}

// traces is the tracer as the conductor takes it: nil stays nil.
func (h *Hub) traces() conductor.Tracer {
	if h.tracer == nil {
		return nil
	}
	return h.tracer
}

// follow draws the handshake of a connection; end is called when its request was
// answered.
func (h *Hub) follow(c *dialect.Connection, r *http.Request, name, realm string) (end func()) {
	if h.tracer == nil {
		return func() {}
	}
	trail, end := h.tracer.Handshake(r, name, realm)
	if trail != nil {
		c.Follow(trail)
	}
	return end
}

// delivered draws that a run's end has reached windows, or is nil.
func (h *Hub) delivered() func(*room.Change, iter.Seq[room.Member]) {
	if h.tracer == nil {
		return nil
	}
	return func(c *room.Change, shown iter.Seq[room.Member]) {
		run := c.Before.Run(c.Record.Run)
		if run == nil || !h.tracer.Draws() {
			return
		}
		windows, stamps := 0, []string(nil)
		for m := range shown {
			windows++
			if len(stamps) == tracing.MaxLinks {
				continue
			}
			if s, ok := m.(interface{ Stamp() string }); ok && s.Stamp() != "" {
				stamps = append(stamps, s.Stamp())
			}
		}
		if windows > 0 {
			h.tracer.Delivered(c.Key, run, windows, stamps)
		}
	}
}
