package socketio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parlance-gateway/parlance/internal/wire/engineio"
)

func TestConnectedComesRightAfterTheReply(t *testing.T) {
	var ids []string
	s := serve(t, Options{}, Accept{Value: "who", RemoteIP: "192.0.2.1"}, &hooks{
		connect: func(_ context.Context, s *Socket, auth json.RawMessage) error {
			ids = append(ids, s.ID(), s.Namespace(), s.Value().(string), s.RemoteIP(), string(auth))
			if err := s.Emit("early", nil); !errors.Is(err, ErrClosed) {
				t.Errorf("Emit in Connect: %v", err)
			}
			return nil
		},
		connected: func(s *Socket) { _ = s.Emit("hello", []byte(`{"v":1}`)) },
	})
	ws := s.dial()
	ws.say(`40{"token":"t"}`)
	reply := ws.next()
	ws.expect(`42["hello",{"v":1}]`)
	want := []string{reply[10:30], "/", "who", "192.0.2.1", `{"token":"t"}`}
	if fmt.Sprint(ids) != fmt.Sprint(want) {
		t.Fatalf("got %q, want %q", ids, want)
	}
	for e := range s.sio.eio.All() {
		if e.ID() == ids[0] {
			t.Fatal("the socket's id is the engine's, which is a secret")
		}
	}
}

// TestSlowConnect holds a CONNECT back: the heartbeat and other connections go
// on, what the client sends meanwhile waits and keeps its order.
func TestSlowConnect(t *testing.T) {
	release := make(chan struct{})
	events := make(chan string, 10)
	s := serve(t, Options{PingInterval: 20 * time.Millisecond, PingTimeout: 5 * time.Second}, Accept{}, &hooks{
		connect: func(ctx context.Context, _ *Socket, auth json.RawMessage) error {
			if string(auth) == `{"slow":1}` {
				<-release
			}
			return nil
		},
		event: func(_ *Socket, e Event) { events <- e.Name },
	})
	ws := s.dial()
	ws.say(`40{"slow":1}`, `42["a"]`, `42["b"]`)
	ws.expect("2")
	ws.say("3")
	ws.expect("2")
	s.join()
	close(release)
	if m := ws.next(); !strings.HasPrefix(m, "40{") {
		t.Fatalf("got %q", m)
	}
	ws.say(`42["c"]`)
	for _, want := range []string{"a", "b", "c"} {
		if got := receive(t, events); got != want {
			t.Fatalf("event %q, want %q", got, want)
		}
	}
}

// TestPendingIsBounded sends more than may wait behind a CONNECT: the rest stays
// unread until there is room, and nothing is lost.
func TestPendingIsBounded(t *testing.T) {
	for _, c := range []struct {
		name    string
		padding int
		want    int // packets that wait; the limit of a message is 1,000 bytes
	}{{"by number", 0, maxPending}, {"by bytes", 400, 2}} {
		t.Run(c.name, func(t *testing.T) {
			release := make(chan struct{})
			events := make(chan string, 1000)
			s := serve(t, Options{}, Accept{MaxPayload: 1000}, &hooks{
				connect: func(context.Context, *Socket, json.RawMessage) error { <-release; return nil },
				event:   func(_ *Socket, e Event) { events <- e.Name },
			})
			ws := s.dial()
			ws.say("40")
			const n = 5 * maxPending
			for i := range n {
				ws.say(fmt.Sprintf(`42["%d","%s"]`, i, strings.Repeat("x", c.padding)))
			}
			for e := range s.sio.eio.All() {
				if got := pendingAtRest(e.Data.(*conn), c.want); got != c.want {
					t.Errorf("%d packets wait, want %d", got, c.want)
				}
			}
			close(release)
			for i := range n {
				if got := receive(t, events); got != fmt.Sprint(i) {
					t.Fatalf("event %q, want %d", got, i)
				}
			}
		})
	}
}

// pendingAtRest waits until at least want packets wait, and a little for more.
func pendingAtRest(c *conn, want int) int {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	n, calm := 0, 0
	for end := time.Now().Add(patience); calm < 20 && time.Now().Before(end); {
		<-tick.C
		c.mu.Lock()
		n = len(c.pending)
		c.mu.Unlock()
		if n >= want {
			calm++
		}
	}
	return n
}

