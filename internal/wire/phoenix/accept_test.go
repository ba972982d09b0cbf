package phoenix

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func TestHandshake(t *testing.T) {
	origins := func(o string, _ *http.Request) bool { return o == "https://good.example" }
	for _, c := range []struct {
		name, path string
		header     []string
		status     int
	}{
		{"PIN-004 vsn 2.0.0", "/socket/websocket?vsn=2.0.0", nil, 101},
		{"vsn 2.0.7", "/socket/websocket?a=1&vsn=2.0.7", nil, 101},
		{"PIN-004 vsn 1.0.0 is refused", "/socket/websocket?vsn=1.0.0", nil, 403},
		{"PIN-004 no vsn is 1.0.0", "/socket/websocket", nil, 403},
		{"PIN-004 vsn 2.0 is none", "/socket/websocket?vsn=2.0", nil, 403},
		{"PIN-004 vsn 2.1.0 is refused", "/socket/websocket?vsn=2.1.0", nil, 403},
		{"PIN-004 vsn 3.0.0 is refused", "/socket/websocket?vsn=3.0.0", nil, 403},
		{"PIN-004 vsn as an array is none", "/socket/websocket?vsn[]=2.0.0", nil, 403},
		{"another path", "/socket/other?vsn=2.0.0", nil, 404},
		{"a path behind it", "/socket/websocket/x?vsn=2.0.0", nil, 404},
		{"another prefix", "/other/websocket?vsn=2.0.0", nil, 404},
		{"an origin that may", wsPath, []string{"Origin", "https://good.example"}, 101},
		{"an origin that may not", wsPath, []string{"Origin", "https://evil.example"}, 403},
		{"a token in the subprotocol", wsPath, []string{"Sec-WebSocket-Protocol", "phoenix, base64url.bearer.phx.YQ"}, 101},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, Options{}, Accept{Path: "/socket/", Origins: origins}, nil)
			ws, res, err := s.tryDial(c.path, c.header...)
			if res == nil || res.StatusCode != c.status || (ws != nil) != (c.status == 101) {
				t.Fatal(res, err)
			}
			if ws == nil {
				return
			}
			if len(c.header) > 0 && c.header[0] == "Sec-WebSocket-Protocol" && ws.Subprotocol() != "phoenix" {
				t.Fatalf("subprotocol %q", ws.Subprotocol())
			}
			ws.alive()
		})
	}
}

func TestOtherRequests(t *testing.T) {
	origins := func(o string, _ *http.Request) bool { return o == "https://good.example" }
	s := serve(t, Options{}, Accept{Origins: origins}, nil)
	ctx := context.Background()
	if a := s.do(ctx, "POST", wsPath, ""); a.code != 400 {
		t.Fatalf("%+v", a)
	}
	if a := s.do(ctx, "GET", wsPath, ""); a.code != http.StatusUpgradeRequired {
		t.Fatalf("%+v", a)
	}
	if a := s.do(ctx, "CONNECT", wsPath, ""); a.code != 501 {
		t.Fatalf("%+v", a)
	}
	for _, path := range []string{"/longpoll", "/longpoll?vsn=1.0.0"} {
		if a := s.do(ctx, "GET", path, ""); a.code != 200 || a.body != `{"status":403}` {
			t.Fatalf("%+v", a)
		}
	}
	if a := s.do(ctx, "GET", pollPath, "", "Origin", "https://evil.example"); a.body != `{"status":403}` || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Fatalf("%+v", a)
	}
	a := s.do(ctx, "GET", pollPath, "", "Origin", "https://good.example")
	if a.Status != 410 || a.header.Get("Access-Control-Allow-Origin") != "https://good.example" {
		t.Fatalf("%+v", a)
	}
	a = s.do(ctx, "OPTIONS", pollPath, "", "Origin", "https://good.example", "Access-Control-Request-Headers", "content-type")
	if a.code != 204 || a.header.Get("Access-Control-Allow-Headers") != "content-type" || a.header.Get("Access-Control-Allow-Methods") != "GET, POST" {
		t.Fatalf("%+v", a)
	}
	if a = s.do(ctx, "OPTIONS", pollPath, "", "Origin", "https://evil.example"); a.code != 403 {
		t.Fatalf("%+v", a)
	}
	if n := s.srv.Sockets(); n != 1 {
		t.Fatalf("%d sockets", n)
	}
}

func TestAuthToken(t *testing.T) {
	const token = "a~b?c>d/ÿ"
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		r := &http.Request{Header: http.Header{"Sec-Websocket-Protocol": {"phoenix, base64url.bearer.phx." + enc.EncodeToString([]byte(token))}}}
		if got := AuthToken(r); got != token {
			t.Errorf("%q", got)
		}
	}
	r := &http.Request{Header: http.Header{"X-Phoenix-Authtoken": {token}}}
	if got := AuthToken(r); got != token {
		t.Errorf("%q", got)
	}
	if got := AuthToken(&http.Request{Header: http.Header{"Sec-Websocket-Protocol": {"phoenix"}}}); got != "" {
		t.Errorf("%q", got)
	}
}

