package engineio

import (
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/parlance-gateway/parlance/internal/wire/ws"
)

func TestLimitBeforeTheClientIsKnown(t *testing.T) {
	large := "4" + strings.Repeat("x", 1000)
	for _, over := range []string{"websocket", "polling", "upgrade"} {
		t.Run("R2 a message over the limit, "+over, func(t *testing.T) {
			s := serve(t, Options{}, Accept{MaxPayload: 10_000})
			limit := func(n int64) {
				for e := range s.eio.All() {
					e.Limit(n)
				}
			}
			if over == "polling" {
				sid := s.open()
				limit(500)
				limit(20_000) // more than was announced is no more than that
				s.want(s.post(sid, large), 200, "ok")
				limit(500)
				if got := s.post(sid, large); got.status != 413 {
					t.Fatalf("got %d", got.status)
				}
				s.h.wantClose(t, ReasonTransportError)
				return
			}
			var ws *client
			if over == "websocket" {
				ws = s.openWS()
			} else {
				sid := s.open()
				limit(500)
				ws = s.dial("EIO=4&transport=websocket&sid=" + sid)
				ws.say("2probe")
				ws.expect("3probe")
				ws.say("5")
				ws.say("4small")
				ws.expect("4small")
			}
			limit(20_000)
			ws.say(large)
			ws.expect(large)
			limit(500)
			ws.say(large)
			if code, _ := ws.closed(); code != websocket.StatusMessageTooBig {
				t.Fatalf("closed with %d", code)
			}
		})
	}
}

func TestMemoryOfLargeMessages(t *testing.T) {
	const size = 1 << 20
	large := "4" + strings.Repeat("x", size)
	t.Run("I1 messages beyond what there is for all end their sessions", func(t *testing.T) {
		s := serve(t, Options{LargeBytes: 3 * size}, Accept{MaxPayload: 2 * size})
		inside, leave := make(chan struct{}, 1), make(chan struct{})
		s.h.message = func(_ *Session, m Message) error {
			if len(m.Data) > ws.KeepBuffer {
				inside <- struct{}{}
				<-leave
			}
			return nil
		}
		first, second, small, sid := s.openWS(), s.openWS(), s.openWS(), s.open()
		first.say(large)
		<-inside // its message is being handled, and counts
		second.say(large)
		if code, _ := second.closed(); code != websocket.StatusTryAgainLater {
			t.Fatalf("closed with %d", code)
		}
		s.h.wantClose(t, ReasonTransportError)
		if got := s.post(sid, large); got.status != 503 {
			t.Fatalf("a POST was answered %d", got.status)
		}
		s.h.wantClose(t, ReasonTransportError)
		small.say("4" + strings.Repeat("x", ws.KeepBuffer-1))
		small.say("1") // answered behind that
		small.closed()
		close(leave)
		s.until("the memory is given back", func() bool { return s.eio.large.Used() == 0 })
		first.say(large)
		<-inside
	})
}
