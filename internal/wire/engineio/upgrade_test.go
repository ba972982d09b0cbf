package engineio

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

const upgrading = "EIO=4&transport=websocket&sid="

func TestUpgrade(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(s *site, sid string)
	}{
		{"releases each GET with a noop and moves what is queued", func(s *site, sid string) {
			g := s.goGet(sid)
			s.waiting(sid)
			ws := s.dial(upgrading + sid)
			ws.say("2probe")
			ws.expect("3probe")
			s.wantSoon(g, 200, "6")
			s.want(s.get(sid), 200, "6") // the noop overtook 3probe: the client polls again
			s.want(s.get(sid), 200, "6")
			s.want(s.post(sid, "4a\x1e4b"), 200, "ok") // POSTs go on
			ws.say("5")
			ws.expect("4a")
			ws.expect("4b")
			s.want(s.get(sid), 400, badReq)
			s.want(s.post(sid, "4x"), 400, badReq)
			long := "4" + strings.Repeat("x", 10*probeLimit)
			ws.say(long)
			ws.expect(long)
		}},
		{"a GET that waits still gets packets before 5", func(s *site, sid string) {
			ws := s.dial(upgrading + sid)
			ws.say("2probe")
			ws.expect("3probe")
			g := s.goGet(sid)
			s.want(s.post(sid, "4a"), 200, "ok")
			got := <-g
			if got.body == "6" {
				got = s.get(sid)
			}
			s.want(got, 200, "4a")
			ws.say("5")
			ws.say("4b")
			ws.expect("4b")
		}},
		{"a GET that crosses 5 is refused", func(s *site, sid string) {
			ws := s.dial(upgrading + sid)
			ws.say("2probe")
			ws.expect("3probe")
			g := s.goGet(sid)
			s.waiting(sid)
			ws.say("5")
			got := <-g
			if got.status != 400 && got.body != "6" {
				s.t.Fatalf("%+v", got)
			}
			ws.say("4x")
			ws.expect("4x")
		}},
		{"5 without a probe is taken", func(s *site, sid string) {
			ws := s.dial(upgrading + sid)
			ws.say("5")
			ws.say("4x")
			ws.expect("4x")
		}},
		{"another first packet closes the WebSocket alone", func(s *site, sid string) {
			s.want(s.post(sid, "4kept"), 200, "ok")
			for _, m := range []string{"4x", "3probe", "2", "", "2probe2"} {
				ws := s.dial(upgrading + sid)
				ws.say(m)
				if code, _ := ws.closed(); code != websocket.StatusPolicyViolation {
					s.t.Fatalf("%q: close code %d", m, code)
				}
			}
			s.want(s.get(sid), 200, "4kept") // nothing was consumed
		}},
		{"a WebSocket that goes before 5 leaves polling alive", func(s *site, sid string) {
			ws := s.dial(upgrading + sid)
			ws.say("2probe")
			ws.expect("3probe")
			s.want(s.post(sid, "4kept"), 200, "ok")
			_ = ws.CloseNow()
			s.want(s.get(sid), 200, "4kept")
			s.until("the probe's end", func() bool {
				e := s.eio.find(sid)
				e.mu.Lock()
				defer e.mu.Unlock()
				return e.probe == nil
			})
			again := s.dial(upgrading + sid)
			again.say("5")
			again.say("4x")
			again.expect("4x")
		}},
		{"a second WebSocket is closed, the first is unaffected", func(s *site, sid string) {
			first := s.dial(upgrading + sid)
			first.say("2probe")
			first.expect("3probe")
			for range 2 { // while upgrading, and when upgraded
				second := s.dial(upgrading + sid)
				if code, before := second.closed(); code != websocket.StatusPolicyViolation || before != "" {
					s.t.Fatalf("second: %d %q", code, before)
				}
				first.say("5")
				first.say("4x")
				first.expect("4x")
			}
		}},
		{"attempts are counted", func(s *site, sid string) {
			for range maxProbes {
				ws := s.dial(upgrading + sid)
				ws.say("4x")
				ws.closed()
				s.until("the probe's end", func() bool {
					e := s.eio.find(sid)
					e.mu.Lock()
					defer e.mu.Unlock()
					return e.probe == nil
				})
			}
			ws := s.dial(upgrading + sid)
			if code, _ := ws.closed(); code != websocket.StatusPolicyViolation {
				s.t.Fatalf("close code %d", code)
			}
		}},
		{"the session's end ends the probe", func(s *site, sid string) {
			ws := s.dial(upgrading + sid)
			ws.say("2probe")
			ws.expect("3probe")
			s.want(s.post(sid, "1"), 200, "ok")
			ws.closed()
			s.h.wantClose(s.t, ReasonTransportClose)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, Options{}, Accept{})
			c.run(s, s.open())
		})
	}
}

func TestUpgradeTimeout(t *testing.T) {
	s := serve(t, Options{UpgradeTimeout: 300 * time.Millisecond, PingInterval: 600 * time.Millisecond}, Accept{})
	done := s.dial(upgrading + s.open())
	done.say("5")
	done.expect("2") // the time-out is over and was lifted
	sid := s.open()
	ws := s.dial(upgrading + sid)
	ws.say("2probe")
	ws.expect("3probe")
	ws.closed()
	s.want(s.post(sid, "4x"), 200, "ok")
	// A ping may come at any time, but no second one without an answer.
	pings, message := 0, ""
	for message == "" {
		got := s.get(sid)
		if got.status != 200 {
			t.Fatalf("%+v", got)
		}
		for p := range strings.SplitSeq(got.body, "\x1e") {
			if p == "2" && pings == 0 {
				pings++
			} else {
				message += p
			}
		}
	}
	if message != "4x" {
		t.Errorf("%q", message)
	}
}

// TestUpgradeKeepsOrder sends without pause while the transport changes: each
// packet comes once and in order.
func TestUpgradeKeepsOrder(t *testing.T) {
	for round := range 20 {
		s := serve(t, Options{}, Accept{})
		sid := s.open()
		e := s.eio.find(sid)
		const n = 500
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for i := range n {
				p := NewMessage([][]byte{[]byte(fmt.Sprint(i))})
				if err := e.Send(&p); err != nil {
					t.Error(err)
				}
			}
		}()
		var all string
		if round%2 == 0 {
			all = s.get(sid).body + "\x1e"
		}
		ws := s.dial(upgrading + sid)
		ws.say("2probe")
		ws.expect("3probe")
		if round%3 == 0 {
			if b := s.get(sid).body; b != "6" {
				all += b + "\x1e"
			}
		}
		ws.say("5")
		want := ""
		for i := range n {
			want += fmt.Sprintf("4%d\x1e", i)
		}
		for len(all) < len(want) {
			all += ws.next() + "\x1e"
		}
		if all != want {
			t.Fatalf("round %d: %.300q", round, all)
		}
		<-sent
	}
}
