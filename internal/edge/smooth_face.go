package edge

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
)

// Smooth says where the smooth-operator dialect is served, and how. Config's
// Agents are filled in.
type Smooth struct {
	// Path is the endpoint's path: "/ws".
	Path string
	smooth.Config
}

// smoothNames is the shelf's name of the key that ids are hidden with.
const smoothNames = "smooth-ids"

func newSmoothServer(h *Hub, o Options) *smooth.Server {
	return smooth.NewServer(smooth.Options{
		Desk: h.Desk(), Logger: o.Logger, MaxConnections: o.MaxConnections, Counts: &o.Counts.Smooth, Now: o.Now,
		Config: func(site string) (*smooth.Config, string) {
			g := h.current.Load()
			if c := g.smooth[site]; c != nil {
				return c, g.sites[site].Realm
			}
			return nil, ""
		},
		Secret: func(ctx context.Context, realm string) ([]byte, error) {
			return h.keys.Secret(ctx, realm, smoothNames)
		},
	})
}

// unasked settles questions of the dialect's runs that nobody is asked, as the site
// that they began at says.
func (h *Hub) unasked(_ string, run *chat.Run, i *chat.Interrupt) (chat.InterruptStatus, jsontext.Value) {
	if run == nil || run.Origin.Dialect != smooth.Name {
		return "", nil
	}
	if c := h.current.Load().smooth[run.Origin.Site]; c != nil {
		return c.Unasked(run, i)
	}
	return "", nil
}

// smoothOf is the dialect's configuration with what the site knows, or nil.
func smoothOf(s *Site) *smooth.Config {
	if s.Smooth == nil {
		return nil
	}
	c := s.Smooth.Config
	c.Agents = nil
	for _, a := range s.Agents {
		c.Agents = append(c.Agents, a.Name)
	}
	return &c
}