func TestPlacesAreBounded(t *testing.T) {
	s := serve(t, Options{MaxConnections: 2}, Accept{}, nil)
	c := s.join()
	s.openPoll()
	if _, res, err := s.tryDial(wsPath); err == nil || res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Fatal(res, err)
	}
	// A body that published clients take for a reason to come back.
	if a := s.do(context.Background(), "GET", pollPath, ""); a.code != 503 || a.body != "" {
		t.Fatalf("%+v", a)
	}
	if n := s.srv.o.Counts.OverSockets.Load(); n != 2 {
		t.Errorf("%d are counted as refused", n)
	}
	_ = c.CloseNow()
	s.h.wantLeft(t, room, ReasonTransport)
	s.dial().alive()
}

// TestAHerdIsSlowedDown: handshakes beyond the rate are refused cheaply.
func TestAHerdIsSlowedDown(t *testing.T) {
	s := serve(t, Options{AcceptRate: 1}, Accept{}, nil)
	refused := 0
	for range 50 {
		if a := s.do(context.Background(), "GET", pollPath, ""); a.code == 503 {
			refused++
		}
	}
	if n := s.srv.Sockets(); refused == 0 || n == 0 || n+refused != 50 {
		t.Fatalf("%d refused, %d taken in", refused, n)
	}
	if n := s.srv.o.Counts.OverSockets.Load(); n != int64(refused) {
		t.Errorf("%d refused, and counted are %d", refused, n)
	}
}

// TestDrain closes all in a way that clients come back from, spread over time.
func TestDrain(t *testing.T) {
	s := serve(t, Options{}, Accept{}, nil)
	const n = 8
	clients := make([]*client, n)
	for i := range clients {
		clients[i] = s.join()
	}
	p := s.openPoll()
	waits := p.goGet()
	p.waiting()
	drained := make(chan error, 1)
	go func() { drained <- s.srv.Drain(context.Background(), 400*time.Millisecond) }()
	s.until("a drain that is half done", func() bool { k := s.srv.Sockets(); return k > 0 && k <= n })
	if _, res, err := s.tryDial(wsPath); err == nil || res.StatusCode != 503 {
		t.Fatal(res, err)
	}
	for _, c := range clients {
		if code, before := c.closed(); code != websocket.StatusServiceRestart || before != "" {
			t.Fatalf("closed with %d after %q", code, before)
		}
		s.h.wantLeft(t, room, ReasonShutdown)
	}
	if a := receive(t, waits); a.Status != 410 {
		t.Fatalf("%+v", a)
	}
	if err := receive(t, drained); err != nil || s.srv.Sockets() != 0 {
		t.Fatal(err, s.srv.Sockets())
	}
}

func TestDrainInAHurry(t *testing.T) {
	s := serve(t, Options{}, Accept{}, nil)
	c := s.join()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.srv.Drain(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if code, _ := c.closed(); code != websocket.StatusServiceRestart {
		t.Fatalf("closed with %d", code)
	}
}

// TestCloseWaitsForNobody: not for polls that wait, bodies that are being sent,
// joins that are decided, or clients that do not read.
func TestCloseWaitsForNobody(t *testing.T) {
	h := newHooks()
	started := make(chan struct{}, 1)
	h.join = func(ctx context.Context, c *Channel, _ json.RawMessage) ([]byte, error) {
		if c.Topic() == "room:slow" {
			started <- struct{}{}
			<-ctx.Done()
		}
		return nil, nil
	}
	s := serve(t, Options{}, Accept{}, h)
	s.join()
	p := s.openPoll()
	got := p.goGet()
	p.waiting()
	slow := s.dial()
	slow.say(`["1","1","room:slow","phx_join",{}]`)
	receive(t, started)
	q := s.openPoll()
	posting, stop := newStuckBody()
	defer stop()
	posted := make(chan struct{})
	go func() {
		defer close(posted)
		r, _ := http.NewRequest("POST", s.URL+q.path(), posting)
		if res, err := s.Client().Do(r); err == nil {
			res.Body.Close()
		}
	}()
	s.until("the body to be read", func() bool {
		k := s.srv.poll(q.token)
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.bodies) > 0
	})
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.srv.Close()
	}()
	receive(t, closed)
	if a := receive(t, got); a.Status != 410 {
		t.Fatalf("%+v", a)
	}
	stop()
	<-posted
	left := map[string]bool{receive(t, h.left): true, receive(t, h.left): true}
	if !left[room+" "+ReasonShutdown] || !left["room:slow "+ReasonShutdown] {
		t.Fatal(left)
	}
	if a := s.do(context.Background(), "GET", pollPath, ""); a.code != 503 {
		t.Fatalf("%+v", a)
	}
}
