package edge

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/parlance-gateway/parlance/internal/dialect/smooth"
	"github.com/parlance-gateway/parlance/internal/identity"
)

// The other edges are told of the sockets of every dialect.
func TestAnEdgeTellsOfAllItsSockets(t *testing.T) {
	a, _ := newPair(t)
	site := &Site{Name: "smooth", Realm: "default", Smooth: &Smooth{Path: "/ws", Config: smooth.Config{Anonymous: true}}}
	off, err := a.Activate([]*Site{site})
	if err != nil {
		t.Fatal(err)
	}
	defer off()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.Serve(site, w, r, identity.FromRequest(r))
	}))
	defer s.Close()
	c, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http")+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	eventually(t, "its socket", func() bool { return a.Stats().Sockets == 1 })
	if n := a.edge().Sockets; n != 1 {
		t.Errorf("the others are told of %d sockets", n)
	}
}