func TestConnectIsToldThatTheClientHasGone(t *testing.T) {
	entered, over := make(chan struct{}), make(chan error, 1)
	s := serve(t, Options{}, Accept{}, &hooks{
		connect: func(ctx context.Context, _ *Socket, _ json.RawMessage) error {
			close(entered)
			<-ctx.Done()
			over <- ctx.Err()
			return nil // too late: none of the other callbacks may follow
		},
		connected:  func(*Socket) { t.Error("Connected") },
		disconnect: func(*Socket, string) { t.Error("Disconnect") },
	})
	ws := s.dial()
	ws.say("40")
	<-entered
	_ = ws.CloseNow()
	if err := receive(t, over); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestConnectTimeout(t *testing.T) {
	s := serve(t, Options{ConnectTimeout: 50 * time.Millisecond}, Accept{}, &hooks{
		connect: func(ctx context.Context, _ *Socket, _ json.RawMessage) error { <-ctx.Done(); return ctx.Err() },
	})
	ws := s.dial()
	ws.say("40")
	ws.closed()
	joined := serve(t, Options{ConnectTimeout: 50 * time.Millisecond, PingInterval: 100 * time.Millisecond}, Accept{}, &hooks{})
	c, _ := joined.join()
	c.expect("2") // which is after the time-out
}

// TestDisconnectIsCalledOnce over all ways to end, each with its reason, after
// the last event and with the context ended.
func TestDisconnectIsCalledOnce(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		end          func(ws *client, s *Socket, srv *Server)
		last         string // the last frame the client gets; "" none
		code         websocket.StatusCode
	}{
		{"client leaves", ReasonClientDisconnect, func(ws *client, _ *Socket, _ *Server) { ws.say("41") }, "", 0},
		{"client closes", engineio.ReasonTransportClose, func(ws *client, _ *Socket, _ *Server) { _ = ws.CloseNow() }, "", -1},
		{"server ends the socket", ReasonServerDisconnect, func(_ *client, s *Socket, _ *Server) { s.Disconnect(false); s.Disconnect(false) }, "41", 0},
		{"server ends socket and transport", ReasonServerDisconnect, func(_ *client, s *Socket, _ *Server) { s.Disconnect(true) }, "41", websocket.StatusNormalClosure},
		{"server closes the transport", "moved", func(_ *client, s *Socket, _ *Server) { s.CloseTransport("moved") }, "", websocket.StatusGoingAway},
		{"drain", engineio.ReasonShutdown, func(_ *client, _ *Socket, srv *Server) { _ = srv.Drain(context.Background(), 0) }, "", websocket.StatusGoingAway},
		{"close", engineio.ReasonShutdown, func(_ *client, _ *Socket, srv *Server) { srv.Close() }, "", -1},
		{"violation", engineio.ReasonForcedClose, func(ws *client, _ *Socket, _ *Server) { ws.say("42") }, "", websocket.StatusProtocolError},
	} {
		t.Run(c.name, func(t *testing.T) {
			sockets, gone := make(chan *Socket, 1), make(chan string, 10)
			s := serve(t, Options{}, Accept{}, &hooks{
				connected: func(s *Socket) { sockets <- s },
				disconnect: func(s *Socket, reason string) {
					if s.Connected() || s.Context().Err() == nil {
						t.Error("still connected")
					}
					if err := s.Emit("late", nil); !errors.Is(err, ErrClosed) {
						t.Errorf("Emit: %v", err)
					}
					gone <- reason
				},
			})
			ws, _ := s.join()
			socket := receive(t, sockets)
			ctx := socket.Context()
			c.end(ws, socket, s.sio)
			if got := receive(t, gone); got != c.reason {
				t.Fatalf("reason %q, want %q", got, c.reason)
			}
			<-ctx.Done()
			if c.code != 0 {
				if code, before := ws.closed(); code != c.code || before != c.last {
					t.Fatalf("%d after %q", code, before)
				}
			} else if c.last != "" {
				ws.expect(c.last)
				ws.say("40") // the connection is still good
				if m := ws.next(); !strings.HasPrefix(m, "40{") {
					t.Fatalf("got %q", m)
				}
				receive(t, sockets)
			}
			s.sio.Close()
			for len(gone) > 0 {
				if got := <-gone; c.last != "41" || got != engineio.ReasonShutdown {
					t.Fatalf("another Disconnect: %q", got)
				}
			}
		})
	}
}

