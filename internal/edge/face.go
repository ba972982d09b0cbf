package edge

import (
	"context"
	"net/http"
	"time"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/pilotoo"
	"github.com/parlance-gateway/parlance/internal/wire/socketio"
)

// pilotooFace is the Pilotoo dialect on its wire: one server for all sites of a
// hub, so that sockets outlive configurations.
type pilotooFace struct {
	server *pilotoo.Server
	wire   *socketio.Server
	// affinity is what the cookie of polling sessions says, or "" for none.
	affinity string
}

// affinityCookie names the cookie by which a load balancer finds a polling
// session's edge again.
const affinityCookie = "parlance_edge"

// connectTimeout is how long a connection may take to say who it is. It is
// shorter than the reference's 45 s, since such connections count against the
// process's limit and nobody's own.
const connectTimeout = 15 * time.Second

func newPilotooFace(h *Hub, o Options) *pilotooFace {
	f := &pilotooFace{server: pilotoo.NewServer(pilotoo.Options{Desk: h.Desk(), Logger: o.Logger, Counts: &o.Counts.Pilotoo})}
	f.wire = socketio.NewServer(socketio.Options{
		ConnectTimeout: connectTimeout,
		MaxConnections: o.MaxConnections, AttachmentBytes: pilotoo.MaxBinary, Counts: &o.Counts.Pilotoo, Logger: o.Logger,
	}, f.server)
	if o.Shared {
		f.affinity = opaque(h.boot)
	}
	return f
}

// accept serves a request to the Socket.IO endpoint.
func (f *pilotooFace) accept(s *Site, w http.ResponseWriter, r *http.Request, v *dialect.Visit) {
	a := socketio.Accept{
		Path: s.Pilotoo.Path, MaxPayload: s.Pilotoo.frame(), Origins: s.Origins,
		Value: v, RemoteIP: v.Creds.RemoteIP,
	}
	if f.affinity != "" {
		a.Cookie, a.CookieValue, a.CookiePath, a.CookieSecure = affinityCookie, f.affinity, s.Pilotoo.Path, v.Creds.Secure
	}
	f.wire.Accept(w, r, a)
}

func (p *Pilotoo) frame() int64 {
	if p.Frame == 0 {
		return pilotoo.MaxPayload
	}
	return p.Frame
}

func (f *pilotooFace) drain(ctx context.Context, spread time.Duration) { _ = f.wire.Drain(ctx, spread) }

func (f *pilotooFace) close() {
	f.wire.Close()
	f.server.Close()
}

func (f *pilotooFace) sockets() int { return f.wire.Sessions() }

// serve answers a request to one of the protocol's HTTP routes.
func (f *pilotooFace) serve(s *Site, rest string, w http.ResponseWriter, r *http.Request, v *dialect.Visit) {
	f.server.ServeRoute(w, r, pilotoo.Request{Path: rest, Visit: v, Origins: s.Origins, Upstream: s.Pilotoo.Upstream})
}
