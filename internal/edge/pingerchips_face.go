package edge

import (
	"context"
	"net/http"
	"time"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/pingerchips"
	"github.com/parlance-gateway/parlance/internal/wire/phoenix"
)

// Pingerchips says where the Pingerchips dialect is served.
type Pingerchips struct {
	// Path is the endpoint's prefix, with its final slash: "/socket/".
	Path string
	// Frame bounds a message from a client, in bytes; 0 is the dialect's 2 MiB.
	Frame int64
	// Auth is the path at which the apps' back ends get tokens for their users, or
	// "" for none.
	Auth string
}

// pingerchipsFace is the Pingerchips dialect on its wire: one server for all
// sites of a hub, so that sockets outlive configurations.
type pingerchipsFace struct {
	server *pingerchips.Server
	wire   *phoenix.Server
}

// pingerchipsQueue bounds what waits for one client, in bytes: some changes of a
// long answer, each of which holds its text twice.
const pingerchipsQueue = 8 << 20

func newPingerchipsFace(h *Hub, o Options) *pingerchipsFace {
	f := &pingerchipsFace{server: pingerchips.NewServer(pingerchips.Options{Desk: h.Desk(), Agents: inbound{h}, Logger: o.Logger, Counts: &o.Counts.Pingerchips})}
	f.wire = phoenix.NewServer(phoenix.Options{
		MaxChannels: pingerchips.MaxChannels, QueueBytes: pingerchipsQueue,
		MaxConnections: o.MaxConnections, Counts: &o.Counts.Pingerchips, Logger: o.Logger,
	}, f.server)
	return f
}

// accept serves a request to the Phoenix endpoint.
func (f *pingerchipsFace) accept(s *Site, w http.ResponseWriter, r *http.Request, v *dialect.Visit) {
	f.wire.Accept(w, r, phoenix.Accept{
		Path: s.Pingerchips.Path, MaxPayload: s.Pingerchips.frame(), Origins: s.Origins,
		Value: f.server.Open(v), RemoteIP: v.Creds.RemoteIP,
	})
}

func (p *Pingerchips) frame() int64 {
	if p.Frame == 0 {
		return pingerchips.MaxPayload
	}
	return p.Frame
}

func (f *pingerchipsFace) drain(ctx context.Context, spread time.Duration) {
	_ = f.wire.Drain(ctx, spread)
}

func (f *pingerchipsFace) close() {
	f.wire.Close()
	f.server.Close()
}

func (f *pingerchipsFace) sockets() int { return f.wire.Sockets() }