// TestDisconnectWaitsForTheEvent ends sockets from within and beside an event.
func TestDisconnectWaitsForTheEvent(t *testing.T) {
	var mu sync.Mutex // as a caller might hold one that Disconnect takes as well
	log := make(chan string, 10)
	entered, release := make(chan *Socket, 1), make(chan struct{})
	s := serve(t, Options{}, Accept{}, &hooks{
		event: func(s *Socket, e Event) {
			switch e.Name {
			case "kick":
				mu.Lock()
				s.Disconnect(false)
				mu.Unlock()
				select {
				case m := <-log:
					t.Errorf("%s while the event is handled", m)
				case <-time.After(20 * time.Millisecond):
				}
				log <- "kicked"
			case "wait":
				entered <- s
				<-release
				log <- "waited"
			}
		},
		disconnect: func(*Socket, string) { mu.Lock(); log <- "gone"; mu.Unlock() },
	})
	ws, _ := s.join()
	ws.say(`42["kick"]`)
	ws.expect("41")
	ws.say("40")
	ws.next()
	ws.say(`42["wait"]`)
	socket := <-entered
	socket.CloseTransport("x")
	<-socket.Context().Done() // how a long event learns of it
	close(release)
	for _, want := range []string{"kicked", "gone", "waited", "gone"} {
		if got := receive(t, log); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

func TestPanicsEndOneConnection(t *testing.T) {
	gone := make(chan string, 10)
	s := serve(t, Options{}, Accept{}, &hooks{
		connect: func(_ context.Context, _ *Socket, auth json.RawMessage) error {
			if auth != nil {
				panic("in Connect")
			}
			return nil
		},
		event:      func(*Socket, Event) { panic("in Event") },
		disconnect: func(_ *Socket, reason string) { gone <- reason; panic("in Disconnect") },
	})
	other, _ := s.join()
	ws := s.dial()
	ws.say("40{}")
	if code, _ := ws.closed(); code != websocket.StatusInternalError {
		t.Fatalf("close code %d", code)
	}
	ws, _ = s.join()
	ws.say(`42["m"]`)
	if code, _ := ws.closed(); code != websocket.StatusInternalError {
		t.Fatalf("close code %d", code)
	}
	if got := receive(t, gone); got != engineio.ReasonForcedClose {
		t.Fatalf("reason %q", got)
	}
	other.say("41", "40")
	other.next()
}

// TestFrameIsShared sends one frame to sockets on both transports.
func TestFrameIsShared(t *testing.T) {
	s := serve(t, Options{Namespaces: []string{"/", "/custom"}}, Accept{}, &hooks{})
	var all []*client
	for range 10 {
		ws, _ := s.join()
		all = append(all, ws)
	}
	sid := s.openPolling()
	s.do("POST", sid, "40")
	s.do("GET", sid, "")
	custom := s.dial()
	custom.say("40/custom,")
	custom.next()
	f := NewEvent("tick", []byte(`{"n":"é"}`))
	sent := 0
	for socket := range s.sio.Sockets() {
		switch err := socket.Send(f); {
		case socket.Namespace() != "/":
			if !errors.Is(err, ErrNamespace) {
				t.Fatalf("frame of another namespace: %v", err)
			}
		case err != nil:
			t.Fatal(err)
		default:
			sent++
		}
	}
	if sent != 11 {
		t.Fatalf("sent to %d sockets", sent)
	}
	for _, ws := range all {
		ws.expect(`42["tick",{"n":"é"}]`)
	}
	if _, body := s.do("GET", sid, ""); body != `42["tick",{"n":"é"}]` {
		t.Fatalf("polling: %q", body)
	}
}

func TestFrameForms(t *testing.T) {
	for _, c := range []struct {
		f    *Frame
		want string
	}{
		{NewEvent("m", nil), `2["m"]`},
		{NewEvent(`q"\é`, []byte("1")), `2["q\"\\é",1]`},
		{NewEventIn("/a", "m", []byte("{}")), `2/a,["m",{}]`},
		{NewAck(0), `30[]`},
		{NewAck(7, json.RawMessage(`{"ok":true}`), json.RawMessage("2")), `37[{"ok":true},2]`},
		{NewAckIn("/a", 7, nil, nil), `3/a,7[]`},
		{NewBinaryEvent("/", "m", []json.RawMessage{[]byte("1")}, [][]byte{{1}, {2}}), `52-["m",1]`},
		{NewAckIn("/a", 7, nil, [][]byte{{1}}), `61-/a,7[]`},
	} {
		h := &hooks{connected: func(s *Socket) { _ = s.Send(c.f) }}
		s := serve(t, Options{Namespaces: []string{"/", "/a"}}, Accept{}, h)
		ws := s.dial()
		ws.say("40" + strings.TrimPrefix(c.f.namespace+",", "/,"))
		ws.next()
		ws.expect("4" + c.want)
	}
}

// TestSlowClientComesBack: the transport is closed without a 41, which would
// make the client stay away; an exempt answer does not count.
func TestSlowClientComesBack(t *testing.T) {
	gone, sockets := make(chan string, 1), make(chan *Socket, 1)
	s := serve(t, Options{QueueBytes: 4096}, Accept{}, &hooks{
		connected:  func(s *Socket) { sockets <- s },
		disconnect: func(_ *Socket, reason string) { gone <- reason },
	})
	sid := s.openPolling()
	s.do("POST", sid, "40")
	socket := receive(t, sockets)
	s.do("GET", sid, "")
	big := NewAck(1, json.RawMessage(`"`+strings.Repeat("x", 1<<20)+`"`))
	if err := socket.SendExempt(big); err != nil {
		t.Fatal(err)
	}
	f := NewEvent("m", []byte(`"`+strings.Repeat("x", 1000)+`"`))
	var err error
	n := 0
	for ; err == nil; n++ {
		err = socket.Send(f)
	}
	if !errors.Is(err, ErrSlow) || n != 4 {
		t.Fatalf("frame %d: %v", n, err)
	}
	if got := receive(t, gone); got != engineio.ReasonSlow {
		t.Fatalf("reason %q", got)
	}
	if code, body := s.do("GET", sid, ""); code != 400 {
		t.Fatalf("%d %q", code, body)
	}
}

// TestEventsHoldBackTheReader: no second event while the first is handled.
func TestEventsHoldBackTheReader(t *testing.T) {
	entered, release := make(chan string, 10), make(chan struct{})
	s := serve(t, Options{}, Accept{}, &hooks{
		event: func(_ *Socket, e Event) { entered <- e.Name; <-release },
	})
	ws, _ := s.join()
	ws.say(`42["a"]`, `42["b"]`, `42["c"]`)
	for _, want := range []string{"a", "b", "c"} {
		if got := receive(t, entered); got != want || len(entered) != 0 {
			t.Fatalf("got %q and %d more", got, len(entered))
		}
		release <- struct{}{}
	}
}

// TestRevocation closes the connections whose value is no longer good.
func TestRevocation(t *testing.T) {
	s := serve(t, Options{}, Accept{Value: "revoked"}, &hooks{})
	ws, id := s.join()
	for socket := range s.sio.Sockets() {
		if socket.Value() == "revoked" && socket.ID() == id {
			socket.Disconnect(true)
		}
	}
	if code, before := ws.closed(); code != websocket.StatusNormalClosure || before != "41" {
		t.Fatalf("%d after %q", code, before)
	}
	for socket := range s.sio.Sockets() {
		t.Fatalf("still there: %v", socket.ID())
	}
}

func TestPollingDisconnect(t *testing.T) {
	sockets := make(chan *Socket, 1)
	s := serve(t, Options{}, Accept{}, &hooks{connected: func(s *Socket) { sockets <- s }})
	sid := s.openPolling()
	if code, body := s.do("POST", sid, "40"); code != 200 || body != "ok" {
		t.Fatalf("%d %q", code, body)
	}
	if _, body := s.do("GET", sid, ""); !strings.HasPrefix(body, `40{"sid":"`) {
		t.Fatalf("%q", body)
	}
	receive(t, sockets).Disconnect(true)
	if _, body := s.do("GET", sid, ""); body != "41" {
		t.Fatalf("%q", body)
	}
	if _, body := s.do("GET", sid, ""); body != "6\x1e1" {
		t.Fatalf("%q", body)
	}
}

// TestMessageAtTheLimit: one byte of the engine and all of the packet count.
func TestMessageAtTheLimit(t *testing.T) {
	const limit = 500
	sizes := make(chan int, 10)
	s := serve(t, Options{}, Accept{MaxPayload: limit}, &hooks{
		event: func(_ *Socket, e Event) { sizes <- len(e.Args[0]) },
	})
	for _, n := range []int{limit - 1, limit, limit + 1} {
		m := `42["m","` + strings.Repeat("x", n-len(`42["m",""]`)) + `"]`
		ws, _ := s.join()
		ws.say(m)
		sid := s.openPolling()
		s.do("POST", sid, "40")
		code, _ := s.do("POST", sid, m)
		if n > limit {
			if c, _ := ws.closed(); c != websocket.StatusMessageTooBig || code != 413 {
				t.Fatalf("%d bytes: %d and %d", n, c, code)
			}
			continue
		}
		if a, b := receive(t, sizes), receive(t, sizes); a != b || code != 200 {
			t.Fatalf("%d bytes: %d %d, status %d", n, a, b, code)
		}
	}
}
