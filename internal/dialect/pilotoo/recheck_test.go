package pilotoo_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parlance-gateway/parlance/internal/dialect"
	"github.com/parlance-gateway/parlance/internal/dialect/pilotoo"
	"github.com/parlance-gateway/parlance/internal/identity"
	"github.com/parlance-gateway/parlance/internal/wire/socketio"
)

// A socket that says nothing is looked at too.
func TestSilentPrincipalsAreLookedAt(t *testing.T) {
	base := serve(t, nil)
	server := pilotoo.NewServer(pilotoo.Options{Desk: base.hub.Desk(), RecheckEvery: 5 * time.Millisecond})
	wire := socketio.NewServer(socketio.Options{}, server)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wire.Accept(w, r, socketio.Accept{MaxPayload: 1 << 20, Value: &dialect.Visit{Site: guestSite{base.guests}, Creds: identity.FromRequest(r)}})
	}))
	t.Cleanup(func() {
		wire.Close()
		server.Close()
		h.Close()
	})
	s := &site{url: h.URL, client: base.client, guests: base.guests}
	w, other := s.open(t, "ann"), s.open(t, "bob")
	base.guests.revoke("ann")
	list := w.gone("a revoked principal")
	if last := list[len(list)-1]; last.kind != "disconnect" {
		t.Errorf("the last packet is %v; it is to keep the client from coming back by itself", last)
	}
	other.refuses("another principal stays", "run:cancel", `{"runId":"r"}`, "UNKNOWN_RUN")
}
