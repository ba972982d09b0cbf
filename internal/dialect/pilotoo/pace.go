package pilotoo

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// uploadCost is what an upload counts for among the requests of a client: the
// attachments of one message fit the default burst.
const uploadCost = 5

// maxPaces bounds the clients whose requests are counted one by one.
const maxPaces = 1 << 16

// pace makes the limiter of one client's commands.
func pace(r dialect.Rules) *rate.Limiter {
	if r.CommandsPerSecond == 0 {
		r.CommandsPerSecond = defaultRate
	}
	if r.CommandBurst == 0 {
		r.CommandBurst = max(defaultBurst, int(r.CommandsPerSecond))
	}
	return rate.NewLimiter(rate.Limit(r.CommandsPerSecond), r.CommandBurst)
}

// paces limits what clients change over HTTP, where no socket holds the count.
type paces struct {
	mu  sync.Mutex
	all map[string]*rate.Limiter
}

// admit says whether a client may send another request to the route.
func (g *paces) admit(v *dialect.Visit, p identity.Principal, route string, now time.Time) bool {
	client := v.Site.Name() + "\x00" + p.Key()
	if p.Subject.Issuer == identity.IssuerBrowser {
		// Who throws its cookie away is somebody new, at the same address.
		client = v.Site.Name() + "\x00" + network(v.Creds.RemoteIP)
	}
	cost := 1
	if route == "attachments" {
		cost = uploadCost
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.all[client]
	if l == nil {
		if len(g.all) >= maxPaces {
			g.sweepLocked(now)
		}
		if len(g.all) >= maxPaces {
			client = "" // the rest share one
			l = g.all[client]
		}
		if l == nil {
			if g.all == nil {
				g.all = make(map[string]*rate.Limiter)
			}
			l = pace(v.Site.Rules())
			g.all[client] = l
		}
	}
	return l.AllowN(now, min(cost, l.Burst()))
}

// sweep forgets who has sent nothing for long enough to begin anew.
func (g *paces) sweep(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sweepLocked(now)
}

func (g *paces) sweepLocked(now time.Time) {
	for client, l := range g.all {
		if l.TokensAt(now) >= float64(l.Burst()) {
			delete(g.all, client)
		}
	}
}

// network is the address, or what one customer has of IPv6.
func network(ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return ip
	}
	bits := 64
	if a = a.Unmap(); a.Is4() {
		bits = 32
	}
	prefix, err := a.WithZone("").Prefix(bits)
	if err != nil {
		return ip
	}
	return prefix.String()
}
