package pingerchips

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/wire/phoenix"
)

var _ phoenix.Handler = (*Server)(nil)

// Open makes what the wire keeps with a connection, as its Accept.Value.
func (s *Server) Open(v *dialect.Visit) *Socket {
	return &Socket{server: s, visit: v, clients: make(map[string]int)}
}

// Join implements phoenix.Handler (PIN-045 to PIN-067).
func (s *Server) Join(ctx context.Context, c *phoenix.Channel, payload json.RawMessage) ([]byte, error) {
	k, ok := c.Value().(*Socket)
	if !ok {
		return nil, phoenix.ErrUnmatched
	}
	ctx, noted := k.visit.Connection.Begin(ctx, "phx_join")
	m, err := k.join(ctx, c, payload)
	if errors.Is(err, rateLimited) {
		noted.Done("") // which is counted and not told
	} else {
		noted.Done(codeOf(err))
	}
	if err != nil {
		reason, _ := refusal(err)
		s.report("phx_join", err)
		return nil, &phoenix.JoinError{Response: reason.response()}
	}
	c.Data = m
	return append(quoted([]byte(`{"socket_id":`), c.SocketID()), '}'), nil
}

// Joined implements phoenix.Handler.
func (s *Server) Joined(c *phoenix.Channel) { c.Data.(*member).begin() }

// In implements phoenix.Handler.
func (s *Server) In(c *phoenix.Channel, p phoenix.Push) { c.Data.(*member).push(p) }

// Left implements phoenix.Handler. The runs that the member began go on.
func (s *Server) Left(c *phoenix.Channel, _ string) { c.Data.(*member).leave() }

func (r Reason) response() []byte {
	return append(quoted([]byte(`{"reason":`), string(r)), '}')
}
