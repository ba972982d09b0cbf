package pilotoo

import (
	"net/http"
	"strconv"

	"github.com/parlance-gateway/parlance/internal/chat"
	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// presencePath follows a conversation's id in the route that tells who watches
// it. The protocol has no such route; it is an addition of this gateway.
const presencePath = "/presence"

// dialectName is what runs and members of this dialect are marked with.
const dialectName = "pilotoo"

func (s *Server) presence(w http.ResponseWriter, r *http.Request, p identity.Principal, id string) {
	switch {
	case r.Method != http.MethodGet:
		methodNotAllowed(w, "GET")
		return
	case !chat.ValidID(id):
		s.fail(w, chat.ErrNoThread)
		return
	}
	there, err := s.o.Desk.Presence(r.Context(), p, id)
	if err != nil {
		s.fail(w, err)
		return
	}
	reply(w, http.StatusOK, presence(nil, there))
}

// presence shows of a member what its fellows may know: not who he is, since no
// message of the protocol names another user.
func presence(b []byte, p dialect.Presence) []byte {
	b = append(b, `{"members":[`...)
	for i, m := range p.Members {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendBool(append(b, `{"self":`...), m.Self)
		b = member(b, "dialect", m.Dialect)
		b = instant(append(b, `,"since":`...), m.Since)
		b = append(member(b, "edge", m.Edge), '}')
	}
	b = strconv.AppendInt(append(b, `],"count":`...), int64(p.Count), 10)
	return append(b, '}')
}
